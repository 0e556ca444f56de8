package net

import "time"

const (
	packet        = 1460 // bytes of payload in an Ethernet frame
	initialWindow = 10 * packet
)

// packets is how many frames carry so many bytes.
func packets(size int) int { return max(1, (size+packet-1)/packet) }

// slowStart is a connection's congestion window while it limits what may leave. The zero value limits nothing.
type slowStart struct {
	window int           // bytes per round trip; 0: no limit
	sent   int           // bytes that leave in the current round trip
	round  time.Duration // when it starts: in the future while bytes wait for it
}

// restart lets the connection begin at ten packets at the given time.
func (c *Conn) restart(at time.Duration) {
	if !c.n.cfg.NoSlowStart && c.local != c.remote && c.n.cfg.Window > initialWindow {
		c.slow = slowStart{window: initialWindow, round: at}
	}
}

// leave says when the last of size more bytes may leave, at the given time or after.
func (c *Conn) leave(size int, now time.Duration) time.Duration {
	s := &c.slow
	rtt := c.out.typical + c.back.typical
	if now >= s.round+rtt {
		s.window += s.sent
		s.round, s.sent = now, 0
	}
	for size > s.window-s.sent {
		size -= s.window - s.sent
		s.window += s.window
		s.round, s.sent = s.round+rtt, 0
	}
	s.sent += size
	at := max(now, s.round)
	if s.window >= c.n.cfg.Window {
		s.window = 0
	}
	return at
}
