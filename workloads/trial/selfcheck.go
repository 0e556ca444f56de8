package trial

import (
	"fmt"

	"faultline/sim"
	"faultline/workloads/scenario"
)

// Difference is where two runs of one scenario and seed part: a broken promise of the house itself.
type Difference struct {
	Event  int    // number of the first event that differs, from 1
	First  string // the event in the first run, "" when it had ended
	Second string // and in the second
}

func (d *Difference) String() string {
	or := func(s string) string {
		if s == "" {
			return "(the run has ended)"
		}
		return s
	}
	return fmt.Sprintf("the runs part at event %d:\n  first:  %s\n  second: %s", d.Event, or(d.First), or(d.Second))
}

// Compare runs a scenario and seed twice and returns the first event at which the runs differ, nil when they are the same.
func Compare(sc *scenario.Scenario, seed uint64) *Difference {
	var first []string
	a := Run(sc, seed, Options{Trace: func(e *sim.Entry) { first = append(first, e.String()) }})
	var d *Difference
	n := 0
	b := Run(sc, seed, Options{Trace: func(e *sim.Entry) {
		if d == nil {
			text := e.String()
			switch {
			case n >= len(first):
				d = &Difference{Event: n + 1, Second: text}
			case first[n] != text:
				d = &Difference{Event: n + 1, First: first[n], Second: text}
			}
		}
		n++
	}})
	if d == nil && n < len(first) {
		d = &Difference{Event: n + 1, First: first[n]}
	}
	if d == nil && a.Hash != b.Hash {
		d = &Difference{Event: n, First: fmt.Sprintf("hash %016x", a.Hash), Second: fmt.Sprintf("hash %016x, though the traces agree", b.Hash)}
	}
	return d
}
