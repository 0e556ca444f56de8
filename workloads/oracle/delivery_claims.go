package oracle

import (
	"math"

	"faultline/workloads/history"
)

// claimed judges where a claim starts.
func (d *Delivery) claimed(e *history.Event) {
	t := &e.Trace
	s := d.bySubject(t.Subject)
	if s == nil {
		return
	}
	start, consumer := t.A, t.Detail
	s.drop(func(c *claimant) bool { return c.consumer == consumer })
	floor := s.floor
	if !s.owned {
		floor = s.committed
	}
	switch {
	case start-s.done.base >= windowLimit:
		d.Violate(e.At, Deliver, "%s claims %v from offset %d, which cannot be", consumer, s.seat, start)
		return
	case start < 0 && floor >= 0:
		d.Violate(e.At, DupB, "%s claims %v as if nothing were committed, though %d was when it became owner", consumer, s.seat, floor)
		floor = none
	case start < 0: // a reset will say where
	case s.target >= 0 && start == s.target:
		floor = min(floor, start)
	case start < floor:
		d.Violate(e.At, DupB, "%s claims %v from offset %d, though %d was committed when it became owner", consumer, s.seat, start, floor)
		floor = start // once is enough
	default:
		if from := max(s.committed, floor); start > from {
			committed := "nothing"
			if from >= 0 {
				committed = itoa(from)
			}
			d.leaveOut(e, s, max(from, 0), start, "starts its claim at offset "+itoa(start)+" though "+committed+" is committed")
		}
	}
	s.begun = s.begun || start >= 0
	s.target = none
	low := int64(math.MaxInt64)
	if start > s.part.end {
		low = s.part.end
	}
	s.claims = append(s.claims, claimant{consumer: consumer, machine: e.Machine, incarnation: e.Incarnation, next: max(start, none), floor: floor, target: none, low: low})
}

// start judges where a claim begins for which nothing was committed.
func (d *Delivery) start(e *history.Event, s *seatLog, c *claimant, to int64) {
	c.next = to
	if c != &s.claims[len(s.claims)-1] || s.committed >= 0 {
		return // another claimed or committed since: where this one would have begun settles nothing
	}
	s.begun = true
	if s.group.Reset == Smallest {
		d.leaveOut(e, s, s.done.base, to, "starts at offset "+itoa(to)+" with nothing committed")
		return
	}
	if end := max(s.part.end, s.part.visible); end > 0 && to > end {
		d.leaveOut(e, s, end, to, "starts beyond the end of the log, at offset "+itoa(to))
	}
	s.part.leftOut = max(s.part.leftOut, to)
	s.done.addRange(s.done.base, to)
	s.vague = max(s.vague, to) // left out is not processed: until something is committed, the next one may begin further back
}

// reset judges a consumer that gave up its position.
func (d *Delivery) reset(e *history.Event) {
	t := &e.Trace
	s := d.bySubject(t.Subject)
	if s == nil {
		return
	}
	from, to := t.A, t.B
	if to < 0 || to-s.done.base >= windowLimit {
		d.Violate(e.At, Deliver, "%s resets %v from offset %d to %d, which cannot be", t.Detail, s.seat, from, to)
		return
	}
	c := s.claim(t.Detail)
	switch {
	case c == nil && !s.group.Loner:
		return // not an owner: it hands over nothing
	case c != nil && from < 0:
		d.start(e, s, c, to)
		return
	}
	start, end := d.logStart(s.part), s.part.end
	if c != nil {
		if c.target == from { // the seek went where retention has been since
			c.target, s.target = to, to
		} else {
			c.jumps = append(c.jumps, jump{from, to})
		}
		end = min(end, c.low) // the answer that made it reset may be as old as the fall: the log grows on while a machine stands still
		c.low = math.MaxInt64
	}
	if from >= start && from <= end && !s.part.anew(from) {
		d.Violate(e.At, Deliver, "%s resets %v from offset %d to %d, though the log has %d to %d", t.Detail, s.seat, from, to, start, s.part.end)
	}
	switch {
	case to <= from:
		// Back: its position was beyond the end. What is below the floor is not owed again, but may come.
		if from > end && s.part.ruined() {
			s.free = max(s.free, s.high)
		}
		if c != nil && (from > end || s.part.anew(to) || s.part.several && s.part.anew(from)) {
			c.floor = min(c.floor, to)
		}
	case s.group.Reset == Largest && from < start && c != nil && c != &s.claims[len(s.claims)-1]:
		// Another claimed since and reads on from elsewhere.
	case s.group.Reset == Largest && from < start:
		s.part.leftOut = max(s.part.leftOut, to)
		s.done.addRange(from, to)
		s.vague = max(s.vague, to) // as where a claim starts
	default:
		s.vague = max(s.vague, to)
		d.leaveOut(e, s, from, to, "resets its position from offset "+itoa(from)+" to "+itoa(to))
	}
}

// leaveOut notes that a group skips offsets [from, to) that it did not process. What the log no longer has may be skipped; of the
// rest those are named that nobody processed.
func (d *Delivery) leaveOut(e *history.Event, s *seatLog, from, to int64, why string) {
	start := d.logStart(s.part)
	if gone := min(to, start); gone > from {
		s.done.addRange(from, gone)
		s.part.leftOut = max(s.part.leftOut, gone)
	}
	first := s.done.next(max(from, start))
	if s.group.Delivery == AtMostOnce {
		first = max(from, start, s.high)
	}
	if first >= to {
		return
	}
	if s.part.anew(first) {
		s.done.addRange(first, to)
		s.part.leftOut = max(s.part.leftOut, to)
		return
	}
	d.Violate(e.At, Deliver, "%s of group %s skips offsets %d to %d of %v, which retention did not delete: it %s; the log starts at %d",
		e.Trace.Detail, s.group.Name, first, to-1, s.part.place, why, start)
	s.done.addRange(first, to) // told once
	s.part.leftOut = max(s.part.leftOut, to)
}

// sought notes that the application moves the position.
func (d *Delivery) sought(e *history.Event) {
	if d.dead(e.Topic) {
		return
	}
	s := d.nearSeat(e)
	s.target = e.Offset
	s.free = max(s.free, s.high)
	s.floor = min(s.floor, e.Offset)
	if c := s.claim(e.Consumer); c != nil {
		c.target = e.Offset
		c.floor = min(c.floor, e.Offset)
		if e.Offset > c.next {
			s.done.addRange(c.next, e.Offset)
			s.part.leftOut = max(s.part.leftOut, e.Offset)
		}
	}
}

// handed judges a hand-over against the claim under which it happens.
func (d *Delivery) handed(e *history.Event) {
	t := &e.Trace
	s := d.bySubject(t.Subject)
	if s == nil {
		return
	}
	o := t.A
	if s.part.visible >= 0 && o >= s.part.visible && !s.part.anew(o) { // a queue may hold what the log has no more
		d.Violate(e.At, Dirty, "%s is handed offset %d of %v, but only offsets below %d are visible", t.Detail, o, s.part.place, s.part.visible)
	}
	if s.group.Delivery == AtMostOnce {
		if o < s.high && o >= s.free && !s.part.anew(o) {
			d.Violate(e.At, DupB, "at-most-once group %s is handed offset %d of %v again, on %s", s.group.Name, o, s.part.place, e.Machine)
		}
		if !s.group.Loner && o >= s.committed {
			d.Violate(e.At, DupB, "at-most-once group %s is handed offset %d of %v before it is committed: the committed offset is %d", s.group.Name, o, s.part.place, s.committed)
		}
	}
	s.begin(o)
	s.high = max(s.high, o+1)
	c := s.claim(t.Detail)
	if c == nil {
		if !s.group.Loner {
			return // not an owner: Ownership tells
		}
		s.claims = append(s.claims, claimant{consumer: t.Detail, machine: e.Machine, incarnation: e.Incarnation, next: o, floor: none, target: none, low: math.MaxInt64})
		c = &s.claims[len(s.claims)-1]
	}
	if o < c.floor && !s.part.anew(o) {
		d.Violate(e.At, DupB, "%s of group %s is handed offset %d of %v again, though %d was committed when it became owner", t.Detail, s.group.Name, o, s.part.place, c.floor)
	}
	if c.next < 0 && c.target != o {
		d.start(e, s, c, o)
	}
	if o != c.next {
		d.jumped(e, s, c, o)
	}
	c.next = o + 1
}

// jumped judges a hand-over that is not the next one.
func (d *Delivery) jumped(e *history.Event, s *seatLog, c *claimant, o int64) {
	if c.target == o {
		c.target, s.target = none, none
		c.jumps = nil
		return
	}
	for i := 0; i < len(c.jumps); i++ {
		if c.jumps[i].from != c.next {
			continue
		}
		c.next = c.jumps[i].to
		c.jumps = c.jumps[i+1:]
		if c.next == o {
			return
		}
		i = -1
	}
	switch {
	case o > c.next && s.part.anew(c.next):
	case o > c.next && d.compacted(s.part, c.next, o):
		s.done.addRange(c.next, o)
		s.part.leftOut = max(s.part.leftOut, o)
	case o > c.next:
		d.Violate(e.At, Deliver, "%s of group %s is handed offset %d of %v after %d: it skips %d to %d", c.consumer, s.group.Name, o, s.part.place, c.next-1, c.next, o-1)
	default:
		d.Violate(e.At, Order, "%s of group %s is handed offset %d of %v after %d", c.consumer, s.group.Name, o, s.part.place, c.next-1)
	}
}

// compacted reports whether compaction took all records from one offset to another, as ones whose keys come again.
func (d *Delivery) compacted(p *partLog, from, to int64) bool {
	if d.disk == nil || p.topic.gone || !d.promise.Compacts(p.topic.name) {
		return false
	}
	for ; from < to; from++ {
		if !d.disk.Compacted(p.topic.name, p.partition, from) {
			return false
		}
	}
	return true
}
