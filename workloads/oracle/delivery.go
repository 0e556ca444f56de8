package oracle

import (
	"math"

	"faultline/sim/machine"
	"faultline/workloads/history"
)

// Delivery judges what becomes of records: DELIVER, ORDER, IDEMP, DUPB, DIRTY, and BUDGET for late ones.
//
// Verified, while the run goes on:
//   - what a group processes was sent, to that topic, byte for byte (hash), and was not reported as failed;
//   - an offset holds one record, for all groups and for the producer's acknowledgement; a record is in one partition;
//   - ORDER: acked offsets of an ordered producer follow its order in each partition; a claim hands over offset after offset from
//     where it starts, but for a seek or a reset;
//   - what a reset or the start of a claim leaves out was deleted by retention, or the mode allows it (largest, seek);
//   - DUPB: nothing below the offset that was committed when the owner claimed is handed over again; with at-most-once nothing is handed
//     over twice, or before it is committed;
//   - DUPB: a record that was acked without any retry is at one offset (a retry shows as such, and only that may put a second copy into the log);
//   - a process of a producer that ends regularly has told the outcome of everything that it sent, once;
//   - IDEMP: a record of an idempotent producer is at one offset, or at two between which a replica began anew ([Begun]);
//   - DIRTY: nothing is handed over that its broker does not yet show;
//   - BUDGET: a record is processed within Promise.Late.
//
// Verified at the end: every acked record that is still within retention reached every group that reads its topic, as far as
// acks and delivery mode owe it, and was not compacted away, which Compaction judges: with acks=1 a power loss or a disk error of the broker may take what was not
// visible, at-most-once may lose what it committed.
//
// Of a topic with several replicas what is visible is what some leader told to be committed. A record with acks=1 is owed once a group has seen it, or while the leader stays: another leader
// need not have it, and the old one may go on until it knows. After an unclean election, where the topic allows it, the same is true of all records from the
// new leader's high watermark on, and offsets are given out anew.
//
// Beyond the atlas ([Ruins]): a log on a ruined disk may lose any record that was sent before the ruin was over, and give its offset out anew; that a group
// skips or repeats such offsets is then no violation. What is sent later is owed again, unless the broker refuses to open the log. Of a partition with several replicas nothing is owed
// from the moment on at which it is freed, and nothing is freed by what happens to one of its disks. On a wire that changes bytes nothing is owed. Always held against the run:
// what is processed was sent, byte for byte, to that topic unless a wire changes bytes.
//
// Of topics of one name, one after the other, each is judged for itself; see [Incarnations] for what is not promised of records that were under way meanwhile.
//
// Not verified: who is the owner (Ownership), commits (Offsets), that retention deletes only what it may (RET), that logs keep what
// was synced when nobody reads it any more (REC). A record of which every group has processed and committed is forgotten: if it
// comes again, only DUPB can show it.
type Delivery struct {
	Findings
	promise *Promise
	disk    Disk

	sources []*source
	topics  map[string]*topicLog
	deleted map[string]*topicLog
	marks   int // parts numbered so far

	coord  history.Applied
	groups coordinators
	gaveUp func(e *history.Event, r *record) // a record failed, or nobody knows; nil: nobody wants to hear
	states map[string][]PartitionState       // by the path of its node
	paths  *known[seatLog]                   // by "g/t/p"
	logs   *known[partLog]                   // by "t/p", what events called so
	near   [16]*seatLog                      // by partition: the seat looked up last

	stats Stats
	steps int
}

// Stats counts records.
type Stats struct {
	Sent, Acked, Failed, Unknown int64
	Delivered                    int64 // first deliveries, over all groups
	Duplicates                   int64 // further deliveries, over all groups
}

// NewDelivery makes the oracle. disk may be nil: then the brokers' own events say where a log starts.
func NewDelivery(p *Promise, disk Disk) *Delivery {
	d := &Delivery{promise: p, disk: disk, topics: map[string]*topicLog{}, deleted: map[string]*topicLog{}, states: map[string][]PartitionState{}, paths: newKnown[seatLog](), logs: newKnown[partLog]()}
	d.Free(p.Ruins.Records)
	return d
}

// Invariants implements [Oracle].
func (d *Delivery) Invariants() []string { return []string{Deliver, Order, Idemp, DupB, Dirty, Budget} }

// Stats counts what was seen so far.
func (d *Delivery) Stats() Stats { return d.stats }

// Needs implements [history.Selective].
func (*Delivery) Needs() history.Steps { return history.AllSteps &^ history.Requesting }

// Observe implements [Oracle].
func (d *Delivery) Observe(e *history.Event) {
	switch e.Kind {
	case history.Sent:
		d.sent(e)
	case history.Acked:
		d.acked(e)
	case history.Failed:
		d.failed(e)
	case history.Unknown:
		if r := d.outcome(e); r != nil {
			r.state = unknown
			d.stats.Unknown++
			if d.gaveUp != nil {
				d.gaveUp(e, r)
			}
		}
	case history.Processed:
		d.processed(e)
	case history.Sought:
		d.sought(e)
	case history.Traced:
		d.traced(e)
	case history.MachineCrashed, history.MachineExited:
		d.learnt(e.At, e.Machine, nil)
		d.lose(e.Machine, func(p *partLog) { p.closed = true })
		if e.Kind == history.MachineExited && e.Text == "" {
			d.untold(e)
		}
		d.gone(e)
		if e.Power {
			d.lose(e.Machine, func(p *partLog) {
				took := !p.several && d.promise.Ruins.Took(e.Machine)
				if p.lose(e.At, took, p.sure); took {
					p.sure = math.MaxInt64
				}
			})
		}
	case history.MachineWiped:
		d.lose(e.Machine, func(p *partLog) {
			if p.several {
				return // there are other copies, or it is freed
			}
			p.lose(e.At, true, 0)
			p.start, p.end, p.visible, p.sure = 0, 0, none, math.MaxInt64
		})
	case history.MachineRuined:
		switch e.Text {
		case "bytes":
			d.lose(e.Machine, func(p *partLog) { p.decay() })
		case "flushes":
			d.lose(e.Machine, func(p *partLog) { p.sure = min(p.sure, max(p.visible, 0)) })
		}
	case history.PartitionRuined:
		d.ruin(e.Topic, e.Partition)
	case history.MachineMended:
		if !d.promise.Ruins.Decays(e.Machine) {
			d.lose(e.Machine, func(p *partLog) { p.mend(e.At) })
		}
	}
	if d.steps++; d.steps&4095 == 0 {
		d.forget()
	}
}

func (d *Delivery) traced(e *history.Event) {
	t := &e.Trace
	switch t.Kind {
	case machine.ConsumerHanded:
		d.handed(e)
	case machine.LogAppended, machine.LogVisible, machine.LogOpened, machine.LogDeleted, machine.LogTruncated, machine.LogFailed, machine.HighWatermark, machine.LeaderBegan:
		d.logged(e)
	case machine.ConsumerClaimed:
		d.claimed(e)
	case machine.ConsumerReset:
		d.reset(e)
	case machine.ProducerRetry:
		d.retried(e)
	case machine.ConsumerReleased:
		if s := d.bySubject(t.Subject); s != nil {
			s.drop(func(c *claimant) bool { return c.consumer == t.Detail })
		}
	case machine.GroupsLoaded:
		d.groups.observe(e)
	case machine.GroupStored:
		if s := d.bySubject(t.Subject); s != nil && d.groups.observe(e) {
			s.committed = t.A
		}
	case machine.GroupExpired:
		if s := d.bySubject(t.Subject); s != nil && d.groups.observe(e) {
			s.committed = none
			s.free = max(s.free, s.high) // the group begins anew
		}
	case machine.GroupGiven:
		if s := d.bySubject(t.Subject); s != nil && d.groups.observe(e) {
			s.floor, s.owned = s.committed, true
		}
	case machine.ConsumerSynced: // who takes a partition now reads what is committed by now
		for _, s := range d.paths.all {
			if s.group.Name == t.Subject && len(s.claims) == 0 {
				s.floor, s.owned = s.committed, true
			}
		}
	case machine.ConsumerLeft:
		for _, s := range d.paths.all {
			if s.group.Name == t.Subject {
				s.drop(func(c *claimant) bool { return c.consumer == t.Detail })
			}
		}
	case machine.ZnodeCreated, machine.ZnodeSet, machine.ZnodeDeleted:
		if d.coord.Fresh(history.Who{Machine: e.Machine, Incarnation: e.Incarnation}, &e.Trace) {
			d.registered(e)
		}
	}
}

// registered follows the registry: committed offsets, owners, topics.
func (d *Delivery) registered(e *history.Event) {
	t := &e.Trace
	switch t.Kind {
	case machine.ZnodeCreated, machine.ZnodeSet:
		if seat, ok := parseSeatPath(t.Subject, "offsets"); ok {
			if o, ok := parseOffset(t.Detail); ok && !d.dead(seat.topic) {
				d.seat(seat).committed = o
			}
		} else if seat, ok := parseSeatPath(t.Subject, "owners"); ok && t.Kind == machine.ZnodeCreated && !d.dead(seat.topic) {
			s := d.seat(seat)
			s.floor, s.owned = s.committed, true
		} else if topic, ok := ParseStatePath(t.Subject); ok {
			d.decided(e, topic)
		} else if topic, ok := parseName(t.Subject, topicsRoot); ok && t.Kind == machine.ZnodeCreated && topic != BaseTopic(topic) {
			d.succeed(topic)
		}
	case machine.ZnodeDeleted:
		delete(d.states, t.Subject)
		if seat, ok := parseSeatPath(t.Subject, "offsets"); ok && !d.dead(seat.topic) {
			d.seat(seat).committed = none
		} else if topic, ok := parseName(t.Subject, topicsRoot); ok {
			d.removeTopic(topic)
		}
	}
}

// dead tells whether the topic was deleted, and another may have its name.
func (d *Delivery) dead(topic string) bool { return d.promise.Incarnations.Dead(topic) }
