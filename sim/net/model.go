// Package net is the virtual network: TCP-like byte streams between named hosts.
//
// # The model
//
// A segment (at most 64 KiB of one Write) leaves through its host's NIC, a queue served at the configured bandwidth, then
// travels for a latency drawn from the stream of its directed link ("a>b"). Segments of one connection arrive
// in order. What the receiving program has not read counts against the window of the sender (the socket buffers of both sides);
// a full window blocks Write, so back-pressure works as in TCP. Hosts reach themselves by a loop-back link without NIC.
//
// What may go wrong:
//
//   - A link is blocked, in one direction or both (partition). Segments that would arrive are held by the sender, which tries again at
//     growing intervals (200 ms, doubled, at most 3 s); what it holds arrives, in order, with the first attempt after the heal. With
//     acknowledgements blocked (the other direction) data still arrives. A sender that gets nothing acknowledged for GiveUp breaks its end
//     with ErrTimeout; the other end is not told (half-open).
//   - A process crashes: each of its connections is reset; the peer's pending and later calls fail with ErrConnReset. A reset
//     is sent once: a blocked link swallows it, and the peer stays half-open until it sends something.
//   - A machine loses power: silence. Peers are half-open: their reads wait, their writes are held. Once the machine is up again whatever
//     reaches it for a connection that it does not know is answered by a reset.
//   - Reset: connections between two sets of hosts are reset at both ends.
//   - Connect: no process listens: ErrConnRefused after a round trip. Host down, link blocked either way, or backlog full: the
//     attempt is repeated after 1, 3, 7, ... s and fails with ErrTimeout when its time is up. Unknown name: ErrNoHost.
//   - A rule on a link adds latency, caps bandwidth, or both (slow link).
//
// What cannot go wrong: bytes are not lost, changed, duplicated or reordered inside a connection that lives.
package net

import (
	"math/rand/v2"
	"time"

	"faultline/sim"
)

// Config holds the properties of a network. Zero fields take the defaults.
type Config struct {
	MinLatency time.Duration // one way; default 100 us
	MaxLatency time.Duration // uniform between the two; default 500 us
	Loopback   time.Duration // to oneself; default 15 us
	Bandwidth  int64         // of each NIC, bytes/s; default 1.25 GB/s (10 Gb/s)
	Window     int           // bytes sent and not yet read; default 1 MiB
	Backlog    int           // connections waiting for Accept; default 128
	GiveUp     time.Duration // without acknowledgement until a sender breaks the connection; default 20 s
}

func (c Config) withDefaults() Config {
	or := func(v *time.Duration, d time.Duration) {
		if *v == 0 {
			*v = d
		}
	}
	if c.MinLatency == 0 && c.MaxLatency == 0 {
		c.MinLatency, c.MaxLatency = 100*time.Microsecond, 500*time.Microsecond
	}
	c.MaxLatency = max(c.MaxLatency, c.MinLatency)
	or(&c.Loopback, 15*time.Microsecond)
	or(&c.GiveUp, 20*time.Second)
	if c.Bandwidth == 0 {
		c.Bandwidth = 1_250_000_000
	}
	if c.Window == 0 {
		c.Window = 1 << 20
	}
	if c.Backlog == 0 {
		c.Backlog = 128
	}
	return c
}

// Network connects the hosts of one world.
type Network struct {
	w     *sim.World
	cfg   Config
	hosts map[string]*Host
	order []*Host // as added
	free  [classes][]*segment
	conns uint64
}

// New makes an empty network.
func New(w *sim.World, cfg Config) *Network {
	return &Network{w: w, cfg: cfg.withDefaults(), hosts: map[string]*Host{}}
}

// Host is one machine's network stack. It outlives processes; see Crash and PowerOff.
type Host struct {
	n       *Network
	name    string
	clock   *sim.Clock // deadlines are given by it
	up      bool
	nicFree time.Duration // when the NIC has sent all that is queued
	ports   map[int]*Listener
	conns   []*Conn // open ends, in the order in which they were made
	links   map[*Host]*link
	lastEph int
}

// AddHost connects a machine, powered on, whose programs read the given clock.
func (n *Network) AddHost(name string, clock *sim.Clock) *Host {
	if n.hosts[name] != nil {
		panic("net: two hosts are named " + name)
	}
	h := &Host{n: n, name: name, clock: clock, up: true, ports: map[int]*Listener{}, links: map[*Host]*link{}, lastEph: 32767}
	n.hosts[name] = h
	n.order = append(n.order, h)
	return h
}

// Rule makes a link worse than the network's defaults.
type Rule struct {
	Latency   time.Duration // added to each segment's
	Jitter    time.Duration // added, uniform from 0
	Bandwidth int64         // bytes/s of this link; 0: no cap
}

// link is one direction between two hosts.
type link struct {
	name    string
	from    *Host
	to      *Host
	rng     *rand.Rand
	blocked int // how many faults block it
	rules   []*Rule
	free    time.Duration // when a bandwidth cap lets the next segment through
}

func (h *Host) link(to *Host) *link {
	l := h.links[to]
	if l == nil {
		name := h.name + ">" + to.name
		l = &link{name: name, from: h, to: to, rng: h.n.w.Stream("net/latency", name)}
		h.links[to] = l
	}
	return l
}

// latency draws one segment's travel time.
func (l *link) latency() time.Duration {
	c := &l.from.n.cfg
	if l.from == l.to {
		return c.Loopback
	}
	d := c.MinLatency
	if c.MaxLatency > d {
		d += time.Duration(l.rng.Int64N(int64(c.MaxLatency-d) + 1))
	}
	for _, r := range l.rules {
		d += r.Latency
		if r.Jitter > 0 {
			d += time.Duration(l.rng.Int64N(int64(r.Jitter) + 1))
		}
	}
	return d
}

// arrival queues size bytes at the NIC and the link, and says when they reach the other side.
func (l *link) arrival(size int) time.Duration {
	now := l.from.n.w.Now()
	if l.from == l.to {
		return now + l.latency()
	}
	const frame = 66 // Ethernet, IP and TCP headers
	depart := max(now, l.from.nicFree) + transfer(size+frame, l.from.n.cfg.Bandwidth)
	l.from.nicFree = depart
	for _, r := range l.rules {
		if r.Bandwidth > 0 {
			depart = max(depart, l.free) + transfer(size+frame, r.Bandwidth)
			l.free = depart
		}
	}
	return depart + l.latency()
}

func transfer(size int, bytesPerSecond int64) time.Duration {
	return time.Duration(int64(size) * int64(time.Second) / bytesPerSecond)
}

// open tells whether segments pass.
func (l *link) open() bool { return l.blocked == 0 && l.to.up && l.from.up }
