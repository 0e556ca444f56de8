package net

import (
	"math"
	"slices"

	"faultline/sim"
)

// Block stops everything from one host to another until the returned function is called. Blocks add up.
func (n *Network) Block(from, to string) (heal func()) {
	l := n.must(from).link(n.must(to))
	l.blocked++
	l.watch()
	n.w.Record(sim.KindNet, l.name, "block", "", uint64(l.blocked), 0)
	return once(func() {
		l.blocked--
		l.watch()
		n.w.Record(sim.KindNet, l.name, "unblock", "", uint64(l.blocked), 0)
		if l.blocked == 0 {
			l.restart()
		}
		n.retry(l.from, l.to)
	})
}

// restart lets the connections of a healed link start slowly.
func (l *link) restart() {
	for _, c := range l.from.conns {
		if c.out == l {
			c.restart(l.from.n.w.Now())
		}
	}
}

// Clog holds everything that arrives from one host at another until the returned function is called; then it passes at once, in order. Clogs
// add up. To swizzle, clog several links one after the other and unclog them in another order.
func (n *Network) Clog(from, to string) (unclog func()) {
	l := n.must(from).link(n.must(to))
	l.clogged++
	l.watch()
	n.w.Record(sim.KindNet, l.name, "clog", "", uint64(l.clogged), 0)
	return once(func() {
		l.clogged--
		l.watch()
		n.w.Record(sim.KindNet, l.name, "unclog", "", uint64(l.clogged), uint64(len(l.stuck)))
		if l.clogged > 0 {
			return
		}
		stuck := l.stuck
		l.stuck = nil
		for _, s := range stuck {
			s.from.clogged--
			s.Fire(0)
		}
		wake(&l.waiting)
		n.retry(l.from, l.to)
	})
}

// clog keeps a segment in the network.
func (l *link) clog(s *segment) {
	l.stuck = append(l.stuck, s)
	l.counts.Held++
	s.from.clogged++
	if !s.from.gone && s.kind < segReset {
		s.from.stall()
	}
}

// Slow puts a rule on a link until the returned function is called. Rules add up.
func (n *Network) Slow(from, to string, r Rule) (heal func()) {
	l := n.must(from).link(n.must(to))
	unblock := func() {}
	if r.Loss >= million {
		r.Loss = 0
		unblock = n.Block(from, to)
	}
	rule := &r
	l.rules = append(l.rules, rule)
	l.ruled()
	n.w.Record(sim.KindNet, l.name, "slow", "", uint64(r.Latency.Min), uint64(r.Bandwidth))
	if r.Loss != 0 || r.Corrupt != 0 {
		n.w.Record(sim.KindNet, l.name, "spoil", "", uint64(r.Loss), uint64(r.Corrupt))
	}
	return once(func() {
		l.rules = slices.DeleteFunc(l.rules, func(o *Rule) bool { return o == rule })
		l.ruled()
		n.w.Record(sim.KindNet, l.name, "unslow", "", 0, 0)
		unblock()
	})
}

// Reset breaks the connections between two hosts at both ends, at once.
func (n *Network) Reset(a, b string) {
	ha, hb := n.must(a), n.must(b)
	for _, c := range slices.Clone(ha.conns) {
		if c.remote == hb {
			peer := c.peer
			c.broken(errReset)
			peer.broken(errReset)
		}
	}
}

// cut waits for a number of bytes.
type cut struct {
	left int
	trip func()
}

// Cut breaks the connections between two hosts once so many more bytes have been delivered between them, in both directions together: in the
// middle of a message, most likely. The receiver gets every byte up to there; the resets follow half a round trip later. off calls it off if it did not happen yet.
func (n *Network) Cut(a, b string, bytes int) (off func()) {
	x := &cut{left: max(0, bytes)}
	there := n.must(a).link(n.must(b))
	back := there.to.link(there.from)
	n.w.Record(sim.KindNet, there.name, "cut", "", uint64(x.left), 0)
	off = once(func() {
		for _, l := range []*link{there, back} {
			l.cuts = slices.DeleteFunc(l.cuts, func(o *cut) bool { return o == x })
			l.ruled()
		}
	})
	x.trip = func() {
		off()
		n.w.Record(sim.KindNet, there.name, "cut now", "", 0, 0)
		var severed []*Conn
		for _, c := range there.from.conns {
			if c.remote == there.to {
				severed = append(severed, c, c.peer)
			}
		}
		for _, c := range severed {
			c.severed, c.expect = true, math.MaxUint64
		}
		n.w.At(n.w.Now()+max(there.typical, back.typical), func() {
			for _, c := range severed {
				c.broken(errReset)
			}
		})
	}
	there.cuts = append(there.cuts, x)
	there.ruled()
	if back != there {
		back.cuts = append(back.cuts, x)
		back.ruled()
	}
	return off
}

// cut counts a segment that is delivered, and shortens it when the count is over within.
func (l *link) cut(s *segment) {
	for _, x := range slices.Clone(l.cuts) {
		if len(s.buf) >= x.left {
			s.buf = s.buf[:x.left]
			x.trip()
		}
		x.left -= len(s.buf)
	}
}

// Crash is the end of the process on a host: its listeners go, its connections are reset.
func (h *Host) Crash() {
	h.forget(func(c *Conn) { c.sendReset() })
}

// PowerOff is the end of the machine: the same, in silence, and nothing gets in or out until PowerOn.
func (h *Host) PowerOff() {
	h.forget(func(c *Conn) {
		if len(c.peer.writers) > 0 {
			c.peer.probe()
		}
	})
	h.up, h.frozen = false, false
	h.watch()
}

// PowerOn brings the network stack back, without listeners or connections.
func (h *Host) PowerOn() {
	h.up = true
	h.watch()
	h.n.retry(h, nil)
}

// Freeze lets the whole machine stand still until Thaw: it neither sends nor acknowledges anything. Its tasks are the caller's business.
func (h *Host) Freeze() {
	h.n.w.Record(sim.KindNet, h.name, "freeze", "", 0, 0)
	h.frozen = true
	h.watch()
}

// Thaw ends a Freeze.
func (h *Host) Thaw() {
	if h.frozen {
		h.n.w.Record(sim.KindNet, h.name, "thaw", "", 0, 0)
		h.frozen = false
		h.watch()
		h.n.retry(h, nil)
	}
}

func (h *Host) forget(tell func(*Conn)) {
	for len(h.conns) > 0 {
		c := h.conns[0]
		tell(c)
		c.vanish()
	}
	for _, l := range h.ports {
		l.closed = true
	}
	clear(h.ports)
}

// retry lets senders that hold segments plan their next attempt, now that something healed between a host and another (nil: any other).
func (n *Network) retry(a, b *Host) {
	for _, h := range n.order {
		for _, c := range slices.Clone(h.conns) {
			if c.local == a && (b == nil || c.remote == b) || c.remote == a && (b == nil || c.local == b) {
				c.release()
			}
		}
	}
}

func (n *Network) must(name string) *Host {
	h := n.hosts[name]
	if h == nil {
		panic("net: no host is named " + name)
	}
	return h
}

func once(fn func()) func() {
	done := false
	return func() {
		if !done {
			done = true
			fn()
		}
	}
}
