package oracle

import (
	"maps"
	"slices"
	"time"

	"faultline/sim/machine"
	"faultline/workloads/history"
)

// Shares judges how the leader of a group that a broker coordinates divides the partitions (BUDGET): what no member may have too much of, and what may not move for nothing. The truth is what the present coordinator of the group
// traces of its stored assignments, and what members trace of their claims.
//
// Verified, of groups whose members all read the same topics, at every assignment that is in force from now on:
//   - it is even: with range no member has two partitions more of a topic than another, with the others (round-robin, sticky, cooperative-sticky) none has two more of all topics. Of cooperative members that is asked when every partition
//     has an owner: one that changes hands is nobody's for a generation;
//   - of sticky and cooperative-sticky: as many partitions stay where they were as an even division allows (KIP-54).
//
// The second is asked when the members could say what they had: the last assignment was in force until a moment ago (less than half of what a member is sure of its membership for), whoever was given something by it and is still
// a member had claimed all of that, topics are as they were, and nothing disturbed since but members that come and go.
//
// Beyond the atlas ([Ruins]): groups whose partition of the offsets topic is freed are not judged.
//
// Not verified: which partitions a member gets, and in which order; registry groups, whose division is the paper's (Ownership).
type Shares struct {
	Findings
	promise *Promise
	quiet   *quiet
	coords  coordinators
	reg     *registry
	topics  time.Duration // when one was made, changed or deleted last
	groups  map[string]*division
	fresh   *division // its assignment is being told
}

// division is what a group's assignments gave.
type division struct {
	group   *Group
	members map[string]bool
	given   map[place]string // by the assignment in force
	since   time.Duration    // since when that is in force; none: there was none of this coordinator
	before  map[place]string // by the one before
	began   time.Duration    // when that was in force from
	ended   time.Duration    // and until when; none: there was none
	whole   bool             // who was given something by that one, and still is a member, had claimed all of it when it ended
	holders map[place]claimedBy
	process map[claimedBy]string // the member id with which a process was synced last
}

// NewShares makes the oracle.
func NewShares(p *Promise) *Shares {
	o := &Shares{promise: p, quiet: newQuiet(p), reg: newRegistry(), groups: map[string]*division{}}
	for i := range p.Groups {
		if g := &p.Groups[i]; g.Coordinated && g.Assignor != "" {
			o.groups[g.Name] = &division{group: g, members: map[string]bool{}, given: map[place]string{}, since: none, ended: none, holders: map[place]claimedBy{}, process: map[claimedBy]string{}}
		}
	}
	o.Free(p.Ruins.Records)
	return o
}

// Invariants implements [Oracle].
func (o *Shares) Invariants() []string { return []string{Budget} }

// Needs implements [history.Selective]. Any event tells that an assignment is whole.
func (*Shares) Needs() history.Steps {
	return history.Appending | history.Committing | history.Requesting
}

// Observe implements [Oracle].
func (o *Shares) Observe(e *history.Event) {
	if len(o.groups) == 0 {
		return
	}
	if o.fresh != nil && (e.Kind != history.Traced || e.Trace.Kind != machine.GroupGiven) {
		o.judge(o.fresh)
		o.fresh = nil
	}
	o.quiet.observe(e)
	switch e.Kind {
	case history.MachineCrashed, history.MachineExited:
		for _, d := range o.groups { // order: each on its own
			maps.DeleteFunc(d.holders, func(_ place, by claimedBy) bool { return by.machine == e.Machine })
		}
	case history.Traced:
		o.traced(e)
	}
}

func (o *Shares) traced(e *history.Event) {
	t := &e.Trace
	switch t.Kind {
	case machine.ConsumerClaimed, machine.ConsumerReleased:
		at, ok := parseSeat(t.Subject)
		d := o.groups[at.group]
		if !ok || d == nil {
			return
		}
		who := claimedBy{"", e.Machine, e.Incarnation}
		switch {
		case t.Kind == machine.ConsumerClaimed:
			d.holders[at.place] = who
		case d.holders[at.place] == who:
			delete(d.holders, at.place)
		}
	case machine.ConsumerSynced:
		if d := o.groups[t.Subject]; d != nil {
			d.process[claimedBy{"", e.Machine, e.Incarnation}] = t.Detail
		}
	case machine.GroupsLoaded:
		loaded(&o.coords, e, o.groups, func(d *division) {
			clear(d.members)
			d.given, d.since, d.ended = map[place]string{}, none, none
		})
	case machine.GroupCame, machine.GroupWent:
		if d := o.groups[t.Subject]; d != nil && o.coords.observe(e) {
			if t.Kind == machine.GroupCame {
				d.members[t.Detail] = true
			} else {
				delete(d.members, t.Detail)
			}
		}
	case machine.GroupChanged:
		if d := o.groups[t.Subject]; d != nil && o.coords.observe(e) {
			o.changed(e, d)
		}
	case machine.GroupGiven:
		if at, ok := parseSeat(t.Subject); ok && o.groups[at.group] != nil && o.coords.observe(e) {
			o.groups[at.group].given[at.place] = t.Detail
		}
	default:
		if what, _ := o.reg.observe(e); what == topicChange {
			o.topics = e.At
		}
	}
}

// changed follows which assignment is in force.
func (o *Shares) changed(e *history.Event, d *division) {
	switch {
	case e.Trace.Detail == "Stable":
		d.given, d.since = map[place]string{}, e.At
		o.fresh = d
	case d.since >= 0: // the one in force ends
		d.before, d.began, d.ended, d.since = d.given, d.since, e.At, none
		d.given = map[place]string{} // what a static member that came back is told now it has not claimed
		d.whole = true
		for at, member := range d.before { // order: no matter
			holder, held := d.holders[at]
			d.whole = d.whole && (!d.members[member] || held && d.process[holder] == member)
		}
	}
}

// judge looks at the assignment that was told just now.
func (o *Shares) judge(d *division) {
	if len(d.members) == 0 || o.coords.freed(o.promise, d.group.Name) {
		return
	}
	all := 0
	for _, topic := range d.group.Topics {
		all += len(o.reg.topics[topic])
	}
	if !(d.group.Assignor == "cooperative-sticky" && len(d.given) < all) {
		o.even(d)
	}
	sticks := d.group.Assignor == "sticky" || d.group.Assignor == "cooperative-sticky"
	soon := min(d.group.SessionTimeout, d.group.RebalanceWithin) / 2
	if sticks && d.ended >= 0 && d.whole && d.since < d.ended+soon && o.topics < d.began && o.quiet.sinceBefore(d.began) {
		o.stays(d, all)
	}
}

// even compares the members' shares.
func (o *Shares) even(d *division) {
	byTopic := d.group.Assignor == "range"
	shares := map[string]map[string]int{} // topic (or all) -> member -> partitions
	for at, member := range d.given {     // order: counted
		topic := "all topics"
		if byTopic {
			topic = at.topic
		}
		if shares[topic] == nil {
			shares[topic] = map[string]int{}
		}
		shares[topic][member]++
	}
	for _, topic := range slices.Sorted(maps.Keys(shares)) {
		var most, least string
		for _, m := range namesOf(d.members) {
			if most == "" || shares[topic][m] > shares[topic][most] {
				most = m
			}
			if least == "" || shares[topic][m] < shares[topic][least] {
				least = m
			}
		}
		if x, y := shares[topic][most], shares[topic][least]; x > y+1 {
			o.Violate(d.since, Budget, "the assignment of group %s (%s) gives %s %d partitions of %s and %s %d", d.group.Name, d.group.Assignor, most, x, topic, least, y)
		}
	}
}

// stays compares how many partitions stay with their members with how many could.
func (o *Shares) stays(d *division, all int) {
	total := len(d.given)
	if d.group.Assignor == "cooperative-sticky" {
		total = all // those that change hands are nobody's for now
	}
	had := map[string]int{}
	stayed := 0
	for at, member := range d.before { // order: counted
		if d.members[member] {
			had[member]++
		}
		if d.given[at] == member {
			stayed++
		}
	}
	least, more := total/len(d.members), total%len(d.members)
	could := 0
	for _, n := range had { // order: counted
		could += min(n, least)
		if n > least && more > 0 {
			could++
			more--
		}
	}
	if stayed < could {
		o.Violate(d.since, Budget, "the assignment of group %s (%s) leaves %d of %d partitions where they were; an even one could have left %d", d.group.Name, d.group.Assignor, stayed, len(d.before), could)
	}
}

// Finish judges the last assignment.
func (o *Shares) Finish(End) {
	if o.fresh != nil {
		o.judge(o.fresh)
		o.fresh = nil
	}
}
