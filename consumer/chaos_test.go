package consumer_test

import (
	"flag"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"faultline/consumer"
	"faultline/producer"
	"faultline/sim/virtual"
)

var seeds = flag.Int("seeds", 4, "worlds of each chaos test")

// storm troubles the world for d: crashes, power losses, pauses and partitions of everybody, a few at a time, all healed at the end.
func (x *world) storm(rng *rand.Rand, members []*virtual.Computer, d time.Duration, lossy bool) {
	all := append([]*virtual.Computer{x.zk}, x.brokers...)
	all = append(all, members...)
	end := x.w.Now() + d
	for x.w.Now() < end {
		c := all[rng.IntN(len(all))]
		span := time.Duration(rng.IntN(3000)) * time.Millisecond
		switch rng.IntN(4) {
		case 0:
			if c.Running() {
				if lossy && rng.IntN(2) == 0 {
					c.PowerLoss()
				} else {
					c.Crash()
				}
				x.w.At(x.w.Now()+span, func() { x.boot(c) })
			}
		case 1:
			c.Pause()
			x.w.At(x.w.Now()+span, c.Resume)
		default:
			o := all[rng.IntN(len(all))]
			if o == c {
				continue
			}
			heal := x.partition(c.Name(), o.Name())
			x.w.At(x.w.Now()+span, heal)
		}
		x.run(time.Duration(rng.IntN(1500)) * time.Millisecond)
	}
	x.run(3 * time.Second)
}

func (x *world) boot(c *virtual.Computer) {
	if c.Running() {
		return
	}
	switch {
	case c == x.zk:
		x.coordUp()
		return
	}
	for i, b := range x.brokers {
		if c == b {
			x.brokerUp(i)
			return
		}
	}
	x.member(c, 0, map[string]int{"t": 1})
}

func chaos(t *testing.T, tune func(x *world), check func(x *world), produce ...func(c *producer.Config)) {
	for seed := range uint64(*seeds) {
		rng := rand.New(rand.NewPCG(seed, 7))
		x := newWorld(t, seed, 3)
		tune(x)
		x.up()
		x.topic("t", 5)
		members := x.members(3)
		x.produce("p", "t", 3000, 5*time.Millisecond, append(produce, func(c *producer.Config) { c.DeliveryTimeout = 20 * time.Second })...)
		x.storm(rng, members, 15*time.Second, true)
		x.until(40*time.Second, "owned", func() bool { return len(x.owned()) == 5 })
		check(x)
		x.w.Close()
	}
}

func TestChaosAtLeastOnce(t *testing.T) {
	chaos(t, func(x *world) {}, func(x *world) {
		x.until(40*time.Second, "everything delivered", func() bool { return x.w.Now() > 45*time.Second && x.delivered() })
		dup := 0
		for _, n := range x.got {
			dup += n - 1
		}
		t.Logf("seed %d: %d acked, %d seen, %d duplicates, %d rebalances, %d events", x.w.Seed(), len(x.sent), len(x.got), dup, x.attempts, x.w.Events())
	})
}

// The application commits, at any moment of a rebalance.
func TestChaosManualCommit(t *testing.T) {
	chaos(t, func(x *world) {
		x.tune = func(c *consumer.Config) { c.AutoCommit = false }
	}, func(x *world) {
		x.until(40*time.Second, "everything delivered", func() bool { return x.w.Now() > 45*time.Second && x.delivered() })
	})
}

// Every misfortune that the code marks, on top of the storm; and a budget of retries that does not last.
func TestChaosWithFailpoints(t *testing.T) {
	chaos(t, func(x *world) {
		x.tune = func(c *consumer.Config) { c.RebalanceRetries = 2 }
		for _, place := range []string{"consumer/rebalance", "consumer/claimed", "consumer/begin", "consumer/release", "consumer/release-commit", "consumer/retry",
			"consumer/commit", "consumer/fetched", "producer/send", "producer/answer"} {
			require.NoError(x.t, x.c.Arm("fault/"+place, virtual.Misfortune{Chance: 0.1, Fail: true, Delay: 50 * time.Millisecond}))
		}
	}, func(x *world) {
		x.c.Disarm()
		x.until(40*time.Second, "everything delivered", func() bool { return x.w.Now() > 45*time.Second && x.delivered() })
		x.until(10*time.Second, "owned", func() bool { return len(x.owned()) == 5 })
	}, func(c *producer.Config) { c.MaxInFlight, c.Linger, c.Compression = 3, 0, producer.Snappy })
}

func TestChaosAtMostOnce(t *testing.T) {
	handed := map[string]bool{}
	chaos(t, func(x *world) {
		clear(handed)
		x.tune = func(c *consumer.Config) { c.Delivery = consumer.AtMostOnce }
		x.keep = true
	}, func(x *world) {
		x.run(20 * time.Second)
		for _, h := range x.handed {
			_, at, _ := cutLast(h, " ")
			require.False(t, handed[at], "seed %d: %s handed over twice", x.w.Seed(), at)
			handed[at] = true
		}
		t.Logf("seed %d: %d acked, %d seen, %d rebalances", x.w.Seed(), len(x.sent), len(x.got), x.attempts)
	})
}
