package main

import (
	"fmt"
	"slices"
	"strings"

	"faultline/faults/sites"
	"faultline/sim/virtual"
	"faultline/workloads/trial"
)

// Gaps.
const (
	neverReached = "never reached"
	neverStruck  = "never struck"
	neverTrue    = "never true"
)

var gaps = []string{neverReached, neverStruck, neverTrue}

// place is what came to pass at one failpoint or mark, over all worlds.
type place struct {
	Place       string   `json:"place"`
	At          []string `json:"at"`                     // file:line of each call
	Passed      int64    `json:"passed"`                 // times that it was passed (a failpoint) or true (a mark)
	Fired       int64    `json:"fired,omitempty"`        // times that its misfortune struck
	Worlds      int      `json:"worlds"`                 // in which it was passed or true
	WorldsFired int      `json:"worlds_fired,omitempty"` // in which it struck
	Gap         string   `json:"gap,omitempty"`          // never reached, never struck, never true
	Reason      string   `json:"reason,omitempty"`
}

func (p *place) failpoint() bool { return strings.HasPrefix(p.Place, "fault/") }

func (p *place) gap() string {
	switch {
	case !p.failpoint() && p.Passed == 0:
		return neverTrue
	case p.Passed == 0:
		return neverReached
	case p.failpoint() && p.Fired == 0:
		return neverStruck
	}
	return ""
}

// tally adds up over worlds.
type tally struct {
	places    []*place // by name
	byName    map[string]*place
	worlds    int
	notPassed int
}

func newTally(list []sites.Site) *tally {
	t := &tally{byName: map[string]*place{}}
	for _, s := range list {
		p := t.byName[s.Name]
		if p == nil {
			p = &place{Place: s.Name}
			t.byName[s.Name] = p
			t.places = append(t.places, p)
		}
		p.At = append(p.At, s.At)
	}
	return t
}

func (t *tally) add(r *trial.Result) {
	t.worlds++
	if r.Verdict != trial.Pass {
		t.notPassed++
	}
	t.count(r.Passages)
}

func (t *tally) count(passages virtual.Passages) {
	for name, n := range passages {
		p := t.byName[name]
		if p == nil {
			continue // of a program that is not in the checkout
		}
		p.Passed += n.Passed
		p.Fired += n.Fired
		p.Worlds++
		if n.Fired > 0 {
			p.WorldsFired++
		}
	}
}

// report is the whole outcome.
type report struct {
	Worlds     int      `json:"worlds"`
	NotPassed  int      `json:"not_passed"` // worlds whose verdict was not pass
	Failpoints int      `json:"failpoints"`
	Reached    int      `json:"reached"`
	Struck     int      `json:"struck"`
	Marks      int      `json:"marks"`
	True       int      `json:"true"`
	Places     []*place `json:"places"`
	Wrong      []string `json:"wrong"` // what is wrong with the reasons
	Clean      bool     `json:"clean"`
}

func (t *tally) report(reasons map[string]string) *report {
	r := &report{Worlds: t.worlds, NotPassed: t.notPassed, Places: t.places, Wrong: []string{}, Clean: t.notPassed == 0}
	for _, p := range t.places {
		p.Gap, p.Reason = p.gap(), reasons[p.Place]
		switch {
		case p.failpoint():
			r.Failpoints++
			if p.Passed > 0 {
				r.Reached++
			}
			if p.Fired > 0 {
				r.Struck++
			}
		default:
			r.Marks++
			if p.Passed > 0 {
				r.True++
			}
		}
		switch {
		case p.Gap == "" && p.Reason != "":
			r.Wrong = append(r.Wrong, fmt.Sprintf("%s has a reason for a gap, but it was reached in %d worlds: remove the reason", p.Place, max(p.Worlds, p.WorldsFired)))
		case p.Gap != "" && p.Reason == "":
			r.Clean = false
		}
	}
	for name := range reasons {
		if t.byName[name] == nil {
			r.Wrong = append(r.Wrong, fmt.Sprintf("%s has a reason, but the sources have no such place", name))
		}
	}
	slices.Sort(r.Wrong)
	r.Clean = r.Clean && len(r.Wrong) == 0
	return r
}
