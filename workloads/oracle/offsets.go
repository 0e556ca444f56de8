package oracle

import (
	"time"

	"faultline/sim/machine"
	"faultline/workloads/history"
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
// question for a committed offset is below what was acknowledged before it was asked, and none is an offset of which no coordinator said that it counts: what could not be stored is gone with the coordinator. Who may commit
// there (GEN) is for Members to judge.
//
// Verified at the end of a healed run: what the present owner processed is committed within Group.CommitWithin (DUPB: the uncommitted
// window is bounded).
//
// Verified of who parts with a partition in order, its claim good and its requests answered, while nothing disturbs but members that come and go: it commits what it processed before anybody else may have the partition, so
// that nothing of it comes again (DUPB). That is a member that leaves, or that joins again, of a group that commits by itself (Group.Commits).
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
	near    [16]*progress    // by partition: the seat looked up last
	byName  *known[progress] // by "g/t/p"
	logs    *known[extent]   // by "t/p"

	partings partings
}

// NewOffsets makes the oracle. disk may be nil: then the brokers' own events say where a log starts.
func NewOffsets(p *Promise, disk Disk) *Offsets {
	o := &Offsets{promise: p, disk: disk, reg: newRegistry(), calm: newCalm(p), seats: map[seat]*progress{}, logs: newKnown[extent](), byName: newKnown[progress](),
		partings: partings{quiet: newQuiet(p), refused: map[string]time.Duration{}, heard: map[string]time.Duration{}}}
	o.Free(p.Ruins.Registry)
	return o
}

// Invariants implements [Oracle].
func (o *Offsets) Invariants() []string { return []string{CommitP, CMono, Gen, DupB} }

// Needs implements [history.Selective].
func (*Offsets) Needs() history.Steps {
	return history.Processing | history.Handing | history.Appending | history.Requesting
}

// Observe implements [Oracle].
func (o *Offsets) Observe(e *history.Event) {
	if e.Kind != history.Traced && e.Kind != history.Processed {
		o.partingSeen(e)
	}
	switch e.Kind {
	case history.Processed:
		if p := o.find(e.Group, e.Topic, e.Partition); p != nil {
			p.done.add(e.Offset)
			switch counts, may := p.worked(e.Offset); {
			case e.Consumer != p.claimant || e.Offset < p.due:
			case counts:
				p.due, p.moved = e.Offset+1, e.At
			case may:
				p.maybe = max(p.maybe, e.Offset+1)
			}
		}
	case history.Sought:
		if p := o.find(e.Group, e.Topic, e.Partition); p != nil {
			p.done.addRange(p.done.base, e.Offset)
			p.mayGoBack(e.Offset)
			p.begin()
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
		o.givenAnew(place{e.Topic, e.Partition})
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
					p.claimant, p.machine = "", ""
					p.begin()
					p.works, p.belated = nil, nil
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
		p := o.byName.get(t.Subject)
		if p == nil {
			at, _ := parseSeat(t.Subject)
			if p = o.seat(at); p != nil {
				o.byName.set(t.Subject, p)
			}
		}
		if p != nil && p.claimant == t.Detail {
			p.works = append(p.works, t.A)
		}
	case machine.LogAppended, machine.LogOpened, machine.LogDeleted, machine.LogTruncated:
		o.logged(e)
	case machine.ConsumerReset:
		o.reset(e)
	case machine.ConsumerClaimed, machine.ConsumerReleased:
		at, _ := parseSeat(t.Subject)
		switch p := o.seat(at); {
		case p == nil:
		case t.Kind == machine.ConsumerClaimed:
			p.claimant, p.machine, p.parted = t.Detail, e.Machine, nil
			p.begin()
			p.belated, p.works = append(p.belated, p.works...), p.works[:0]
		case p.claimant == t.Detail:
			o.part(e, p)
			p.claimant, p.machine = "", ""
			p.begin()
		}
	case machine.ConsumerCommitted:
		at, ok := parseSeat(t.Subject)
		if p := o.seat(at); ok && p != nil && p.committed < t.A && (p.back() < 0 || p.committed < p.back()) {
			o.Violate(e.At, CMono, "%s committed offset %d of %v and was told so, but the registry has %s", t.Detail, t.A, at, offsetText(p.committed))
		}
	case machine.GroupsLoaded:
		o.groups.observe(e)
	case machine.GroupStored:
		at, ok := parseSeat(t.Subject)
		if p := o.seat(at); ok && p != nil {
			p.counts(t.A)
		}
		if ok && o.groups.observe(e) {
			o.stored(e, at)
		}
	case machine.GroupExpired:
		if at, ok := parseSeat(t.Subject); ok && o.groups.observe(e) {
			if p := o.seat(at); p != nil {
				p.committed, p.sure, p.backs, p.acks, p.expired = none, none, nil, nil, e.At
			}
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
		o.partingTraced(e)
	case machine.ConsumerRebalance, machine.ConsumerLeft:
		o.partingTraced(e)
	default:
		o.reg.observe(e)
	}
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
