package bench

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// Compared is one figure of a prediction beside what was measured.
type Compared struct {
	Series, Value string
	Metric, Unit  string
	Predicted     Figure
	Measured      Figure
}

// Error is the prediction's, as a share of what was measured: 0.1 is a tenth too much.
func (c *Compared) Error() float64 { return c.Predicted.Median/c.Measured.Median - 1 }

// Compare puts two outcomes of a suite side by side: the figures that its pictures show, of the points that both have.
func Compare(predicted, measured *Outcome) []Compared {
	var metrics []string
	for _, pic := range predicted.Suite.Pictures {
		names := []string{pic.Y}
		switch pic.Y {
		case "latency":
			names = []string{"latency-p50", "latency-p99"}
		case "time-line":
			names = []string{"received"}
		}
		for _, n := range names {
			if !slices.Contains(metrics, n) {
				metrics = append(metrics, n)
			}
		}
	}
	var out []Compared
	for _, pc := range predicted.Curves {
		for _, mc := range measured.Curves {
			if mc.Name != pc.Name {
				continue
			}
			for i := range pc.Points {
				for k := range mc.Points {
					if mc.Points[k].Value != pc.Points[i].Value {
						continue
					}
					for _, m := range Metrics {
						p, ok := pc.Points[i].Figure(m.Name)
						q, both := mc.Points[k].Figure(m.Name)
						if ok && both && slices.Contains(metrics, m.Name) {
							out = append(out, Compared{pc.Name, pc.Points[i].Value, m.Name, m.Unit, p, q})
						}
					}
				}
			}
		}
	}
	return out
}

// Errors are the median and the largest of the errors' sizes.
func Errors(all []Compared) (median, worst float64) {
	if len(all) == 0 {
		return math.NaN(), math.NaN()
	}
	var sizes []float64
	for i := range all {
		sizes = append(sizes, math.Abs(all[i].Error()))
	}
	return middle(sizes), slices.Max(sizes)
}

// Against is the suite with every series of faultline for each of the systems, too, which run elsewhere and are named by their addresses. With only, it has nothing else.
func (s *Suite) Against(systems []string, only bool) *Suite {
	out := *s
	out.Series = nil
	if !only {
		out.Series = slices.Clone(s.Series)
	}
	for _, system := range systems {
		name, _, _ := strings.Cut(system, "://")
		for _, series := range s.Series {
			if series.System != "faultline" {
				continue
			}
			label := name
			if series.Name != "faultline" || len(s.Series) > 1 {
				label = fmt.Sprintf("%s, %s", name, series.Name)
			}
			out.Series = append(out.Series, Series{Name: label, System: system, Set: series.Set})
		}
	}
	return &out
}
