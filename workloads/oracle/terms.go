package oracle

import (
	"faultline/sim/machine"
	"faultline/workloads/history"
)

// Terms judges the elections of the coordination service: GEN.
//
// Verified: in each term at most one server of the ensemble begins to lead, and no more than once.
//
// Beyond the atlas ([Ruins]): it holds until the registry itself is ruined, then it does not.
//
// Not verified: that a leader stops when there is a later one. It may believe in itself for some time; that it serves nobody meanwhile is linearizability's.
type Terms struct {
	Findings
	leaders map[int64]history.Who
}

// NewTerms makes the oracle.
func NewTerms(p *Promise) *Terms {
	t := &Terms{leaders: map[int64]history.Who{}}
	t.Free(p.Ruins.Registry)
	return t
}

// Invariants implements [Oracle].
func (t *Terms) Invariants() []string { return []string{Gen} }

// Needs implements [history.Selective].
func (*Terms) Needs() history.Steps { return 0 }

// Observe implements [Oracle].
func (t *Terms) Observe(e *history.Event) {
	if e.Kind != history.Traced || e.Trace.Kind != machine.CoordLeads {
		return
	}
	term := e.Trace.A
	if was, ok := t.leaders[term]; ok {
		t.Violate(e.At, Gen, "%s leads the coordination service in term %d from %v on, which %s led already", e.Machine, term, e.At, was.Machine)
		return
	}
	t.leaders[term] = history.Who{Machine: e.Machine, Incarnation: e.Incarnation}
}

// Finish implements [Oracle].
func (*Terms) Finish(End) {}
