package oracle

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"faultline/coord/tree"
	"faultline/sim/machine"
	"faultline/workloads/history"
)

// Watches judges the watches that clients leave at znodes: SESS. A client that was told "this is the state, and the next change will be told" relies on it: a change that nobody
// tells it of is one that it never acts on. What counts is what the client was sent, in the order in which it came (the tap), against what the coordination service traces.
//
// Verified, for every watch that the answer to a reading request left, whatever the session went through meanwhile (a lost connection, another server, one that lags):
//
//   - order: no answer that shows a state at or behind the first change after the watch was left comes before the event that tells of it, and neither does the answer that says that
//     all watches are left again. A state is shown by the transaction that the answer says to be the last one, or that the node's stat names;
//   - delay: that event comes, in a session that lives on: within its time-out (to connect anew) and twice Promise.SessionSlack (to see that the connection is lost, and to tell),
//     counted from the change and from the last disturbance, with none active;
//   - truth: an event comes only to a session that has such a watch at that node, and only if such a change was made after the watch was left. Two changes while there was no
//     connection may be told as one: what was deleted and made again, as set;
//   - a watch tells once. Which one is left is known from the answer: by get or exists of a node that is there, of its data; by exists of a node that is not there, of its
//     creation; by children, of its children and its end.
//
// Beyond the atlas ([Ruins]): all of it holds until the registry itself is ruined, then nothing of it does.
//
// Not verified: a node that was waited for and was made and deleted again while there was no connection (ZooKeeper tells nothing either: the watch is left again, and what counts is
// the next time that it is made); that OnEvent runs soon (it may block, and holds up the events behind it); what a session is told once it has ended.
type Watches struct {
	Findings
	recordless
	promise  *Promise
	calm     *calm
	last     int64 // latest transaction
	nodes    map[watchAt]*changes
	sessions map[int64]*watcher // those that live
	deadline time.Duration      // first moment when an event may be overdue; none
}

// watchAt is where a watch is: at a node's data (or its creation), or at its children. A session has at most one of each.
type watchAt struct {
	path  string
	child bool
}

// watcher is a session and the watches that it has.
type watcher struct {
	id      int64
	timeout time.Duration
	who     history.Who // of the process, once it is known
	held    map[watchAt]*watch
	owed    []*watch // whose node has changed
}

type watch struct {
	watchAt
	waits bool       // for a node that was not there
	after int64      // the transaction that made the state that was shown
	owed  bool       // there is a first change after it, of which the client was not told:
	first nodeChange // that one
	told  bool       // that is reported
}

// nodeChange is what a transaction did to a node, in the words of the event that tells of it: created, deleted, set; or children.
type nodeChange struct {
	zxid int64
	what string
	at   time.Duration
}

// changes are the last changes that the watches at one place see, in order.
type changes struct{ list []nodeChange }

// changesKept is how many changes of a place are known at least. A session that misses more of them is held to the first of these.
const changesKept = 64

func (c *changes) add(n nodeChange) {
	if c.list = append(c.list, n); len(c.list) >= 2*changesKept {
		c.list = append(c.list[:0], c.list[changesKept:]...)
	}
}

// since are the changes behind a transaction.
func (c *changes) since(zxid int64) []nodeChange {
	if c == nil {
		return nil
	}
	i := len(c.list)
	for i > 0 && c.list[i-1].zxid > zxid {
		i--
	}
	return c.list[i:]
}

// NewWatches makes the oracle.
func NewWatches(p *Promise) *Watches {
	w := &Watches{promise: p, calm: newCalm(p), nodes: map[watchAt]*changes{}, sessions: map[int64]*watcher{}, deadline: none}
	w.Free(p.Ruins.Registry)
	return w
}

// Invariants implements [Oracle].
func (w *Watches) Invariants() []string { return []string{Session} }

// Observe implements [Oracle].
func (w *Watches) Observe(e *history.Event) {
	if w.deadline >= 0 && e.At > w.deadline {
		w.overdue(e.At)
	}
	switch e.Kind {
	case history.Traced:
		w.traced(e)
		return
	case history.CoordHeard:
		w.heard(e)
		return
	case history.MachineCrashed, history.MachineExited:
		for id, s := range w.sessions { // order: no matter
			if s.who.Machine == e.Machine && s.who.Incarnation == e.Incarnation {
				delete(w.sessions, id)
			}
		}
	}
	if w.calm.observe(e) {
		w.plan()
	}
}

func (w *Watches) traced(e *history.Event) {
	t := &e.Trace
	zxid := t.B
	switch t.Kind {
	case machine.ZnodeCreated, machine.ZnodeSet, machine.ZnodeDeleted:
	case machine.SessionOpened, machine.SessionClosed, machine.SessionExpired:
		zxid = t.C
	default:
		return
	}
	if zxid < w.last {
		// The service lost what came after, see Sessions. Nobody can tell what clients that saw it rely on.
		clear(w.sessions)
		clear(w.nodes)
	}
	w.last = zxid
	switch t.Kind {
	case machine.SessionOpened:
		w.sessions[t.A] = &watcher{id: t.A, timeout: time.Duration(t.B), held: map[watchAt]*watch{}}
	case machine.SessionClosed, machine.SessionExpired:
		delete(w.sessions, t.A)
	case machine.ZnodeSet:
		w.changed(watchAt{path: t.Subject}, nodeChange{zxid, "set", e.At})
	default:
		what := "created"
		if t.Kind == machine.ZnodeDeleted {
			what = "deleted"
		}
		w.changed(watchAt{path: t.Subject}, nodeChange{zxid, what, e.At})
		w.changed(watchAt{path: t.Subject, child: true}, nodeChange{zxid, what, e.At})
		w.changed(watchAt{path: tree.Parent(t.Subject), child: true}, nodeChange{zxid, "children", e.At})
	}
}

// changed notes whom a change is owed to.
func (w *Watches) changed(at watchAt, n nodeChange) {
	c := w.nodes[at]
	if c == nil {
		c = &changes{}
		w.nodes[at] = c
	}
	c.add(n)
	for _, s := range w.sessions { // order: no matter, each has a list of its own
		if x := s.held[at]; x != nil && !x.owed && !x.told {
			w.owe(s, x)
		}
	}
}

// owe looks for the first change after what the watch's client was shown.
func (w *Watches) owe(s *watcher, x *watch) {
	after := w.nodes[x.watchAt].since(x.after)
	if len(after) == 0 {
		return
	}
	x.owed, x.first = true, after[0]
	s.owed = append(s.owed, x)
	if w.deadline < 0 {
		w.plan()
	}
}

// settle takes a watch from its session.
func (s *watcher) settle(x *watch) {
	delete(s.held, x.watchAt)
	s.free(x)
}

func (s *watcher) free(x *watch) {
	if x.owed {
		x.owed = false
		s.owed = slices.DeleteFunc(s.owed, func(o *watch) bool { return o == x })
	}
}

// heard judges what a session was sent.
func (w *Watches) heard(e *history.Event) {
	c := e.Heard
	s := w.sessions[c.Session]
	if s == nil {
		return
	}
	s.who = history.Who{Machine: e.Machine, Incarnation: e.Incarnation}
	switch c.What {
	case "answer":
		by := "the answer to a request"
		if c.Op != "" {
			by = "the answer to " + c.Op + " of " + c.Path
		}
		w.shown(e, s, max(c.Zxid, c.Mzxid, c.Pzxid), by)
		if c.Watch {
			w.leave(s, c)
		}
	case "alive":
	case "left":
		for _, x := range slices.Clone(s.owed) {
			w.missed(s, x, c.Zxid)
		}
		w.shown(e, s, c.Zxid, "the answer that all watches are left again")
	default:
		w.fired(e, s)
	}
}

// shown judges what the session knows not to be as it was, and was not told of before.
func (w *Watches) shown(e *history.Event, s *watcher, zxid int64, by string) {
	for _, x := range slices.Clone(s.owed) {
		if x.first.zxid <= zxid {
			w.Violate(e.At, Session, "session 0x%x on %s has a watch at %v since transaction %d, and %s shows it transaction %d at %v, but it was not told that %v",
				s.id, e.Machine, x, x.after, by, zxid, e.At, x.first)
			s.free(x)
			x.told = true
		}
	}
}

// leave notes the watch that an answer leaves.
func (w *Watches) leave(s *watcher, c *history.CoordSaid) {
	x := &watch{watchAt: watchAt{path: c.Path, child: c.Op == "children"}, after: c.Mzxid}
	switch {
	case c.Op == "":
		return
	case c.Found && x.child:
		x.after = c.Pzxid
	case c.Found:
	case c.Op == "exists":
		x.waits, x.after = true, c.Zxid
	default:
		return
	}
	if old := s.held[x.watchAt]; old != nil {
		s.settle(old)
	}
	s.held[x.watchAt] = x
	w.owe(s, x)
}

// missed forgets a creation that the service could not know to be owed, when it was asked to leave all watches again.
func (w *Watches) missed(s *watcher, x *watch, zxid int64) {
	if !x.waits || x.first.zxid > zxid {
		return
	}
	after := w.nodes[x.watchAt].since(x.after)
	was := x.first
	for _, n := range after {
		if n.zxid <= zxid {
			was = n
		}
	}
	if was.what == "deleted" {
		s.free(x)
		x.after = zxid
		w.owe(s, x)
	}
}

// fired judges an event.
func (w *Watches) fired(e *history.Event, s *watcher) {
	c := e.Heard
	had := false
	for _, at := range []watchAt{{c.Path, false}, {c.Path, true}} {
		x := s.held[at]
		if x == nil || at.child && c.What != "children" && c.What != "deleted" || !at.child && c.What == "children" {
			continue
		}
		had = true
		s.settle(x)
		if !w.happened(x, c.What) {
			w.Violate(e.At, Session, "session 0x%x on %s is told at %v: %s %s, but its watch is at %v since transaction %d, and no such thing happened since", s.id, e.Machine, e.At, c.What, c.Path, x, x.after)
		}
	}
	if !had {
		w.Violate(e.At, Session, "session 0x%x on %s is told at %v: %s %s, but has no watch there", s.id, e.Machine, e.At, c.What, c.Path)
	}
}

// happened tells whether an event has something to tell of.
func (w *Watches) happened(x *watch, what string) bool {
	if x.waits && what != "created" {
		return false
	}
	return slices.ContainsFunc(w.nodes[x.watchAt].since(x.after), func(n nodeChange) bool { return n.what == what || n.what == "created" && !x.waits })
}

// due is when the event must have come.
func (w *Watches) due(s *watcher, x *watch) time.Duration {
	return max(x.first.at, w.calm.since) + s.timeout + time.Duration(float64(s.timeout)*w.promise.Drift) + 2*w.promise.SessionSlack
}

func (w *Watches) plan() {
	w.deadline = none
	if w.promise.SessionSlack <= 0 || !w.calm.now() {
		return
	}
	for _, s := range w.sessions { // order: the earliest counts
		for _, x := range s.owed {
			if due := w.due(s, x); w.deadline < 0 || due < w.deadline {
				w.deadline = due
			}
		}
	}
}

// overdue reports events that do not come.
func (w *Watches) overdue(now time.Duration) {
	for _, id := range slices.Sorted(maps.Keys(w.sessions)) {
		s := w.sessions[id]
		for _, x := range slices.Clone(s.owed) {
			if now > w.due(s, x) {
				w.Violate(now, Session, "session 0x%x on %s has a watch at %v since transaction %d, and was not told by %v that %v, though nothing disturbs since %v and its time-out is %v",
					s.id, s.who.Machine, x, x.after, now, x.first, w.calm.since, s.timeout)
				s.free(x)
				x.told = true
			}
		}
	}
	w.plan()
}

// Finish implements [Oracle].
func (w *Watches) Finish(end End) {
	if w.deadline >= 0 && end.At > w.deadline {
		w.overdue(end.At)
	}
}

func (x *watch) String() string {
	if x.child {
		return "the children of " + x.path
	}
	return x.path
}

func (n nodeChange) String() string {
	if n.what == "children" {
		return fmt.Sprintf("a child was made or deleted by transaction %d at %v", n.zxid, n.at)
	}
	return fmt.Sprintf("it was %s by transaction %d at %v", n.what, n.zxid, n.at)
}
