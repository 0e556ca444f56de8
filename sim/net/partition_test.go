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

func TestPartitionBothWays(t *testing.T) {
	for _, long := range []bool{false, true} {
		p := newPair(t, 1, net.Config{Latency: constant(ms), GiveUp: 10 * time.Second})
		third := p.n.AddHost("third", new(sim.Clock))
		for1 := 4 * time.Second
		if long {
			for1 = 30 * time.Second
		}
		var there, back received
		p.serve(func(c stdnet.Conn) {
			if p.w.Now() > time.Second { // what is dialled later
				echoAll(c)
				return
			}
			p.w.Go(p.sp, "write", func() {
				p.sleep(2*time.Second - p.w.Now())
				c.Write([]byte("back"))
			})
			p.drain(&there)(c)
		})
		healed := time.Second + for1
		p.w.At(time.Second, func() {
			for _, heal := range []func(){p.n.Block("client", "server"), p.n.Block("server", "client")} {
				p.w.At(healed, heal)
			}
		})
		p.dial(func(c stdnet.Conn) {
			p.sleep(2*time.Second - p.w.Now())
			_, err := c.Write([]byte("there"))
			require.NoError(t, err, "it goes into the socket buffer")
			_, err = p.client.Dial("server:1", time.Second)
			require.ErrorIs(t, err, machine.ErrTimeout)
			o, err := third.Dial("server:1", time.Second)
			require.NoError(t, err, "others are not hit")
			require.Less(t, p.echoed(t, o, 1), 3*ms)
			o.Close()
			if !long {
				p.w.Go(p.cp, "close", func() { p.sleep(8*time.Second - p.w.Now()); c.Close() })
			}
			p.drain(&back)(c)
			n, err := p.client.Dial("server:1", time.Minute)
			require.NoError(t, err)
			require.GreaterOrEqual(t, p.w.Now(), healed)
			n.Close()
		})
		p.finish(t)
		if long {
			require.Empty(t, back.data)
			require.ErrorIs(t, back.err, machine.ErrTimeout, "both ends give up, and neither is told about the other")
			require.ErrorIs(t, there.err, machine.ErrTimeout)
			require.InDelta(t, 12, back.end.Seconds(), 0.5)
			require.InDelta(t, 12, there.end.Seconds(), 0.5)
			continue
		}
		require.Equal(t, "there", string(there.data))
		require.Equal(t, "back", string(back.data))
		for _, at := range []time.Duration{there.at[0], back.at[0]} {
			require.Greater(t, at, healed, "nothing passes before the heal")
			require.Less(t, at, healed+3100*ms, "the next attempt does after it")
		}
	}
}

func TestOneWayPartition(t *testing.T) {
	p := newPair(t, 1, net.Config{GiveUp: 5 * time.Second})
	var got string
	p.serve(func(c stdnet.Conn) {
		b := make([]byte, 5)
		_, err := io.ReadFull(c, b)
		got = fmt.Sprint(string(b), err)
		c.Write(b)
	})
	p.dial(func(c stdnet.Conn) {
		p.n.Block("server", "client")
		c.Write([]byte("hello"))
		start := p.w.Now()
		_, err := c.Read(make([]byte, 5))
		require.ErrorIs(t, err, machine.ErrTimeout, "nothing acknowledged for GiveUp")
		require.InDelta(t, 5, (p.w.Now() - start).Seconds(), 0.01)
		_, err = p.client.Dial("server:1", 2*time.Second)
		require.ErrorIs(t, err, machine.ErrTimeout)
		_, err = p.server.Dial("client:1", 2*time.Second)
		require.ErrorIs(t, err, machine.ErrTimeout, "a handshake needs both ways")
	})
	p.finish(t)
	require.Equal(t, "hello<nil>", got, "the other way works")
}

func TestClogHoldsAndThenDelivers(t *testing.T) {
	p := newPair(t, 1, flat)
	var r received
	p.serve(p.drain(&r))
	p.dial(func(c stdnet.Conn) {
		unclog := p.n.Clog("client", "server")
		c.Write([]byte("a"))
		p.sleep(time.Second)
		c.Write([]byte("b"))
		p.sleep(time.Second)
		unclog()
		unclog() // again: no effect
		c.Write([]byte("c"))
		p.sleep(time.Second)
		c.Close()
	})
	p.finish(t)
	require.Equal(t, "abc", string(r.data))
	require.InDelta(t, 2.003, r.at[0].Seconds(), 0.001, "at the unclog, without another attempt")
	require.Len(t, r.at, 2, "a and b at once, c after its own latency")
}

func TestClogMakesSendersGiveUpAndOutlivesThem(t *testing.T) {
	cfg := flat
	cfg.GiveUp = 5 * time.Second
	p := newPair(t, 1, cfg)
	var r received
	p.serve(p.drain(&r))
	unclog := func() {}
	p.w.At(10*ms, func() { unclog = p.n.Clog("client", "server") })
	p.w.At(20*time.Second, func() { unclog() })
	p.dial(func(c stdnet.Conn) {
		p.sleep(20 * ms)
		c.Write([]byte("a"))
		_, err := c.Read(make([]byte, 1))
		require.ErrorIs(t, err, machine.ErrTimeout)
		_, err = p.client.Dial("server:1", time.Second)
		require.ErrorIs(t, err, machine.ErrTimeout)
		start := p.w.Now()
		c2, err := p.client.Dial("server:1", time.Minute)
		require.NoError(t, err)
		require.InDelta(t, 20, p.w.Now().Seconds(), 0.01, "a connect waits in the clog (since %v)", start)
		c2.Close()
	})
	p.finish(t)
	require.Equal(t, "a", string(r.data))
}

// Several links are clogged one after the other and come back in another order: each connection still reads its own bytes in order.
func TestSwizzleClog(t *testing.T) {
	for seed := range uint64(10) {
		w := sim.New(sim.Config{Seed: seed})
		n := net.New(w, net.Config{GiveUp: time.Hour})
		rng := w.Stream("test", "swizzle")
		sink := n.AddHost("sink", new(sim.Clock))
		got := map[string][]byte{}
		w.Go(nil, "sink", func() {
			l, _ := sink.Listen(1)
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				w.Go(nil, "read", func() { b, _ := io.ReadAll(c); got[c.RemoteAddr().(net.Addr).Host()] = b; c.Close() })
			}
		})
		var names []string
		for i := range 6 {
			name := fmt.Sprint("h", i)
			names = append(names, name)
			h := n.AddHost(name, new(sim.Clock))
			w.Go(nil, name, func() {
				w.ParkUntil("sleep", "", ms)
				c, err := h.Dial("sink:1", time.Minute)
				require.NoError(t, err)
				for _, b := range pattern(100) {
					c.Write([]byte{b})
					w.ParkUntil("sleep", "", w.Now()+100*ms)
				}
				c.Close()
			})
		}
		at := time.Second
		unclogs := map[string]func(){}
		for _, i := range rng.Perm(len(names)) {
			w.At(at, func() { unclogs[names[i]] = n.Clog(names[i], "sink") })
			at += time.Duration(rng.Int64N(int64(time.Second)))
		}
		for _, i := range rng.Perm(len(names)) {
			at += time.Duration(rng.Int64N(int64(time.Second)))
			w.At(at, func() { unclogs[names[i]]() })
		}
		w.Run(forever)
		w.Close()
		for _, name := range names {
			require.Equal(t, pattern(100), got[name], name)
		}
	}
}

func TestFlapping(t *testing.T) {
	for seed := range uint64(10) {
		p := newPair(t, seed, net.Config{GiveUp: time.Minute})
		var r received
		p.serve(p.drain(&r))
		flapped := 0
		var flap func()
		flap = func() {
			if flapped++; flapped <= 2000 {
				heal := p.n.Block("client", "server")
				p.w.At(p.w.Now()+700*time.Microsecond, heal)
				p.w.At(p.w.Now()+1100*time.Microsecond, flap)
			}
		}
		p.w.At(20*ms, flap)
		sent := pattern(50_000)
		p.dial(func(c stdnet.Conn) {
			for i := 0; i < len(sent); i += 100 {
				c.Write(sent[i : i+100])
				p.sleep(ms)
			}
			c.Close()
		})
		p.finish(t)
		require.Equal(t, sent, r.data, "in order and whole, though attempts and new segments meet open and closed moments")
	}
	// A link that is only ever open between the attempts acknowledges nothing: the sender gives up, however often it is healed.
	p := newPair(t, 1, net.Config{Latency: constant(ms), GiveUp: 10 * time.Second})
	p.serve(func(c stdnet.Conn) { io.ReadAll(c) })
	p.dial(func(c stdnet.Conn) {
		heal := p.n.Block("client", "server")
		for at := p.w.Now() + 100*ms; at < time.Minute; at += 100 * ms {
			p.w.At(at, func() { heal(); heal = p.n.Block("client", "server") })
		}
		c.Write([]byte("x"))
		start := p.w.Now()
		_, err := c.Read(make([]byte, 1))
		require.ErrorIs(t, err, machine.ErrTimeout)
		require.InDelta(t, 10, (p.w.Now() - start).Seconds(), 0.01)
		p.w.Halt()
	})
	p.w.Run(forever)
}

func TestFreeze(t *testing.T) {
	p := newPair(t, 1, net.Config{Latency: constant(ms), GiveUp: 10 * time.Second})
	frozen := func(from, to time.Duration) {
		p.w.At(from, func() { p.server.Freeze(); p.w.Pause(p.sp) })
		p.w.At(to, func() { p.server.Thaw(); p.w.Resume(p.sp) })
	}
	p.serve(echoAll)
	frozen(time.Second, 6*time.Second)
	frozen(20*time.Second, 40*time.Second)
	p.dial(func(c stdnet.Conn) {
		p.sleep(2*time.Second - p.w.Now())
		took := p.echoed(t, c, 100)
		require.InDelta(t, 4+1.2, took.Seconds(), 1.3, "silence until the thaw, then the next attempt")
		p.sleep(25*time.Second - p.w.Now())
		_, err := p.client.Dial("server:1", 5*time.Second)
		require.ErrorIs(t, err, machine.ErrTimeout, "nothing is accepted")
		c.Write([]byte("x"))
		start := p.w.Now()
		_, err = c.Read(make([]byte, 1))
		require.ErrorIs(t, err, machine.ErrTimeout, "the peer gave up")
		require.InDelta(t, 10, (p.w.Now() - start).Seconds(), 0.01)
	})
	p.finish(t)
}

// The patience of a frozen machine stands still with it: what it sent before arrives, what it missed it asks for again.
func TestFreezeKeepsTheFrozenSidesConnections(t *testing.T) {
	p := newPair(t, 1, net.Config{Latency: constant(10 * ms), GiveUp: 10 * time.Second})
	var got []time.Duration
	p.serve(func(c stdnet.Conn) {
		c.Write([]byte("a"))
		p.sleep(5 * time.Second)
		c.Write([]byte("b")) // after the thaw
	})
	p.w.At(20*ms, func() { p.server.Freeze() }) // "a" is in flight; the tasks go on, as if the program noticed nothing
	p.w.At(50*time.Second, func() { p.server.Thaw() })
	p.dial(func(c stdnet.Conn) {
		b := make([]byte, 1)
		for range 2 {
			_, err := c.Read(b)
			require.NoError(t, err)
			got = append(got, p.w.Now())
		}
	})
	p.finish(t)
	require.Less(t, got[0], time.Second)
	require.InDelta(t, 51.5, got[1].Seconds(), 1.6, "what was written while frozen leaves after the thaw")
}
