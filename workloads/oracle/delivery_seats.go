package oracle

import (
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
	d.paths.set(s.seat.String(), s)
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
	if s := d.paths.get(subject); s != nil {
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
