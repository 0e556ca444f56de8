package net_test

import (
	"io"
	stdnet "net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"faultline/sim/net"
)

func TestLatencyConstantAndUniform(t *testing.T) {
	for _, d := range []net.Distribution{constant(3 * ms), {Min: 3 * ms, Max: 9 * ms}} {
		p := newPair(t, 1, net.Config{Latency: d})
		seen := map[time.Duration]bool{}
		p.serve(echoAll)
		p.dial(func(c stdnet.Conn) {
			for range 200 {
				took := p.echoed(t, c, 1)
				seen[took/ms] = true
				require.GreaterOrEqual(t, took, 2*d.Min)
				require.Less(t, took, 2*max(d.Min, d.Max)+ms)
			}
			c.Close()
		})
		p.finish(t)
		if d.Kind == net.Constant {
			require.Len(t, seen, 1)
		} else {
			require.Greater(t, len(seen), 8, "all over 6..18 ms")
		}
	}
}

// What one connection sends queues behind what another sent, at the NIC and at a narrow link.
func TestBandwidthAndQueueing(t *testing.T) {
	for _, narrow := range []bool{false, true} {
		cfg := flat
		if !narrow {
			cfg.Bandwidth = 1_000_000
		}
		latest := time.Duration(0)
		for seed := range uint64(8) {
			p := newPair(t, seed, cfg)
			if narrow {
				p.n.Slow("client", "server", net.Rule{Bandwidth: 1_000_000})
			}
			var at []time.Duration
			p.serve(func(c stdnet.Conn) { io.ReadAll(c); at = append(at, p.w.Now()) })
			for range 2 {
				p.dial(func(c stdnet.Conn) {
					p.sleep(100*ms - p.w.Now())
					c.Write(make([]byte, 500_000))
					c.Close()
				})
			}
			p.finish(t)
			require.InDelta(t, 1.101, at[1].Seconds(), 0.002, "a MB at 1 MB/s, from 100 ms on")
			require.Greater(t, at[0], 600*ms, "nobody is faster than alone")
			latest = max(latest, at[0])
		}
		require.Greater(t, latest, 900*ms, "they share the bandwidth, where the scheduler lets them take turns")
	}
}

func TestSlowStartAfterHeal(t *testing.T) {
	cfg := net.Config{Latency: constant(50 * ms), Window: 4 << 20}
	rounds := func(took time.Duration) int { return int((took - 100*ms + 50*ms) / (100 * ms)) } // beyond the first
	p := newPair(t, 1, cfg)
	p.serve(func(c stdnet.Conn) {
		size := make([]byte, 4)
		for {
			if _, err := io.ReadFull(c, size); err != nil {
				return
			}
			io.CopyN(io.Discard, c, int64(size[0])<<16|int64(size[1])<<8|int64(size[2]))
			c.Write([]byte("!"))
		}
	})
	p.dial(func(c stdnet.Conn) {
		send := func(size int) time.Duration {
			start := p.w.Now()
			b := make([]byte, 4+size)
			b[0], b[1], b[2] = byte(size>>16), byte(size>>8), byte(size)
			c.Write(b)
			_, err := io.ReadFull(c, b[:1])
			require.NoError(t, err)
			return p.w.Now() - start
		}
		require.Equal(t, 0, rounds(send(10_000)), "10 packets at once on a new connection")
		require.Equal(t, 1, rounds(send(30_000)), "a round trip later the window has grown by what was sent")
		for range 10 {
			send(1_000_000)
		}
		require.Equal(t, 0, rounds(send(1_000_000)), "grown")
		p.n.Block("client", "server")()
		require.Equal(t, 0, rounds(send(14_000)), "healed: 10 packets in the first round trip")
		p.n.Block("client", "server")()
		// 14.6 kB, then twice as much each round trip: 14.6 * (2^7 - 1) > 1000.
		require.Equal(t, 6, rounds(send(1_000_000)))
		c.Close()
	})
	p.finish(t)
	// Switched off, everything goes at once.
	cfg.NoSlowStart = true
	p = newPair(t, 1, cfg)
	p.serve(func(c stdnet.Conn) { io.ReadFull(c, make([]byte, 1_000_000)); c.Write([]byte("!")) })
	p.dial(func(c stdnet.Conn) {
		start := p.w.Now()
		c.Write(make([]byte, 1_000_000))
		c.Read(make([]byte, 1))
		require.Equal(t, 0, rounds(p.w.Now()-start))
	})
	p.finish(t)
}

// In detail: a NIC that receives slower than others send holds up what arrives, packets have headers, and small ones cost as much as large ones.
func TestPacketsAndReception(t *testing.T) {
	for _, c := range []struct {
		cfg    net.Config
		writes int
		size   int
		want   float64 // seconds
	}{
		{net.Config{Receive: 1_000_000}, 1, 1_000_000, 1.001},
		{net.Config{Bandwidth: 1_000_000, MTU: 1500}, 1, 1_448_000, 1.538}, // 1000 packets of 1538 bytes on the wire
		{net.Config{MTU: 1500, Packet: ms}, 500, 1, 0.5},
		{net.Config{MTU: 1500, Packet: ms}, 1, 144_800, 0.1},
	} {
		c.cfg.Latency, c.cfg.NoSlowStart = flat.Latency, true
		p := newPair(t, 1, c.cfg)
		var at, began time.Duration
		p.serve(func(conn stdnet.Conn) { io.ReadAll(conn); at = p.w.Now() })
		p.dial(func(conn stdnet.Conn) {
			began = p.w.Now()
			for range c.writes {
				conn.Write(make([]byte, c.size))
			}
			conn.Close()
		})
		p.finish(t)
		require.InDelta(t, c.want, (at - began).Seconds(), 0.01)
	}
}
