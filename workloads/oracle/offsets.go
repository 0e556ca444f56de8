package oracle

import (
	"time"

	"faultline/sim/machine"
	"faultline/workloads/history"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Offsets judges committed offsets: C<=P, CMONO, GEN, and DUPB at the end. The truth is the offset's znode, as the coordination service
// traces its transactions; what consumers say that they committed is held against it.
//
// Verified, at every change of a committed offset:
//   - C<=P (at-least-once): it is at most the first offset that no member of the group has processed. Offsets that retention deleted before a
//     reset, that compaction took, that reset=largest leaves out, or that a seek leaps over count as processed, and no others;
//   - CMONO: it does not go back, unless a seek or a log that lost its end took the group back, and its node does not vanish while
//     the topic exists; a commit that a consumer reports as acknowledged is there;
//   - GEN: the partition has an owner then, and when the tap shows whose request it was, that session is the owner's.
//
// In a group that a broker coordinates the truth of C<=P and CMONO is what its present coordinator traces as stored, or as found when it began; and on the wire, no answer to a
// question for a committed offset is below what was acknowledged before it was asked. Who may commit there (GEN) is for Members to judge.
//
// Verified at the end of a healed run: what the present owner processed is committed within Group.CommitWithin (DUPB: the uncommitted
// window is bounded).
//
// With at-most-once, which commits first, C<=P says that nothing is committed that the log does not hold yet.
//
// After an unclean election, where a topic allows it, the log gives offsets out anew: C<=P and CMONO are not judged for it from then on.
//
// Beyond the atlas ([Ruins]): a log that was on a ruined disk may have given offsets out anew, so C<=P and CMONO are not judged for it from then on; nor
// are they for any log when a wire changes bytes. That nobody but the owner commits (GEN) holds until the registry is ruined.
//
// Not verified: groups without claims (Loner).
type Offsets struct {
	Findings
	promise *Promise
	disk    Disk
	reg     *registry
	groups  coordinators
	calm    *calm
	seats   map[seat]*progress
	near    [16]*progress // by partition: the seat looked up last
	logs    map[string]*extent
}

// progress is how far a group is in a partition.
type progress struct {
	seat
	group     *Group
	done      window         // processed, or legally left out
	claimant  string         // the consumer whose claim is the latest; empty when it gave it up or is gone
	machine   string         // and where it runs
	due       int64          // it processed everything below since it claimed, and should commit that; none
	moved     time.Duration  // since when
	committed int64          // none
	sure      int64          // the last commit that was surely stored; none
	acks      []acknowledged // coordinator group: commits that were acknowledged, as far as an answer may still be older
	back      int64          // commits may go back as far as this; none
	last      commit
}

// commit is the last change of a committed offset.
type commit struct {
	at    time.Duration
	value int64
	owner int64 // session of the partition's owner then
}

// extent is where a log starts and ends.
type extent struct {
	start, end int64
	broker     string
	ruined     bool // its disk was, or it is freed: it may give offsets out anew
	several    bool // replicas
}

// NewOffsets makes the oracle. disk may be nil: then the brokers' own events say where a log starts.
func NewOffsets(p *Promise, disk Disk) *Offsets {
	o := &Offsets{promise: p, disk: disk, reg: newRegistry(), calm: newCalm(p), seats: map[seat]*progress{}, logs: map[string]*extent{}}
	o.Free(p.Ruins.Registry)
	return o
}

// Invariants implements [Oracle].
func (o *Offsets) Invariants() []string { return []string{CommitP, CMono, Gen, DupB} }

// Needs implements [history.Selective].
func (*Offsets) Needs() history.Steps { return history.Processing | history.Handing }

// Observe implements [Oracle].
func (o *Offsets) Observe(e *history.Event) {
	switch e.Kind {
	case history.Processed:
		if p := o.find(e.Group, e.Topic, e.Partition); p != nil {
			p.done.add(e.Offset)
			if e.Consumer == p.claimant && e.Offset >= p.due {
				p.due, p.moved = e.Offset+1, e.At
			}
		}
	case history.Sought:
		if p := o.find(e.Group, e.Topic, e.Partition); p != nil {
			p.done.addRange(p.done.base, e.Offset)
			p.mayGoBack(e.Offset)
		}
	case history.Traced:
		o.traced(e)
	case history.CoordCalled:
		o.called(e)
	case history.KafkaCalled:
		o.recalled(e)
	case history.MachineWiped:
		o.ruin(e.Machine)
	case history.PartitionRuined:
		subject := place{e.Topic, e.Partition}.String()
		if o.logs[subject] == nil {
			o.logs[subject] = &extent{several: true}
		}
		o.logs[subject].ruined = true
	case history.MachineRuined:
		if e.Text == "bytes" {
			o.ruin(e.Machine)
		}
	default:
		if e.Kind == history.MachineCrashed && o.promise.Ruins.Took(e.Machine) {
			o.ruin(e.Machine)
		}
		if e.Kind == history.MachineCrashed || e.Kind == history.MachineExited {
			for _, p := range o.seats {
				if p.machine == e.Machine {
					p.claimant, p.machine, p.due = "", "", none
				}
			}
		}
		o.calm.observe(e)
	}
}

func (o *Offsets) traced(e *history.Event) {
	t := &e.Trace
	switch t.Kind {
	case machine.ConsumerHanded:
	case machine.LogAppended, machine.LogOpened, machine.LogDeleted, machine.LogTruncated:
		l := o.logs[t.Subject]
		if l == nil {
			at, _ := parsePlace(t.Subject)
			l = &extent{several: o.promise.Replicated(at.topic), ruined: o.promise.Ruins.of(at)}
			o.logs[t.Subject] = l
		}
		if l.broker != e.Machine {
			l.broker = e.Machine
			l.ruined = l.ruined || !l.several && o.promise.Ruins.Decays(e.Machine)
		}
		switch t.Kind {
		case machine.LogOpened:
			if l.several {
				l.end = max(l.end, t.B)
			} else {
				l.start, l.end = t.A, t.B
			}
		case machine.LogDeleted:
			l.start = max(l.start, t.B)
		case machine.LogTruncated:
			if !l.several {
				l.end = t.B
			}
		default:
			l.end = max(l.end, t.B)
		}
	case machine.ConsumerReset:
		o.reset(e)
	case machine.ConsumerClaimed, machine.ConsumerReleased:
		at, _ := parseSeat(t.Subject)
		switch p := o.seat(at); {
		case p == nil:
		case t.Kind == machine.ConsumerClaimed:
			p.claimant, p.machine, p.due = t.Detail, e.Machine, none
		case p.claimant == t.Detail:
			p.claimant, p.machine, p.due = "", "", none
		}
	case machine.ConsumerCommitted:
		at, ok := parseSeat(t.Subject)
		if p := o.seat(at); ok && p != nil && p.committed < t.A && (p.back < 0 || p.committed < p.back) {
			o.Violate(e.At, CMono, "%s committed offset %d of %v and was told so, but the registry has %s", t.Detail, t.A, at, offsetText(p.committed))
		}
	case machine.GroupsLoaded:
		o.groups.observe(e)
	case machine.GroupStored:
		if at, ok := parseSeat(t.Subject); ok && o.groups.observe(e) {
			o.stored(e, at)
		}
	case machine.ZnodeCreated, machine.ZnodeSet, machine.ZnodeDeleted:
		at, ok := parseSeatPath(t.Subject, "offsets")
		if topic, ok := ParseStatePath(t.Subject); ok {
			o.decided(topic, ParseStates(t.Detail))
		}
		switch what, where := o.reg.observe(e); {
		case what == topicChange && t.Kind == machine.ZnodeDeleted:
			o.removeTopic(where.topic)
		case ok && what == otherChange:
			o.committed(e, at)
		}
	default:
		o.reg.observe(e)
	}
}

// find returns the progress of a promised group with claims, or nil.
func (o *Offsets) find(group, topic string, partition int32) *progress {
	p := o.near[partition&15]
	if p != nil && p.partition == partition && p.seat.group == group && p.topic == topic {
		return p
	}
	if p = o.seat(seat{group, place{topic, partition}}); p != nil {
		o.near[partition&15] = p
	}
	return p
}

func (o *Offsets) seat(at seat) *progress {
	p := o.seats[at]
	if p == nil {
		g := o.promise.group(at.group)
		if g == nil || g.Loner || o.promise.Incarnations.Dead(at.topic) {
			return nil
		}
		p = &progress{seat: at, group: g, due: none, committed: none, sure: none, back: none}
		o.seats[at] = p
	}
	return p
}

func (p *progress) mayGoBack(to int64) {
	if p.back < 0 || to < p.back {
		p.back = to
	}
}

// reset follows a consumer to a new position and notes what it may leave out.
func (o *Offsets) reset(e *history.Event) {
	t := &e.Trace
	at, ok := parseSeat(t.Subject)
	p := o.seat(at)
	if !ok || p == nil {
		return
	}
	p.due = none // what it left out need not be committed before something follows
	from, to := t.A, t.B
	start, end := o.extent(at.place)
	first := from < 0
	if first {
		from = p.done.base
	}
	switch {
	case !first && to < from:
		if from > end {
			p.mayGoBack(to)
		}
	case p.group.Reset == Largest && (first || from < start):
		p.done.addRange(from, to)
	default:
		p.done.addRange(from, min(to, start))
	}
}

// decided notes where an unclean election lets offsets be given out anew.
func (o *Offsets) decided(topic string, now []PartitionState) {
	t := o.promise.topic(topic)
	if t == nil || !t.Unclean {
		return
	}
	was := o.reg.states[topic]
	for i := range now {
		if i < len(was) && was[i].Unclean(&now[i]) {
			subject := place{topic, int32(i)}.String()
			if o.logs[subject] == nil {
				o.logs[subject] = &extent{several: true}
			}
			o.logs[subject].ruined = true
		}
	}
}

// ruin notes that the logs on a machine may give offsets out anew.
func (o *Offsets) ruin(machine string) {
	for _, l := range o.logs {
		l.ruined = l.ruined || !l.several && l.broker == machine
	}
}

// loose reports whether offsets of the partition need not mean the records that they once did.
func (o *Offsets) loose(at place) bool {
	l := o.logs[at.String()]
	return l != nil && l.ruined || o.promise.Ruins.Records()
}

func (o *Offsets) extent(at place) (start, end int64) {
	if l := o.logs[at.String()]; l != nil {
		start, end = l.start, l.end
	}
	if o.disk != nil {
		if _, exists := o.reg.topics[at.topic]; exists {
			start = max(start, o.disk.LogStart(at.topic, at.partition))
		}
	}
	return start, end
}

// committed judges a change of the offset's znode.
func (o *Offsets) committed(e *history.Event, at seat) {
	p := o.seat(at)
	if p == nil {
		return
	}
	t := &e.Trace
	if t.Kind == machine.ZnodeDeleted {
		if p.committed >= 0 {
			o.Violate(e.At, CMono, "the committed offset %d of %v vanished: its node was deleted", p.committed, at)
		}
		p.committed, p.sure = none, none
		return
	}
	v, ok := parseOffset(t.Detail)
	if !ok || v < 0 {
		o.Violate(e.At, CMono, "the committed offset of %v became %q, which is no offset", at, t.Detail)
		return
	}
	o.moves(e, p, v)
	own, owned := o.reg.owners[at]
	if !owned {
		o.Violate(e.At, Gen, "offset %d of %v is committed while nobody owns the partition", v, at)
	}
	p.last = commit{at: e.At, value: v, owner: own.session}
}

// stored judges a commit that a group coordinator stored.
func (o *Offsets) stored(e *history.Event, at seat) {
	p := o.seat(at)
	if p == nil || !p.group.Coordinated {
		return
	}
	if e.Trace.A < 0 {
		o.Violate(e.At, CMono, "the committed offset of %v became %d, which is no offset", at, e.Trace.A)
		return
	}
	if e.Trace.B < 0 && e.Trace.Detail == "" && e.Trace.A >= p.sure {
		// As a new coordinator found it. It may be a commit that nobody was told of, and that the next one does not find.
		sure := p.sure
		o.moves(e, p, e.Trace.A)
		p.sure = sure
		return
	}
	o.moves(e, p, e.Trace.A)
}

// moves judges that the committed offset of a seat is v now.
func (o *Offsets) moves(e *history.Event, p *progress, v int64) {
	at := p.seat
	loose := o.loose(at.place)
	switch {
	case v >= p.sure:
	case p.back >= 0 && v >= p.back:
		p.back, p.acks = none, nil
	case !loose:
		o.Violate(e.At, CMono, "the committed offset of %v went back from %d to %d", at, p.sure, v)
	}
	p.sure = v
	for v > p.done.base && o.disk != nil && o.promise.Compacts(at.topic) && o.disk.Compacted(at.topic, at.partition, p.done.base) {
		p.done.moveBase(p.done.base + 1)
	}
	if p.group.Delivery == AtLeastOnce && v > p.done.base {
		if !loose {
			o.Violate(e.At, CommitP, "offset %d of %v is committed, but offset %d was never processed", v, at, p.done.base)
		}
		p.done.moveBase(min(v, p.done.base+windowLimit)) // told once
	}
	if _, end := o.extent(at.place); p.group.Delivery == AtMostOnce && end > 0 && v > end && v > p.committed && !loose {
		o.Violate(e.At, CommitP, "offset %d of %v is committed, but the log ends at %d: what comes next is lost without being handed over", v, at, end)
	}
	p.committed = v
}

// called holds an acknowledged request against the owner at the time when it took effect.
func (o *Offsets) called(e *history.Event) {
	c := e.Coord
	if c.Err != nil {
		return
	}
	if c.Op == "multi" {
		for i := range c.Ops {
			o.wrote(e, &c.Ops[i])
		}
		return
	}
	o.wrote(e, c)
}

func (o *Offsets) wrote(e *history.Event, op *history.CoordCall) {
	if op.Op != "set" && op.Op != "create" {
		return
	}
	at, ok := parseSeatPath(op.Path, "offsets")
	at.topic = o.promise.Incarnations.Last(at.topic)
	p := o.seat(at)
	if !ok || p == nil {
		return
	}
	v, ok := parseOffset(string(op.Data))
	last := &p.last
	if !ok || last.value != v || last.at < e.Coord.Start || last.at > e.Coord.End || last.owner == 0 || last.owner == e.Coord.Session {
		return
	}
	o.Violate(e.At, Gen, "%s committed offset %d of %v with session 0x%x at %v, when session 0x%x owned the partition",
		e.Machine, v, at, e.Coord.Session, last.at, last.owner)
	last.owner = 0 // told once
}

// acknowledged is a commit that a consumer was told of.
type acknowledged struct {
	at    time.Duration
	value int64
}

// recalled holds what a group coordinator says is committed against what it, or an earlier one, acknowledged before it was asked.
func (o *Offsets) recalled(e *history.Event) {
	switch resp := e.Kafka.Resp.(type) {
	case *kmsg.OffsetCommitResponse:
		req, ok := e.Kafka.Req.(*kmsg.OffsetCommitRequest)
		for i := range resp.Topics {
			for j := range resp.Topics[i].Partitions {
				if ok && i < len(req.Topics) && j < len(req.Topics[i].Partitions) && resp.Topics[i].Partitions[j].ErrorCode == 0 {
					o.acknowledged(e, req.Group, req.Topics[i].Topic, &req.Topics[i].Partitions[j])
				}
			}
		}
	case *kmsg.OffsetFetchResponse:
		for i := range resp.Groups {
			for j := range resp.Groups[i].Topics {
				t := &resp.Groups[i].Topics[j]
				for k := range t.Partitions {
					if p := &t.Partitions[k]; p.ErrorCode == 0 {
						o.recall(e, seat{resp.Groups[i].Group, place{t.Topic, p.Partition}}, p.Offset)
					}
				}
			}
		}
	}
}

func (o *Offsets) acknowledged(e *history.Event, group, topic string, c *kmsg.OffsetCommitRequestTopicPartition) {
	p := o.seat(seat{group, place{topic, c.Partition}})
	if p == nil || !p.group.Coordinated {
		return
	}
	if len(p.acks) > 64 { // no answer is so old
		p.acks = append(p.acks[:0], p.acks[len(p.acks)-32:]...)
	}
	p.acks = append(p.acks, acknowledged{e.At, c.Offset})
}

func (o *Offsets) recall(e *history.Event, at seat, offset int64) {
	p := o.seat(at)
	if p == nil || !p.group.Coordinated || o.loose(at.place) {
		return
	}
	least := acknowledged{value: none}
	for _, a := range p.acks {
		if a.at < e.Kafka.Start-skew {
			least = a
		}
	}
	if offset < least.value && (p.back < 0 || offset < p.back) {
		o.Violate(e.At, CMono, "%s asked for the committed offset of %v at %v and was told %s, though %d was acknowledged at %v", e.Machine, at, e.Kafka.Start, offsetText(offset), least.value, least.at)
		p.acks = nil // told once
	}
}

// removeTopic forgets a deleted topic's offsets: its next namesake begins anew.
func (o *Offsets) removeTopic(topic string) {
	for at := range o.seats {
		if at.topic == topic {
			delete(o.seats, at)
		}
	}
	o.near = [16]*progress{}
}

func offsetText(o int64) string {
	if o < 0 {
		return "none"
	}
	return itoa(o)
}

// uncommitted reports whether a commit is due that has not come yet.
func (p *progress) uncommitted() bool {
	return p.group.CommitWithin > 0 && p.group.Delivery == AtLeastOnce && p.committed < p.due
}

// Waits tells what is still to be committed, "" when nothing is.
func (o *Offsets) Waits() string {
	for _, at := range sortedSeats(o.seats) {
		if o.seats[at].uncommitted() {
			return "a commit of " + at.String()
		}
	}
	return ""
}

// Finish implements [Oracle].
func (o *Offsets) Finish(end End) {
	if end.Cut || end.Trouble != "" || o.calm.heal < 0 || !o.calm.now() {
		return
	}
	for _, at := range sortedSeats(o.seats) {
		p := o.seats[at]
		since := max(p.moved, o.calm.since)
		if within := p.group.CommitWithin; p.uncommitted() && end.At > since+within {
			o.Violate(end.At, DupB, "%s processed everything below offset %d of %v by %v, but the committed offset is %s; the limit is %v",
				p.claimant, p.due, at, p.moved, offsetText(p.committed), within)
		}
	}
}
