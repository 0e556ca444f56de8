package net_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	stdnet "net"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"faultline/sim"
	"faultline/sim/machine"
	"faultline/sim/net"
)

// The reference: what any network may do to streams of bytes, whatever the misfortunes, without any notion of segments, links or timers.
//
// A stream is known by its connection and direction; its i-th byte is a function of these, so a byte out of place, of another stream or of another
// life of a machine is seen when it is read. Read bytes are a prefix of offered ones; an end of file comes after all of them; errors have a reason;
// what has no reason to break arrives whole once the faults are over.

// refStream is one direction of a connection.
type refStream struct {
	key      uint64
	total    int // bytes that the writer means to send
	offered  int // given to Write so far
	accepted int // taken by it, as far as the writer knows
	read     int
}

func (s *refStream) at(i int) byte {
	if i < 8 {
		return byte(s.key >> (8 * i))
	}
	x := (s.key<<32 | uint64(i)) * 0x9e3779b97f4a7c15
	return byte(x >> 56)
}

func (s *refStream) fill(p []byte) {
	for i := range p {
		p[i] = s.at(s.offered + i)
	}
}

// refEnd is what one program did and saw.
type refEnd struct {
	host       int
	in, out    *refStream
	closed     bool
	closeAfter int // bytes read after which it closes in the middle; -1: never
	errs       []error
	dead       bool // its process died
}

type refConn struct {
	id        uint64
	ends      [2]*refEnd // dialler, acceptor
	connected bool
}

// refWorld is three hosts whose programs talk to each other while faults happen.
type refWorld struct {
	t      *rapid.T
	w      *sim.World
	n      *net.Network
	hosts  []*net.Host
	groups []*sim.Group
	up     []bool
	conns  map[uint64]*refConn
	order  []*refConn
	calm   bool // the faults are over
	cut    [3][3]bool
	killed [3]bool // at any time
	first  time.Duration
	last   time.Duration // of what delays: faults lie between
	giveUp time.Duration
	pauses time.Duration // of programs, at most
}

func (r *refWorld) name(i int) string { return fmt.Sprint("h", i) }

func (r *refWorld) sleep(d time.Duration) {
	if d > 0 {
		r.w.ParkUntil("sleep", "", r.w.Now()+d)
	}
}

// boot starts the program of a host: it listens on the same port in every life.
func (r *refWorld) boot(i int) {
	r.groups[i] = &sim.Group{Name: r.name(i)}
	r.up[i] = true
	r.w.Go(r.groups[i], "accept", func() {
		l, err := r.hosts[i].Listen(7)
		require.NoError(r.t, err, "the port of a dead process is free")
		for {
			c, err := l.Accept()
			require.NoError(r.t, err)
			r.w.Go(r.groups[i], "accepted", func() { r.accepted(i, c) })
		}
	})
}

func (r *refWorld) accepted(i int, c stdnet.Conn) {
	b := make([]byte, 8)
	n, err := io.ReadFull(c, b)
	if n < 8 {
		require.Error(r.t, err)
		c.Close()
		return
	}
	conn := r.conns[binary.LittleEndian.Uint64(b)]
	require.NotNil(r.t, conn, "the first bytes name a connection: %x", b)
	end := conn.ends[1]
	require.Equal(r.t, i, end.host)
	require.False(r.t, end.dead, "a segment reached the successor of a dead process")
	end.in.read = 8
	r.talk(i, c, end)
}

// talk runs one end: a reader and a writer task.
func (r *refWorld) talk(host int, c stdnet.Conn, end *refEnd) {
	rng := r.w.Stream("ref", fmt.Sprint(end.out.key))
	done := 0
	over := func(err error) {
		if err != nil {
			end.errs = append(end.errs, err)
		}
		if done++; (err != nil || done == 2) && !end.closed {
			end.closed = true
			c.Close()
		}
	}
	pause := func() {
		if !r.calm {
			r.sleep(time.Duration(rng.Int64N(int64(r.pauses))))
		}
	}
	r.w.Go(r.groups[host], "write", func() {
		for end.out.offered < end.out.total {
			pause()
			p := make([]byte, min(end.out.total-end.out.offered, 1+rng.IntN(40_000)))
			end.out.fill(p)
			end.out.offered += len(p)
			n, err := c.Write(p)
			end.out.accepted += n
			if err != nil {
				over(err)
				return
			}
			if n != len(p) {
				r.t.Fatalf("Write of %d bytes returned %d without an error", len(p), n)
			}
		}
		over(nil)
	})
	for end.in.read < end.in.total {
		pause()
		p := make([]byte, 1+rng.IntN(50_000))
		n, err := c.Read(p)
		require.LessOrEqual(r.t, end.in.read+n, end.in.offered, "more was read than written")
		for i := range n {
			if p[i] != end.in.at(end.in.read+i) {
				r.t.Fatalf("connection %d: byte %d of the stream is not the one that was written", end.in.key, end.in.read+i)
			}
		}
		end.in.read += n
		if err == io.EOF {
			require.GreaterOrEqual(r.t, end.in.read, end.in.accepted, "end of file before the last byte")
		}
		if err != nil {
			over(err)
			return
		}
		if end.closeAfter >= 0 && end.in.read >= end.closeAfter && !end.closed {
			end.closed = true
			c.Close()
			return
		}
	}
	over(nil)
}

// kill ends the program of a host.
func (r *refWorld) kill(i int, power bool) {
	if !r.up[i] {
		return
	}
	r.up[i], r.killed[i] = false, true
	for _, c := range r.order {
		for _, e := range c.ends {
			if e.host == i && c.connected {
				e.dead = true
			}
		}
	}
	r.w.KillGroup(r.groups[i])
	if power {
		r.hosts[i].PowerOff()
	} else {
		r.hosts[i].Crash()
	}
}

func (r *refWorld) revive(i int) {
	if !r.up[i] {
		r.hosts[i].PowerOn()
		r.boot(i)
	}
}

// fault draws one misfortune and plans its start and end.
func (r *refWorld) fault(kinds []string, latest time.Duration) {
	t := r.t
	kind := rapid.SampledFrom(kinds).Draw(t, "kind")
	at := time.Duration(rapid.Int64Range(0, int64(latest)).Draw(t, "at"))
	span := time.Duration(rapid.Int64Range(0, int64(latest-at)).Draw(t, "for"))
	a := rapid.IntRange(0, 2).Draw(t, "a")
	b := (a + rapid.IntRange(1, 2).Draw(t, "b")) % 3
	delay := func(begin func() func()) {
		r.first, r.last = min(r.first, at), max(r.last, at+span)
		r.w.At(at, func() { r.w.At(r.w.Now()+span, begin()) })
	}
	rule := func(rule net.Rule) { delay(func() func() { return r.n.Slow(r.name(a), r.name(b), rule) }) }
	switch kind {
	case "block":
		delay(func() func() { return r.n.Block(r.name(a), r.name(b)) })
	case "clog":
		delay(func() func() { return r.n.Clog(r.name(a), r.name(b)) })
	case "flap":
		each := time.Duration(rapid.Int64Range(int64(100*time.Microsecond), int64(time.Second)).Draw(t, "each"))
		end := at + span
		r.first, r.last = min(r.first, at), max(r.last, end+each)
		var down func()
		down = func() {
			heal := r.n.Block(r.name(a), r.name(b))
			r.w.At(r.w.Now()+each, func() {
				heal()
				if r.w.Now()+each < end {
					r.w.At(r.w.Now()+each, down)
				}
			})
		}
		r.w.At(at, down)
	case "loss":
		rule(net.Rule{Loss: rapid.IntRange(1, 700_000).Draw(t, "ppm")})
	case "slow":
		kind := rapid.SampledFrom([]net.Kind{net.Uniform, net.Constant, net.HeavyTail}).Draw(t, "shape")
		rule(net.Rule{Latency: net.Distribution{Kind: kind, Min: time.Millisecond, Max: 400 * time.Millisecond}})
	case "narrow":
		rule(net.Rule{Bandwidth: int64(rapid.IntRange(500_000, 5_000_000).Draw(t, "bandwidth"))})
	case "freeze":
		delay(func() func() {
			g := r.groups[a]
			r.hosts[a].Freeze()
			r.w.Pause(g)
			return func() {
				r.hosts[a].Thaw()
				if r.groups[a] == g && r.up[a] {
					r.w.Resume(g)
				}
			}
		})
	case "reset":
		r.w.At(at, func() { r.cut[a][b], r.cut[b][a] = true, true; r.n.Reset(r.name(a), r.name(b)) })
	case "cut":
		r.cut[a][b], r.cut[b][a] = true, true
		bytes := rapid.IntRange(0, 100_000).Draw(t, "bytes")
		r.w.At(at, func() { r.w.At(r.w.Now()+span, r.n.Cut(r.name(a), r.name(b), bytes)) })
	case "crash", "power":
		if kind == "power" {
			r.first, r.last = min(r.first, at), max(r.last, at+span)
		}
		r.w.At(at, func() { r.kill(a, kind == "power"); r.w.At(r.w.Now()+span, func() { r.revive(a) }) })
	}
}

// connect plans a dial.
func (r *refWorld) connect(id uint64, latest time.Duration) {
	t := r.t
	from := rapid.IntRange(0, 2).Draw(t, "from")
	to := (from + rapid.IntRange(1, 2).Draw(t, "to")) % 3
	at := time.Duration(rapid.Int64Range(0, int64(latest)).Draw(t, "dial at"))
	size := rapid.Custom(func(t *rapid.T) int {
		return 8 + rapid.OneOf(rapid.IntRange(0, 100), rapid.IntRange(0, 200_000)).Draw(t, "bytes")
	})
	there := &refStream{key: id, total: size.Draw(t, "there")}
	back := &refStream{key: id | 1<<16, total: size.Draw(t, "back")}
	c := &refConn{id: id, ends: [2]*refEnd{{host: from, in: back, out: there, closeAfter: -1}, {host: to, in: there, out: back, closeAfter: -1}}}
	if rapid.IntRange(0, 4).Draw(t, "impolite") == 0 {
		end := c.ends[rapid.IntRange(0, 1).Draw(t, "who")]
		end.closeAfter = rapid.IntRange(0, end.in.total).Draw(t, "close after")
	}
	r.w.At(at, func() {
		if !r.up[from] {
			return
		}
		r.conns[id] = c
		r.order = append(r.order, c)
		r.w.Go(r.groups[from], "dial", func() {
			conn, err := r.hosts[from].Dial(r.name(to)+":7", 10*time.Second)
			if err != nil {
				c.ends[0].errs, c.ends[0].closed = append(c.ends[0].errs, err), true
				return
			}
			c.connected = true
			r.talk(from, conn, c.ends[0])
		})
	})
}

// judge compares what the programs saw with what the reference allows.
func (r *refWorld) judge() {
	long := r.last-r.first+4*time.Second >= r.giveUp // a stall ends with the attempt after the last fault
	for _, c := range r.order {
		a, b := c.ends[0].host, c.ends[1].host
		disturbed := r.cut[a][b] || r.killed[a] || r.killed[b]
		for i, e := range c.ends {
			peer := c.ends[1-i]
			for _, err := range e.errs {
				gaveUp := slices.ContainsFunc(peer.errs, func(err error) bool { return errors.Is(err, machine.ErrTimeout) })
				switch {
				case errors.Is(err, machine.ErrTimeout):
					dialling := i == 0 && e.in.read == 0 && e.out.offered == 0 // 10 s of patience, attempts after 1, 3 and 7
					require.True(r.t, long || r.killed[peer.host] || dialling && r.last-r.first > 2*time.Second || dialling && r.last > 0,
						"connection %d timed out without a reason", c.id)
				case errors.Is(err, machine.ErrConnReset):
					require.True(r.t, disturbed || peer.closed || gaveUp, "connection %d was reset without a reason", c.id)
				case errors.Is(err, machine.ErrConnRefused):
					require.True(r.t, r.killed[peer.host] || e.in.read == 0, "connection %d was refused without a reason", c.id)
				case err == io.EOF:
					require.True(r.t, peer.closed, "connection %d ended, but nobody closed it", c.id)
				case errors.Is(err, stdnet.ErrClosed):
					require.True(r.t, e.closed)
				default:
					r.t.Fatalf("connection %d: an error that the model does not know: %v", c.id, err)
				}
			}
		}
		for _, e := range c.ends {
			if c.connected && !e.dead && !e.closed && len(e.errs) == 0 && e.out.offered > e.out.accepted {
				r.t.Fatalf("connection %d: a writer waits for ever", c.id) // a reader may: half-open
			}
		}
		broken := disturbed || len(c.ends[0].errs)+len(c.ends[1].errs) > 0 || c.ends[0].closeAfter >= 0 || c.ends[1].closeAfter >= 0
		if !broken {
			for i, e := range c.ends {
				if long && c.ends[1-i].closed {
					continue // it closed and its host gave up: nobody was told
				}
				require.Equal(r.t, e.in.total, e.in.read, "connection %d did not break, and is not whole after the heal", c.id)
			}
		}
	}
}

func checkNetwork(t *rapid.T, kinds []string) uint64 {
	latest := rapid.SampledFrom([]time.Duration{time.Second, 3 * time.Second, 30 * time.Second}).Draw(t, "latest")
	cfg := net.Config{
		Window:      rapid.SampledFrom([]int{1000, 20_000, 1 << 20}).Draw(t, "window"),
		GiveUp:      rapid.SampledFrom([]time.Duration{6 * time.Second, 20 * time.Second, time.Minute}).Draw(t, "give up"),
		NoSlowStart: rapid.Bool().Draw(t, "no slow start"),
		Latency:     rapid.SampledFrom([]net.Distribution{{}, {Kind: net.Constant, Min: 20 * time.Millisecond}, {Kind: net.HeavyTail, Min: 50 * time.Microsecond, Max: time.Second}}).Draw(t, "latency"),
	}
	policy := rapid.SampledFrom([]sim.Policy{sim.Random, sim.FIFO, sim.PCT}).Draw(t, "policy")
	w := sim.New(sim.Config{Seed: rapid.Uint64().Draw(t, "seed"), Policy: policy})
	defer w.Close()
	r := &refWorld{t: t, w: w, n: net.New(w, cfg), groups: make([]*sim.Group, 3), up: make([]bool, 3), conns: map[uint64]*refConn{}, first: latest, giveUp: cfg.GiveUp}
	r.pauses = rapid.SampledFrom([]time.Duration{time.Microsecond, 20 * time.Millisecond, time.Second}).Draw(t, "pauses")
	for i := range 3 {
		r.hosts = append(r.hosts, r.n.AddHost(r.name(i), new(sim.Clock)))
		r.boot(i)
	}
	for id := range rapid.IntRange(1, 6).Draw(t, "connections") {
		r.connect(uint64(id+1), latest)
	}
	for range rapid.IntRange(0, 8).Draw(t, "faults") {
		r.fault(kinds, latest)
	}
	w.At(latest+2*time.Second, func() { r.calm = true })
	// After the last fault: 3 s to the last attempt, at most 1.2 MB through eight narrow links of 500 kB/s planned before, and the patience of senders
	// whose peer is gone.
	o := w.Run(latest + 40*time.Second + cfg.GiveUp)
	require.NoError(t, o.Err)
	require.NotEqual(t, sim.Livelock, o.Kind, o.String())
	r.judge()
	return w.Hash()
}

// TestNetworkAgainstTheReference lets all faults come at any time.
func TestNetworkAgainstTheReference(t *testing.T) {
	all := []string{"block", "clog", "flap", "loss", "slow", "narrow", "freeze", "reset", "cut", "crash", "power"}
	rapid.Check(t, func(t *rapid.T) { checkNetwork(t, all) })
}

// TestDelaysBreakNothing leaves out what breaks connections.
func TestDelaysBreakNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		checkNetwork(t, []string{"block", "clog", "flap", "loss", "slow", "narrow", "freeze"})
	})
}
