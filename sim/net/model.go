// Package net is the virtual network: TCP-like byte streams between named hosts.
//
// # The model
//
// A segment (at most 64 KiB of one Write) leaves through its host's NIC, a queue served at the configured bandwidth (with a time for each packet, and a second
// queue at the receiver's NIC, if the configuration says so), then travels for a latency drawn from the stream of its directed link ("a>b"): constant, uniform or with a heavy tail. Segments of one connection
// reach the program in order. What the receiving program has not read counts against the window of the sender (the socket buffers of both sides);
// a full window blocks Write, so back-pressure works as in TCP. Hosts reach themselves by a loop-back link without NIC.
//
// A new connection starts slowly (RFC 5681, RFC 6928): 10 packets of 1460 bytes in the first round trip; a round trip adds what it carried, so
// a busy connection doubles, until the window is reached. The round trip is the median of both directions' latency. An idle connection keeps what it
// reached. What waits for its round trip has passed the NIC already.
//
// What may go wrong:
//
//   - Block: segments that would arrive are lost, in one direction or both (partition). The sender keeps them and tries again after the
//     retransmission time-out (RFC 6298): 200 ms or two round trips, whichever is longer, doubled each time, at most 3 s. What it holds arrives, in
//     order, with the first attempt after the heal, and starts slowly. With acknowledgements blocked (the other direction) data still arrives. A
//     sender that gets nothing acknowledged for GiveUp (RFC 9293, R2) breaks its end with ErrTimeout; the other end is not told (half-open), and is
//     reset when it sends something.
//   - Loss: each attempt to carry a segment, a close or a reset is lost with a probability. What comes after a lost segment waits at the receiver
//     (head-of-line blocking). The sender tries again after the time-out as above, which also slows it down to 10 packets; or, once three packets
//     of 1460 bytes arrived behind the hole, half a round trip after the third (fast retransmit, RFC 5681; once per hole, without back-off, the
//     window stays). Acknowledgements are cumulative: losing some changes nothing. Certain loss is a block.
//   - Clog: what would arrive stays inside the network and arrives, in order, at the moment of the unclog, without an attempt of its sender; it
//     outlives the sender. Acknowledgements are held likewise, so a long clog makes senders give up.
//   - Flapping (blocks that come and go): attempts fall into blocked stretches; the back-off goes on until something is acknowledged.
//   - Rules on a link add latency (of any distribution) and cap bandwidth (slow link, a queue of its own).
//   - Corruption: in a segment that is delivered one bit differs from what was sent, with a probability: TCP's 16-bit sum lets through between one in
//     65 thousand and one in ten million damaged packets (Stone and Partridge, SIGCOMM 2000). The sender's bytes stay true. A rule can spare the
//     first CorruptFrom bytes of each segment and so all shorter segments: what is hit then is mostly record data, which a CRC-32C protects.
//     Nothing protects headers, lengths, counts, offsets (a batch's own base offset too) and the whole protocol of the coordination service, so
//     corruption that spares nothing can do anything to what a program believes; a plan that promises more than safe parsing keeps CorruptFrom
//     above the headers and its requests to one batch.
//   - A process crashes: each of its connections is reset; the peer's pending and later calls fail with ErrConnReset. A reset
//     is sent once: a blocked link swallows it, and the peer stays half-open until it sends something.
//   - A machine loses power: silence. Peers are half-open: their reads wait, their writes are held. Once the machine is up again whatever
//     reaches it for a connection that it does not know is answered by a reset, again for each attempt. Segments that had left still arrive.
//   - A machine is frozen: it sends, acknowledges and accepts nothing, its own patience stands still, and what would arrive is lost as in a
//     block. After the thaw each side's next attempt gets through, unless its sender gave up.
//   - Reset: connections between two hosts are reset at both ends, at once; what was in flight is gone. Cut: the same after a number of bytes, in
//     the middle of a segment: the receiver gets its first part and, half a round trip later, both ends are reset.
//   - Connect: no process listens: ErrConnRefused after a round trip. Host down or frozen, link blocked either way, attempt lost, or backlog full:
//     the attempt is repeated after 1, 3, 7, ... s and fails with ErrTimeout when its time is up. Unknown name: ErrNoHost. A reset on the way:
//     ErrConnReset.
//   - Listen: a port that another listener or a dialled connection of the host uses: ErrAddressInUse. A dead process leaves no port in use
//     (SO_REUSEADDR), and nothing sent to it reaches its successor: it is answered by a reset.
//
// What cannot go wrong: inside a connection that lives, bytes are not lost, duplicated or reordered, and without a corruption rule not changed:
// what was read is at any time a prefix of what was written. Calls fail with ErrConnReset, ErrTimeout, a passed deadline, or because the program closed.
package net

import (
	"time"

	"faultline/sim"
)

// Config holds the properties of a network. Zero fields take the defaults.
type Config struct {
	Latency     Distribution  // one way; default uniform 100..500 us
	Loopback    time.Duration // to oneself; default 15 us
	Bandwidth   int64         // of each NIC, bytes/s; default 1.25 GB/s (10 Gb/s)
	Window      int           // bytes sent and not yet read; default 1 MiB
	Backlog     int           // connections waiting for Accept; default 128
	GiveUp      time.Duration // without acknowledgement until a sender breaks the connection; default 20 s
	NoSlowStart bool          // connections may fill their window at once

	// In more detail, for benchmarks. The zero values stand for one frame a segment, and for a receiver that takes everything as it comes.
	MTU     int           // bytes that a packet carries at most, IP and TCP headers included; 0: a segment is one packet
	Packet  time.Duration // what a NIC needs for a packet, however small it is
	Receive int64         // bandwidth of each NIC for what arrives, bytes/s; 0: no limit
}

func (c Config) withDefaults() Config {
	or := func(v *time.Duration, d time.Duration) {
		if *v == 0 {
			*v = d
		}
	}
	if c.Latency == (Distribution{}) {
		c.Latency = Distribution{Min: 100 * time.Microsecond, Max: 500 * time.Microsecond}
	}
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

	watched sim.Window
}

// Watch has all NICs count anew how long they are busy within a window.
func (n *Network) Watch(w sim.Window) {
	n.watched = w
	for _, h := range n.order {
		h.sends, h.takes = 0, 0
	}
}

// Busy is how long the host's NIC sent and took in within the window of Watch, as far as is known by now: what is queued counts already.
func (h *Host) Busy() (sends, takes time.Duration) { return h.sends, h.takes }

// New makes an empty network.
func New(w *sim.World, cfg Config) *Network {
	return &Network{w: w, cfg: cfg.withDefaults(), hosts: map[string]*Host{}}
}

// Host is one machine's network stack. It outlives processes; see Crash, PowerOff and Freeze.
type Host struct {
	n       *Network
	name    string
	clock   *sim.Clock // deadlines are given by it
	up      bool
	frozen  bool
	nicFree time.Duration // when the NIC has sent all that is queued
	nicIn   time.Duration // when the NIC has taken in all that arrived
	sends   time.Duration // how long the NIC sends within Network.watched
	takes   time.Duration // how long it takes in
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
	h := &Host{n: n, name: name, clock: clock, up: true, ports: map[int]*Listener{}, links: map[*Host]*link{}, lastEph: firstEphemeral - 1}
	n.hosts[name] = h
	n.order = append(n.order, h)
	return h
}
