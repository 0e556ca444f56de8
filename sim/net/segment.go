package net

import (
	"math/bits"

	"faultline/sim"
)

const (
	maxSegment = 64 << 10
	classes    = 18 // powers of two up to 128 KiB
)

type segKind uint8

const (
	segData segKind = iota
	segFin
	segReset
)

// segment is what travels: some bytes, or the news that an end closed or is gone. Segments are pooled.
type segment struct {
	timer sim.Timer
	n     *Network
	from  *Conn
	to    *Conn
	kind  segKind
	buf   []byte
}

func (n *Network) segment(size int) *segment {
	class := bits.Len(uint(max(size, 64) - 1))
	if k := len(n.free[class]); k > 0 {
		s := n.free[class][k-1]
		n.free[class] = n.free[class][:k-1]
		s.buf = s.buf[:size]
		return s
	}
	s := &segment{n: n, buf: make([]byte, size, 1<<class)}
	s.timer.Init(s)
	return s
}

func (n *Network) recycle(s *segment) {
	class := bits.Len(uint(cap(s.buf)) - 1)
	s.from, s.to = nil, nil
	n.free[class] = append(n.free[class], s)
}

// Fire is the arrival at the other side, if the link lets it through.
func (s *segment) Fire(uint64) {
	from, to := s.from, s.to
	if s.kind == segReset {
		if from.out.open() && !to.gone && !to.closed {
			to.broken(errReset)
		} else if to.closed {
			to.vanish()
		}
		s.n.recycle(s)
		return
	}
	if from.gone && !from.out.from.up { // its host lost power after it left: it still arrives if the link is whole
		if from.out.blocked > 0 || !from.out.to.up {
			s.n.recycle(s)
			return
		}
	} else if !from.out.open() || from.held.len() > 0 {
		from.hold(s)
		return
	}
	if to == nil || to.gone || (to.closed && s.kind == segData) || to.err != nil {
		if !from.gone {
			from.answerReset()
		}
		s.n.recycle(s)
		return
	}
	if from.back.blocked > 0 && !from.gone && !from.deaf {
		from.deaf, from.deafFrom = true, from.n.w.Now() // it arrives, but nobody will hear of it
		from.armGiveUp()
	}
	if s.kind == segFin {
		to.finSeen = true
		s.n.recycle(s)
		wake(&to.readers)
		if to.closed {
			to.vanish()
			from.vanish()
		}
		return
	}
	to.inbox.push(s)
	to.unread += len(s.buf)
	wake(&to.readers)
}

// hold keeps a segment that could not arrive until an attempt gets through.
func (c *Conn) hold(s *segment) {
	if c.gone {
		c.n.recycle(s)
		return
	}
	if c.held.len() == 0 {
		c.heldFrom = c.n.w.Now()
		c.n.w.Record(sim.KindNet, c.out.name, "hold", "", c.id, 0)
	}
	c.held.push(s)
	c.armGiveUp()
}

// release plans the next attempt for everything held, once the link is whole.
func (c *Conn) release() {
	if c.deaf && c.back.blocked == 0 {
		c.deaf = false
	}
	if c.held.len() == 0 || !c.out.open() {
		return
	}
	when := nextAttempt(c.heldFrom, c.n.w.Now()) + c.out.latency()
	c.n.w.Record(sim.KindNet, c.out.name, "resend", "", c.id, uint64(c.held.len()))
	for c.held.len() > 0 {
		c.plan(c.held.pop(), when)
	}
}

func (c *Conn) armGiveUp() {
	if !c.giveUp.Pending() {
		c.n.w.Set(&c.giveUp, c.n.w.Now()+c.n.cfg.GiveUp, c.id)
	}
}

// Fire is the moment at which a sender that hears nothing gives up.
func (c *Conn) Fire(uint64) {
	if c.gone || c.err != nil {
		return
	}
	since := c.n.w.Now()
	if c.held.len() > 0 {
		since = c.heldFrom
	}
	if c.deaf {
		since = min(since, c.deafFrom)
	}
	switch by := since + c.n.cfg.GiveUp; {
	case by <= c.n.w.Now():
		c.broken(errGaveUp)
	case c.deaf || c.held.len() > 0:
		c.n.w.Set(&c.giveUp, by, c.id)
	}
}

// answerReset is what a host says to a segment for a connection that it does not know.
func (c *Conn) answerReset() {
	back := c.back
	if !back.open() || c.err != nil {
		return
	}
	s := c.n.segment(0)
	s.kind, s.to = segReset, c
	s.from = &Conn{n: c.n, local: c.remote, remote: c.local, out: back, gone: true}
	c.n.w.Set(&s.timer, c.n.w.Now()+back.latency(), c.id)
}

// sendReset tells the peer that this end is gone.
func (c *Conn) sendReset() {
	if c.peer == nil || c.err != nil {
		return
	}
	s := c.n.segment(0)
	s.from, s.to, s.kind = c, c.peer, segReset
	c.n.w.Record(sim.KindNet, c.out.name, "reset", "", c.id, 0)
	c.plan(s, c.out.arrival(0))
}

// broken ends this end with an error; the program learns it by its next or pending call.
func (c *Conn) broken(err error) {
	if c.gone || c.err != nil {
		return
	}
	c.err = err
	c.n.w.Record(sim.KindNet, c.out.name, "broken", "", c.id, 0)
	c.vanish()
	wake(&c.readers)
	wake(&c.writers)
}

// vanish makes the host forget this end.
func (c *Conn) vanish() {
	if c.gone {
		return
	}
	c.gone = true
	c.n.w.Unset(&c.giveUp)
	for i, o := range c.local.conns {
		if o == c {
			c.local.conns = append(c.local.conns[:i], c.local.conns[i+1:]...)
			break
		}
	}
	for c.held.len() > 0 {
		c.n.recycle(c.held.pop())
	}
	for c.inbox.len() > 0 {
		c.n.recycle(c.inbox.pop())
	}
	c.unread, c.offset = 0, 0
}

// queue is a ring of segments.
type queue struct {
	s    []*segment
	head int
	n    int
}

func (q *queue) len() int        { return q.n }
func (q *queue) front() *segment { return q.s[q.head] }

func (q *queue) push(s *segment) {
	if q.n == len(q.s) {
		grown := make([]*segment, max(8, 2*len(q.s)))
		for i := range q.n {
			grown[i] = q.s[(q.head+i)&(len(q.s)-1)]
		}
		q.s, q.head = grown, 0
	}
	q.s[(q.head+q.n)&(len(q.s)-1)] = s
	q.n++
}

func (q *queue) pop() *segment {
	s := q.s[q.head]
	q.s[q.head] = nil
	q.head = (q.head + 1) & (len(q.s) - 1)
	q.n--
	return s
}
