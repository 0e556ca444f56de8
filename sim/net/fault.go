package net

import (
	"time"

	"faultline/sim"
)

// Block stops everything from one host to another until the returned function is called. Blocks add up.
func (n *Network) Block(from, to string) (heal func()) {
	l := n.must(from).link(n.must(to))
	l.blocked++
	n.w.Record(sim.KindNet, l.name, "block", "", uint64(l.blocked), 0)
	done := false
	return func() {
		if done {
			return
		}
		done = true
		l.blocked--
		n.w.Record(sim.KindNet, l.name, "unblock", "", uint64(l.blocked), 0)
		n.retry()
	}
}

// Slow puts a rule on a link until the returned function is called. Rules add up.
func (n *Network) Slow(from, to string, r Rule) (heal func()) {
	l := n.must(from).link(n.must(to))
	rule := &r
	l.rules = append(l.rules, rule)
	n.w.Record(sim.KindNet, l.name, "slow", "", uint64(r.Latency), uint64(r.Bandwidth))
	return func() {
		for i, o := range l.rules {
			if o == rule {
				l.rules = append(l.rules[:i], l.rules[i+1:]...)
				n.w.Record(sim.KindNet, l.name, "unslow", "", 0, 0)
				return
			}
		}
	}
}

// Reset breaks the connections between two hosts at both ends, at once.
func (n *Network) Reset(a, b string) {
	ha, hb := n.must(a), n.must(b)
	for _, c := range append([]*Conn(nil), ha.conns...) {
		if c.remote == hb {
			peer := c.peer
			c.broken(errReset)
			if peer != nil {
				peer.broken(errReset)
			}
		}
	}
}

// Crash is the end of the process on a host: its listeners go, its connections are reset.
func (h *Host) Crash() {
	h.forget(func(c *Conn) { c.sendReset() })
}

// PowerOff is the end of the machine: the same, in silence, and nothing gets in or out until PowerOn.
func (h *Host) PowerOff() {
	h.forget(func(*Conn) {})
	h.up = false
}

// PowerOn brings the network stack back, without listeners or connections.
func (h *Host) PowerOn() {
	h.up = true
	h.n.retry()
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

// retry lets senders that hold segments plan their next attempt, now that something healed.
func (n *Network) retry() {
	for _, h := range n.order {
		for _, c := range append([]*Conn(nil), h.conns...) {
			c.release()
		}
	}
}

// nextAttempt is the first retransmission at or after now of a segment first sent at since.
func nextAttempt(since, now time.Duration) time.Duration {
	wait, at := 200*time.Millisecond, since
	for at < now {
		at += wait
		wait = min(wait*2, 3*time.Second)
	}
	return at
}

func (n *Network) must(name string) *Host {
	h := n.hosts[name]
	if h == nil {
		panic("net: no host is named " + name)
	}
	return h
}
