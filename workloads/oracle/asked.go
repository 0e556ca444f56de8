package oracle

import (
	"fmt"
	"strings"
	"time"

	"faultline/sim/machine"
	"faultline/workloads/history"
)

// Asked judges that the coordination service does what it is asked to, and each thing once: SESS.
//
// Verified, for the creates, sets and deletes that the service traces, against what clients asked for (the tap, which tells of a write before it can be sent):
//   - as many are done of a kind, to a node, with a content, as were asked for and may have been done. One that was refused, alone or in a multi of which another step was, is not done at all; neither is one that its client
//     says was never sent; one whose outcome is unknown is done at most once, also when its client has crashed;
//   - what a client was told to be done is done.
//
// Beyond the atlas ([Ruins]): all of it holds until the registry itself is ruined, then nothing of it does. Nothing is judged either once the service has lost a transaction, which Sessions tells.
//
// Not verified: in which order, and whether a refusal was right (linearizability); the end of sessions and the ephemeral nodes that go with them (Sessions).
type Asked struct {
	Findings
	reg    *registry
	writes map[write]*tally
	gone   []machine.Event // ephemeral nodes that went, by a transaction that may yet turn out to be the end of their session
	tapped bool            // some client tells what it asks for
	lost   bool
}

// write is something to do to a node. path of a sequential create is that without number.
type write struct {
	kind       machine.Kind
	path, data string
}

// tally counts the writes of one kind to a node with one content.
type tally struct{ asked, told, done int }

// NewAsked makes the oracle.
func NewAsked(p *Promise) *Asked {
	a := &Asked{reg: newRegistry(), writes: map[write]*tally{}}
	a.Free(p.Ruins.Registry)
	return a
}

// Invariants implements [Oracle].
func (a *Asked) Invariants() []string { return []string{Session} }

// Needs implements [history.Selective].
func (*Asked) Needs() history.Steps { return 0 }

// Observe implements [Oracle].
func (a *Asked) Observe(e *history.Event) {
	if len(a.gone) > 0 && (e.Kind != history.Traced || zxidOf(&e.Trace) != a.gone[0].B) {
		a.leave(e.At)
	}
	switch {
	case a.lost:
	case e.Kind == history.Traced:
		a.traced(e)
	case e.Kind == history.CoordAsked:
		a.tapped = true
		writesOf(e.Coord, func(w write) { a.tally(w).asked++ })
	case e.Kind == history.CoordCalled && a.tapped:
		writesOf(e.Coord, func(w write) { a.called(e, w) })
	}
}

func (a *Asked) traced(e *history.Event) {
	t := &e.Trace
	what, _ := a.reg.observe(e)
	if a.lost = a.reg.applied.Lost != 0; a.lost || what == noChange {
		return
	}
	switch {
	case what == sessionChange:
		a.gone = a.gone[:0]
	case t.Kind == machine.ZnodeDeleted && t.A != 0:
		a.gone = append(a.gone, *t)
	case t.Kind == machine.ZnodeDeleted:
		a.did(e.At, write{t.Kind, t.Subject, ""}, t.B)
	default:
		a.did(e.At, write{t.Kind, t.Subject, t.Detail}, t.B)
	}
}

// leave takes the nodes that went for deleted by clients: what a transaction did is traced in a row, and the end of a session would have come behind them.
func (a *Asked) leave(now time.Duration) {
	for _, g := range a.gone {
		a.did(now, write{machine.ZnodeDeleted, g.Subject, ""}, g.B)
	}
	a.gone = a.gone[:0]
}

// zxidOf is the transaction of an event of the coordination service.
func zxidOf(t *machine.Event) int64 {
	switch t.Kind {
	case machine.SessionOpened, machine.SessionClosed, machine.SessionExpired:
		return t.C
	}
	return t.B
}

// did takes something that the service did.
func (a *Asked) did(at time.Duration, w write, zxid int64) {
	if !a.tapped {
		return
	}
	if _, _, numbered := cutNumber(w.path); numbered && w.kind == machine.ZnodeCreated && a.writes[w] == nil {
		w.path = w.path[:len(w.path)-numberDigits]
	}
	y := a.tally(w)
	y.done++
	if y.done > y.asked {
		a.Violate(at, Session, "transaction %d did at %v: %v. That is done %s now, and asked for, as far as it may have been done, %s", zxid, at, w, times(y.done), times(y.asked))
	}
	a.settle(w, y)
}

// called takes what a client was told of its write.
func (a *Asked) called(e *history.Event, w write) {
	c, y := e.Coord, a.tally(w)
	switch {
	case c.Err == nil:
		if y.told++; y.told > y.done {
			a.Violate(e.At, Session, "%s was told at %v that this is done: %v. Others were told so %s, and it is done %s", e.Machine, e.At, w, times(y.told-1), times(y.done))
		}
	case !c.Unknown || !c.Sent:
		if y.asked--; y.done > y.asked {
			a.Violate(e.At, Session, "%s was told at %v: %v. But this is done %s: %v, and asked for, as far as it may have been done, %s", e.Machine, e.At, c.Err, times(y.done), w, times(y.asked))
		}
	}
	a.settle(w, y)
}

func (a *Asked) tally(w write) *tally {
	y := a.writes[w]
	if y == nil {
		y = &tally{}
		a.writes[w] = y
	}
	return y
}

// settle forgets what has come out even.
func (a *Asked) settle(w write, y *tally) {
	if y.asked == y.told && y.told == y.done {
		delete(a.writes, w)
	}
}

// writesOf shows what an operation writes.
func writesOf(c *history.CoordCall, show func(write)) {
	switch c.Op {
	case "create":
		show(write{machine.ZnodeCreated, c.Path, string(c.Data)})
	case "set":
		show(write{machine.ZnodeSet, c.Path, string(c.Data)})
	case "delete":
		show(write{machine.ZnodeDeleted, c.Path, ""})
	case "multi":
		for i := range c.Ops {
			writesOf(&c.Ops[i], show)
		}
	}
}

func (w write) String() string {
	s := fmt.Sprintf("%s %s", strings.TrimPrefix(w.kind.String(), "znode."), w.path)
	if w.data != "" {
		s += fmt.Sprintf(" with the content %.40q", w.data)
	}
	return s
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

// Finish implements [Oracle].
func (*Asked) Finish(End) {}
