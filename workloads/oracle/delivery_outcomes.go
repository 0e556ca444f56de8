package oracle

import (
	"time"

	"faultline/workloads/history"
)

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
	if d.gaveUp != nil {
		d.gaveUp(e, r)
	}
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
	part := d.part(r.topic, e.Partition)
	s.acks.set(part, e.At)
	if e.Offset < 0 || s.producer.Acks == 0 {
		return // nobody promised anything; where it is shows when it is processed
	}
	r.once = s.retries.in(part) < r.sentAt && !part.ruined()
	if r.seen && r.offset != e.Offset && r.once && !s.producer.Idempotent {
		d.twice(e.At, e.ID, part, e.Offset, r.offset)
	}
	if r.seen && r.offset != e.Offset && s.producer.Idempotent && !part.mayHaveLost(true, r.sentAt, r.offset) && !part.begun.Between(r.offset, e.Offset) {
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
	if m.set && (seq > m.seq) != (e.Offset > m.offset) && !part.begun.Between(m.offset, e.Offset) && // it may be there twice
		!part.mayHaveLost(s.producer.Acks < 0, m.sentAt, m.offset) && !part.mayHaveLost(s.producer.Acks < 0, r.sentAt, e.Offset) {
		d.Violate(e.At, Order, "%s sent %v %s %v, but their offsets in %v are %d and %d", s.producer.Name,
			e.ID, map[bool]string{true: "after", false: "before"}[seq > m.seq], history.NewID(e.ID.Source(), m.seq), part.place, e.Offset, m.offset)
	}
	*m = mark{seq: seq, offset: e.Offset, sentAt: r.sentAt, set: true}
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
