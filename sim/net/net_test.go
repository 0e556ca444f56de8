package net_test

import (
	"fmt"
	"io"
	stdnet "net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"faultline/sim"
	"faultline/sim/machine"
	"faultline/sim/net"
)

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
