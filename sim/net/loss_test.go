package net_test

import (
	"hash/crc32"
	"io"
	stdnet "net"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"faultline/sim/machine"
	"faultline/sim/net"
)

func TestLossDelaysThenResets(t *testing.T) {
	// Each attempt is lost with a chance: everything arrives, in order, later.
	var total time.Duration
	for seed := range uint64(20) {
		p := newPair(t, seed, flat)
		var r received
		p.serve(p.drain(&r))
		sent := pattern(20_000)
		p.dial(func(c stdnet.Conn) {
			p.n.Slow("client", "server", net.Rule{Loss: 300_000})
			for i := 0; i < len(sent); i += 1000 {
				c.Write(sent[i : i+1000])
				p.sleep(10 * ms)
			}
			c.Close()
		})
		p.finish(t)
		require.Equal(t, sent, r.data)
		require.Equal(t, io.EOF, r.err)
		total += p.w.Now()
	}
	require.Greater(t, total/20, 300*ms, "it would take 200 ms")
	// Nearly every attempt is lost: the sender gives up, its peer is reset when it sends.
	cfg := flat
	cfg.GiveUp = 10 * time.Second
	p := newPair(t, 1, cfg)
	var server error
	p.serve(func(c stdnet.Conn) {
		p.sleep(30 * time.Second)
		c.Write([]byte("still there?"))
		_, server = c.Read(make([]byte, 1))
	})
	p.dial(func(c stdnet.Conn) {
		p.n.Slow("client", "server", net.Rule{Loss: 999_999})
		p.w.At(20*time.Second, func() { p.n.Slow("server", "client", net.Rule{Loss: 0}) })
		c.Write([]byte("x"))
		start := p.w.Now()
		_, err := c.Read(make([]byte, 1))
		require.ErrorIs(t, err, machine.ErrTimeout)
		require.InDelta(t, 10, (p.w.Now() - start).Seconds(), 0.01)
	})
	p.finish(t)
	require.ErrorIs(t, server, machine.ErrConnReset)
}

// lossAt makes exactly the attempts at the given moments fail, by a rule that is there for a moment.
func (p *pair) lossAt(moments ...time.Duration) {
	for _, at := range moments {
		p.w.At(at-ms/10, func() {
			heal := p.n.Slow("client", "server", net.Rule{Loss: 999_999})
			p.w.At(at+ms/10, heal)
		})
	}
}

func TestLossBacksOffAndBlocksTheHeadOfTheLine(t *testing.T) {
	p := newPair(t, 1, flat)
	var r received
	p.serve(p.drain(&r))
	// Sent at 1 s, it would arrive at 1.001; attempts follow 200, 400 and 800 ms after the miss before.
	p.lossAt(1001*ms, 1202*ms)
	p.dial(func(c stdnet.Conn) {
		p.sleep(time.Second - p.w.Now())
		c.Write([]byte("a"))
		p.sleep(50 * ms)
		c.Write([]byte("b")) // arrives, and waits
		p.sleep(time.Second)
		c.Close()
	})
	p.finish(t)
	require.Equal(t, "ab", string(r.data))
	require.InDelta(t, 1603, r.at[0].Seconds()*1000, 0.5, "1.001 + 0.2, lost at 1.202, + 0.4 + 1 ms")
	require.Len(t, r.at, 1, "both at once")
}

func TestLossIsRepairedFastBehindTraffic(t *testing.T) {
	p := newPair(t, 1, flat)
	var r received
	p.serve(p.drain(&r))
	p.lossAt(1001 * ms)
	p.dial(func(c stdnet.Conn) {
		p.sleep(time.Second - p.w.Now())
		for _, b := range "abcde" {
			c.Write([]byte{byte(b)})
			p.sleep(5 * ms)
		}
		c.Close()
	})
	p.finish(t)
	require.Equal(t, "abcde", string(r.data))
	require.InDelta(t, 1018, r.at[0].Seconds()*1000, 0.5, "the third byte behind the hole arrives at 1.016; its acknowledgement and the repair take 1 ms each")
}

func TestWireCorruptionIsCaughtByCRC(t *testing.T) {
	p := newPair(t, 1, flat)
	const frame, header, count = 1000, 100, 500
	table := crc32.MakeTable(crc32.Castagnoli)
	bad := 0
	p.serve(func(c stdnet.Conn) {
		b := make([]byte, frame)
		for range count {
			_, err := io.ReadFull(c, b)
			require.NoError(t, err)
			require.Equal(t, pattern(header), b[:header], "what the rule spares stays true")
			want := uint32(b[frame-4]) | uint32(b[frame-3])<<8 | uint32(b[frame-2])<<16 | uint32(b[frame-1])<<24
			flipped := 0
			for i, x := range pattern(frame - 4) {
				if b[i] != x {
					flipped++
				}
			}
			require.LessOrEqual(t, flipped, 1)
			sum := crc32.Checksum(b[:frame-4], table)
			if sum != want {
				bad++
			} else {
				require.Zero(t, flipped)
			}
		}
	})
	p.dial(func(c stdnet.Conn) {
		heal := p.n.Slow("client", "server", net.Rule{Corrupt: 200_000, CorruptFrom: header})
		b := append(pattern(frame-4), 0, 0, 0, 0)
		sum := crc32.Checksum(b[:frame-4], table)
		b[frame-4], b[frame-3], b[frame-2], b[frame-1] = byte(sum), byte(sum>>8), byte(sum>>16), byte(sum>>24)
		true1 := slices.Clone(b)
		for range count {
			c.Write(b)
			p.sleep(ms)
		}
		require.Equal(t, true1, b, "the sender's bytes stay true")
		heal()
		c.Close()
	})
	p.finish(t)
	require.InDelta(t, count/5, bad, 30, "each flip is seen")
}

func TestCorruptionSparesShortSegments(t *testing.T) {
	p := newPair(t, 1, flat)
	p.serve(echoAll)
	p.dial(func(c stdnet.Conn) {
		p.n.Slow("client", "server", net.Rule{Corrupt: 1_000_000, CorruptFrom: 64})
		b := make([]byte, 64)
		for range 100 {
			c.Write(b)
			got := make([]byte, 64)
			_, err := io.ReadFull(c, got)
			require.NoError(t, err)
			require.Equal(t, b, got)
		}
		c.Close()
	})
	p.finish(t)
}
