package net_test

import (
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

func TestResetInMidMessage(t *testing.T) {
	for _, bytes := range []int{0, 1, 999, 1000, 1001, 70_000, 99_999} {
		p := newPair(t, 1, flat)
		var r received
		p.serve(p.drain(&r))
		other := p.n.AddHost("other", new(sim.Clock))
		sent := pattern(100_000)
		p.dial(func(c stdnet.Conn) {
			o, err := other.Dial("server:1", time.Second)
			require.NoError(t, err)
			p.n.Cut("client", "server", bytes)
			_, err = c.Write(sent[:1000])
			require.NoError(t, err)
			c.Write(sent[1000:])
			_, err = c.Read(make([]byte, 1))
			require.ErrorIs(t, err, machine.ErrConnReset)
			_, err = c.Write(sent)
			require.ErrorIs(t, err, machine.ErrConnReset)
			_, err = o.Write([]byte("x"))
			require.NoError(t, err, "others are not hit")
		})
		p.finish(t)
		require.Equal(t, sent[:bytes], r.data[:min(bytes, len(r.data))], "exactly so many bytes")
		require.LessOrEqual(t, len(r.data)-bytes, 1, "and the byte of the other host")
	}
}

func TestCutCanBeCalledOff(t *testing.T) {
	p := newPair(t, 1, flat)
	p.serve(echoAll)
	p.dial(func(c stdnet.Conn) {
		off := p.n.Cut("server", "client", 500)
		p.echoed(t, c, 200)
		off()
		p.echoed(t, c, 10_000)
		c.Close()
	})
	p.finish(t)
}

func TestResetWhileASegmentIsInFlight(t *testing.T) {
	p := newPair(t, 1, net.Config{Latency: constant(100 * ms)})
	var r received
	p.serve(p.drain(&r))
	p.dial(func(c stdnet.Conn) {
		c.Write([]byte("lost"))
		p.sleep(50 * ms)
		p.n.Reset("client", "server")
		_, err := c.Write([]byte("x"))
		require.ErrorIs(t, err, machine.ErrConnReset)
		c2, err := p.client.Dial("server:1", time.Second)
		require.NoError(t, err, "new connections work")
		c2.Close()
	})
	p.finish(t)
	require.Empty(t, r.data)
}

func TestHalfOpenAfterPowerLoss(t *testing.T) {
	p := newPair(t, 1, net.Config{GiveUp: 30 * time.Second, Window: 1000})
	p.serve(func(c stdnet.Conn) { p.w.Park("for ever", "") })
	p.w.At(time.Second, func() { p.w.KillGroup(p.sp); p.server.PowerOff() })
	p.w.At(20*time.Second, p.server.PowerOn)
	ended := map[string]time.Duration{}
	// One only reads and never learns it, one writes after the loss, one waits for a window that nobody will open any more.
	p.dial(func(c stdnet.Conn) {
		c.SetReadDeadline(sim.Epoch.Add(10 * time.Second))
		_, err := c.Read(make([]byte, 1))
		require.ErrorIs(t, err, os.ErrDeadlineExceeded, "silence")
		c.SetReadDeadline(time.Time{})
		c.Read(make([]byte, 1))
		ended["reader"] = p.w.Now()
	})
	p.dial(func(c stdnet.Conn) {
		p.sleep(5 * time.Second)
		_, err := c.Write([]byte("anybody there?"))
		require.NoError(t, err, "it goes into the socket buffer")
		_, err = c.Read(make([]byte, 1))
		require.ErrorIs(t, err, machine.ErrConnReset, "the machine is back and does not know us")
		ended["writer"] = p.w.Now()
	})
	p.dial(func(c stdnet.Conn) {
		_, err := c.Write(make([]byte, 2000))
		require.ErrorIs(t, err, machine.ErrConnReset, "a full window is probed")
		ended["full"] = p.w.Now()
	})
	p.finish(t)
	require.NotContains(t, ended, "reader")
	require.InDelta(t, 21.5, ended["writer"].Seconds(), 1.5, "with the first attempt after 20 s")
	require.InDelta(t, 21.5, ended["full"].Seconds(), 1.5)
}

func TestAddressReuseAfterRestart(t *testing.T) {
	for _, power := range []bool{false, true} {
		p := newPair(t, 1, net.Config{Latency: constant(10 * ms), GiveUp: time.Minute})
		p.serve(func(c stdnet.Conn) { io.ReadAll(c) })
		var second []byte
		p.w.At(time.Second, func() {
			p.w.KillGroup(p.sp)
			if power {
				p.server.PowerOff()
				p.server.PowerOn()
			} else {
				p.server.Crash()
			}
			p.sp = &sim.Group{Name: "server"}
			p.serve(func(c stdnet.Conn) { second, _ = io.ReadAll(c); c.Close() }) // Listen on the same port succeeds at once
		})
		p.dial(func(c stdnet.Conn) {
			p.sleep(time.Second - 5*ms - p.w.Now())
			c.Write([]byte("in flight when the process dies"))
			p.sleep(5 * ms)
			c.Write([]byte("sent before the news is here"))
			_, err := c.Read(make([]byte, 1))
			require.ErrorIs(t, err, machine.ErrConnReset, "answered by a reset")
			n, err := p.client.Dial("server:1", time.Second)
			require.NoError(t, err)
			n.Write([]byte("for the successor"))
			n.Close()
		})
		p.finish(t)
		require.Equal(t, "for the successor", string(second))
	}
}
