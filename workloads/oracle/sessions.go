package oracle

import (
	"slices"
	"time"

	"faultline/sim/machine"
	"faultline/workloads/history"
)

// Sessions judges the coordination service's sessions and ephemeral nodes: SESS.
//
// Verified:
//   - an ephemeral node is made by a session that lives, and is gone when its session ends;
//   - an ephemeral node whose session lives goes only when somebody asked for it (needs the tap: a delete that succeeded, whose
//     outcome is unknown, or that a crash may have hidden);
//   - a session gets the time-out that its client asks for, within the bounds that the service sets (Promise.Granted);
//   - a session does not expire earlier than its time-out after it was last heard of, less the drift that the promise allows. It was heard of when a client sent what was answered: a request that
//     succeeded, a ping, a greeting to go on with the session (by the tap), also when the answer comes after the end;
//   - the session of a process that is gone ends within its time-out and Promise.SessionSlack, counted from the last disturbance, with none
//     active; where the plan changes the rate of clocks, within the longest time-out more;
//   - a session whose process is up does not expire when nothing disturbed for twice its time-out and Promise.SessionSlack;
//   - a restarted coordination server has every transaction that it traced;
//   - nothing is served to a session that has ended, nor is it told to live, and a consumer whose session has ended hands nothing over.
//
// Beyond the atlas ([Ruins]): all of it holds until the registry itself is ruined, then nothing of it does.
//
// Not verified: watches (Watches); the order of transactions (linearizability).
type Sessions struct {
	Findings
	promise *Promise
	reg     *registry
	calm    *calm

	nodes    map[string]int64        // ephemeral path -> session
	heard    map[int64]time.Duration // session that lives -> last time it was surely heard
	procs    map[int64]process       // session -> process that uses it
	ended    map[int64]ending        // sessions that have ended
	orphans  map[int64]time.Duration // sessions that live though their process is gone, since when
	deadline time.Duration           // first moment when one of orphans may be overdue; none
	removed  []removal               // ephemeral nodes that went while their session lived, not explained yet
	crashed  time.Duration           // last time a process was gone; none
	tapped   bool                    // operations are seen

	joined map[string]process // by group/consumer
	fine   map[string]holder  // by "g/t/p": who was found to be fine, until something changes
}

// ending is how a session ended.
type ending struct {
	at      time.Duration
	expired bool
	timeout time.Duration
}

type removal struct {
	path    string
	session int64
	zxid    int64
	at      time.Duration
}

// NewSessions makes the oracle.
func NewSessions(p *Promise) *Sessions {
	s := &Sessions{
		promise: p, reg: newRegistry(), calm: newCalm(p), nodes: map[string]int64{}, heard: map[int64]time.Duration{}, procs: map[int64]process{},
		ended: map[int64]ending{}, orphans: map[int64]time.Duration{}, deadline: none, crashed: none,
		joined: map[string]process{}, fine: map[string]holder{},
	}
	s.Free(p.Ruins.Registry)
	return s
}

// Invariants implements [Oracle].
func (s *Sessions) Invariants() []string { return []string{Session} }

// Needs implements [history.Selective].
func (*Sessions) Needs() history.Steps { return history.Handing }

// Observe implements [Oracle].
func (s *Sessions) Observe(e *history.Event) {
	if s.deadline >= 0 && e.At > s.deadline {
		s.overdue(e.At)
	}
	switch e.Kind {
	case history.Traced:
		s.traced(e)
		return
	case history.CoordCalled:
		s.called(e)
		return
	case history.CoordHeard:
		if c := e.Heard; c.What == "alive" {
			s.confirmed(e, "it was told to live", c.Session, c.Since)
			s.uses(process{e.Machine, e.Incarnation, c.Session})
		}
		return
	case history.MachineCrashed, history.MachineExited:
		s.crashed = e.At
		s.removed = s.removed[:0] // the crash may have hidden who asked
		for id, p := range s.procs {
			if p.machine == e.Machine && p.incarnation == e.Incarnation && s.reg.sessions[id] != nil {
				s.orphans[id] = e.At
			}
		}
	}
	if s.calm.observe(e) {
		s.plan()
	}
}

func (s *Sessions) traced(e *history.Event) {
	t := &e.Trace
	switch t.Kind {
	case machine.ConsumerHanded:
		if h, ok := s.fine[t.Subject]; !ok || h.consumer != t.Detail || h.machine != e.Machine || h.inc != e.Incarnation {
			s.handed(e)
		}
		return
	case machine.BrokerUp:
		s.uses(process{e.Machine, e.Incarnation, s.reg.brokers[itoa(t.A)]})
		return
	case machine.ConsumerJoined:
		s.joined[t.Subject+"/"+t.Detail] = process{e.Machine, e.Incarnation, t.A}
		s.uses(process{e.Machine, e.Incarnation, t.A})
		clear(s.fine)
		return
	}
	owner, timeout := int64(0), time.Duration(0)
	switch t.Kind {
	case machine.ZnodeDeleted:
		owner = s.nodes[t.Subject]
	case machine.SessionExpired, machine.SessionClosed:
		if known := s.reg.sessions[t.A]; known != nil {
			timeout = known.timeout
		}
	}
	what, _ := s.reg.observe(e)
	if zxid := s.reg.applied.Lost; zxid != 0 {
		s.reg.applied.Lost = 0
		s.Violate(e.At, Session, "the coordination service lost transaction %d and what came after: it is %s of %s now", zxid, t.Kind, t.Subject)
	}
	if what == noChange {
		return
	}
	switch t.Kind {
	case machine.ZnodeCreated:
		if t.A == 0 {
			return
		}
		s.nodes[t.Subject] = t.A
		if s.reg.sessions[t.A] == nil {
			s.Violate(e.At, Session, "ephemeral %s was made by session 0x%x, which %s", t.Subject, t.A, s.fate(t.A))
		}
	case machine.ZnodeDeleted:
		delete(s.nodes, t.Subject)
		if owner != 0 && s.reg.sessions[owner] != nil {
			s.removed = append(s.removed, removal{t.Subject, owner, t.B, e.At})
		}
		s.unexplained(e.At)
	case machine.SessionOpened:
		delete(s.ended, t.A)
	case machine.SessionClosed, machine.SessionExpired:
		s.over(e, timeout)
	}
}

func (s *Sessions) fate(session int64) string {
	if end, ok := s.ended[session]; ok {
		return "ended at " + end.at.String()
	}
	return "was never opened"
}

// over judges the end of a session.
func (s *Sessions) over(e *history.Event, timeout time.Duration) {
	id := e.Trace.A
	if len(s.ended) > 10_000 {
		clear(s.ended) // so old that nothing of them is under way
	}
	s.ended[id] = ending{e.At, e.Trace.Kind == machine.SessionExpired, timeout}
	s.removed = slices.DeleteFunc(s.removed, func(r removal) bool {
		return r.session == id && (r.zxid == e.Trace.C || r.at == e.At)
	})
	var left []string
	for path, owner := range s.nodes {
		if owner == id {
			left = append(left, path)
		}
	}
	slices.Sort(left)
	for _, path := range left {
		s.Violate(e.At, Session, "ephemeral %s survives its session 0x%x, which ended at %v", path, id, e.At)
		delete(s.nodes, path)
	}
	clear(s.fine)
	_, orphan := s.orphans[id]
	if orphan {
		delete(s.orphans, id)
		s.plan()
	}
	heard, known := s.heard[id]
	delete(s.heard, id)
	if known {
		s.early(e.At, id, heard)
	}
	if p, used := s.procs[id]; used && !orphan && e.Trace.Kind == machine.SessionExpired && s.promise.SessionSlack > 0 &&
		s.calm.now() && e.At > s.calm.since+2*timeout+s.promise.SessionSlack {
		s.Violate(e.At, Session, "session 0x%x of %s expired at %v, though its process is up and nothing disturbs since %v", id, p.machine, e.At, s.calm.since)
	}
	delete(s.procs, id)
}

// early judges a session that has ended by when it was last heard of.
func (s *Sessions) early(now time.Duration, id int64, heard time.Duration) {
	end := s.ended[id]
	earliest := heard + end.timeout - time.Duration(float64(end.timeout)*s.promise.Drift) - skew
	if end.expired && end.at < earliest {
		s.Violate(now, Session, "session 0x%x expired at %v, though it was heard of at %v and its time-out is %v", id, end.at, heard, end.timeout)
	}
}

// confirmed judges that a session was heard of: what its client sent then was answered.
func (s *Sessions) confirmed(e *history.Event, what string, id int64, since time.Duration) {
	end, over := s.ended[id]
	switch {
	case over && since > end.at+skew:
		s.Violate(e.At, Session, "%s for session 0x%x of %s from %v to %v, though it ended at %v", what, id, e.Machine, since, e.At, end.at)
	case over:
		s.early(e.At, id, since)
	case s.reg.sessions[id] != nil:
		s.heard[id] = max(s.heard[id], since)
	}
}

// uses notes which process a session belongs to.
func (s *Sessions) uses(p process) {
	known, lives := s.reg.sessions[p.session]
	if !lives || p.session == 0 {
		return
	}
	if _, before := s.procs[p.session]; !before {
		if granted, asked := s.promise.Granted[p.machine]; asked && known.timeout != granted {
			s.Violate(known.opened, Session, "session 0x%x of %s got a time-out of %v, for what it asked it should be %v", p.session, p.machine, known.timeout, granted)
		}
	}
	s.procs[p.session] = p
}

// called learns from an operation of a client.
func (s *Sessions) called(e *history.Event) {
	c := e.Coord
	s.tapped = true
	if c.Err == nil && c.Session != 0 && c.Op != "close" {
		s.confirmed(e, c.Op+" of "+c.Path+" succeeded", c.Session, c.Start)
	}
	s.uses(process{e.Machine, e.Incarnation, c.Session})
	if c.Err != nil && !c.Unknown {
		return
	}
	explain := func(path string) {
		s.removed = slices.DeleteFunc(s.removed, func(r removal) bool {
			return r.path == path && r.at >= c.Start-skew && (c.Unknown || r.at <= c.End+skew)
		})
	}
	switch c.Op {
	case "delete":
		explain(c.Path)
	case "multi":
		for i := range c.Ops {
			if c.Ops[i].Op == "delete" {
				explain(c.Ops[i].Path)
			}
		}
	}
}

// skew is how far a client's reading of its clock may be off when it is put in world time.
const skew = time.Millisecond

// explainWithin is how long after a node went the request that asked for it may still be under way.
const explainWithin = 2 * time.Minute

// unexplained reports ephemeral nodes that went without anybody asking.
func (s *Sessions) unexplained(now time.Duration) {
	for len(s.removed) > 0 && now > s.removed[0].at+explainWithin {
		r := s.removed[0]
		s.removed = s.removed[1:]
		if s.tapped && (s.crashed < 0 || r.at > s.crashed+explainWithin) {
			s.Violate(r.at, Session, "ephemeral %s went at %v though its session 0x%x lived and nobody asked to delete it", r.path, r.at, r.session)
		}
	}
}

// handed judges a consumer by its session, and remembers it when all is well.
func (s *Sessions) handed(e *history.Event) {
	t := &e.Trace
	at, ok := parseSeat(t.Subject)
	if !ok {
		return
	}
	if g := s.promise.group(at.group); g == nil || g.Loner {
		return
	}
	p, in := s.joined[at.group+"/"+t.Detail]
	if in && s.reg.sessions[p.session] == nil {
		s.Violate(e.At, Session, "%s on %s is handed offset %d of %v, though its session 0x%x %s", t.Detail, e.Machine, t.A, at, p.session, s.fate(p.session))
		return
	}
	s.fine[t.Subject] = holder{consumer: t.Detail, machine: e.Machine, inc: e.Incarnation}
}

// due is when the session of a process that is gone must have ended. A server whose clock changed its rate finds the timer that it set before to be late, takes itself for held up, and begins all
// time-outs anew; that may be as late as the longest time-out after the change.
func (s *Sessions) due(id int64, since time.Duration) time.Duration {
	timeout := s.reg.sessions[id].timeout
	if s.promise.Drift > 0 {
		timeout += s.promise.SessionTimeout
	}
	return max(since, s.calm.since) + timeout + time.Duration(float64(timeout)*s.promise.Drift) + s.promise.SessionSlack
}

func (s *Sessions) plan() {
	s.deadline = none
	if s.promise.SessionSlack <= 0 || !s.calm.now() {
		return
	}
	for id, since := range s.orphans {
		if due := s.due(id, since); s.deadline < 0 || due < s.deadline {
			s.deadline = due
		}
	}
}

func (s *Sessions) overdue(now time.Duration) {
	var late []int64
	for id, since := range s.orphans {
		if now > s.due(id, since) {
			late = append(late, id)
		}
	}
	slices.Sort(late)
	for _, id := range late {
		p := s.procs[id]
		s.Violate(now, Session, "session 0x%x still lives at %v, though its process on %s is gone since %v, nothing disturbs since %v and its time-out is %v",
			id, now, p.machine, s.orphans[id], s.calm.since, s.reg.sessions[id].timeout)
		delete(s.orphans, id)
	}
	s.plan()
}

// Finish implements [Oracle].
func (s *Sessions) Finish(end End) {
	if s.deadline >= 0 && end.At > s.deadline {
		s.overdue(end.At)
	}
	s.unexplained(end.At)
}
