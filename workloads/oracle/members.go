package oracle

import (
	"slices"
	"strconv"
	"time"

	"faultline/sim/machine"
	"faultline/workloads/history"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Members judges who hands over records of which partition, and who commits, in groups that a broker coordinates: OWN1, OWNALL, GEN. The truth is what the present coordinator
// of a group traces (who is a member, which generation there is, what its stored assignment gives to whom), and the answers on the wire. What a member believes is held against it. The
// present coordinator is the one of the highest leader epoch of the group's partition of the offsets topic: what an earlier one goes on saying does not count.
//
// Verified, at every record handed over (OWN1):
//   - the consumer's claim stands, and nobody claimed the partition after it;
//   - its process is a member of the group at this very moment, by the member id with which it was synced last;
//   - the stored assignment gives the partition to nobody else, and when it gives it to nobody, the last one that gave it to anybody gave it to this member: as long as a partition changes hands nobody may act as its owner but who had it;
//   - the generation in which it was synced is the group's; where members keep their partitions through a rebalance (cooperative), it may be an older one: who misses the answers to its syncs says in each
//     join what it has, and that is given to nobody else.
//
// Verified of every commit (GEN):
//   - one that was acknowledged to a member: at some moment while it was under way its generation was the group's, and it was a member;
//   - one that counts from now on is of no older generation than the stored assignment, and of none that is still to come; and in the generation of the assignment it is of the member to whom that gives the
//     partition, if it does to any.
//
// Verified as time goes on (OWNALL): with a process of the group up, every partition of a topic that it reads belongs, by the stored assignment of a stable group, to a member whose claim on it
// stands, within Promise.OwnedWithin after the last disturbance (fault, crash, start, pause; nothing is judged while one lasts), the last change of topics or coordinator, and the last
// process that came or left. At the end of a healed or stuck run: now.
//
// And a group does not stay stable when one of its members goes: what that one was given would be nobody's. Not judged where members are static ones, who are replaced in their places.
//
// The run does not rest (Liveness tells, LIVE) before every group of which a process is up is stable, every such process is synced in its generation, and every member that the coordinator counts
// is one of these processes.
//
// Beyond the atlas ([Ruins]): all of it holds of a group until its partition of the offsets topic is freed (with one replica: until the disk of a broker that coordinated it is ruined), a wire or the registry is ruined; then nothing of it does.
//
// Not verified: whether the division is a fair one (package assign is tested for that); whether the owner makes any progress (Delivery, Liveness); registry groups (Ownership).
type Members struct {
	Findings
	promise *Promise
	reg     *registry
	calm    *calm
	coords  coordinators
	groups  []*party
	chairs  map[string]*chair // by "g/t/p"

	unowned  map[seat]time.Duration // since when
	told     map[seat]bool
	deadline time.Duration // first moment when one of unowned may be overdue; none
	parted   time.Duration // when a member went from a stable group; none: no group is to be looked at
}

// party is a coordinator group.
type party struct {
	group      *Group
	version    int // rises whenever something changes
	state      string
	generation int64
	stable     int64                    // of the stored assignment; none
	members    map[string]bool          // by member id
	went       map[string]time.Duration // those that were members
	given      map[place]string         // by the stored assignment
	last       map[place]gift           // by the last stored assignment that gave it to anybody
	spans      []genSpan                // which generation there was, from when on
	actors     map[actorKey]*actor      // processes that are up and joined
	moved      time.Duration            // last change of what may make it rebalance
	missing    string                   // the member that went while it was stable, and it has not changed since; empty: none
}

// genSpan is a time in which a group had a generation; it ends where the next begins.
type genSpan struct {
	from       time.Duration
	generation int64
}

// gift is what an assignment gave to a member.
type gift struct {
	member     string
	generation int64
}

type actorKey struct {
	machine     string
	incarnation int
}

// actor is what a process says that it is.
type actor struct {
	member     string // empty: it was never synced
	generation int64
}

// chair is a partition of a group.
type chair struct {
	at     seat
	party  *party
	claims []claimedBy
	last   claimedBy // who claimed last, whatever became of that
	fine   claimedBy // who was found to be the owner, in that version
	ver    int
}

// NewMembers makes the oracle.
func NewMembers(p *Promise) *Members {
	o := &Members{promise: p, reg: newRegistry(), calm: newCalm(p), chairs: map[string]*chair{}, unowned: map[seat]time.Duration{}, told: map[seat]bool{}, deadline: none, parted: none}
	for i := range p.Groups {
		if g := &p.Groups[i]; g.Coordinated {
			o.groups = append(o.groups, &party{group: g, generation: none, stable: none, members: map[string]bool{}, went: map[string]time.Duration{},
				given: map[place]string{}, last: map[place]gift{}, actors: map[actorKey]*actor{}})
		}
	}
	o.Free(p.Ruins.Records)
	return o
}

// Invariants implements [Oracle].
func (o *Members) Invariants() []string { return []string{Own1, OwnAll, Gen} }

// free tells whether nothing is promised of a group any more.
func (o *Members) free(p *party) bool { return o.coords.freed(o.promise, p.group.Name) }

// accuse is Violate of a promise to a group.
func (o *Members) accuse(p *party, at time.Duration, invariant, format string, args ...any) {
	if !o.free(p) {
		o.Violate(at, invariant, format, args...)
	}
}

func (o *Members) party(name string) *party {
	for _, p := range o.groups {
		if p.group.Name == name {
			return p
		}
	}
	return nil
}

// Needs implements [history.Selective].
func (*Members) Needs() history.Steps { return history.Handing }

// Observe implements [Oracle].
func (o *Members) Observe(e *history.Event) {
	if len(o.groups) == 0 {
		return
	}
	if o.deadline >= 0 && e.At > o.deadline {
		o.overdue(e.At)
	}
	if o.parted >= 0 && e.At > o.parted {
		o.unmissed()
	}
	switch e.Kind {
	case history.Traced:
		o.traced(e)
		return
	case history.KafkaCalled:
		o.called(e)
		return
	}
	if o.calm.observe(e) {
		o.plan()
	}
	if e.Kind == history.MachineCrashed || e.Kind == history.MachineExited {
		for _, p := range o.groups {
			o.gone(e, p)
		}
		for _, c := range o.chairs {
			c.claims = slices.DeleteFunc(c.claims, func(c claimedBy) bool { return c.machine == e.Machine })
		}
		o.survey(e.At)
	}
}

// gone notes that a process of the group is no more, or left.
func (o *Members) gone(e *history.Event, p *party) {
	key := actorKey{e.Machine, e.Incarnation}
	if p.actors[key] != nil {
		delete(p.actors, key)
		p.moved = e.At
		p.version++
	}
}

func (o *Members) traced(e *history.Event) {
	t := &e.Trace
	switch t.Kind {
	case machine.ConsumerHanded:
		if c := o.chair(t.Subject); c != nil {
			if who := (claimedBy{t.Detail, e.Machine, e.Incarnation}); c.fine != who || c.ver != c.party.version {
				o.handed(e, c, who)
			}
		}
	case machine.ConsumerClaimed, machine.ConsumerReleased:
		c := o.chair(t.Subject)
		if c == nil {
			return
		}
		c.party.version++
		who := claimedBy{t.Detail, e.Machine, e.Incarnation}
		if t.Kind == machine.ConsumerClaimed {
			c.claims, c.last = append(c.claims, who), who
		} else {
			c.claims = slices.DeleteFunc(c.claims, func(x claimedBy) bool { return x == who })
		}
		o.look(e.At, c.at)
		o.plan()
	case machine.ConsumerRebalance, machine.ConsumerSynced, machine.ConsumerLeft:
		p := o.party(t.Subject)
		if p == nil {
			return
		}
		key := actorKey{e.Machine, e.Incarnation}
		switch a := p.actors[key]; {
		case t.Kind == machine.ConsumerLeft:
			o.gone(e, p)
		case a == nil:
			p.actors[key] = &actor{generation: none}
			p.moved = e.At
		}
		if t.Kind == machine.ConsumerSynced && p.actors[key] != nil {
			*p.actors[key] = actor{t.Detail, t.A}
		}
		p.version++
		o.survey(e.At)
	case machine.GroupsLoaded, machine.GroupChanged, machine.GroupCame, machine.GroupWent, machine.GroupGiven, machine.GroupStored:
		if o.coords.observe(e) {
			o.coordinated(e)
		}
	default:
		switch what, at := o.reg.observe(e); what {
		case topicChange:
			for _, p := range o.groups {
				if p.group.reads(at.topic) || at.topic == offsetsTopic {
					p.moved = e.At
				}
			}
			o.survey(e.At)
		}
	}
}

// coordinated follows the present coordinator of a group.
func (o *Members) coordinated(e *history.Event) {
	t := &e.Trace
	if t.Kind == machine.GroupsLoaded {
		at, _ := parsePlace(t.Subject)
		for _, p := range o.groups {
			if o.coords.of(at.partition, p.group.Name) {
				o.begin(e.At, p)
			}
		}
		o.survey(e.At)
		return
	}
	name := t.Subject
	at, isSeat := parseSeat(t.Subject)
	if isSeat {
		name = at.group
	}
	p := o.party(name)
	if p == nil {
		return
	}
	p.version++
	switch t.Kind {
	case machine.GroupCame:
		p.members[t.Detail] = true
	case machine.GroupWent:
		delete(p.members, t.Detail)
		p.went[t.Detail] = e.At
		if p.state == "Stable" && !p.group.Static {
			p.missing, o.parted = t.Detail, e.At
		}
	case machine.GroupChanged:
		p.state, p.missing = t.Detail, ""
		p.pass(e.At, t.A)
		if t.Detail == "Stable" {
			p.stable = t.A
			clear(p.given)
		}
	case machine.GroupGiven:
		p.given[at.place] = t.Detail
		p.last[at.place] = gift{t.Detail, p.stable}
	case machine.GroupStored:
		if t.B >= 0 && t.Detail != "" && (t.B < p.stable || t.B > p.generation) {
			o.accuse(p, e.At, Gen, "a commit of %s in generation %d counts from now on (offset %d of %v), but the assignment in force is of generation %d, and the group is in %d",
				t.Detail, t.B, t.A, at, p.stable, p.generation)
		}
		if owner, owned := p.given[at.place]; t.B >= 0 && t.B == p.stable && owned && owner != t.Detail {
			o.accuse(p, e.At, Gen, "a commit of %s in generation %d counts from now on (offset %d of %v), but the assignment gives the partition to %s", t.Detail, t.B, t.A, at, owner)
		}
		return
	}
	o.survey(e.At)
}

// begin forgets what an earlier coordinator knew of the group: the new one tells what it found in the log.
func (o *Members) begin(at time.Duration, p *party) {
	for id := range p.members {
		p.went[id] = at
	}
	clear(p.members)
	clear(p.given)
	p.state, p.stable, p.moved, p.missing = "", none, at, ""
	p.pass(at, none)
	p.version++
}

func (p *party) pass(at time.Duration, generation int64) {
	if generation != p.generation || len(p.spans) == 0 {
		p.generation = generation
		p.spans = append(p.spans, genSpan{at, generation})
	}
}

func (o *Members) chair(subject string) *chair {
	c := o.chairs[subject]
	if c == nil {
		at, ok := parseSeat(subject)
		if !ok {
			return nil
		}
		p := o.party(at.group)
		if p == nil {
			return nil
		}
		c = &chair{at: at, party: p}
		o.chairs[subject] = c
	}
	return c
}

// handed judges a hand-over, and remembers its chair when all is well.
func (o *Members) handed(e *history.Event, c *chair, who claimedBy) {
	p := c.party
	a := p.actors[actorKey{e.Machine, e.Incarnation}]
	owner, owned := p.given[c.at.place]
	last := p.last[c.at.place]
	fault := ""
	switch {
	case !slices.Contains(c.claims, who):
		fault = "it has no claim"
	case c.last != who:
		fault = c.last.consumer + " on " + c.last.machine + " claimed it later"
	case a == nil || a.member == "":
		fault = "it was never synced"
	case !p.members[a.member]:
		fault = "it is no member any more: the coordinator has not counted " + a.member + " since " + p.went[a.member].String()
	case owned && owner != a.member:
		fault = "the assignment of generation " + itoa(p.stable) + " gives it to " + owner
	case last.member == "":
		fault = "no assignment ever gave it to anybody"
	case last.member != a.member:
		fault = "generation " + itoa(last.generation) + ", the last that gave it to anybody, gave it to " + last.member
	case p.group.Eager && a.generation != p.generation, a.generation > p.generation:
		fault = "it is in generation " + itoa(a.generation) + ", the group is in " + itoa(p.generation)
	default:
		c.fine, c.ver = who, p.version
		return
	}
	o.accuse(p, e.At, Own1, "%s on %s is handed offset %d of %v, but %s", who.consumer, e.Machine, e.Trace.A, c.at, fault)
}

// called judges an acknowledged commit.
func (o *Members) called(e *history.Event) {
	req, ok := e.Kafka.Req.(*kmsg.OffsetCommitRequest)
	if !ok {
		return
	}
	resp, ok := e.Kafka.Resp.(*kmsg.OffsetCommitResponse)
	p := o.party(req.Group)
	if !ok || p == nil || req.Generation < 0 && req.MemberID == "" || !someStored(resp) {
		return
	}
	start, end := e.Kafka.Start-skew, e.Kafka.End+skew
	switch at, was := p.went[req.MemberID]; {
	case !p.had(int64(req.Generation), start, end):
		o.accuse(p, e.At, Gen, "a commit of %s in generation %d of group %s was taken between %v and %v, when the group was in generation %s", req.MemberID, req.Generation, req.Group, e.Kafka.Start, e.Kafka.End, p.between(start, end))
	case !p.members[req.MemberID] && !was:
		o.accuse(p, e.At, Gen, "a commit of %s, who was never a member of group %s, was taken between %v and %v", req.MemberID, req.Group, e.Kafka.Start, e.Kafka.End)
	case !p.members[req.MemberID] && at < start:
		o.accuse(p, e.At, Gen, "a commit of %s was taken between %v and %v, though it is no member of group %s since %v", req.MemberID, e.Kafka.Start, e.Kafka.End, req.Group, at)
	}
}

func someStored(r *kmsg.OffsetCommitResponse) bool {
	for i := range r.Topics {
		for j := range r.Topics[i].Partitions {
			if r.Topics[i].Partitions[j].ErrorCode == 0 {
				return true
			}
		}
	}
	return false
}

// had reports whether the group had the generation at some moment of a time.
func (p *party) had(generation int64, start, end time.Duration) bool {
	for i, s := range p.spans {
		if s.generation == generation && s.from <= end && (i+1 == len(p.spans) || p.spans[i+1].from >= start) {
			return true
		}
	}
	return false
}

// between lists the generations of a time.
func (p *party) between(start, end time.Duration) string {
	out := "none"
	for i, s := range p.spans {
		if s.from <= end && (i+1 == len(p.spans) || p.spans[i+1].from >= start) {
			if out == "none" {
				out = ""
			} else {
				out += ", "
			}
			out += strconv.FormatInt(s.generation, 10)
		}
	}
	return out
}

// owned reports whether the seat has an owner, and that one knows it.
func (o *Members) owned(p *party, at seat) bool {
	member, given := p.given[at.place]
	c := o.chair(at.String())
	return given && p.state == "Stable" && slices.ContainsFunc(c.claims, func(x claimedBy) bool {
		a := p.actors[actorKey{x.machine, x.inc}]
		return a != nil && a.member == member
	})
}

// look notes whether a seat should have an owner and has none.
func (o *Members) look(now time.Duration, at seat) {
	p := o.party(at.group)
	if _, exists := o.reg.topics[at.topic][at.partition]; exists && len(p.actors) > 0 && !o.owned(p, at) {
		if _, already := o.unowned[at]; !already {
			o.unowned[at] = now
		}
		return
	}
	delete(o.unowned, at)
	delete(o.told, at)
}

// survey looks at every seat anew.
func (o *Members) survey(now time.Duration) {
	for _, at := range sortedSeats(o.unowned) {
		o.look(now, at)
	}
	for _, p := range o.groups {
		for _, topic := range p.group.Topics {
			for partition := range o.reg.topics[topic] { // order: no matter
				o.look(now, seat{p.group.Name, place{topic, partition}})
			}
		}
	}
	o.plan()
}

// unmissed reports the groups that are stable without a member that went a moment ago.
func (o *Members) unmissed() {
	for _, p := range o.groups {
		if p.missing != "" {
			o.accuse(p, o.parted, OwnAll, "group %s stays stable in generation %d without %s, which is no member since %v: what it was given is nobody's", p.group.Name, p.generation, p.missing, o.parted)
			p.missing = ""
		}
	}
	o.parted = none
}

// due is when a seat that is unowned since then becomes overdue, if nothing changes.
func (o *Members) due(at seat, since time.Duration) time.Duration {
	return max(since, o.calm.since, o.party(at.group).moved) + o.promise.OwnedWithin
}

// plan finds the next moment to look.
func (o *Members) plan() {
	o.deadline = none
	if o.promise.OwnedWithin <= 0 || !o.calm.now() {
		return
	}
	for at, since := range o.unowned { // order: the least is the same in any order
		if due := o.due(at, since); !o.told[at] && (o.deadline < 0 || due < o.deadline) {
			o.deadline = due
		}
	}
}

// overdue reports the seats that are unowned for too long.
func (o *Members) overdue(now time.Duration) {
	for _, at := range sortedSeats(o.unowned) {
		if since := o.unowned[at]; !o.told[at] && now > o.due(at, since) {
			o.told[at] = true
			o.accuse(o.party(at.group), now, OwnAll, "%v has no owner since %v (%s), though nothing disturbs since %v and nothing changed since %v; the limit is %v",
				at, since, o.standing(at), o.calm.since, o.party(at.group).moved, o.promise.OwnedWithin)
		}
	}
	o.plan()
}

// standing says why a seat has no owner.
func (o *Members) standing(at seat) string {
	p := o.party(at.group)
	member, given := p.given[at.place]
	switch {
	case p.state != "Stable":
		return "the group is " + p.state + " in generation " + itoa(p.generation)
	case given:
		return member + ", to whom generation " + itoa(p.stable) + " gives it, has no claim"
	}
	return "generation " + itoa(p.stable) + " gives it to nobody"
}

// Waits tells what is still to come before the groups are at rest, "" when they are.
func (o *Members) Waits() string {
	if o.freed != nil && o.freed() {
		return ""
	}
	for _, at := range sortedSeats(o.unowned) {
		if !o.free(o.party(at.group)) {
			return "an owner of " + at.String()
		}
	}
	for _, p := range o.groups {
		if len(p.actors) == 0 || o.free(p) {
			continue
		}
		if p.state != "Stable" {
			return "group " + p.group.Name + " to be stable, which is " + p.state
		}
		known := map[string]bool{}
		for _, key := range p.keys() {
			a := p.actors[key]
			if a.generation != p.generation || !p.members[a.member] {
				return "the process on " + key.machine + " to be a member of group " + p.group.Name
			}
			known[a.member] = true
		}
		for _, id := range namesOf(p.members) {
			if !known[id] {
				return "group " + p.group.Name + " to count out " + id + ", behind whom is no process"
			}
		}
	}
	return ""
}

// keys are the group's processes in order.
func (p *party) keys() []actorKey {
	var keys []actorKey
	for k := range p.actors { // order: sorted below
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b actorKey) int {
		if a.machine != b.machine {
			if a.machine < b.machine {
				return -1
			}
			return 1
		}
		return a.incarnation - b.incarnation
	})
	return keys
}

func namesOf(set map[string]bool) []string {
	var keys []string
	for k := range set { // order: sorted below
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// Finish implements [Oracle].
func (o *Members) Finish(end End) {
	if end.Cut || len(o.groups) == 0 {
		return
	}
	if o.deadline >= 0 && end.At >= o.deadline {
		o.overdue(end.At + 1)
	}
	if o.parted >= 0 && end.At > o.parted {
		o.unmissed()
	}
	if !o.calm.settled(end, o.promise.HealWithin) {
		return
	}
	for _, at := range sortedSeats(o.unowned) {
		if !o.told[at] {
			o.accuse(o.party(at.group), end.At, OwnAll, "%v has no owner at the end of the run, since %v (%s)", at, o.unowned[at], o.standing(at))
		}
	}
}
