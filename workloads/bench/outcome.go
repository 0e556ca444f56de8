package bench

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"faultline/faults/quantity"
)

// Outcome is all that was measured of a suite: what reports draw, print and keep.
type Outcome struct {
	Suite   *Suite
	Profile string // of the hardware
	Arm     string // simulated or real
	Seeds   []uint64
	Curves  []Curve
}

// Curve is one series of an outcome.
type Curve struct {
	Name, System, Guarantee string
	Points                  []Point
}

// Point is one value of a series, with its repetitions.
type Point struct {
	Value string
	Runs  []*Result
}

// Figure is a quantity over repetitions.
type Figure struct{ Median, Low, High float64 }

// Metrics are the quantities of a point and their units, in the order of tables.
var Metrics = []struct{ Name, Unit string }{
	{"sent", "messages/s"}, {"sent-bytes", "B/s"}, {"received", "messages/s"}, {"received-bytes", "B/s"},
	{"latency-p50", "us"}, {"latency-p90", "us"}, {"latency-p99", "us"}, {"latency-p99.9", "us"}, {"latency-max", "us"},
	{"recovery", "s"}, {"refused", "messages"},
}

// RecoveredShare is the part of the rate before a fault at which its effect counts as over.
const RecoveredShare = 0.9

// Metric is one quantity of a run; false: it was not measured.
func (r *Result) Metric(name string) (float64, bool) {
	seconds := r.Window.Seconds()
	receiving := seconds
	if r.Drained > 0 {
		receiving = r.Drained.Seconds()
	}
	quantile := func(q float64) (float64, bool) {
		return float64(r.Latency.ValueAtQuantile(q)), r.Latency.TotalCount() > 0
	}
	switch name {
	case "sent":
		return float64(r.Sent) / seconds, r.Sent > 0
	case "sent-bytes":
		return float64(r.SentBytes) / seconds, r.Sent > 0
	case "received":
		return float64(r.Received) / receiving, r.Received > 0
	case "received-bytes":
		return float64(r.ReceivedBytes) / receiving, r.Received > 0
	case "latency-p50":
		return quantile(50)
	case "latency-p90":
		return quantile(90)
	case "latency-p99":
		return quantile(99)
	case "latency-p99.9":
		return quantile(99.9)
	case "latency-max":
		return quantile(100)
	case "recovery":
		return r.recovery()
	case "refused":
		return float64(r.Refused), r.Sent > 0 || r.Refused > 0
	}
	panic("bench: no metric is named " + name)
}

// Figure is the median of a metric over the repetitions and its spread; false: a repetition did not measure it.
func (p *Point) Figure(metric string) (Figure, bool) {
	var all []float64
	for _, r := range p.Runs {
		v, ok := r.Metric(metric)
		if !ok {
			return Figure{}, false
		}
		all = append(all, v)
	}
	if len(all) == 0 {
		return Figure{}, false
	}
	return FigureOf(all), true
}

// FigureOf sums up repetitions, at least one.
func FigureOf(all []float64) Figure {
	return Figure{Median: middle(all), Low: slices.Min(all), High: slices.Max(all)}
}

// middle is the median of at least one number.
func middle(list []float64) float64 {
	list = slices.Sorted(slices.Values(list))
	mid := list[len(list)/2]
	if len(list)%2 == 0 {
		mid = (mid + list[len(list)/2-1]) / 2
	}
	return mid
}

// Arm runs a cell once, on simulated or on real machines.
type Arm func(c *Cell, seed uint64, stop func() bool) (*Result, error)

// Run measures the suite, all of it once for each seed, so that what disturbs a real machine for a while falls on all points alike; each point is told when it is done. When stop says so, or a run
// fails, it returns what it has, with ErrStopped or that error.
func (s *Suite) Run(arm Arm, seeds []uint64, stop func() bool, done func(curve *Curve, p *Point)) (*Outcome, error) {
	out := &Outcome{Suite: s, Seeds: seeds}
	for round, seed := range seeds {
		for i := range s.Series {
			series := &s.Series[i]
			if round == 0 {
				out.Curves = append(out.Curves, Curve{Name: series.Name, System: series.System})
			}
			for k, v := range s.Sweep.Values {
				c, err := s.Cell(series, v)
				if err != nil {
					return out, err
				}
				r, err := arm(c, seed, stop)
				if errors.Is(err, ErrStopped) {
					return out, err
				}
				if err != nil {
					return out, fmt.Errorf("suite %s, %w", s.Name, err)
				}
				curve := &out.Curves[i]
				if round == 0 {
					curve.Points = append(curve.Points, Point{Value: v})
				}
				curve.Points[k].Runs = append(curve.Points[k].Runs, r)
				if round == len(seeds)-1 {
					done(curve, &curve.Points[k])
				}
			}
		}
	}
	return out, nil
}

// Empty tells whether nothing was measured at all.
func (o *Outcome) Empty() bool {
	return !slices.ContainsFunc(o.Curves, func(c Curve) bool { return len(c.Points) > 0 })
}

// recovery is the longest recovery of all faults, in seconds. Of an effect that was not over at the end it is known that it lasted at least as long as was measured.
func (r *Result) recovery() (float64, bool) {
	if len(r.TimeLine) == 0 || len(r.Bands) == 0 {
		return 0, false
	}
	end := r.TimeLine[len(r.TimeLine)-1].At + r.step()
	longest := time.Duration(0)
	for _, b := range r.Bands {
		took, ok := r.Recovery(b, RecoveredShare)
		if !ok {
			took = end - b.From
		}
		longest = max(longest, took)
	}
	return longest.Seconds(), true
}

// step is the length of a step of the time line.
func (r *Result) step() time.Duration {
	if len(r.TimeLine) < 2 {
		return 0
	}
	return r.TimeLine[1].At - r.TimeLine[0].At
}

// Recovery is how long after its begin a fault's effect lasts on a time line: until the share of the rate before it that is asked for is reached again for good, or at least until the next fault
// begins, which is not to be blamed on this one; false: never.
func (r *Result) Recovery(b Band, share float64) (time.Duration, bool) {
	before, n := int64(0), int64(0)
	for _, s := range r.TimeLine {
		if s.At < b.From {
			before += s.Received
			n++
		}
	}
	if n == 0 {
		return 0, false
	}
	least := share * float64(before) / float64(n)
	back := time.Duration(-1)
	for _, s := range r.TimeLine {
		if s.At < b.From {
			continue
		}
		next := slices.ContainsFunc(r.Bands, func(o Band) bool { return o.From > b.From && o.From >= s.At && o.From < s.At+r.step() })
		switch {
		case next && back >= 0:
			return max(0, back-b.From), true
		case float64(s.Received) < least:
			back = -1
		case back < 0:
			back = s.At
		}
	}
	if back < 0 {
		return 0, false
	}
	return max(0, back-b.From), true
}

// Number is a value of a sweep on an axis: counts and rates as they are, sizes in bytes, durations in seconds; false: it is a word.
func Number(value string) (float64, bool) {
	if v, err := strconv.ParseFloat(value, 64); err == nil {
		return v, !math.IsNaN(v) && !math.IsInf(v, 0)
	}
	if v, err := quantity.Bytes(0).Parse(value); err == nil && v != quantity.Endless {
		return float64(v), true
	}
	if v, err := quantity.Rate(0).Parse(value); err == nil && v != quantity.Endless {
		return float64(v), true
	}
	if v, err := quantity.Duration(0).Parse(value); err == nil && v != quantity.Endless {
		return v.D().Seconds(), true
	}
	return 0, false
}
