package measured

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"faultline/reports/picture"
	"faultline/workloads/bench"
)

// timeLine draws each series at a value, the median of its repetitions and all of them; nil: there is none.
func (r *Run) timeLine(d Drawing, value string) picture.Picture {
	t := &picture.TimeLine{Head: r.head(d), Rate: picture.Axis{Name: "messages received", Unit: "messages/s"}, Latency: picture.Axis{Name: "end-to-end latency, p99", Unit: "s", Log: d.Scale != "linear"}}
	where := ""
	if len(r.Sweep.Values) > 1 {
		where = fmt.Sprintf(", %s %s", r.Sweep.Label, value)
	}
	var seeds []uint64
	for i := range r.Series {
		p := r.Series[i].point(value)
		if p == nil {
			continue
		}
		s := picture.Stretch{Name: r.legend(&r.Series[i]), Look: i}
		for k := range p.Repetitions {
			rep := &p.Repetitions[k]
			if rep.Step == 0 {
				continue
			}
			var steps []picture.Step
			for n, v := range rep.Received {
				steps = append(steps, picture.Step{At: float64(n) * rep.Step, Rate: v, Latency: float64(rep.P99[n]) * 1e-6})
			}
			s.Each = append(s.Each, steps)
			if !slices.Contains(seeds, rep.Seed) {
				seeds = append(seeds, rep.Seed)
			}
		}
		switch len(s.Each) {
		case 0:
			continue
		case 1:
			s.Steps, s.Each = s.Each[0], nil
		default:
			s.Steps = medians(s.Each)
		}
		t.Series = append(t.Series, s)
		t.Bands = r.bands(t.Bands, i, p)
	}
	if len(t.Series) == 0 {
		return nil
	}
	t.Note = fmt.Sprintf("%s: %s, profile %s, %s%s", r.Suite, r.Arm, r.Profile, repetitions(r.Arm, seeds), where)
	return t
}

// repetitions says which were drawn.
func repetitions(arm string, seeds []uint64) string {
	one, many := "seed", "seeds"
	if arm == Real {
		one, many = "repetition", "repetitions"
	}
	if len(seeds) == 1 {
		return fmt.Sprintf("%s %d", one, seeds[0])
	}
	return fmt.Sprintf("%s %s: medians, and each of them thin", many, strings.Trim(fmt.Sprint(seeds), "[]"))
}

// medians are those of several time lines, step by step as far as all of them go. The median of latencies is of those repetitions in which something came, if these are at least half.
func medians(each [][]picture.Step) []picture.Step {
	steps := len(slices.MinFunc(each, func(a, b []picture.Step) int { return len(a) - len(b) }))
	out := make([]picture.Step, steps)
	for i := range out {
		var rates, latencies []float64
		for _, of := range each {
			rates = append(rates, of[i].Rate)
			if of[i].Latency > 0 {
				latencies = append(latencies, of[i].Latency)
			}
		}
		out[i] = picture.Step{At: each[0][i].At, Rate: bench.FigureOf(rates).Median}
		if 2*len(latencies) >= len(each) {
			out[i].Latency = bench.FigureOf(latencies).Median
		}
	}
	return out
}

// or is between the names that a fault has in several repetitions.
const or = " or "

// bands adds the faults of a series' repetitions at a point. A fault that has another name in another repetition, because the seed draws whom it hits, is the one that struck at the same time. Its recovery is
// the median: if it is not over in half of the repetitions, it is not over.
func (r *Run) bands(bands []picture.Band, look int, p *Point) []picture.Band {
	took := map[int][]float64{}
	for _, rep := range p.Repetitions {
		taken := map[int]bool{}
		for _, f := range rep.Faults {
			k := len(bands)
			for i, b := range slices.Backward(bands) {
				if taken[i] || b.From != f.From || b.To != f.To {
					continue
				}
				k = i
				if slices.Contains(strings.Split(b.Name, or), f.Name) {
					break
				}
			}
			if k == len(bands) {
				bands = append(bands, picture.Band{Name: f.Name, From: f.From, To: f.To})
			} else if !slices.Contains(strings.Split(bands[k].Name, or), f.Name) {
				bands[k].Name += or + f.Name
			}
			taken[k] = true
			after := math.Inf(1)
			if f.Recovered != nil {
				after = *f.Recovered
			}
			took[k] = append(took[k], after)
		}
	}
	for k := range bands {
		if len(took[k]) == 0 {
			continue
		}
		median := bench.FigureOf(took[k]).Median
		if math.IsInf(median, 1) {
			median = -1
		}
		bands[k].Recoveries = append(bands[k].Recoveries, picture.Recovery{Look: look, Took: median})
	}
	return bands
}
