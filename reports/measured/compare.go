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
	// Of a prediction: how fast the processor was when ours were measured, as a share of what the profile says; 0: unknown. Scaled is the prediction at that speed, as if nothing but the processor
	// were the limit, and ScaledError how far that is off. A latency is not scaled.
	Speed, Scaled, ScaledError float64
}

// byProcessor are the metrics that follow the processor's speed where it is the limit.
var byProcessor = []string{"sent", "sent-bytes", "received", "received-bytes"}

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
					b := Beside{Series: s.Name, Value: s.Points[k].Value, Metric: m, Ours: ours, Known: true, Other: other.Median, Source: prediction.Profile, Error: other.Median/ours.Median - 1}
					if speed, ok := s.Points[k].speed(); ok && slices.Contains(byProcessor, m) {
						b.Speed, b.Scaled = speed.Median, other.Median*speed.Median
						b.ScaledError = b.Scaled/ours.Median - 1
					}
					out = append(out, b)
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

// timed says whether some of the figures know how fast the processor was.
func timed(all []Beside) bool {
	return slices.ContainsFunc(all, func(b Beside) bool { return b.Speed > 0 })
}

// SpeedNote says how fast the processor was in real runs, and warns when a prediction is of another machine, or of another moment; "": it is unknown.
func SpeedNote(real, prediction *Run) string {
	f, ok := real.Speed()
	if !ok {
		return ""
	}
	note := fmt.Sprintf("In these runs the processor was %.2f times as fast (%.2f to %.2f) as profile %s says, by system calls, copies, checksums and records, measured before and after each.", f.Median, f.Low, f.High, prediction.Profile)
	if math.Abs(f.Median-1) > speedApart {
		note += fmt.Sprintf(" WARNING: that is more than %.0f %% apart: the prediction is of another machine, or of another moment of this one. Calibrate again, or measure when it has nothing else to do.", 100*speedApart)
	}
	return note
}

// speedApart is how far the speeds of a machine may be apart before a prediction made at one of them is not to be held against what was measured at the other.
const speedApart = 0.1

// Summary says how far a prediction is off, metric by metric.
func Summary(all []Beside) string {
	var notes, done []string
	for _, b := range all {
		if slices.Contains(done, b.Metric) {
			continue
		}
		done = append(done, b.Metric)
		if median, worst, n := Errors(all, b.Metric); n > 0 {
			note := fmt.Sprintf("%s: median error %.1f %%, worst %.1f %% of %d figures", called(b.Metric), median*100, worst*100, n)
			if at := scaledOf(all, b.Metric); len(at) > 0 {
				median, worst, _ := Errors(at, b.Metric)
				note += fmt.Sprintf(" (the prediction times the processor's speed in the runs: median %.1f %%, worst %.1f %%)", median*100, worst*100)
			}
			notes = append(notes, note)
		}
	}
	return strings.Join(notes, "; ")
}

// scaledOf are the figures of a metric with their errors at the processor's speed.
func scaledOf(all []Beside, metric string) []Beside {
	var out []Beside
	for _, b := range all {
		if b.Metric == metric && b.Speed > 0 {
			b.Other, b.Error = b.Scaled, b.ScaledError
			out = append(out, b)
		}
	}
	return out
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

// WriteComparison writes predictions beside measurements as CSV: a row a figure. Errors are the prediction's, as shares of what was measured; the last three columns are of the processor's speed in the runs, see [Beside].
func WriteComparison(w io.Writer, s *bench.Suite, all []Beside) error {
	out := csv.NewWriter(w)
	out.Write([]string{"series", s.Sweep.Label, "metric", "unit", "predicted", "measured", "measured low", "measured high", "error", "speed", "predicted at speed", "error at speed"})
	num := func(v float64) string { return strconv.FormatFloat(v, 'f', 3, 64) }
	for i := range all {
		c := &all[i]
		row := []string{c.Series, c.Value, c.Metric, Unit(c.Metric), num(c.Other), num(c.Ours.Median), num(c.Ours.Low), num(c.Ours.High), num(c.Error)}
		if c.Speed > 0 {
			row = append(row, num(c.Speed), num(c.Scaled), num(c.ScaledError))
		} else {
			row = append(row, "", "", "")
		}
		out.Write(row)
	}
	out.Flush()
	return out.Error()
}
