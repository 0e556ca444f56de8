package oracle

import (
	"math"
	"time"

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
//   - IDEMP: a record of an idempotent producer is at one offset;
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
	states map[string][]PartitionState // by the path of its node
	paths  map[string]*seatLog         // by "g/t/p"
	near   [16]*seatLog                // by partition: the seat looked up last

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
	d := &Delivery{promise: p, disk: disk, topics: map[string]*topicLog{}, deleted: map[string]*topicLog{}, states: map[string][]PartitionState{}, paths: map[string]*seatLog{}}
	d.Free(p.Ruins.Records)
	return d
}

// Invariants implements [Oracle].
func (d *Delivery) Invariants() []string { return []string{Deliver, Order, Idemp, DupB, Dirty, Budget} }

// Stats counts what was seen so far.
func (d *Delivery) Stats() Stats { return d.stats }

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
	case machine.GroupGiven:
		if s := d.bySubject(t.Subject); s != nil && d.groups.observe(e) {
			s.floor, s.owned = s.committed, true
		}
	case machine.ConsumerSynced: // who takes a partition now reads what is committed by now
		for _, s := range d.paths {
			if s.group.Name == t.Subject && len(s.claims) == 0 {
				s.floor, s.owned = s.committed, true
			}
		}
	case machine.ConsumerLeft:
		for _, s := range d.paths {
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

// source is what one source of records sent.
type source struct {
	producer    Producer
	machine     string
	incarnation int
	dead        bool // its process is gone: what is pending stays so
	known       bool
	recent      queue[record]    // by sequence number
	old         map[int64]record // what is not settled though much that came later is
	sweep       int              // size of old at which it is cleaned up
	marks       []mark           // by partition number
	retries     []time.Duration  // by partition number: the last one; none
}

// record is what is known of one record.
type record struct {
	hash      uint64
	sentAt    time.Duration
	offset    int64 // acked at or, before that, first seen at; none
	topic     *topicLog
	partition int32 // none while nobody knows
	state     state
	seen      bool // some group processed it
	once      bool // acked at an offset, and never sent a second time
}

const none = -1

type state uint8

const (
	pending state = iota
	acked
	failed
	unknown
)

// mark is the last acked record of a source in a partition.
type mark struct {
	seq    int64
	offset int64
	sentAt time.Duration
	set    bool
}

func (d *Delivery) sent(e *history.Event) {
	n := e.ID.Source()
	for n >= len(d.sources) {
		d.sources = append(d.sources, &source{})
	}
	s := d.sources[n]
	if !s.known {
		*s = source{known: true, producer: d.promise.producer(e.Producer), machine: e.Machine, incarnation: e.Incarnation, old: map[int64]record{}, sweep: 1024}
	}
	if e.ID.Seq() != s.recent.end() {
		d.Violate(e.At, Deliver, "the history is broken: %v was sent after %v", e.ID, history.NewID(n, s.recent.end()-1))
		return
	}
	*s.recent.push() = record{hash: e.Hash, sentAt: e.At, offset: none, topic: d.topic(e.Topic), partition: e.Partition}
	d.stats.Sent++
}

// find returns what is known of a record: nil when it is settled. ok is false when it was never sent.
func (d *Delivery) find(id history.ID) (s *source, r *record, ok bool) {
	n := id.Source()
	if n >= len(d.sources) || !d.sources[n].known {
		return nil, nil, false
	}
	s = d.sources[n]
	if id.Seq() >= s.recent.end() {
		return s, nil, false
	}
	if r = s.recent.at(id.Seq()); r == nil {
		if o, is := s.old[id.Seq()]; is {
			r = &o // a copy: save stores it again
		}
	}
	return s, r, true
}

// save stores a record that find returned and that was changed.
func (s *source) save(id history.ID, r *record) {
	if id.Seq() < s.recent.base {
		s.old[id.Seq()] = *r
	}
}

// outcome finds the record whose outcome an event tells.
func (d *Delivery) outcome(e *history.Event) *record {
	s, r, ok := d.find(e.ID)
	if !ok {
		d.Violate(e.At, Deliver, "outcome of record %v, which was never sent", e.ID)
		return nil
	}
	if r == nil || r.state != pending {
		d.Violate(e.At, Deliver, "record %v has a second outcome: %v", e.ID, e.Kind)
		return nil
	}
	if e.ID.Seq() < s.recent.base {
		// Only what is not pending becomes old, unless its process is gone, which reports nothing.
		d.Violate(e.At, Deliver, "record %v has an outcome after its producer's process was gone", e.ID)
		return nil
	}
	return r
}

func (d *Delivery) failed(e *history.Event) {
	r := d.outcome(e)
	if r == nil {
		return
	}
	r.state = failed
	d.stats.Failed++
	if r.seen {
		d.Violate(e.At, Deliver, "record %v is reported as failed (%s) but is in %s/%d at offset %d", e.ID, e.Text, r.topic.name, r.partition, r.offset)
	}
}

func (d *Delivery) acked(e *history.Event) {
	r := d.outcome(e)
	if r == nil {
		return
	}
	s := d.sources[e.ID.Source()]
	d.stats.Acked++
	if d.dead(e.Topic) {
		r.state = unknown // nothing is owed of a deleted topic, and an earlier attempt may have gone to the next one
		return
	}
	joined := d.joins(r, e.Topic)
	r.state = acked
	if !joined && r.topic.gone {
		return
	}
	if e.Topic != r.topic.name || r.partition >= 0 && e.Partition != r.partition {
		d.Violate(e.At, Deliver, "record %v, sent to %v, is acked at offset %d of %s/%d", e.ID, r.topic.at(r.partition), e.Offset, e.Topic, e.Partition)
		return
	}
	if e.Offset < 0 && s.producer.Acks != 0 && !s.producer.Idempotent {
		d.Violate(e.At, Deliver, "record %v is acked with acks=%d, but without an offset: nobody can have stored it", e.ID, s.producer.Acks)
	}
	if e.Offset < 0 || s.producer.Acks == 0 {
		return // nobody promised anything; where it is shows when it is processed
	}
	part := d.part(r.topic, e.Partition)
	r.once = s.retriedAt(part) < r.sentAt && !part.ruined()
	if r.seen && r.offset != e.Offset && r.once && !s.producer.Idempotent {
		d.twice(e.At, e.ID, part, e.Offset, r.offset)
	}
	if r.seen && r.offset != e.Offset && s.producer.Idempotent && !part.mayHaveLost(true, r.sentAt, r.offset) {
		d.Violate(e.At, Idemp, "record %v is in %v at offset %d and at offset %d", e.ID, part.place, r.offset, e.Offset)
	}
	durable := s.producer.Acks < 0
	lost := part.mayHaveLost(durable, r.sentAt, e.Offset)
	if e.Offset < part.entries.base && !r.seen && !lost && e.Offset >= part.leftOut && !part.anew(e.Offset) {
		d.Violate(e.At, Deliver, "record %v is acked at offset %d of %v, where every group found another record", e.ID, e.Offset, part.place)
	}
	r.offset, r.partition = e.Offset, e.Partition
	if !lost {
		d.put(e.At, part, e.Offset, e.ID, isAcked)
		if en := part.entries.at(e.Offset); en != nil && durable {
			en.flags |= isDurable
		}
	}
	if s.producer.Ordered {
		d.order(e, s, part, r)
	}
}

// order compares with the record of the same source that was acked last.
func (d *Delivery) order(e *history.Event, s *source, part *partLog, r *record) {
	for part.number >= len(s.marks) {
		s.marks = append(s.marks, mark{})
	}
	m := &s.marks[part.number]
	seq := e.ID.Seq()
	if m.set && (seq > m.seq) != (e.Offset > m.offset) &&
		!part.mayHaveLost(s.producer.Acks < 0, m.sentAt, m.offset) && !part.mayHaveLost(s.producer.Acks < 0, r.sentAt, e.Offset) {
		d.Violate(e.At, Order, "%s sent %v %s %v, but their offsets in %v are %d and %d", s.producer.Name,
			e.ID, map[bool]string{true: "after", false: "before"}[seq > m.seq], history.NewID(e.ID.Source(), m.seq), part.place, e.Offset, m.offset)
	}
	*m = mark{seq: seq, offset: e.Offset, sentAt: r.sentAt, set: true}
}

func (d *Delivery) processed(e *history.Event) {
	if d.dead(e.Topic) {
		d.processedLate(e)
		return
	}
	seat := d.nearSeat(e)
	seat.begin(e.Offset)
	known := e.Offset >= seat.vague
	first := seat.done.add(e.Offset)
	if first {
		d.stats.Delivered++
	} else {
		d.stats.Duplicates++
		if seat.group.Delivery == AtMostOnce && known && e.Offset >= seat.free && !seat.part.anew(e.Offset) {
			d.Violate(e.At, DupB, "at-most-once group %s processed offset %d of %v a second time, on %s", e.Group, e.Offset, seat.part.place, e.Machine)
		}
	}
	part := seat.part
	if e.Offset < 0 || e.Offset-part.entries.base >= windowLimit {
		d.Violate(e.At, Deliver, "%s processed record %v at offset %d of %v, which cannot be", e.Consumer, e.ID, e.Offset, part.place)
		return
	}
	s, r, ok := d.find(e.ID)
	switch {
	case !ok:
		d.Insist(e.At, Deliver, "%s of group %s processed record %v from offset %d of %v: nobody sent it", e.Consumer, e.Group, e.ID, e.Offset, part.place)
		return
	case r == nil:
		if part.topic.precedes(e.ID) {
			d.Violate(e.At, Deliver, "record %v was processed from offset %d of %v, but what became of it was settled before that topic was made: it is of an earlier topic of the name", e.ID, e.Offset, part.place)
		}
		return // settled: every group has it
	case r.hash != e.Hash:
		d.Insist(e.At, Deliver, "record %v at offset %d of %v is corrupted: its hash was %x when sent, is %x when processed by %s", e.ID, e.Offset, part.place, r.hash, e.Hash, e.Consumer)
	case r.state == failed:
		d.Violate(e.At, Deliver, "record %v is in %v at offset %d, but its producer reported it as failed", e.ID, part.place, e.Offset)
	case !d.joins(r, e.Topic) || r.partition >= 0 && r.partition != e.Partition:
		d.Violate(e.At, Deliver, "record %v, sent to %v, was processed from offset %d of %v", e.ID, r.topic.at(r.partition), e.Offset, part.place)
		return
	}
	if s.producer.Idempotent && r.offset >= 0 && r.offset != e.Offset && !part.mayHaveLost(s.producer.Acks < 0, r.sentAt, r.offset) {
		d.Violate(e.At, Idemp, "record %v is in %v at offset %d and at offset %d", e.ID, part.place, r.offset, e.Offset)
	}
	if late := d.promise.Late; late > 0 && first && e.At-r.sentAt > late && !d.promise.Ruins.Any() {
		d.Violate(e.At, Budget, "record %v (offset %d of %v) was processed by group %s %v after it was sent; the limit is %v", e.ID, e.Offset, part.place, e.Group, e.At-r.sentAt, late)
	}
	if !r.topic.gone {
		d.put(e.At, part, e.Offset, e.ID, isSeen)
	}
	if r.once && r.offset != e.Offset && !s.producer.Idempotent {
		d.twice(e.At, e.ID, part, r.offset, e.Offset)
	}
	if r.offset < 0 || !r.seen && r.state != acked {
		r.offset, r.partition = e.Offset, e.Partition
	}
	r.seen = true
	s.save(e.ID, r)
}

// processedLate judges what was handed over of a topic that is deleted by now: that it was sent.
func (d *Delivery) processedLate(e *history.Event) {
	switch _, r, ok := d.find(e.ID); {
	case !ok:
		d.Insist(e.At, Deliver, "%s of group %s processed record %v from offset %d of %s/%d: nobody sent it", e.Consumer, e.Group, e.ID, e.Offset, e.Topic, e.Partition)
	case r != nil && r.hash != e.Hash:
		d.Insist(e.At, Deliver, "record %v at offset %d of %s/%d is corrupted: its hash was %x when sent, is %x when processed by %s", e.ID, e.Offset, e.Topic, e.Partition, r.hash, e.Hash, e.Consumer)
	}
}

// dead tells whether the topic was deleted, and another may have its name.
func (d *Delivery) dead(topic string) bool { return d.promise.Incarnations.Dead(topic) }

// joins tells whether a record may be in the topic: the one that it was sent to or, as it was under way when that was deleted, the next of the name. What was known of its place in the other counts no more.
func (d *Delivery) joins(r *record, topic string) bool {
	done := r.state == acked && r.topic.gone // and what is acknowledged was under way no more
	if r.topic.name != topic && BaseTopic(r.topic.name) == BaseTopic(topic) && !done {
		r.topic, r.partition, r.offset, r.seen, r.once = d.topic(topic), none, none, false, false
	}
	return r.topic.name == topic
}

// retried notes that a producer sends a batch of a partition once more, as it says itself.
func (d *Delivery) retried(e *history.Event) {
	pl, ok := parsePlace(e.Trace.Subject)
	if !ok || d.dead(pl.topic) {
		return
	}
	part := d.part(d.topic(pl.topic), pl.partition)
	for _, s := range d.sources {
		if s.machine != e.Machine || s.incarnation != e.Incarnation {
			continue
		}
		for part.number >= len(s.retries) {
			s.retries = append(s.retries, none)
		}
		s.retries[part.number] = e.At
	}
}

func (s *source) retriedAt(p *partLog) time.Duration {
	if p.number >= len(s.retries) {
		return none
	}
	return s.retries[p.number]
}

// twice reports a second copy of a record that was acked at its first attempt.
func (d *Delivery) twice(at time.Duration, id history.ID, part *partLog, acked, other int64) {
	d.Violate(at, DupB, "record %v is in %v a second time, at offset %d: it was acked at offset %d without any retry, so nothing explains another copy", id, part.place, other, acked)
}

// untold reports what a process that ended regularly sent without ever telling what became of it.
func (d *Delivery) untold(e *history.Event) {
	for n, s := range d.sources {
		if !s.known || s.dead || s.machine != e.Machine || s.incarnation != e.Incarnation {
			continue
		}
		for seq := s.recent.base; seq < s.recent.end(); seq++ {
			if s.recent.at(seq).state == pending {
				d.Violate(e.At, Deliver, "%s ended regularly, but never told what became of record %v, which it sent at %v: neither acked nor failed nor unknown",
					s.producer.Name, history.NewID(n, seq), s.recent.at(seq).sentAt)
			}
		}
	}
}

// gone notes that a process is no more.
func (d *Delivery) gone(e *history.Event) {
	for _, s := range d.sources {
		if s.machine == e.Machine && s.incarnation == e.Incarnation {
			s.dead = true
		}
	}
	for _, s := range d.paths {
		s.drop(func(c *claimant) bool { return c.machine == e.Machine && c.incarnation == e.Incarnation })
	}
}
