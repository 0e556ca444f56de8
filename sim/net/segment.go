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
	segReset  // from an end that is gone
	segAnswer // a reset in answer to a segment
)

// segment is what travels: some bytes, or the news that an end closed or is gone. Segments are pooled.
type segment struct {
	timer sim.Timer
	n     *Network
	from  *Conn
	to    *Conn
	kind  segKind
	seq   uint64 // number within its direction
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

// Fire is the arrival at the other side.
func (s *segment) Fire(uint64) {
	from, to := s.from, s.to
	out := from.out
	if !out.trouble && s.kind == segData && s.seq == from.expect && !to.closed && !to.gone && !from.stalled {
		from.deliver(s)
		return
	}
	switch {
	case out.clogged > 0:
		out.clog(s)
		return
	case s.kind >= segReset:
		s.reset()
		return
	case !out.open():
		out.counts.Held++
		from.lose(s)
		return
	case out.lossy && out.loses():
		from.dropped(s)
		return
	case to.gone || to.closed && s.kind == segData:
		from.refused()
		s.n.recycle(s)
		return
	}
	if from.back.silent() {
		from.unheard() // it arrives, but nobody will hear of it
	}
	if s.seq != from.expect {
		from.outOfOrder(s)
		return
	}
	from.deliver(s)
	if from.stalled {
		from.progress()
	}
}

// deliver hands the next segment to the peer.
func (c *Conn) deliver(s *segment) {
	to := c.peer
	c.expect++
	if s.kind == segFin {
		to.finSeen = true
		s.n.recycle(s)
		wake(&to.readers)
		if to.closed {
			to.vanish()
			c.vanish()
		} else if len(to.writers) > 0 {
			to.probe()
		}
		return
	}
	if c.out.tampers {
		c.out.corrupt(s)
		c.out.cut(s)
	}
	to.inbox.push(s)
	to.unread += len(s.buf)
	wake(&to.readers)
}

// refused lets the peer's host answer a segment for a connection that it does not know by a reset.
func (c *Conn) refused() {
	c.peer.vanish() // closed: what comes now will not be read
	if c.gone {
		return
	}
	if !c.back.open() {
		c.unheard()
		return
	}
	s := c.n.segment(0)
	s.kind, s.to = segAnswer, c
	s.from = &Conn{n: c.n, local: c.remote, remote: c.local, out: c.back, gone: true}
	c.n.w.Set(&s.timer, c.n.w.Now()+c.back.latency(), c.id)
}

// sendReset tells the peer that this end is gone.
func (c *Conn) sendReset() {
	if c.err != nil || c.local.frozen {
		return
	}
	s := c.n.segment(0)
	s.from, s.to, s.kind = c, c.peer, segReset
	c.n.w.Record(sim.KindNet, c.out.name, "reset", "", c.id, 0)
	c.plan(s, c.out.arrival(0, 0))
}

// reset is the arrival of a reset.
func (s *segment) reset() {
	to, out := s.to, s.from.out
	switch {
	case to.gone:
	case out.open() && !(out.lossy && out.loses()):
		if to.closed {
			to.vanish()
		} else {
			to.broken(errReset)
		}
	case s.kind == segAnswer: // the segment that it answers is not acknowledged
		to.unheard()
		if !out.silent() && !to.again.Pending() {
			s.n.w.Set(&to.again, s.n.w.Now()+to.timeout(), to.id)
		}
	case len(to.writers) > 0:
		to.probe()
	}
	s.n.recycle(s)
}

// broken ends this end with an error; the program learns it by its next or pending call.
func (c *Conn) broken(err error) {
	if c.gone {
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
	c.n.w.Unset(&c.again)
	for i, o := range c.local.conns {
		if o == c {
			c.local.conns = append(c.local.conns[:i], c.local.conns[i+1:]...)
			break
		}
	}
	for _, q := range []*queue{&c.lost, &c.early, &c.inbox} {
		for q.len() > 0 {
			c.n.recycle(q.pop())
		}
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

// insert puts a segment at its place by number.
func (q *queue) insert(s *segment) {
	q.push(s)
	mask := len(q.s) - 1
	for i := q.n - 1; i > 0; i-- {
		a, b := &q.s[(q.head+i-1)&mask], &q.s[(q.head+i)&mask]
		if (*a).seq < (*b).seq {
			break
		}
		*a, *b = *b, *a
	}
}

func (q *queue) pop() *segment {
	s := q.s[q.head]
	q.s[q.head] = nil
	q.head = (q.head + 1) & (len(q.s) - 1)
	q.n--
	return s
}
