package oracle

import (
	"math"
	"slices"

	"faultline/workloads/history"
)

// seatLog is a partition as one group reads it, as Delivery sees it.
type seatLog struct {
	seat
	group     *Group
	part      *partLog
	done      window // offsets that the group processed or may leave out
	vague     int64  // with at-most-once, it is not known which offsets below were processed
	begun     bool   // it is fixed where the group began
	committed int64  // by the coordination service; none
	floor     int64  // what was committed when the present owner took its znode; none
	owned     bool   // there was an owner
	high      int64  // first offset that was never handed over, nor any after it
	free      int64  // with at-most-once, offsets below may come again: there was a seek
	target    int64  // of a seek that no claim has followed yet; none
	claims    []claimant
}

// claimant is a consumer that says that it owns the seat.
type claimant struct {
	consumer    string
	machine     string
	incarnation int
	next        int64 // offset that it hands over next
	floor       int64 // below nothing may be handed over
	target      int64 // of a seek that was asked for and has not shown yet; none
	jumps       []jump
	low         int64 // where the log ended when it was too short for this claim's position, since the last reset; math.MaxInt64: never
}

// jump is a reset whose effect has not shown yet: records of before may still wait to be handed over.
type jump struct{ from, to int64 }

func (s *seatLog) drop(gone func(*claimant) bool) {
	s.claims = slices.DeleteFunc(s.claims, func(c claimant) bool { return gone(&c) })
}

func (s *seatLog) claim(consumer string) *claimant {
	for i := range s.claims {
		if s.claims[i].consumer == consumer {
			return &s.claims[i]
		}
	}
	return nil
}

// begin fixes where a group without claims begins, unless it owes everything.
func (s *seatLog) begin(offset int64) {
	if !s.begun && s.group.Loner {
		s.begun = true
		if s.group.Reset == Largest {
			s.done.startAt(offset)
		}
	}
}

// settled is the offset below which nothing can come again.
func (s *seatLog) settled() int64 {
	if s.group.Delivery == AtMostOnce {
		// What it lost leaves holes for ever. A record is processed soon after it was handed over.
		s.vague = max(s.vague, s.high-1<<16)
		s.done.moveBase(s.vague)
		return min(s.high, s.done.base)
	}
	if s.group.Loner {
		return s.done.base
	}
	return min(s.done.base, max(s.committed, 0))
}

func (d *Delivery) newSeat(g *Group, p *partLog) *seatLog {
	s := &seatLog{seat: seat{g.Name, p.place}, group: g, part: p, committed: none, floor: none, target: none}
	p.seats = append(p.seats, s)
	d.paths[s.seat.String()] = s
	return s
}

// seat returns what is known of a seat. A group that the promise does not name is read along, and owed nothing.
func (d *Delivery) seat(at seat) *seatLog {
	p := d.part(d.topic(at.topic), at.partition)
	for _, s := range p.seats {
		if s.group.Name == at.group {
			return s
		}
	}
	g := d.promise.group(at.group)
	if g == nil {
		g = &Group{Name: at.group, Loner: true, Reset: Largest}
	}
	return d.newSeat(g, p)
}

func (d *Delivery) bySubject(subject string) *seatLog {
	if s := d.paths[subject]; s != nil {
		return s
	}
	at, ok := parseSeat(subject)
	if !ok || d.dead(at.topic) {
		return nil
	}
	return d.seat(at)
}

// nearSeat is seat for what happens most often.
func (d *Delivery) nearSeat(e *history.Event) *seatLog {
	s := d.near[e.Partition&15]
	if s != nil && s.part.partition == e.Partition && s.group.Name == e.Group && s.part.place.topic == e.Topic {
		return s
	}
	s = d.seat(seat{e.Group, place{e.Topic, e.Partition}})
	d.near[e.Partition&15] = s
	return s
}

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
		c.jumps = append(c.jumps, jump{from, to})
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
	default:
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

// Finish implements [Oracle].
func (d *Delivery) Finish(end End) {
	if end.Cut || end.Trouble != "" {
		return
	}
	for _, p := range d.sorted() {
		for _, s := range p.seats {
			if d.owes(s) {
				d.missing(s, func(o int64, en *entry) bool { d.lost(end, s, o, en); return true })
			}
		}
	}
}

// owes reports whether every acked record of the partition is owed to the group.
func (d *Delivery) owes(s *seatLog) bool {
	return d.promise.group(s.group.Name) != nil && s.group.reads(s.part.place.topic) && (s.begun || s.group.Reset == Smallest)
}

// unopened reports whether the broker may refuse to open the log, and has not opened it.
func (d *Delivery) unopened(p *partLog) bool {
	return p.freed || p.closed && d.promise.Ruins.Hurt(p.broker)
}

// missing shows the records that are owed and did not come, until fn returns false.
func (d *Delivery) missing(s *seatLog, fn func(offset int64, e *entry) bool) {
	p := s.part
	if d.unopened(p) {
		return
	}
	from := max(s.done.base, p.entries.base, d.logStart(p))
	if s.group.Delivery == AtMostOnce {
		from = max(from, s.committed, s.high)
	}
	for o := from; o < p.entries.end(); o++ {
		if e := p.entries.at(o); e.flags&isAcked != 0 && e.flags&isLost == 0 && !s.done.has(o) && !d.compacted(p, o, o+1) && !fn(o, e) {
			return
		}
	}
}

// lost reports a record that never came to a group.
func (d *Delivery) lost(end End, s *seatLog, o int64, en *entry) {
	how := "the group was handed nothing from there on"
	if s.high > o {
		how = "the group went on to offset " + itoa(s.high-1)
	}
	from, sent := "", "long ago"
	if src, r, _ := d.find(en.id); src != nil {
		from = src.producer.Name
		if r != nil {
			sent = "at " + r.sentAt.String()
		}
	}
	d.Violate(end.At, Deliver, "group %s never got record %v, which %s sent %s and which was acked at offset %d of %v; %s; committed is %s, the log starts at %d",
		s.group.Name, en.id, from, sent, o, s.part.place, how, offsetText(s.committed), d.logStart(s.part))
}

// position is where the claimant reads on, once what it has taken before a reset is handed over; none: nowhere yet.
func (c *claimant) position() int64 {
	switch n := len(c.jumps); {
	case c.target >= 0:
		return c.target
	case n > 0:
		return c.jumps[n-1].to
	}
	return c.next
}

// lagging lists the claims that read from below the start of their log: what they ask for does not exist any more, so they must
// reset. A claim without a position must find one, too. A log that is not open is Liveness' affair.
func (d *Delivery) lagging() []string {
	var out []string
	for _, p := range d.sorted() {
		if p.visible < 0 || d.unopened(p) {
			continue
		}
		for _, s := range p.seats {
			if d.promise.group(s.group.Name) == nil || s.group.Loner {
				continue
			}
			for i := range s.claims {
				c := &s.claims[i]
				switch at, start := c.position(), d.servedFrom(p); {
				case at < 0:
					out = append(out, c.consumer+" owns "+s.seat.String()+" but reads from nowhere: nothing was committed, and it has not reset; the log has "+itoa(start)+" to "+itoa(p.visible))
				case at < start:
					out = append(out, c.consumer+" owns "+s.seat.String()+" and reads from offset "+itoa(at)+", which retention deleted, and has not reset; the log has "+itoa(start)+" to "+itoa(p.visible))
				}
			}
		}
	}
	return out
}

// Waits tells what is owed and not delivered yet, "" when nothing is. It takes time in proportion to what is in flight.
func (d *Delivery) Waits() string {
	if s := d.standing(); len(s) > 0 {
		return s[0]
	}
	if s := d.lagging(); len(s) > 0 {
		return s[0]
	}
	return ""
}

// standing lists the seats that still owe deliveries, each with the first record that is missing and where the group stands.
func (d *Delivery) standing() []string {
	var out []string
	if d.promise.Ruins.Records() {
		return nil
	}
	for _, p := range d.sorted() {
		for _, s := range p.seats {
			if !d.owes(s) {
				continue
			}
			d.missing(s, func(o int64, en *entry) bool {
				where := "was handed nothing so far"
				if s.high > 0 {
					where = "was handed offset " + itoa(s.high-1) + " last"
				}
				out = append(out, "group "+s.group.Name+" has not processed record "+en.id.String()+", acked at offset "+itoa(o)+" of "+p.place.String()+
					"; it "+where+", the log ends at "+itoa(max(p.end, p.entries.end())))
				return false
			})
		}
	}
	return out
}
