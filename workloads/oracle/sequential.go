package oracle

import (
	"slices"
	"strings"
	"time"

	"faultline/coord/tree"
	"faultline/sim/machine"
	"faultline/workloads/history"
)

// Sequential judges the nodes to whose names the coordination service appends a number, and that a create counts at most once: SESS.
//
// Verified, by what the service traces and by the operations of clients (the tap):
//   - below one parent, as long as it is there, each number is greater than all before it, also than those whose nodes are gone: no name comes a second time. (A number may be left out; one that a client
//     chose itself counts, too, if it has as many digits);
//   - creates make no more nodes than there were requests: of creates of one name with one content as many nodes come into being as there are creates that succeeded or may have. A create that
//     surely was never sent, or was refused, makes none, and one whose outcome is unknown at most one.
//
// Beyond the atlas ([Ruins]): all of it holds until the registry itself is ruined, then nothing of it does.
//
// Not verified: parents below which no client was ever answered that a numbered node is there; nodes that a create in a multi may have made; how many were made of a name and content for which a process asked that
// is gone (what it had under way is never told).
type Sequential struct {
	Findings
	reg     *registry
	parents map[string]*siblings
	made    map[request]*creates
	oldest  []request // in the order in which they came
}

// siblings are the children of a parent, and the greatest number that a child of it ever had.
type siblings struct {
	asked bool // some client got such a node here
	path  string
	last  string
	zxid  int64
}

// request is what a create asks for.
type request struct{ prefix, data string }

// creates are those of one request.
type creates struct {
	since  time.Duration
	nodes  int
	last   string // node
	calls  int    // that may have made one
	askers []history.Who
	known  bool // some create of it was told
	hidden bool // there may be calls that nobody will tell of
}

// requestsKept is for how long after the first of its creates a request is counted at least. A call ends in less.
const requestsKept = explainWithin

// NewSequential makes the oracle.
func NewSequential(p *Promise) *Sequential {
	s := &Sequential{reg: newRegistry(), parents: map[string]*siblings{}, made: map[request]*creates{}}
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
	case history.MachineCrashed, history.MachineExited:
		for _, c := range s.made { // order: no matter
			c.hidden = c.hidden || slices.ContainsFunc(c.askers, func(w history.Who) bool { return w.Machine == e.Machine && w.Incarnation == e.Incarnation })
		}
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
		clear(s.made)
	}
	switch t.Kind {
	case machine.ZnodeCreated:
		if _, name, ok := cutNumber(t.Subject); ok {
			s.numbered(e, name[len(name)-numberDigits:])
			c := s.request(request{t.Subject[:len(t.Subject)-numberDigits], t.Detail}, e.At)
			c.nodes, c.last = c.nodes+1, t.Subject
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

func (s *Sequential) request(r request, now time.Duration) *creates {
	for len(s.oldest) > 0 {
		c := s.made[s.oldest[0]]
		if c != nil && now < c.since+requestsKept {
			break
		}
		s.count(s.oldest[0], now)
		s.oldest = s.oldest[1:]
	}
	c := s.made[r]
	if c == nil {
		c = &creates{since: now}
		s.made[r] = c
		s.oldest = append(s.oldest, r)
	}
	return c
}

// count judges how many nodes came of a request, and forgets it.
func (s *Sequential) count(r request, now time.Duration) {
	c := s.made[r]
	if delete(s.made, r); c == nil || !c.known || c.hidden || c.nodes <= c.calls {
		return
	}
	s.Violate(now, Session, "%d nodes %s<number> with the content %q were made, %s the last of them, though no more than %d creates may have made one", c.nodes, r.prefix, r.data, c.last, c.calls)
}

func (s *Sequential) called(e *history.Event) {
	c := e.Coord
	for i := range c.Ops {
		if o := &c.Ops[i]; o.Op == "create" && o.Sequential {
			s.request(request{o.Path, string(o.Data)}, e.At).hidden = true
		}
	}
	if c.Op != "create" || !c.Sequential {
		return
	}
	r := s.request(request{c.Path, string(c.Data)}, e.At)
	r.known = true
	r.askers = append(r.askers, history.Who{Machine: e.Machine, Incarnation: e.Incarnation})
	if c.Err == nil || c.Unknown && c.Sent {
		r.calls++
	}
	if c.Err == nil {
		s.parent(tree.Parent(c.Name)).asked = true
	}
}

// Finish implements [Oracle].
func (s *Sequential) Finish(end End) {
	if end.Cut || end.Trouble != "" {
		return // what was under way is not told
	}
	for _, r := range s.oldest {
		s.count(r, end.At)
	}
}

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
