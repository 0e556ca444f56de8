package oracle

import (
	"maps"
	"slices"

	"faultline/sim/machine"
	"faultline/workloads/history"
)

// Locks judges applications that keep each other out by the coordination service's lock recipe: who has the ephemeral node with the lowest number below the lock's path may act. OWN1, SESS.
//
// Verified, whenever an application tells that it acts under the lock, against what the coordination service traces:
//   - its session lives (SESS);
//   - its node is there, is its session's, and no node has a lower number (OWN1). So two never act in turns.
//
// Beyond the atlas ([Ruins]): all of it holds until the registry itself is ruined, then nothing of it does.
//
// Not verified: that a lock which is free is taken (Liveness, which waits for every client to have it once more after the heal); that each client gets it in its turn before that.
type Locks struct {
	Findings
	reg   *registry
	nodes map[string]map[string]lockNode // lock -> name -> node
}

// lockNode is a node of one who has the lock, or waits for it.
type lockNode struct {
	number  string
	session int64
}

// NewLocks makes the oracle.
func NewLocks(p *Promise) *Locks {
	l := &Locks{reg: newRegistry(), nodes: map[string]map[string]lockNode{}}
	l.Free(p.Ruins.Registry)
	return l
}

// Invariants implements [Oracle].
func (l *Locks) Invariants() []string { return []string{Own1, Session} }

// Needs implements [history.Selective].
func (*Locks) Needs() history.Steps { return 0 }

// Observe implements [Oracle].
func (l *Locks) Observe(e *history.Event) {
	if e.Kind != history.Traced {
		return
	}
	t := &e.Trace
	if t.Kind == machine.LockActed {
		l.acted(e)
		return
	}
	if what, _ := l.reg.observe(e); what == noChange {
		return
	}
	at, name, numbered := cutNumber(t.Subject)
	switch {
	case !numbered:
	case t.Kind == machine.ZnodeCreated && t.A != 0:
		if l.nodes[at] == nil {
			l.nodes[at] = map[string]lockNode{}
		}
		l.nodes[at][t.Subject] = lockNode{name[len(name)-numberDigits:], t.A}
	case t.Kind == machine.ZnodeDeleted:
		if delete(l.nodes[at], t.Subject); len(l.nodes[at]) == 0 {
			delete(l.nodes, at)
		}
	}
}

func (l *Locks) acted(e *history.Event) {
	t := &e.Trace
	mine, there := l.nodes[t.Subject][t.Detail]
	switch {
	case l.reg.sessions[t.A] == nil:
		l.Violate(e.At, Session, "%s acts under the lock %s by %s at %v, though its session 0x%x has ended", e.Machine, t.Subject, t.Detail, e.At, t.A)
		return
	case !there || mine.session != t.A:
		l.Violate(e.At, Own1, "%s acts under the lock %s by %s at %v, which its session 0x%x does not have", e.Machine, t.Subject, t.Detail, e.At, t.A)
		return
	}
	for _, path := range slices.Sorted(maps.Keys(l.nodes[t.Subject])) {
		if other := l.nodes[t.Subject][path]; other.number < mine.number {
			l.Violate(e.At, Own1, "%s acts under the lock %s by %s at %v, but %s of session 0x%x comes before it", e.Machine, t.Subject, t.Detail, e.At, path, other.session)
			return
		}
	}
}

// Finish implements [Oracle].
func (*Locks) Finish(End) {}
