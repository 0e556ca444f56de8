package oracle

import (
	"strings"

	"faultline/coord/tree"
	"faultline/sim/machine"
	"faultline/workloads/history"
)

// Sequential judges the nodes to whose names the coordination service appends a number: SESS.
//
// Verified, by what the service traces: below one parent, as long as it is there, each number is greater than all before it, also than those whose nodes are gone, so no name comes a second time. A number may be left out; one
// that a client chose itself counts, too, if it has as many digits.
//
// Beyond the atlas ([Ruins]): it holds until the registry itself is ruined, then it does not.
//
// Not verified: parents below which no client was ever answered that a numbered node is there; that a create makes no more than one (Asked).
type Sequential struct {
	Findings
	reg     *registry
	parents map[string]*siblings
}

// siblings are the children of a parent, and the greatest number that a child of it ever had.
type siblings struct {
	asked bool // some client got such a node here
	path  string
	last  string
	zxid  int64
}

// NewSequential makes the oracle.
func NewSequential(p *Promise) *Sequential {
	s := &Sequential{reg: newRegistry(), parents: map[string]*siblings{}}
	s.Free(p.Ruins.Registry)
	return s
}

// Invariants implements [Oracle].
func (s *Sequential) Invariants() []string { return []string{Session} }

// Needs implements [history.Selective].
func (*Sequential) Needs() history.Steps { return 0 }

// Observe implements [Oracle].
func (s *Sequential) Observe(e *history.Event) {
	switch e.Kind {
	case history.Traced:
		s.traced(e)
	case history.CoordCalled:
		s.called(e)
	}
}

func (s *Sequential) traced(e *history.Event) {
	t := &e.Trace
	if what, _ := s.reg.observe(e); what == noChange {
		return
	}
	if s.reg.applied.Lost != 0 { // Sessions tells
		s.reg.applied.Lost = 0
		clear(s.parents)
	}
	switch t.Kind {
	case machine.ZnodeCreated:
		if _, name, ok := cutNumber(t.Subject); ok {
			s.numbered(e, name[len(name)-numberDigits:])
		}
	case machine.ZnodeDeleted:
		delete(s.parents, t.Subject)
	}
}

// numbered judges the number of a new node.
func (s *Sequential) numbered(e *history.Event, number string) {
	t := &e.Trace
	p := s.parent(tree.Parent(t.Subject))
	if number > p.last {
		p.path, p.last, p.zxid = t.Subject, number, t.B
	} else if p.asked {
		s.Violate(e.At, Session, "transaction %d made %s at %v, but %s, which has as high a number, was made by transaction %d before", t.B, t.Subject, e.At, p.path, p.zxid)
	}
}

func (s *Sequential) parent(path string) *siblings {
	p := s.parents[path]
	if p == nil {
		p = &siblings{}
		s.parents[path] = p
	}
	return p
}

// called learns which parents have such children.
func (s *Sequential) called(e *history.Event) {
	if c := e.Coord; c.Op == "create" && c.Sequential && c.Err == nil {
		s.parent(tree.Parent(c.Name)).asked = true
	}
}

// Finish implements [Oracle].
func (*Sequential) Finish(End) {}

// numberDigits is how many digits the number has that the service appends.
const numberDigits = 10

// cutNumber takes the path of a node apart whose name ends with such a number.
func cutNumber(path string) (parent, name string, ok bool) {
	parent = tree.Parent(path)
	name = strings.TrimPrefix(path[len(parent):], "/")
	if len(name) < numberDigits {
		return "", "", false
	}
	for _, c := range name[len(name)-numberDigits:] {
		if c < '0' || c > '9' {
			return "", "", false
		}
	}
	return parent, name, true
}
