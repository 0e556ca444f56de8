package reports

import (
	"fmt"

	"faultline/workloads/bench"
)

// Curves draws an outcome's pictures that are curves: one for each.
func Curves(o *bench.Outcome) []*Curve {
	var out []*Curve
	for _, pic := range o.Suite.Pictures {
		metrics := []string{pic.Y}
		if pic.Y == "latency" {
			metrics = []string{"latency-p50", "latency-p99", "latency-p99.9"}
		}
		c := &Curve{
			Title: pic.Title, Note: fmt.Sprintf("%s, profile %s", o.Arm, o.Profile),
			X: Axis{Name: o.Suite.Sweep.Label, Unit: o.Suite.Sweep.Unit, Log: o.Suite.Sweep.Scale == "log"},
			Y: Axis{Name: pic.Y, Unit: unitOf(metrics[0])},
		}
		for i := range o.Curves {
			for _, metric := range metrics {
				s := Series{Name: o.Curves[i].Name}
				if len(metrics) > 1 {
					s.Name += " " + metric[len("latency-"):]
				}
				for k := range o.Curves[i].Points {
					p := &o.Curves[i].Points[k]
					x, isNumber := bench.Number(p.Value)
					f, ok := p.Figure(metric)
					if isNumber && ok {
						s.Points = append(s.Points, Point{X: x, Y: f.Median, Low: f.Low, High: f.High})
					}
				}
				c.Series = append(c.Series, s)
			}
		}
		out = append(out, c)
	}
	return out
}

func unitOf(metric string) string {
	for _, m := range bench.Metrics {
		if m.Name == metric {
			return m.Unit
		}
	}
	return ""
}
