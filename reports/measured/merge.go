package measured

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// pieces says whether two runs belong to one measurement: shards of its seeds, or one that was stopped and its rest. Repetitions of real runs that have one number are two measurements.
func pieces(a, b *Run) bool {
	return a.Suite == b.Suite && a.SuiteFile == b.SuiteFile && a.Arm == b.Arm && a.Profile == b.Profile && a.ProfileFile == b.ProfileFile && a.Build == b.Build && slices.Equal(a.Machine, b.Machine) &&
		(a.Arm == Simulated || !slices.ContainsFunc(a.Seeds, func(s uint64) bool { return slices.Contains(b.Seeds, s) }))
}

// merge puts pieces of one measurement together, in the order in which they came first.
func merge(runs []*Run) ([]*Run, error) {
	var out []*Run
	for _, r := range runs {
		i := slices.IndexFunc(out, func(have *Run) bool { return pieces(have, r) })
		if i < 0 {
			out = append(out, r)
			continue
		}
		if err := out[i].join(r); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// join adds another piece. A simulated repetition that both have must be the same in both.
func (r *Run) join(o *Run) error {
	if !slices.Contains(strings.Split(r.Command, "\n"), o.Command) {
		r.Command += "\n" + o.Command
	}
	r.Seeds = append(r.Seeds, o.Seeds...)
	slices.Sort(r.Seeds)
	r.Seeds = slices.Compact(r.Seeds)
	for i := range o.Series {
		s := r.series(o.Series[i].Name)
		if s == nil {
			r.Series = append(r.Series, o.Series[i])
			continue
		}
		for _, p := range o.Series[i].Points {
			have := s.point(p.Value)
			if have == nil {
				s.Points = append(s.Points, p)
				continue
			}
			for _, rep := range p.Repetitions {
				k := slices.IndexFunc(have.Repetitions, func(h Repetition) bool { return h.Seed == rep.Seed })
				if k < 0 {
					have.Repetitions = append(have.Repetitions, rep)
				} else if !maps.Equal(have.Repetitions[k].Figures, rep.Figures) {
					return fmt.Errorf("suite %s, %s at %s: seed %d has two outcomes, though build and profile are the same: which program and files made them?", r.Suite, s.Name, p.Value, rep.Seed)
				}
			}
			slices.SortStableFunc(have.Repetitions, func(a, b Repetition) int { return cmp.Compare(a.Seed, b.Seed) })
		}
		slices.SortStableFunc(s.Points, func(a, b Point) int {
			return cmp.Compare(slices.Index(r.Sweep.Values, a.Value), slices.Index(r.Sweep.Values, b.Value))
		})
	}
	return nil
}

// prediction finds the simulated run of the same suite; nil: there is none.
func prediction(runs []*Run, of *Run) *Run {
	for _, r := range runs {
		if r.Arm == Simulated && r.Suite == of.Suite {
			return r
		}
	}
	return nil
}
