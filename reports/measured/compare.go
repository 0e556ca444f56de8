package measured

import (
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"faultline/workloads/bench"
)

// Beside is a figure and another one that it is compared with.
type Beside struct {
	Series, Value, Metric string
	Ours                  bench.Figure
	Known                 bool // whether there are ours
	Other                 float64
	Source                string // of the other
	// Error is how far the other is from ours, as a share of ours: 0.1 is a tenth too much. Of a published figure: how far ours is from it, as a share of it.
	Error float64
}

// drawnMetrics are the metrics that the suite draws, time lines aside.
func (r *Run) drawnMetrics() []string {
	var out []string
	for _, d := range r.Pictures {
		if d.Y == "time-line" {
			out = append(out, "recovery")
			continue
		}
		out = append(out, d.metrics()...)
	}
	slices.Sort(out)
	out = slices.Compact(out)
	slices.SortFunc(out, func(a, b string) int { return order(a) - order(b) })
	return out
}

// order is the place of a metric in tables.
func order(metric string) int {
	for i, m := range bench.Metrics {
		if m.Name == metric {
			return i
		}
	}
	return len(bench.Metrics)
}

// Predicted puts a prediction beside a real run, figure by figure of what the suite draws.
func Predicted(real, prediction *Run) []Beside {
	var out []Beside
	for _, m := range real.drawnMetrics() {
		for i := range real.Series {
			s := &real.Series[i]
			for k := range s.Points {
				ours, ok := s.Points[k].figure(m)
				other, known := prediction.series(s.Name).point(s.Points[k].Value).figure(m)
				if ok && known && ours.Median > 0 {
					out = append(out, Beside{Series: s.Name, Value: s.Points[k].Value, Metric: m, Ours: ours, Known: true, Other: other.Median, Source: prediction.Profile, Error: other.Median/ours.Median - 1})
				}
			}
		}
	}
	return out
}

// Errors sums up how far a prediction is off, by metric: the median and the worst of the absolute errors.
func Errors(all []Beside, metric string) (median, worst float64, n int) {
	var off []float64
	for _, b := range all {
		if b.Metric == metric && b.Known {
			off = append(off, math.Abs(b.Error))
		}
	}
	if len(off) == 0 {
		return 0, 0, 0
	}
	f := bench.FigureOf(off)
	return f.Median, f.High, len(off)
}

// Summary says how far a prediction is off, metric by metric.
func Summary(all []Beside) string {
	var notes, done []string
	for _, b := range all {
		if slices.Contains(done, b.Metric) {
			continue
		}
		done = append(done, b.Metric)
		if median, worst, n := Errors(all, b.Metric); n > 0 {
			notes = append(notes, fmt.Sprintf("%s: median error %.1f %%, worst %.1f %% of %d figures", called(b.Metric), median*100, worst*100, n))
		}
	}
	return strings.Join(notes, "; ")
}

// FromOthers puts what others published beside a run.
func (r *Run) FromOthers() []Beside {
	var out []Beside
	for _, p := range r.Published {
		b := Beside{Series: p.Series, Value: p.Value, Metric: p.Metric, Other: p.Figure, Source: p.Source}
		b.Ours, b.Known = r.series(p.Series).point(p.Value).figure(p.Metric)
		if b.Known && b.Other > 0 {
			b.Error = b.Ours.Median/b.Other - 1
		}
		out = append(out, b)
	}
	return out
}

// WriteComparison writes predictions beside measurements as CSV: a row a figure. The error is the prediction's, as a share of what was measured.
func WriteComparison(w io.Writer, s *bench.Suite, all []Beside) error {
	out := csv.NewWriter(w)
	out.Write([]string{"series", s.Sweep.Label, "metric", "unit", "predicted", "measured", "measured low", "measured high", "error"})
	num := func(v float64) string { return strconv.FormatFloat(v, 'f', 3, 64) }
	for i := range all {
		c := &all[i]
		out.Write([]string{c.Series, c.Value, c.Metric, Unit(c.Metric), num(c.Other), num(c.Ours.Median), num(c.Ours.Low), num(c.Ours.High), num(c.Error)})
	}
	out.Flush()
	return out.Error()
}
