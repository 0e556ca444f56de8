package net

import (
	"time"

	"faultline/sim"
)

// unacked is what a sender knows, or is yet to find out, about segments that did not arrive in order.
type unacked struct {
	lost      queue // to be sent again, in the order of their numbers
	early     queue // arrived behind a hole, in the order of their numbers
	clogged   int   // segments in a clog
	stalled   bool  // something is lost or clogged and nothing was delivered since stallFrom
	stallFrom time.Duration
	deaf      bool // what arrives is not acknowledged, since deafFrom
	deafFrom  time.Duration
	probed    bool // a full window was probed
	tries     int  // time-outs since the last delivery
	dups      int  // packets that arrived behind the hole
	fast      bool // the third of them caused, or is about to cause, an attempt
	armed     bool // the next attempt is that one
	again     sim.Timer
	giveUp    sim.Timer
}

const (
	minTimeout = 200 * time.Millisecond // Linux's TCP_RTO_MIN; RFC 6298 would have 1 s
	maxTimeout = 3 * time.Second        // RFC 6298 would have 60 s; short, so that a healed world is whole again soon
)

// timeout is the retransmission time-out before any back-off.
func (c *Conn) timeout() time.Duration { return max(minTimeout, 2*(c.out.typical+c.back.typical)) }

// lose keeps a segment that did not arrive until an attempt gets through.
func (c *Conn) lose(s *segment) {
	if c.gone {
		c.n.recycle(s)
		return
	}
	if c.lost.len() == 0 {
		c.n.w.Record(sim.KindNet, c.out.name, "hold", "", c.id, 0)
	}
	c.lost.insert(s)
	c.stall()
}

// dropped is lose on a link that works: nothing but a timer or what arrives behind it makes the sender try again.
func (c *Conn) dropped(s *segment) {
	behind := packets(len(s.buf)) - 1
	c.lose(s)
	if c.gone {
		return
	}
	if !c.again.Pending() {
		wait := c.timeout()
		for range c.tries {
			wait = min(2*wait, max(maxTimeout, c.timeout()))
		}
		c.n.w.Set(&c.again, c.n.w.Now()+wait, c.id)
	}
	c.duplicate(behind)
}

// duplicate counts packets that arrived behind a hole: the third duplicate acknowledgement makes the sender fill it.
func (c *Conn) duplicate(packets int) {
	c.dups += packets
	if c.dups < 3 || c.fast || c.lost.len() == 0 || c.back.silent() {
		return
	}
	c.fast, c.armed = true, true
	c.n.w.Set(&c.again, c.n.w.Now()+c.back.typical, c.id)
}

// outOfOrder keeps a segment that arrived behind a hole.
func (c *Conn) outOfOrder(s *segment) {
	if c.gone || c.severed { // the hole stays
		c.n.recycle(s)
		return
	}
	c.early.insert(s)
	c.duplicate(packets(len(s.buf)))
}

// progress follows a delivery: what waited behind the hole is delivered too, and the patience of the sender begins anew.
func (c *Conn) progress() {
	c.tries, c.dups, c.fast = 0, 0, false
	c.stallFrom = c.n.w.Now()
	for c.early.len() > 0 && c.early.front().seq == c.expect {
		c.deliver(c.early.pop())
	}
	c.stalled = c.lost.len() > 0 || c.early.len() > 0 || c.clogged > 0
}

// retransmission is the moment of an attempt that no heal caused.
type retransmission Conn

func (r *retransmission) Fire(uint64) {
	c := (*Conn)(r)
	if c.gone || c.local.frozen {
		return
	}
	c.listen()
	if c.lost.len() == 0 || !c.out.open() {
		return // the heal will cause one
	}
	now := c.n.w.Now()
	if !c.armed {
		c.tries++
		c.restart(now)
	}
	c.resend(now)
}

// release plans an attempt for everything lost, now that a fault between the two hosts is healed.
func (c *Conn) release() {
	if c.local.frozen {
		return
	}
	c.listen()
	if c.lost.len() == 0 || !c.out.open() {
		return
	}
	at := nextAttempt(c.stallFrom, c.n.w.Now(), c.timeout())
	c.restart(at)
	c.resend(at)
}

// resend plans everything lost as sent at the given time.
func (c *Conn) resend(at time.Duration) {
	c.n.w.Record(sim.KindNet, c.out.name, "resend", "", c.id, uint64(c.lost.len()))
	c.armed = false
	c.n.w.Unset(&c.again)
	latency := c.out.latency()
	for c.lost.len() > 0 {
		s := c.lost.pop()
		leave := at
		if c.slow.window > 0 {
			leave = c.leave(len(s.buf), at)
		}
		c.plan(s, leave+latency)
	}
}

// nextAttempt is the first retransmission at or after now of a segment that was missed at since.
func nextAttempt(since, now, wait time.Duration) time.Duration {
	longest := max(maxTimeout, wait)
	at := since
	for at < now {
		at += wait
		wait = min(wait*2, longest)
	}
	return at
}

// unheard notes that what this end sent is not acknowledged.
func (c *Conn) unheard() {
	if !c.deaf && !c.gone {
		c.deaf, c.deafFrom = true, c.n.w.Now()
		c.armGiveUp()
	}
}

// listen ends deafness once acknowledgements come through. If the peer is gone there are none, and the attempt brings that to light.
func (c *Conn) listen() {
	if c.deaf && !c.back.silent() {
		c.deaf = false
		if c.peer.gone {
			c.probe()
		}
	}
}

// probe sends an empty segment, which a host that does not know the connection answers by a reset. A full window is probed this way
// (RFC 9293, 3.8.6.1), but only when the answer is not "still full".
func (c *Conn) probe() {
	if !c.gone {
		c.send(c.n.segment(0))
	}
}

func (c *Conn) stall() {
	if !c.stalled {
		c.stalled, c.stallFrom = true, c.n.w.Now()
	}
	c.armGiveUp()
}

func (c *Conn) armGiveUp() {
	if !c.giveUp.Pending() {
		c.n.w.Set(&c.giveUp, c.n.w.Now()+c.n.cfg.GiveUp, c.id)
	}
}

// Fire is the moment at which a sender that hears nothing gives up.
func (c *Conn) Fire(uint64) {
	if c.gone {
		return
	}
	now := c.n.w.Now()
	if c.local.frozen {
		c.stallFrom, c.deafFrom = now, now
	}
	since := now
	if c.stalled {
		since = c.stallFrom
	}
	if c.deaf {
		since = min(since, c.deafFrom)
	}
	switch by := since + c.n.cfg.GiveUp; {
	case by <= now:
		c.broken(errGaveUp)
	case c.deaf || c.stalled:
		c.n.w.Set(&c.giveUp, by, c.id)
	}
}
