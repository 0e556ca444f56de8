package net

import (
	"math/rand/v2"
	"time"

	"faultline/sim"
)

const million = 1_000_000

// Rule makes a link worse than the network's defaults. Zero fields change nothing.
type Rule struct {
	Key         string       // its draws come from streams of its own, so that no other rule shifts them; rules without a key share one of the link
	Latency     Distribution // added to each segment's
	Bandwidth   int64        // bytes/s of this link; 0: no cap
	Loss        int          // ppm of attempts that are lost; 1,000,000 and more is a block
	Corrupt     int          // ppm of segments delivered with one flipped bit
	CorruptFrom int          // bytes at the start of a segment that are spared

	own streams
}

// Counts are segments of a link to which something happened, since the begin of the world.
type Counts struct {
	Held      int64 // arrived at a block or clog, each attempt counted
	Lost      int64 // of a lossy link, each attempt counted
	Corrupted int64
}

// Plus is both together.
func (c Counts) Plus(o Counts) Counts {
	return Counts{c.Held + o.Held, c.Lost + o.Lost, c.Corrupted + o.Corrupted}
}

// Counts says what happened to segments from one host to another so far.
func (n *Network) Counts(from, to string) Counts { return n.must(from).link(n.must(to)).counts }

// link is one direction between two hosts.
type link struct {
	name    string
	from    *Host
	to      *Host
	rng     *rand.Rand
	own     streams
	blocked int  // how many faults block it
	clogged int  // how many faults clog it
	trouble bool // anything at all is wrong with the link, its way back, or their ends: see watch
	plain   bool // latency is the network's own, uniform
	lossy   bool
	tampers bool // has cuts or corrupts
	typical time.Duration
	rules   []*Rule
	free    time.Duration // when a bandwidth cap lets the next segment through
	stuck   []*segment    // in the clog, in the order of arrival
	waiting []*sim.Task   // connects in the clog
	cuts    []*cut
	counts  Counts
}

// streams are made when a fault first needs them. Each kind of fault has one of its own, so that none shifts the draws of another.
type streams struct{ rule, loss, corruption *rand.Rand }

// stream is where the draws of a rule come from, for one purpose.
func (l *link) stream(r *Rule, purpose string) *rand.Rand {
	own, name := &l.own, l.name
	if r.Key != "" {
		own, name = &r.own, l.name+"/"+r.Key
	}
	s := &own.rule
	switch purpose {
	case purposeLoss:
		s = &own.loss
	case purposeCorrupt:
		s = &own.corruption
	}
	if *s == nil {
		*s = l.from.n.w.Stream(purpose, name)
	}
	return *s
}

const (
	purposeRule    = "net/rule"
	purposeLoss    = "net/loss"
	purposeCorrupt = "net/corrupt"
)

func (h *Host) link(to *Host) *link {
	l := h.links[to]
	if l == nil {
		name := h.name + ">" + to.name
		l = &link{name: name, from: h, to: to, rng: h.n.w.Stream("net/latency", name)}
		h.links[to] = l
		l.ruled()
	}
	return l
}

// ruled brings what is derived from rules and cuts up to date.
func (l *link) ruled() {
	l.lossy, l.tampers, l.typical = false, len(l.cuts) > 0, l.from.n.cfg.Latency.typical()
	for _, r := range l.rules {
		l.lossy = l.lossy || r.Loss > 0
		l.tampers = l.tampers || r.Corrupt > 0
		l.typical += r.Latency.typical()
	}
	if l.from == l.to {
		l.typical = l.from.n.cfg.Loopback
	}
	d := l.from.n.cfg.Latency
	l.plain = l.from != l.to && len(l.rules) == 0 && d.Kind == Uniform && d.Max > d.Min
	l.watch()
}

// watch brings trouble up to date in both directions. Call it after every change to a link or to the state of a host, so that a segment in a
// whole world costs one look.
func (l *link) watch() {
	l.trouble = l.ails()
	if back := l.to.links[l.from]; back != nil {
		back.trouble = back.ails()
		l.trouble = l.trouble || back.trouble
		back.trouble = l.trouble
	}
}

func (l *link) ails() bool {
	return l.silent() || l.lossy || l.tampers || !l.from.up || l.from.frozen || !l.to.up || l.to.frozen
}

// watch brings the links of a host whose state changed up to date.
func (h *Host) watch() {
	for _, o := range h.n.order {
		for _, l := range [...]*link{h.links[o], o.links[h]} {
			if l != nil {
				l.watch()
			}
		}
	}
}

// latency draws one segment's travel time.
func (l *link) latency() time.Duration {
	if l.from == l.to {
		return l.from.n.cfg.Loopback
	}
	u := &l.from.n.cfg.Latency
	if l.plain {
		return u.Min + time.Duration(l.rng.Int64N(int64(u.Max-u.Min)+1))
	}
	d := u.draw(l.rng)
	for _, r := range l.rules {
		d += r.Latency.draw(l.stream(r, purposeRule))
	}
	return d
}

// arrival queues size bytes at the NIC and the link, and says when they reach the other side if the last of them may leave at the given time.
func (l *link) arrival(size int, leave time.Duration) time.Duration {
	now := l.from.n.w.Now()
	if l.from == l.to {
		return now + l.latency()
	}
	begin := max(now, l.from.nicFree)
	depart := begin + l.from.n.passes(size, l.from.n.cfg.Bandwidth)
	l.from.nicFree = depart
	l.from.sends += l.from.n.watched.Holds(begin, depart)
	for _, r := range l.rules {
		if r.Bandwidth > 0 {
			depart = max(depart, l.free) + transfer(size+frame, r.Bandwidth)
			l.free = depart
		}
	}
	arrives := max(depart, leave) + l.latency()
	if in := l.from.n.cfg.Receive; in > 0 {
		took := l.from.n.passes(size, in)
		arrives = max(arrives, l.to.nicIn+took) // its first byte was there as much earlier, if nothing else was
		l.to.nicIn = arrives
		l.to.takes += l.from.n.watched.Holds(arrives-took, arrives)
	}
	return arrives
}

// Bytes on the wire that a packet has besides those that it carries.
const (
	frame    = 66 // Ethernet, IP and TCP headers
	headers  = 52 // of these: IP, and TCP with timestamps, which count in an MTU
	ethernet = 38 // header, check sequence, preamble and gap
)

// passes is how long a NIC of the bandwidth works on size bytes.
func (n *Network) passes(size int, bandwidth int64) time.Duration {
	if n.cfg.MTU == 0 {
		return transfer(size+frame, bandwidth)
	}
	packets := max(1, (size+n.cfg.MTU-headers-1)/(n.cfg.MTU-headers))
	return max(transfer(size+packets*(headers+ethernet), bandwidth), time.Duration(packets)*n.cfg.Packet)
}

func transfer(size int, bytesPerSecond int64) time.Duration {
	return time.Duration(int64(size) * int64(time.Second) / bytesPerSecond)
}

// open tells whether the other side takes what arrives.
func (l *link) open() bool { return l.blocked == 0 && l.to.up && !l.to.frozen }

// silent tells whether acknowledgements do not come through.
func (l *link) silent() bool { return l.blocked > 0 || l.clogged > 0 }

// loses draws whether an attempt is lost. Ask only a lossy link.
func (l *link) loses() bool {
	lost := false
	for _, r := range l.rules {
		if r.Loss > 0 && l.stream(r, purposeLoss).IntN(million) < r.Loss {
			lost = true
		}
	}
	if lost {
		l.counts.Lost++
	}
	return lost
}

// corrupt flips a bit of what is delivered, if a rule says so.
func (l *link) corrupt(s *segment) {
	for _, r := range l.rules {
		if r.Corrupt <= 0 || len(s.buf) <= r.CorruptFrom {
			continue
		}
		rng := l.stream(r, purposeCorrupt)
		if rng.IntN(million) < r.Corrupt {
			bit := 8*r.CorruptFrom + rng.IntN(8*(len(s.buf)-r.CorruptFrom))
			s.buf[bit/8] ^= 1 << (bit % 8)
			l.counts.Corrupted++
			l.from.n.w.Record(sim.KindNet, l.name, "corrupt", "", s.from.id, uint64(bit))
		}
	}
}
