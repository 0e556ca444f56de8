package net_test

import (
	"errors"
	"fmt"
	"io"
	stdnet "net"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"faultline/sim"
	"faultline/sim/machine"
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

func TestBytesArriveInOrderAndWhole(t *testing.T) {
	for seed := range uint64(20) {
		p := newPair(t, seed, net.Config{Latency: net.Distribution{Min: 1, Max: time.Second}, Window: 1 << 12})
		sent := make([]byte, 100_000)
		rng := p.w.Stream("test", "")
		for i := range sent {
			sent[i] = byte(rng.Uint32())
		}
		var got []byte
		p.serve(func(c stdnet.Conn) { got, _ = io.ReadAll(c); c.Close() })
		p.dial(func(c stdnet.Conn) {
			for rest := sent; len(rest) > 0; {
				k := min(len(rest), 1+rng.IntN(20_000))
				n, err := c.Write(rest[:k])
				require.NoError(t, err)
				require.Equal(t, k, n)
				rest = rest[k:]
			}
			c.Close()
		})
		p.finish(t)
		require.Equal(t, sent, got)
	}
}

func TestLatencyAndBandwidth(t *testing.T) {
	p := newPair(t, 1, net.Config{Latency: net.Distribution{Min: time.Millisecond}, Bandwidth: 1_000_000})
	var took time.Duration
	p.serve(func(c stdnet.Conn) { io.ReadAll(c) })
	p.dial(func(c stdnet.Conn) {
		start := p.w.Now()
		c.Write(make([]byte, 1_000_000))
		c.Close()
		_, err := c.Read(nil)
		require.ErrorIs(t, err, stdnet.ErrClosed)
		took = p.w.Now() - start
	})
	p.finish(t)
	require.Less(t, took, time.Second, "the socket buffers take a MiB at once")
	require.InDelta(t, 1.003, p.w.Now().Seconds(), 0.005, "a MB at 1 MB/s and 1 ms")
}

func TestFullWindowBlocksTheWriter(t *testing.T) {
	p := newPair(t, 1, net.Config{Window: 1000})
	var blocked time.Duration
	p.serve(func(c stdnet.Conn) {
		p.sleep(5 * time.Second)
		io.ReadAll(c)
	})
	p.dial(func(c stdnet.Conn) {
		c.Write(make([]byte, 1001))
		blocked = p.w.Now()
		c.Close()
	})
	p.finish(t)
	require.Greater(t, blocked, 5*time.Second)
}

func TestRefusedUnknownAndTimedOutConnects(t *testing.T) {
	p := newPair(t, 1, net.Config{})
	p.w.Go(p.cp, "client", func() {
		_, err := p.client.Dial("server:1", time.Second)
		require.ErrorIs(t, err, machine.ErrConnRefused)
		require.Less(t, p.w.Now(), 10*time.Millisecond, "a refusal comes after a round trip")
		_, err = p.client.Dial("nowhere:1", time.Second)
		require.ErrorIs(t, err, machine.ErrNoHost)
		for _, bad := range []string{"server", "server:x", "server:0", "server:70000"} {
			_, err = p.client.Dial(bad, time.Second)
			require.Error(t, err, bad)
		}
		p.server.PowerOff()
		start := p.w.Now()
		_, err = p.client.Dial("server:1", 10*time.Second)
		require.ErrorIs(t, err, machine.ErrTimeout)
		require.Equal(t, 10*time.Second, p.w.Now()-start)
	})
	p.finish(t)
}

func TestConnectSucceedsOnceThePartitionHeals(t *testing.T) {
	for _, dir := range [][2]string{{"client", "server"}, {"server", "client"}} {
		p := newPair(t, 1, net.Config{})
		p.serve(echoAll)
		heal := p.n.Block(dir[0], dir[1])
		p.w.At(2500*time.Millisecond, heal)
		var at time.Duration
		p.dial(func(c stdnet.Conn) { at = p.w.Now(); c.Close() })
		p.finish(t)
		require.InDelta(t, 3.0, at.Seconds(), 0.01, "the attempt after 3 s")
	}
}

func TestFullBacklogDropsConnects(t *testing.T) {
	p := newPair(t, 1, net.Config{Backlog: 2})
	p.w.Go(p.sp, "server", func() { p.server.Listen(1); p.sleep(time.Hour) })
	ok, late := 0, 0
	for range 3 {
		p.w.Go(p.cp, "client", func() {
			p.sleep(time.Millisecond)
			if _, err := p.client.Dial("server:1", time.Second); errors.Is(err, machine.ErrTimeout) {
				late++
			} else if err == nil {
				ok++
			}
		})
	}
	p.finish(t)
	require.Equal(t, []int{2, 1}, []int{ok, late})
}

func TestPartitionHoldsBytesUntilHealed(t *testing.T) {
	p := newPair(t, 1, net.Config{GiveUp: time.Minute})
	var got string
	var at time.Duration
	p.serve(func(c stdnet.Conn) {
		b := make([]byte, 10)
		n, err := io.ReadFull(c, b)
		got, at = fmt.Sprint(string(b[:n]), err), p.w.Now()
	})
	p.dial(func(c stdnet.Conn) {
		heal := p.n.Block("client", "server")
		heal2 := p.n.Block("client", "server")
		c.Write([]byte("hello"))
		p.sleep(10 * time.Second)
		heal()
		heal() // again: no effect
		p.sleep(time.Second)
		heal2()
		c.Write([]byte("world"))
	})
	p.finish(t)
	require.Equal(t, "helloworld<nil>", got)
	require.Greater(t, at, 11*time.Second)
	require.Less(t, at, 15*time.Second)
}

func TestOneWayPartitionDeliversTheOtherWay(t *testing.T) {
	p := newPair(t, 1, net.Config{GiveUp: 5 * time.Second})
	var serverGot, clientErr string
	p.serve(func(c stdnet.Conn) {
		b := make([]byte, 5)
		_, err := io.ReadFull(c, b)
		serverGot = fmt.Sprint(string(b), err)
		c.Write(b)
	})
	p.dial(func(c stdnet.Conn) {
		p.n.Block("server", "client")
		c.Write([]byte("hello"))
		_, err := c.Read(make([]byte, 5))
		require.ErrorIs(t, err, machine.ErrTimeout, "nothing acknowledged for GiveUp")
		clientErr = err.Error()
	})
	p.finish(t)
	require.Equal(t, "hello<nil>", serverGot)
	require.NotEmpty(t, clientErr)
}

func TestProcessCrashResetsItsPeers(t *testing.T) {
	p := newPair(t, 1, net.Config{})
	p.serve(func(c stdnet.Conn) { io.ReadAll(c) })
	p.w.At(time.Second, func() { p.w.KillGroup(p.sp); p.server.Crash() })
	var at time.Duration
	p.dial(func(c stdnet.Conn) {
		_, err := c.Read(make([]byte, 1))
		require.ErrorIs(t, err, machine.ErrConnReset)
		at = p.w.Now()
		_, err = c.Write([]byte("x"))
		require.ErrorIs(t, err, machine.ErrConnReset)
		_, err = p.client.Dial("server:1", time.Second)
		require.ErrorIs(t, err, machine.ErrConnRefused)
		l, err := p.server.Listen(1)
		require.NoError(t, err, "the port is free again")
		l.Close()
	})
	p.finish(t)
	require.Less(t, at, time.Second+10*time.Millisecond)
}

func TestPowerLossIsSilentAndLeavesThePeerHalfOpen(t *testing.T) {
	p := newPair(t, 1, net.Config{GiveUp: 30 * time.Second})
	p.serve(func(c stdnet.Conn) { io.ReadAll(c) })
	p.w.At(time.Second, func() { p.w.KillGroup(p.sp); p.server.PowerOff() })
	p.w.At(20*time.Second, p.server.PowerOn)
	done := false
	p.dial(func(c stdnet.Conn) {
		c.SetReadDeadline(sim.Epoch.Add(10 * time.Second))
		_, err := c.Read(make([]byte, 1))
		require.ErrorIs(t, err, os.ErrDeadlineExceeded, "silence")
		_, err = c.Write([]byte("anybody there?"))
		require.NoError(t, err, "it goes into the socket buffer")
		c.SetReadDeadline(time.Time{})
		_, err = c.Read(make([]byte, 1))
		require.ErrorIs(t, err, machine.ErrConnReset, "the machine is back and does not know us")
		require.Greater(t, p.w.Now(), 20*time.Second)
		done = true
	})
	p.finish(t)
	require.True(t, done)
}

func TestSenderGivesUpOnAMachineThatStaysDark(t *testing.T) {
	p := newPair(t, 1, net.Config{GiveUp: 7 * time.Second})
	p.serve(func(c stdnet.Conn) { io.ReadAll(c) })
	p.dial(func(c stdnet.Conn) {
		p.sleep(time.Second)
		p.w.Later(p.server.PowerOff)
		p.w.GiveWay()
		c.Write([]byte("x"))
		start := p.w.Now()
		_, err := c.Read(make([]byte, 1))
		require.ErrorIs(t, err, machine.ErrTimeout)
		require.InDelta(t, 7, (p.w.Now() - start).Seconds(), 0.1)
	})
	p.finish(t)
}

func TestResetFaultBreaksBothEnds(t *testing.T) {
	p := newPair(t, 1, net.Config{})
	var serverErr, clientErr error
	p.serve(func(c stdnet.Conn) { _, serverErr = c.Read(make([]byte, 1)) })
	p.w.At(time.Second, func() { p.n.Reset("server", "client") })
	p.dial(func(c stdnet.Conn) { _, clientErr = c.Read(make([]byte, 1)) })
	p.finish(t)
	require.ErrorIs(t, serverErr, machine.ErrConnReset)
	require.ErrorIs(t, clientErr, machine.ErrConnReset)
	require.Equal(t, time.Second, p.w.Now())
}

func TestSlowLinkAddsLatencyUntilHealed(t *testing.T) {
	p := newPair(t, 1, net.Config{Latency: net.Distribution{Min: time.Millisecond}})
	p.serve(echoAll)
	rtt := func(c stdnet.Conn) time.Duration {
		start := p.w.Now()
		c.Write([]byte("x"))
		c.Read(make([]byte, 1))
		return p.w.Now() - start
	}
	p.dial(func(c stdnet.Conn) {
		require.InDelta(t, 2, rtt(c).Seconds()*1000, 0.1)
		heal := p.n.Slow("client", "server", net.Rule{Latency: net.Distribution{Min: 50 * time.Millisecond}})
		require.InDelta(t, 52, rtt(c).Seconds()*1000, 0.1)
		heal2 := p.n.Slow("server", "client", net.Rule{Bandwidth: 1000})
		require.Greater(t, rtt(c), 110*time.Millisecond)
		heal()
		heal2()
		require.InDelta(t, 2, rtt(c).Seconds()*1000, 0.1)
		c.Close()
	})
	p.finish(t)
}

func TestWriteAfterPeerClosedIsReset(t *testing.T) {
	p := newPair(t, 1, net.Config{})
	p.serve(func(c stdnet.Conn) { c.Close() })
	p.dial(func(c stdnet.Conn) {
		_, err := c.Read(make([]byte, 1))
		require.Equal(t, io.EOF, err)
		_, err = c.Write([]byte("x"))
		require.NoError(t, err, "the news is not here yet")
		p.sleep(time.Second)
		_, err = c.Write([]byte("x"))
		require.ErrorIs(t, err, machine.ErrConnReset)
	})
	p.finish(t)
}

func TestListenerRules(t *testing.T) {
	p := newPair(t, 1, net.Config{})
	p.w.Go(p.sp, "server", func() {
		l, err := p.server.Listen(5)
		require.NoError(t, err)
		_, err = p.server.Listen(5)
		require.ErrorIs(t, err, machine.ErrAddressInUse)
		any1, _ := p.server.Listen(0)
		any2, _ := p.server.Listen(0)
		require.NotEqual(t, any1.Addr().String(), any2.Addr().String())
		p.w.Go(p.sp, "closer", func() { p.sleep(time.Second); l.Close() })
		_, err = l.Accept()
		require.ErrorIs(t, err, stdnet.ErrClosed)
		require.ErrorIs(t, l.Close(), stdnet.ErrClosed)
		_, err = p.server.Listen(70000)
		require.Error(t, err)
	})
	p.finish(t)
}

// A decision about one link does not shift when traffic on another changes.
func TestLatencyDrawsOfLinksAreIndependent(t *testing.T) {
	arrival := func(noise bool) time.Duration {
		p := newPair(t, 7, net.Config{})
		third := p.n.AddHost("third", new(sim.Clock))
		var at time.Duration
		p.serve(func(c stdnet.Conn) { c.Read(make([]byte, 1)); at = p.w.Now() })
		p.dial(func(c stdnet.Conn) { p.w.ParkUntil("sleep", "", time.Second); c.Write([]byte("x")) })
		if noise {
			p.w.Go(nil, "noise", func() { third.Dial("client:9", time.Second) })
		}
		p.finish(t)
		return at
	}
	require.Equal(t, arrival(false), arrival(true))
}
