package measured

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"faultline/workloads/bench"
)

// Busy is how much of the time a resource of a point was used.
type Busy struct {
	Role, Resource string
	Peak           bench.Figure // of the busiest machine of the role, over the repetitions, as a share
	Mean           bench.Figure // on average over the machines
}

// nearly is the share of the time from which a resource is named as one that may be the limit.
const nearly = 0.8

// busiest are the resources that are used nearly all the time, or else the one that is used most; the busiest first. nil: nothing was counted.
func (p *Point) busiest() []Busy {
	var all []Busy
	peaks, means := map[int][]float64{}, map[int][]float64{}
	for _, r := range p.Repetitions {
		for _, u := range r.Usage {
			k := slices.IndexFunc(all, func(b Busy) bool { return b.Role == u.Role && b.Resource == u.Resource })
			if k < 0 {
				k = len(all)
				all = append(all, Busy{Role: u.Role, Resource: u.Resource})
			}
			peaks[k], means[k] = append(peaks[k], u.Peak), append(means[k], u.Mean)
		}
	}
	for k := range all {
		all[k].Peak, all[k].Mean = bench.FigureOf(peaks[k]), bench.FigureOf(means[k])
	}
	slices.SortStableFunc(all, func(a, b Busy) int { return cmp.Compare(b.Peak.Median, a.Peak.Median) })
	n := min(1, len(all))
	for n < len(all) && all[n].Peak.Median >= nearly {
		n++
	}
	return all[:n]
}

// String says it for people, like "broker NIC in 98 % (mean 61 %)".
func (b Busy) String() string {
	peak, mean := fmt.Sprintf("%.0f %%", b.Peak.Median*100), fmt.Sprintf("%.0f %%", b.Mean.Median*100)
	s := b.Role + " " + b.Resource + " " + peak
	if mean != peak {
		s += " (mean " + mean + ")"
	}
	return s
}

// busy is a cell that tells the busiest resources of a point.
func (p *Point) busy() cell {
	var all []string
	for _, b := range p.busiest() {
		all = append(all, b.String())
	}
	if all == nil {
		all = []string{"–"}
	}
	return text(strings.Join(all, ", "))
}

// counted tells whether the run says how busy resources were.
func (r *Run) counted() bool {
	return slices.ContainsFunc(r.Series, func(s Series) bool {
		return slices.ContainsFunc(s.Points, func(p Point) bool { return p.busiest() != nil })
	})
}
