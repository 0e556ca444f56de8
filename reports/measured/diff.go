package measured

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"golang.org/x/perf/benchmath"

	"faultline/workloads/bench"
)

// Verdicts on a figure of two runs.
const (
	Same   = "same"
	Better = "better"
	Worse  = "worse"
	Unsure = "unsure" // it looks changed, but the repetitions are too few to tell that from noise
)

// Rule says when a figure counts as changed: explained by String.
type Rule struct {
	Least   float64  // smallest change of the median that counts, as a share
	Metrics []string // that are judged; none: those that the suite draws
}

const (
	chance     = 0.05 // of false alarms among the changes that the test reports
	enough     = 4    // repetitions on each side from which the test has something to say
	resolution = 2    // microseconds of latency that are no difference
)

// String tells the rule to people.
func (r Rule) String() string {
	return fmt.Sprintf(`A figure counts as changed when its median moved by at least %.3g %% (a latency also by %d us) and its repetitions tell the move from noise:
- with %d or more repetitions on both sides, by a Mann-Whitney U test, its p-values corrected for the number of figures (Benjamini-Hochberg, false discovery rate %.2g);
- with fewer, simulated runs by their ranges, which must not overlap: the same seed repeats exactly, so that one is enough; real ones not at all.
What moved that far and whose ranges do not overlap, but which the repetitions cannot tell from noise, is unsure: repeat both runs more often.`, r.Least*100, resolution, enough, chance)
}

// Change is one figure in two runs.
type Change struct {
	Suite       string  `json:"suite"`
	Arm         string  `json:"arm"`
	Series      string  `json:"series"`
	Value       string  `json:"value"`
	Metric      string  `json:"metric"`
	Unit        string  `json:"unit"`
	Before      float64 `json:"before"` // medians
	BeforeLow   float64 `json:"before_low"`
	BeforeHigh  float64 `json:"before_high"`
	After       float64 `json:"after"`
	AfterLow    float64 `json:"after_low"`
	AfterHigh   float64 `json:"after_high"`
	Moved       float64 `json:"moved"`                 // of the median, as a share of before
	Repetitions [2]int  `json:"repetitions"`           // before and after
	P           float64 `json:"p_corrected,omitempty"` // absent: no test was made
	Verdict     string  `json:"verdict"`
}

// Comparison is what came of comparing runs.
type Comparison struct {
	Changes []Change
	Notes   []string // what could not be compared, or is not alike
}

// Count of changes with a verdict.
func (c *Comparison) Count(verdict string) int {
	n := 0
	for i := range c.Changes {
		if c.Changes[i].Verdict == verdict {
			n++
		}
	}
	return n
}

// ErrNothing says that two sets of runs have no suite in common.
var ErrNothing = errors.New("nothing to compare")

// Compare compares runs of the same suite and arm, figure by figure.
func Compare(before, after []*Run, rule Rule) (*Comparison, error) {
	c := &Comparison{}
	for _, b := range after {
		i := slices.IndexFunc(before, func(a *Run) bool { return a.Suite == b.Suite && a.Arm == b.Arm })
		if i < 0 {
			c.Notes = append(c.Notes, fmt.Sprintf("%s, %s: only in the second", b.Suite, b.Arm))
			continue
		}
		c.add(before[i], b, rule)
	}
	for _, a := range before {
		if !slices.ContainsFunc(after, func(b *Run) bool { return a.Suite == b.Suite && a.Arm == b.Arm }) {
			c.Notes = append(c.Notes, fmt.Sprintf("%s, %s: only in the first", a.Suite, a.Arm))
		}
	}
	if len(c.Changes) == 0 {
		return nil, fmt.Errorf("%w: no suite, arm, series and value with the figures that are judged is in both", ErrNothing)
	}
	c.judge(rule)
	return c, nil
}

func (c *Comparison) add(a, b *Run, rule Rule) {
	name := b.Suite + ", " + b.Arm
	for _, d := range []struct{ what, a, b string }{{"suite's file", a.SuiteFile, b.SuiteFile}, {"profile", a.Profile + a.ProfileFile, b.Profile + b.ProfileFile}, {"machine", fmt.Sprint(a.Machine), fmt.Sprint(b.Machine)}} {
		if d.a != d.b {
			c.Notes = append(c.Notes, fmt.Sprintf("%s: the %s is another", name, d.what))
		}
	}
	metrics := rule.Metrics
	if len(metrics) == 0 {
		metrics = b.drawnMetrics()
	}
	for _, m := range metrics {
		for i := range b.Series {
			s := &b.Series[i]
			for k := range s.Points {
				p := &s.Points[k]
				had := a.series(s.Name).point(p.Value)
				old, now := had.values(m), p.values(m)
				if had.silent(m) != p.silent(m) && len(old)+len(now) > 0 {
					c.silence(b, s.Name, p.Value, m, old, now)
					continue
				}
				if len(old) == 0 || len(now) == 0 {
					if len(old)+len(now) > 0 {
						c.Notes = append(c.Notes, fmt.Sprintf("%s: %s of %s at %s is in one only", name, m, s.Name, p.Value))
					}
					continue
				}
				f, g := bench.FigureOf(old), bench.FigureOf(now)
				ch := Change{
					Suite: b.Suite, Arm: b.Arm, Series: s.Name, Value: p.Value, Metric: m, Unit: Unit(m), Repetitions: [2]int{len(old), len(now)},
					Before: f.Median, BeforeLow: f.Low, BeforeHigh: f.High, After: g.Median, AfterLow: g.Low, AfterHigh: g.High,
				}
				if f.Median != 0 {
					ch.Moved = g.Median/f.Median - 1
				} else if g.Median != 0 {
					ch.Moved = 1
				}
				if min(len(old), len(now)) >= enough {
					ch.P = benchmath.AssumeNothing.Compare(benchmath.NewSample(old, &benchmath.DefaultThresholds), benchmath.NewSample(now, &benchmath.DefaultThresholds)).P
				}
				c.Changes = append(c.Changes, ch)
			}
		}
	}
}

// silent tells whether a point was measured, and nothing was sent or came that a throughput or a latency could be told of.
func (p *Point) silent(metric string) bool {
	told := higherIsBetter(metric) || Unit(metric) == "us"
	return told && p != nil && len(p.Repetitions) > 0 && len(p.values(metric)) == 0
}

// silence judges a figure that one side lacks, for in one of its repetitions nothing came: that is no figure to compare with, and must not pass for nothing to say.
func (c *Comparison) silence(r *Run, series, value, metric string, old, now []float64) {
	ch := Change{Suite: r.Suite, Arm: r.Arm, Series: series, Value: value, Metric: metric, Unit: Unit(metric), Repetitions: [2]int{len(old), len(now)}}
	when := "only now"
	if len(now) > 0 {
		f := bench.FigureOf(now)
		ch.After, ch.AfterLow, ch.AfterHigh, ch.Moved, ch.Verdict = f.Median, f.Low, f.High, 1, Better
	} else {
		f := bench.FigureOf(old)
		ch.Before, ch.BeforeLow, ch.BeforeHigh, ch.Moved, ch.Verdict, when = f.Median, f.Low, f.High, -1, Worse, "before, and not now: nothing came"
	}
	c.Notes = append(c.Notes, fmt.Sprintf("%s, %s: %s of %s at %s was measured %s", r.Suite, r.Arm, metric, series, value, when))
	c.Changes = append(c.Changes, ch)
}

// judge corrects the p-values and gives the verdicts.
func (c *Comparison) judge(rule Rule) {
	var tested []*Change
	for i := range c.Changes {
		if ch := &c.Changes[i]; min(ch.Repetitions[0], ch.Repetitions[1]) >= enough {
			tested = append(tested, ch)
		}
	}
	slices.SortStableFunc(tested, func(a, b *Change) int {
		switch {
		case a.P > b.P:
			return -1
		case a.P < b.P:
			return 1
		}
		return 0
	})
	least := 1.0
	for i, ch := range tested { // from the largest
		least = min(least, ch.P*float64(len(tested))/float64(len(tested)-i))
		ch.P = least
	}
	for i := range c.Changes {
		if c.Changes[i].Verdict == "" {
			c.Changes[i].Verdict = c.Changes[i].verdict(rule)
		}
	}
}

func (ch *Change) verdict(rule Rule) string {
	if math.Abs(ch.Moved) < rule.Least || ch.Unit == "us" && math.Abs(ch.After-ch.Before) < resolution {
		return Same
	}
	apart := ch.AfterLow > ch.BeforeHigh || ch.AfterHigh < ch.BeforeLow
	tested := min(ch.Repetitions[0], ch.Repetitions[1]) >= enough
	switch {
	case tested && ch.P <= chance:
	case apart && !tested && ch.Arm == Simulated:
	case apart:
		return Unsure
	default:
		return Same
	}
	if (ch.Moved > 0) == higherIsBetter(ch.Metric) {
		return Better
	}
	return Worse
}
