package oracle

import (
	"fmt"
	"slices"
	"time"

	"faultline/sim/machine"
	"faultline/workloads/history"
)

// Ownership judges who hands over records of which partition: OWN1 and OWNALL. The truth is the registry, as the coordination
// service traces its transactions, never what a consumer believes.
//
// Verified, at every record handed over (OWN1):
//   - the consumer's claim stands: it said that it claimed, and has not said since that it released;
//   - at this very moment the owner node of the partition names this consumer, and belongs to the session in which this process
//     last joined; that session lives. Since a node has one owner, two consumers never hand over the same partition in overlapping claims.
//
// Verified as time goes on (OWNALL): a partition whose leader is registered, of a topic that a registered member of the group reads, has
// the owner that it should have (its node names the consumer to whom the paper's division gives it, and that consumer's claim stands) within Promise.OwnedWithin after the last change of the group's members, of brokers or topics, and after the last
// disturbance (fault, crash, start, pause; nothing is judged while one lasts). At the end of a healed or stuck run: now.
//
// Beyond the atlas ([Ruins]): all of it holds until the registry itself is ruined, then nothing of it does.
//
// Not verified: whether the owner makes any progress (Delivery, Liveness); groups without claims (Loner).
type Ownership struct {
	Findings
	promise *Promise
	reg     *registry
	calm    *calm
	joined  map[string]process // by group/consumer
	seats   *known[holder]     // by "g/t/p"

	division map[subscription]map[int32]string // to whom a topic's partitions should belong; looked up when needed
	changed  map[string]time.Duration          // group -> last change of what its division depends on
	unowned  map[seat]time.Duration            // available partitions without owner, since when
	told     map[seat]bool                     // of those, reported
	deadline time.Duration                     // first moment when one of unowned may be overdue; none
}

// process is a consumer's process and the session in which it joined last.
type process struct {
	machine     string
	incarnation int
	session     int64
}

// holder is what a consumer needs to know to hand over, looked up once and good until something changes.
type holder struct {
	at       seat
	claims   []claimedBy
	consumer string // who may hand over, on which process; empty: not looked up
	machine  string
	inc      int
}

// subscription is a topic that a group reads.
type subscription struct{ group, topic string }

type claimedBy struct {
	consumer, machine string
	inc               int
}

// NewOwnership makes the oracle.
func NewOwnership(p *Promise) *Ownership {
	o := &Ownership{
		promise: p, reg: newRegistry(), calm: newCalm(p), joined: map[string]process{}, seats: newKnown[holder](),
		division: map[subscription]map[int32]string{}, changed: map[string]time.Duration{}, unowned: map[seat]time.Duration{}, told: map[seat]bool{}, deadline: none,
	}
	o.Free(p.Ruins.Registry)
	return o
}

// Invariants implements [Oracle].
func (o *Ownership) Invariants() []string { return []string{Own1, OwnAll} }

// Needs implements [history.Selective].
func (*Ownership) Needs() history.Steps { return history.Handing }

// Observe implements [Oracle].
func (o *Ownership) Observe(e *history.Event) {
	if o.deadline >= 0 && e.At > o.deadline {
		o.overdue(e.At)
	}
	if e.Kind == history.Traced {
		o.traced(e)
		return
	}
	if o.calm.observe(e) {
		o.plan()
	}
	if e.Kind == history.MachineCrashed || e.Kind == history.MachineExited {
		for _, h := range o.seats.all {
			h.consumer = ""
			h.claims = slices.DeleteFunc(h.claims, func(c claimedBy) bool { return c.machine == e.Machine })
		}
		o.survey(e.At)
	}
}

func (o *Ownership) traced(e *history.Event) {
	t := &e.Trace
	switch t.Kind {
	case machine.ConsumerHanded:
		if h := o.seats.get(t.Subject); h == nil || h.consumer != t.Detail || h.machine != e.Machine || h.inc != e.Incarnation {
			o.handed(e)
		}
	case machine.ConsumerClaimed:
		if h := o.holder(t.Subject); h != nil {
			h.claims = append(h.claims, claimedBy{t.Detail, e.Machine, e.Incarnation})
			h.consumer = ""
			o.ownerChanged(e.At, h.at)
		}
	case machine.ConsumerReleased:
		if h := o.holder(t.Subject); h != nil {
			h.claims = slices.DeleteFunc(h.claims, func(c claimedBy) bool { return c.consumer == t.Detail && c.machine == e.Machine })
			h.consumer = ""
			o.ownerChanged(e.At, h.at)
		}
	case machine.ConsumerJoined:
		o.joined[t.Subject+"/"+t.Detail] = process{e.Machine, e.Incarnation, t.A}
		o.lookAgain()
	case machine.ConsumerLeft:
		delete(o.joined, t.Subject+"/"+t.Detail)
		o.lookAgain()
	default:
		what, at := o.reg.observe(e)
		switch what {
		case noChange, otherChange:
			return
		case ownerChange:
			o.ownerChanged(e.At, at)
		case memberChange:
			o.changed[at.group] = e.At
			o.survey(e.At)
		case brokerChange, topicChange:
			for i := range o.promise.Groups {
				o.changed[o.promise.Groups[i].Name] = e.At
			}
			o.survey(e.At)
		}
		o.lookAgain()
	}
}

func (o *Ownership) holder(subject string) *holder {
	h := o.seats.get(subject)
	if h == nil {
		at, ok := parseSeat(subject)
		if !ok {
			return nil
		}
		h = &holder{at: at}
		o.seats.set(subject, h)
	}
	return h
}

// lookAgain forgets what was looked up.
func (o *Ownership) lookAgain() {
	for _, h := range o.seats.all {
		h.consumer = ""
	}
}

// handed judges a hand-over, and remembers its seat when all is well.
func (o *Ownership) handed(e *history.Event) {
	t := &e.Trace
	h := o.holder(t.Subject)
	if h == nil {
		return
	}
	if g := o.promise.group(h.at.group); !g.registered() {
		return
	}
	who := claimedBy{t.Detail, e.Machine, e.Incarnation}
	node, owned := o.reg.owners[h.at]
	session, in := o.joined[h.at.group+"/"+t.Detail]
	holds := "nobody owns it"
	if owned {
		holds = fmt.Sprintf("%s owns it (session 0x%x)", node.consumer, node.session)
	}
	fault := ""
	switch {
	case !slices.Contains(h.claims, who):
		fault = "has no claim"
	case !in || session.machine != e.Machine || session.incarnation != e.Incarnation:
		fault = "is not joined to the group"
	case o.reg.sessions[session.session] == nil:
		fault = fmt.Sprintf("has lost its session 0x%x", session.session)
	case !owned || node.consumer != t.Detail || node.session != session.session:
		fault = fmt.Sprintf("is not the owner with its session 0x%x", session.session)
	default:
		h.consumer, h.machine, h.inc = t.Detail, e.Machine, e.Incarnation
		return
	}
	o.Violate(e.At, Own1, "%s on %s is handed offset %d of %v but %s; %s", t.Detail, e.Machine, t.A, h.at, fault, holds)
}

// available reports whether the seat's partition should have an owner.
func (o *Ownership) available(at seat) bool {
	leader := o.reg.leader(at.place)
	if leader == "" {
		return false
	}
	if _, up := o.reg.brokers[leader]; !up {
		return false
	}
	g := o.promise.group(at.group)
	return g.registered() && g.reads(at.topic) && o.reg.subscribed(at.group, at.topic)
}

// divide is the paper's division (section 3.2): partitions and consumers in order, each consumer (one for each of its streams) gets a run of
// neighbours, and those that the division leaves over go to the first consumers, one each. nil: some member's subscription is not understood.
func (o *Ownership) divide(group, topic string) map[int32]string {
	key := subscription{group, topic}
	if d, known := o.division[key]; known {
		return d
	}
	var partitions []int32
	for p := range o.reg.topics[topic] {
		if o.available(seat{group, place{topic, p}}) {
			partitions = append(partitions, p)
		}
	}
	slices.Sort(partitions)
	var consumers []string
	understood := true
	for name, m := range o.reg.members[group] {
		understood = understood && m.topics != nil
		for range m.topics[topic] {
			consumers = append(consumers, name)
		}
	}
	slices.Sort(consumers)
	var d map[int32]string
	if understood && len(consumers) > 0 {
		d = map[int32]string{}
		next := 0
		for i, c := range consumers {
			n := len(partitions) / len(consumers)
			if i < len(partitions)%len(consumers) {
				n++
			}
			for range n {
				d[partitions[next]] = c
				next++
			}
		}
	}
	o.division[key] = d
	return d
}

// owned reports whether the seat has the owner that it should have, and that one knows it.
func (o *Ownership) owned(at seat) bool {
	node, exists := o.reg.owners[at]
	if !exists {
		return false
	}
	if d := o.divide(at.group, at.topic); d != nil && d[at.partition] != node.consumer {
		return false
	}
	h := o.holder(at.String())
	return slices.ContainsFunc(h.claims, func(c claimedBy) bool { return c.consumer == node.consumer })
}

// look notes whether a seat should have an owner and has none.
func (o *Ownership) look(now time.Duration, at seat) {
	if o.available(at) && !o.owned(at) {
		if _, already := o.unowned[at]; !already {
			o.unowned[at] = now
		}
		return
	}
	delete(o.unowned, at)
	delete(o.told, at)
}

func (o *Ownership) ownerChanged(now time.Duration, at seat) {
	o.look(now, at)
	o.plan()
}

// survey looks at every seat anew.
func (o *Ownership) survey(now time.Duration) {
	clear(o.division)
	for at := range o.unowned {
		o.look(now, at)
	}
	for i := range o.promise.Groups {
		g := &o.promise.Groups[i]
		for _, topic := range g.Topics {
			for partition := range o.reg.topics[topic] {
				o.look(now, seat{g.Name, place{topic, partition}})
			}
		}
	}
	o.plan()
}

// state says who the registry thinks is owner.
func (o *Ownership) state(at seat) string {
	if node, exists := o.reg.owners[at]; exists {
		if d := o.divide(at.group, at.topic); d != nil && d[at.partition] != node.consumer {
			return "its node names " + node.consumer + ", but it should go to " + d[at.partition]
		}
		return "its node names " + node.consumer + ", who has no claim"
	}
	return "it has no node"
}

// due is when a seat that is unowned since then becomes overdue, if nothing changes.
func (o *Ownership) due(at seat, since time.Duration) time.Duration {
	return max(since, o.calm.since, o.changed[at.group]) + o.promise.OwnedWithin
}

// plan finds the next moment to look.
func (o *Ownership) plan() {
	o.deadline = none
	if o.promise.OwnedWithin <= 0 || !o.calm.now() {
		return
	}
	for at, since := range o.unowned {
		if o.told[at] {
			continue
		}
		if due := o.due(at, since); o.deadline < 0 || due < o.deadline {
			o.deadline = due
		}
	}
}

// overdue reports the seats that are unowned for too long.
func (o *Ownership) overdue(now time.Duration) {
	for _, at := range sortedSeats(o.unowned) {
		since := o.unowned[at]
		if !o.told[at] && now > o.due(at, since) {
			o.told[at] = true
			o.Violate(now, OwnAll, "%v has not its owner since %v (%s), though nothing disturbs since %v and nothing changed since %v; the limit is %v; members: %v",
				at, since, o.state(at), o.calm.since, o.changed[at.group], o.promise.OwnedWithin, o.list(at.group))
		}
	}
	o.plan()
}

func (o *Ownership) list(group string) []string {
	var names []string
	for name := range o.reg.members[group] {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Waits tells which partition has no owner, "" when every one has.
func (o *Ownership) Waits() string {
	for _, at := range sortedSeats(o.unowned) {
		return "an owner of " + at.String()
	}
	return ""
}

// Finish implements [Oracle].
func (o *Ownership) Finish(end End) {
	if end.Cut {
		return
	}
	if o.deadline >= 0 && end.At >= o.deadline {
		o.overdue(end.At + 1)
	}
	if !o.calm.settled(end, o.promise.HealWithin) {
		return
	}
	for _, at := range sortedSeats(o.unowned) {
		if !o.told[at] {
			o.Violate(end.At, OwnAll, "%v has not its owner at the end of the run, since %v (%s); members: %v", at, o.unowned[at], o.state(at), o.list(at.group))
		}
	}
}
