package net_test

import (
	"io"
	stdnet "net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"faultline/sim"
	"faultline/sim/net"
)

const forever = time.Duration(1 << 62)

// pair is two hosts, a client and a server, each with a process.
type pair struct {
	w              *sim.World
	n              *net.Network
	client, server *net.Host
	cp, sp         *sim.Group
}

func newPair(t *testing.T, seed uint64, cfg net.Config) *pair {
	w := sim.New(sim.Config{Seed: seed})
	t.Cleanup(w.Close)
	n := net.New(w, cfg)
	return &pair{w: w, n: n, client: n.AddHost("client", new(sim.Clock)), server: n.AddHost("server", new(sim.Clock)),
		cp: &sim.Group{Name: "client"}, sp: &sim.Group{Name: "server"}}
}

// serve accepts connections at port 1 and runs fn for each.
func (p *pair) serve(fn func(c stdnet.Conn)) {
	p.w.Go(p.sp, "serve", func() {
		l, err := p.server.Listen(1)
		if err != nil {
			panic(err)
		}
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			p.w.Go(p.sp, "conn", func() { fn(c) })
		}
	})
}

// dial runs fn with a connection to port 1, after the server had time to start.
func (p *pair) dial(fn func(c stdnet.Conn)) {
	p.w.Go(p.cp, "client", func() {
		p.sleep(time.Millisecond)
		c, err := p.client.Dial("server:1", time.Minute)
		if err != nil {
			panic(err)
		}
		fn(c)
	})
}

func (p *pair) sleep(d time.Duration) { p.w.ParkUntil("sleep", "", p.w.Now()+d) }

// finish runs the world and kills what is left of it.
func (p *pair) finish(t *testing.T) {
	o := p.w.Run(forever)
	require.Contains(t, []sim.OutcomeKind{sim.Done, sim.Stuck}, o.Kind, o.String())
}

func echoAll(c stdnet.Conn) {
	io.Copy(c, struct{ io.Reader }{c})
	c.Close()
}

const ms = time.Millisecond

func constant(d time.Duration) net.Distribution { return net.Distribution{Kind: net.Constant, Min: d} }

// flat is a network without chance: 1 ms each way, no slow start.
var flat = net.Config{Latency: constant(ms), NoSlowStart: true}

// echoed is how long so many bytes take there and back.
func (p *pair) echoed(t *testing.T, c stdnet.Conn, size int) time.Duration {
	start := p.w.Now()
	_, err := c.Write(make([]byte, size))
	require.NoError(t, err)
	_, err = io.ReadFull(c, make([]byte, size))
	require.NoError(t, err)
	return p.w.Now() - start
}

// received is what a connection read, and when.
type received struct {
	data []byte
	at   []time.Duration
	err  error
	end  time.Duration
}

// drain reads all that comes.
func (p *pair) drain(r *received) func(c stdnet.Conn) {
	return func(c stdnet.Conn) {
		b := make([]byte, 1<<20)
		for r.err == nil {
			var n int
			if n, r.err = c.Read(b); n > 0 {
				r.data = append(r.data, b[:n]...)
				r.at = append(r.at, p.w.Now())
			}
		}
		r.end = p.w.Now()
		c.Close()
	}
}

// pattern is bytes that differ from place to place.
func pattern(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*7 + i>>8)
	}
	return b
}
