package oracle

import (
	"slices"
	"time"

	"faultline/sim/machine"
	"faultline/workloads/history"
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
// And who is gone is missed: while nothing disturbs the brokers, no group stays stable for longer than a session (and goneSlack) with a member whose process is gone (LIVE).
//
// And who works on one record for longer than Group.MaxPoll does not stay a member, for its partitions stand still: within slowSlack it is none any more, when nothing disturbs but members that come and go, and the group is stable
// (KIP-62). Not judged of static members, who have their session to come back, and of applications that work on several records at a time.
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
	quiet   *quiet
	coords  coordinators
	groups  []*party
	chairs  map[string]*chair // by "g/t/p"

	unowned  map[seat]time.Duration // since when
	told     map[seat]bool
	deadline time.Duration // first moment when one of unowned may be overdue; none
	parted   time.Duration // when a member went from a stable group; none: no group is to be looked at
	servers  *servers
	ghosts   []ghost
}

// NewMembers makes the oracle.
func NewMembers(p *Promise) *Members {
	o := &Members{promise: p, reg: newRegistry(), calm: newCalm(p), quiet: newQuiet(p), servers: newServers(p), chairs: map[string]*chair{}, unowned: map[seat]time.Duration{}, told: map[seat]bool{}, deadline: none, parted: none}
	for i := range p.Groups {
		if g := &p.Groups[i]; g.Coordinated {
			o.groups = append(o.groups, &party{group: g, generation: none, stable: none, members: map[string]bool{}, went: map[string]time.Duration{},
				given: map[place]string{}, last: map[place]gift{}, actors: map[actorKey]*actor{}, working: map[workplace]time.Duration{}})
		}
	}
	o.Free(p.Ruins.Records)
	return o
}

// Invariants implements [Oracle].
func (o *Members) Invariants() []string { return []string{Own1, OwnAll, Gen, Live} }

// Needs implements [history.Selective].
func (*Members) Needs() history.Steps {
	return history.Handing | history.Processing | history.Requesting
}

// free tells whether nothing is promised of a group any more.
func (o *Members) free(p *party) bool { return o.coords.freed(o.promise, p.group.Name) }

// accuse is Violate of a promise to a group.
func (o *Members) accuse(p *party, at time.Duration, invariant, format string, args ...any) {
	if !o.free(p) {
		o.Violate(at, invariant, format, args...)
	}
}

// Observe implements [Oracle].
func (o *Members) Observe(e *history.Event) {
	if o.deadline >= 0 && e.At > o.deadline {
		o.overdue(e.At)
	}
	if o.parted >= 0 && e.At > o.parted {
		o.unmissed()
	}
	if len(o.ghosts) > 0 {
		o.haunted(e.At)
	}
	o.quiet.observe(e)
	o.servers.observe(e)
	switch e.Kind {
	case history.Traced:
		o.traced(e)
		return
	case history.Processed:
		o.processed(e)
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
			o.departed(e.At, p, actorKey{e.Machine, e.Incarnation})
			o.gone(e, p)
		}
		for _, c := range o.chairs {
			c.claims = slices.DeleteFunc(c.claims, func(c claimedBy) bool { return c.machine == e.Machine })
		}
		o.survey(e.At)
	}
}

func (o *Members) traced(e *history.Event) {
	t := &e.Trace
	switch t.Kind {
	case machine.ConsumerHanded:
		if c := o.chair(t.Subject); c != nil {
			c.party.begun(e, c.at.place)
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
