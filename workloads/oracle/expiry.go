package oracle

import (
	"maps"
	"time"

	"faultline/sim/machine"
	"faultline/workloads/history"
)

// Expiry judges when the coordinator of a group forgets what the group committed (RET, KIP-211).
//
// Verified, of groups whose members all read the same topics, by what the present coordinator traces:
//   - nothing expires of a group that has members, for they use it, be there commits or not;
//   - of one that has none nothing expires before Promise.OffsetsRetention is over since the last member went, and since the commit itself;
//   - but then it does: what is left when the group gets members again is not older than that, and a round of the coordinator's looks (Promise.OffsetsCheck). Of a coordinator that came, stood still or lost its disk meanwhile
//     that is asked from then on.
//   - what expired stays so: the next coordinator does not find it committed, unless it began before that could be in the log.
//
// Offsets and Delivery take an expired offset for one that was never committed. That none vanishes otherwise is CMONO (Offsets).
//
// Not verified: that they go in time where their topic was deleted once. A coordinator that begins then finds in the log what was committed for it, and drops that without a word.
//
// Not judged where the plan has the brokers' clocks jump or drift, or go apart: the promise then has no OffsetsRetention. Beyond the atlas ([Ruins]): groups whose partition of the offsets topic is freed.
type Expiry struct {
	Findings
	recordless
	promise *Promise
	quiet   *quiet
	coords  coordinators
	groups  map[string]*unused
	renewed map[string]bool // topics that were deleted
}

// unused is what is known of a group's use of its offsets.
type unused struct {
	members int64
	known   bool                   // how many members it has
	since   time.Duration          // when the last member went, or, without any, when the coordinator was found to know none; none: it has some
	empty   emptied                // when the last member went
	stored  map[seat]time.Duration // what counts now, and since when; 0: it was in the log before anybody told of it
	gone    map[seat]*goneOffset   // what expired
	broker  string                 // its coordinator
	looks   time.Duration          // since when that looks for what has expired without a break
}

// emptied is when a group lost its last member, which began a generation.
type emptied struct {
	at         time.Duration
	generation int64
}

// goneOffset is one that expired.
type goneOffset struct {
	at     time.Duration
	commit time.Duration // when it was committed
	sure   bool          // it surely is in the log that it is gone
}

// NewExpiry makes the oracle.
func NewExpiry(p *Promise) *Expiry {
	o := &Expiry{promise: p, quiet: newQuiet(p), groups: map[string]*unused{}, renewed: map[string]bool{}}
	for i := range p.Groups {
		if g := &p.Groups[i]; g.Coordinated {
			o.groups[g.Name] = &unused{since: none, empty: emptied{generation: none}, stored: map[seat]time.Duration{}, gone: map[seat]*goneOffset{}}
		}
	}
	o.Free(p.Ruins.Records)
	return o
}

// Invariants implements [Oracle].
func (o *Expiry) Invariants() []string { return []string{Retain} }

// Observe implements [Oracle].
func (o *Expiry) Observe(e *history.Event) {
	if o.promise.OffsetsRetention <= 0 || len(o.groups) == 0 {
		return
	}
	if e.Kind != history.Traced && e.Kind != history.KafkaCalled {
		o.surely(e.At)
	}
	o.quiet.observe(e)
	switch e.Kind {
	case history.MachineCrashed, history.MachineExited, history.MachinePaused, history.MachineResumed:
		for _, g := range o.groups { // order: each on its own
			if g.broker == e.Machine {
				g.looks = e.At
			}
		}
	case history.Traced:
		o.traced(e)
	}
}

func (o *Expiry) traced(e *history.Event) {
	t := &e.Trace
	switch t.Kind {
	case machine.GroupsLoaded:
		loaded(&o.coords, e, o.groups, func(g *unused) {
			g.broker, g.looks = e.Machine, e.At
		})
	case machine.GroupChanged:
		if g := o.groups[t.Subject]; g != nil && o.coords.observe(e) {
			o.changed(e, t.Subject, g)
		}
	case machine.ZnodeDeleted:
		if topic, ok := parseName(t.Subject, topicsRoot); ok {
			o.renewed[topic] = true
			for _, g := range o.groups { // order: each on its own
				maps.DeleteFunc(g.stored, func(at seat, _ time.Duration) bool { return at.topic == topic })
				maps.DeleteFunc(g.gone, func(at seat, _ *goneOffset) bool { return at.topic == topic })
			}
		}
	case machine.GroupStored, machine.GroupExpired:
		at, ok := parseSeat(t.Subject)
		g := o.groups[at.group]
		if !ok || g == nil || !o.coords.observe(e) {
			return
		}
		switch gone := g.gone[at]; {
		case t.Kind == machine.GroupExpired:
			o.expired(e, g, at)
			g.gone[at] = &goneOffset{at: e.At, commit: g.stored[at]}
			delete(g.stored, at)
		case t.Detail != "" || t.B >= 0:
			g.stored[at] = e.At
			delete(g.gone, at)
		case gone != nil: // it is in the log that was loaded
			o.back(e, at, gone)
			g.stored[at] = gone.commit
			delete(g.gone, at)
		default:
			if _, known := g.stored[at]; !known {
				g.stored[at] = 0 // it is older than its group's end
			}
		}
	}
}

// changed follows whether a group has members.
func (o *Expiry) changed(e *history.Event, name string, g *unused) {
	members := e.Trace.B
	switch {
	case members > 0 && g.since >= 0:
		o.left(e, name, g)
		g.since = none
	case members == 0 && e.Trace.Detail == "Empty" && g.since < 0:
		if e.Trace.A != g.empty.generation { // else it is what the next coordinator finds, of a group whose new members have not got so far that it is in the log
			g.empty = emptied{e.At, e.Trace.A}
		}
		g.since = g.empty.at
	case e.Trace.Detail == "Dead": // its generations begin anew
		g.empty = emptied{generation: none}
	}
	g.members, g.known = members, true
}

// expired judges an offset that goes.
func (o *Expiry) expired(e *history.Event, g *unused, at seat) {
	if o.coords.freed(o.promise, at.group) {
		return
	}
	committed, known := g.stored[at]
	since := max(g.since, committed)
	switch {
	case g.since < 0 && g.members > 0:
		o.Violate(e.At, Retain, "the committed offset %d of %v expires, though the group has %d members who read the topic", e.Trace.A, at, g.members)
	case g.since >= 0 && known && e.At < since+o.promise.OffsetsRetention-10*skew:
		o.Violate(e.At, Retain, "the committed offset %d of %v expires, though the last member went at %v, and the commit is of %v; the limit is %v", e.Trace.A, at, g.since, committed, o.promise.OffsetsRetention)
	}
}

// surely takes note of what must be in the log by now, as nothing has disturbed since it expired.
func (o *Expiry) surely(now time.Duration) {
	for _, g := range o.groups { // order: each on its own
		for _, x := range g.gone { // order: likewise
			x.sure = x.sure || now > x.at+expirySlack && o.quiet.sinceBefore(x.at)
		}
	}
}

// back judges an offset that the next coordinator finds, though it had expired.
func (o *Expiry) back(e *history.Event, at seat, x *goneOffset) {
	if x.sure && !o.coords.freed(o.promise, at.group) {
		o.Violate(e.At, Retain, "%s finds offset %d of %v committed, which expired at %v and was not committed again: nobody wrote down that it is gone", e.Machine, e.Trace.A, at, x.at)
	}
}

// expirySlack is how much later than it could a coordinator may look, as its machine is busy.
const expirySlack = 300 * time.Millisecond

// left judges what a group finds that gets members again.
func (o *Expiry) left(e *history.Event, name string, g *unused) {
	if o.coords.freed(o.promise, name) {
		return
	}
	for _, at := range sortedSeats(g.stored) {
		expires := max(g.since, g.stored[at]) + o.promise.OffsetsRetention
		if by := max(expires, g.looks) + o.promise.OffsetsCheck + expirySlack; e.At > by && !o.renewed[at.topic] {
			o.Violate(e.At, Retain, "the committed offset of %v is still there when the group gets members again, though nobody used it since %v; it should be gone by %v", at, max(g.since, g.stored[at]), by)
			delete(g.stored, at) // told once
		}
	}
}

// Finish has nothing to judge: all is judged when it happens.
func (o *Expiry) Finish(End) {}
