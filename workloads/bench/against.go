package bench

import (
	"fmt"
	"slices"
	"strings"
)

// Against is the suite with every series of faultline for each of the systems, too, which run elsewhere and are named by their addresses. With only, it has nothing else.
func (s *Suite) Against(systems []string, only bool) *Suite {
	out := *s
	out.Series = nil
	if !only {
		out.Series = slices.Clone(s.Series)
	}
	own := 0
	for i := range s.Series {
		if s.Series[i].System == "faultline" {
			own++
		}
	}
	for _, system := range systems {
		name, _, _ := strings.Cut(system, "://")
		for _, series := range s.Series {
			if series.System != "faultline" {
				continue
			}
			label := name
			if own > 1 {
				label = fmt.Sprintf("%s, %s", name, series.Name)
			}
			out.Series = append(out.Series, Series{Name: label, System: system, Set: series.Set})
		}
	}
	return &out
}

// Predictable is the suite without the series of systems that run elsewhere.
func (s *Suite) Predictable() *Suite {
	out := *s
	out.Series = slices.DeleteFunc(slices.Clone(s.Series), func(one Series) bool { return strings.Contains(one.System, "://") })
	return &out
}
