package oracle

import (
	"faultline/workloads/history"
)

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
	if s.producer.Idempotent && r.offset >= 0 && r.offset != e.Offset && !part.mayHaveLost(s.producer.Acks < 0, r.sentAt, r.offset) && !part.begun.Between(r.offset, e.Offset) {
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
