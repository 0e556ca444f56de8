package broker_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"faultline/broker"
	"faultline/broker/client"
	"faultline/broker/log"
	"faultline/sim/disk"
	"faultline/sim/virtual"

	"github.com/stretchr/testify/require"
)

// outcome of a produce request that was not refused for good.
type outcome struct {
	value  string
	offset int64 // -1: unknown
}

// TestAckedRecordsSurviveChaos: brokers lose power, crash, pause and lose their links, the coordination service restarts, failpoints fire. Afterwards
// each record that was acknowledged with acks=all is at the offset that the broker gave it, nothing is there that was not sent, and
// nobody saw anything that vanished.
func TestAckedRecordsSurviveChaos(t *testing.T) {
	seeds := uint64(8)
	if testing.Short() {
		seeds = 3
	}
	for seed := range seeds {
		chaos(t, seed, 12)
	}
}

// chaos lives one seed through a number of misfortunes and returns the world's hash.
func chaos(t *testing.T, seed uint64, rounds int) uint64 {
	x := newWorld(t, seed)
	x.config = func(c *broker.Config) {
		c.Log = log.Config{SegmentBytes: 2000, FlushInterval: 20 * time.Millisecond, IndexInterval: 100}
		c.SessionTimeout = 4 * time.Second
	}
	x.start(3)
	const partitions = 4
	x.on("admin", func(p *program) { p.create("t", partitions) })

	for _, place := range []string{"fault/broker/request", "fault/broker/reply", "fault/broker/fetch-reply", "fault/broker/produce-reply", "fault/log/flush-slow", "fault/log/read-one"} {
		require.NoError(t, x.c.Arm(place, virtual.Misfortune{Chance: 0.01, Fail: true, Delay: 20 * time.Millisecond}))
	}

	rng := rand.New(rand.NewPCG(seed, 99))
	stop := false
	acked := make([][]outcome, partitions)
	maybe := make([]map[string]bool, partitions)
	var seen [partitions][]string // what a reader saw, by offset
	var programs []*bool
	for id := range int32(partitions) {
		maybe[id] = map[string]bool{}
		programs = append(programs, x.spawn(fmt.Sprint("writer", id), func(p *program) {
			for i := 0; !stop; i++ {
				value := fmt.Sprintf("%d-%d", id, i)
				base, err := p.send("t", id, -1, value)
				if err == nil {
					acked[id] = append(acked[id], outcome{value, base})
				} else {
					if !errors.Is(err, client.ErrNotSent) {
						maybe[id][value] = true
					}
					p.cluster.Invalidate("t")
				}
				p.m.Sleep(20 * time.Millisecond)
			}
		}))
		programs = append(programs, x.spawn(fmt.Sprint("reader", id), func(p *program) {
			for !stop {
				f, err := p.fetch("t", id, int64(len(seen[id])), longPoll(500*time.Millisecond, 1))
				if err != nil || f.code != 0 {
					p.cluster.Invalidate("t")
					p.m.Sleep(50 * time.Millisecond)
					continue
				}
				seen[id] = append(seen[id], f.values...)
			}
		}))
	}

	var heals []func()
	for range rounds {
		x.run(time.Duration(rng.IntN(3000)) * time.Millisecond)
		id := 1 + rng.IntN(3)
		host := x.hosts[id]
		switch rng.IntN(7) {
		case 0, 1:
			host.PowerLoss()
			x.run(time.Duration(rng.IntN(6000)) * time.Millisecond)
			x.boot(id)
		case 2:
			host.Crash()
			x.run(time.Duration(rng.IntN(2000)) * time.Millisecond)
			x.boot(id)
		case 3:
			host.Pause()
			x.run(time.Duration(rng.IntN(8000)) * time.Millisecond)
			host.Resume()
		case 4:
			a, b := host.Name(), []string{"zk", "writer0", "reader1", "b1", "b2"}[rng.IntN(5)]
			if a != b {
				heals = append(heals, x.c.Net.Block(a, b), x.c.Net.Block(b, a))
			}
		case 5:
			x.zk.PowerLoss()
			x.run(time.Duration(rng.IntN(3000)) * time.Millisecond)
			x.bootCoord()
		case 6:
			for _, h := range heals {
				h()
			}
			heals = nil
		}
		for id := 1; id <= 3; id++ { // a broker that gave itself up is restarted, as a supervisor would
			if !x.hosts[id].Running() {
				x.boot(id)
			}
		}
	}
	for _, h := range heals {
		h()
	}
	x.c.Disarm()
	x.run(15 * time.Second)
	stop = true
	for range 100 {
		x.run(100 * time.Millisecond)
	}
	for i, done := range programs {
		require.True(t, *done, "seed %d: program %d hangs", seed, i)
	}

	total := 0
	x.on("judge", func(p *program) {
		for id := range int32(partitions) {
			got := p.readAll("t", id, 0)
			at := map[string]bool{}
			for i, a := range acked[id] {
				require.Less(t, a.offset, int64(len(got)), "seed %d: partition %d lost acked record %d of %d", seed, id, i, len(acked[id]))
				require.Equal(t, a.value, got[a.offset], "seed %d: partition %d", seed, id)
				at[a.value] = true
			}
			for i, v := range got {
				require.True(t, at[v] || maybe[id][v], "seed %d: partition %d offset %d holds %s, which nobody sent or which failed", seed, id, i, v)
			}
			require.LessOrEqual(t, len(seen[id]), len(got), "seed %d", seed)
			require.Equal(t, got[:len(seen[id])], seen[id], "seed %d: a reader saw what is not there", seed)
			total += len(acked[id])
		}
	})
	require.Greater(t, total, 50, "seed %d: hardly anything was sent", seed)
	require.Empty(t, x.exits, "seed %d", seed)
	return x.w.Hash()
}

func TestSameSeedSameHash(t *testing.T) {
	require.Equal(t, chaos(t, 1000, 4), chaos(t, 1000, 4))
	require.NotEqual(t, chaos(t, 1000, 4), chaos(t, 1001, 4))
}

// TestDiskErrorEndsTheBroker: after a failed fsync nobody may trust the log; the broker says so, ends, and recovers.
func TestDiskErrorEndsTheBroker(t *testing.T) {
	x := newWorld(t, 1)
	x.start(1)
	x.on("setup", func(p *program) {
		p.create("t", 1)
		p.mustSend("t", 0, -1, "before")
	})
	require.NoError(t, x.hosts[1].Disk().Inject(disk.Fault{ID: "f", Kind: disk.Error, Ops: disk.OpSync, Path: "broker/t-0/*", Count: 1}))
	x.on("app", func(p *program) {
		_, err := p.send("t", 0, -1, "lost or not")
		require.Error(t, err)
		p.m.Sleep(time.Second)
	})
	require.Len(t, x.exits, 1)
	require.ErrorIs(t, x.exits[0], log.ErrFenced)
	require.Equal(t, 1, x.count("b1 log.failed t/0"))
	x.boot(1)
	x.on("reader", func(p *program) {
		require.Equal(t, "before", p.readAll("t", 0, 0)[0])
		p.mustSend("t", 0, -1, "after")
	})
}
