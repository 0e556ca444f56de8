package consumer_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"faultline/consumer"
	coordclient "faultline/coord/client"
	"faultline/producer"
	"faultline/sim/machine"
	"faultline/sim/virtual"
)

func (x *world) duplicates() int {
	n := 0
	for _, times := range x.got {
		n += times - 1
	}
	return n
}

func TestGroupDividesAndDelivers(t *testing.T) {
	x := newWorld(t, 1, 3).up()
	x.topic("t", 6)
	x.members(3)
	x.produce("p", "t", 500, 2*time.Millisecond)
	x.until(20*time.Second, "everything delivered", func() bool { return len(x.sent) == 500 && x.delivered() && len(x.owned()) == 6 })
	require.Zero(t, x.duplicates(), "nothing fails, so nothing comes twice")
}

// KAFKA-969, KAFKA-1075: nothing is there when the members start; what comes later is noticed.
func TestMembersStartBeforeEverything(t *testing.T) {
	x := newWorld(t, 2, 2)
	x.members(2)
	x.run(5 * time.Second)
	x.coordUp()
	x.run(5 * time.Second)
	x.brokerUp(0)
	x.brokerUp(1)
	x.run(5 * time.Second)
	x.topic("t", 4)
	x.until(10*time.Second, "owned", func() bool { return len(x.owned()) == 4 })
	x.produce("p", "t", 50, time.Millisecond)
	x.until(10*time.Second, "delivered", func() bool { return len(x.sent) == 50 && x.delivered() })
}

func TestLeavingHandsOverAtOnce(t *testing.T) {
	x := newWorld(t, 3, 2).up()
	x.topic("t", 4)
	x.members(2)
	x.produce("p", "t", 1000, 2*time.Millisecond)
	x.run(3 * time.Second)
	x.leave("c1")
	x.until(time.Second, "the other takes over, long before a session time-out", func() bool {
		for _, owner := range x.owners {
			if owner != x.sessions["c0"] {
				return false
			}
		}
		return len(x.owned()) == 4
	})
	x.until(10*time.Second, "delivered", func() bool { return len(x.sent) == 1000 && x.delivered() })
	require.LessOrEqual(t, x.duplicates(), 2, "at most the records in hand at the two rebalances")
}

// A member that is cut off from the coordination service, but not from the brokers, stops by itself before anybody else may start.
func TestLostSessionStopsTheConsumer(t *testing.T) {
	x := newWorld(t, 4, 2).up()
	x.topic("t", 4)
	x.members(2)
	x.produce("p", "t", 5000, 2*time.Millisecond)
	x.run(3 * time.Second)
	before := x.sessions["c1"]
	heal := x.partition("c1", "zk")
	x.until(6*time.Second, "c0 owns all", func() bool {
		for _, owner := range x.owners {
			if owner != x.sessions["c0"] {
				return false
			}
		}
		return len(x.owned()) == 4
	})
	heal()
	x.until(5*time.Second, "c1 is back in a new session, with a part", func() bool {
		n := 0
		for _, owner := range x.owners {
			if owner == x.sessions["c1"] {
				n++
			}
		}
		return x.sessions["c1"] != before && n == 2
	})
	x.until(20*time.Second, "delivered", func() bool { return len(x.sent) == 5000 && x.delivered() })
}

// KAFKA-832: an application that is stuck in a record holds up no rebalance.
func TestStuckApplicationHoldsNobodyUp(t *testing.T) {
	x := newWorld(t, 5, 2).up()
	x.topic("t", 4)
	c := x.c.Add("c0")
	x.member(c, time.Hour, map[string]int{"t": 1})
	x.produce("p", "t", 200, time.Millisecond)
	x.run(3 * time.Second)
	require.Len(t, x.owned(), 4)
	x.member(x.c.Add("c1"), 0, map[string]int{"t": 1})
	x.until(2*time.Second, "c1 gets its half", func() bool {
		n := 0
		for _, owner := range x.owners {
			if owner == x.sessions["c1"] {
				n++
			}
		}
		return n == 2 && len(x.owned()) == 4
	})
}

// KAFKA-919, confluent-kafka-go 1322, sarama 713: without auto-commit a rebalance commits nothing; Commit writes where to read next.
func TestManualCommitCommitsWhatWasProcessed(t *testing.T) {
	x := newWorld(t, 6, 1).up()
	x.topic("t", 1)
	x.produce("p", "t", 100, time.Millisecond)
	x.run(2 * time.Second)
	cfg := consumer.Config{Group: "g", ID: "c0", Coord: []string{"zk:2181"}, Topics: map[string]int{"t": 1}, SessionTimeout: x.session}
	const path = "/consumers/g/offsets/t/0"
	done := false
	x.on("c0", func(m machine.Machine) {
		g, err := consumer.Join(m, cfg)
		require.NoError(t, err)
		s := g.Streams("t")[0]
		for i := range 10 {
			msg, err := s.Next()
			require.NoError(t, err)
			require.EqualValues(t, i, msg.Offset)
		}
		require.NoError(t, g.Commit())
		require.EqualValues(t, 9, x.offsets[path], "the tenth is still in hand")
		_, err = s.Next()
		require.NoError(t, err)
		require.NoError(t, g.Commit())
		require.EqualValues(t, 10, x.offsets[path])
		for range 5 {
			_, err = s.Next()
			require.NoError(t, err)
		}
		require.Equal(t, []consumer.Progress{{Topic: "t", Partition: 0, Processed: 15, Position: 100, End: 100}}, g.Progress())
		require.EqualValues(t, 85, g.Progress()[0].Lag())
		require.NoError(t, g.Close())
		_, err = s.Next()
		require.ErrorIs(t, err, consumer.ErrClosed)
		require.ErrorIs(t, g.Commit(), consumer.ErrClosed)
		done = true
	})
	x.until(10*time.Second, "done", func() bool { return done })
	require.EqualValues(t, 10, x.offsets[path])
	require.Empty(t, x.owned())
}

// parallel-consumer 894: of records that are done out of order a commit takes what is before the first gap.
func TestOutOfOrderCommitsEndBeforeTheFirstGap(t *testing.T) {
	x := newWorld(t, 6, 1).up()
	x.topic("t", 1)
	x.produce("p", "t", 20, time.Millisecond)
	x.run(2 * time.Second)
	cfg := consumer.Config{Group: "g", ID: "c0", Coord: []string{"zk:2181"}, Topics: map[string]int{"t": 1}, SessionTimeout: x.session, OutOfOrder: true}
	const path = "/consumers/g/offsets/t/0"
	done := false
	x.on("c0", func(m machine.Machine) {
		amo := cfg
		amo.Delivery = consumer.AtMostOnce
		_, err := consumer.Join(m, amo)
		require.ErrorContains(t, err, "want AtLeastOnce")

		g, err := consumer.Join(m, cfg)
		require.NoError(t, err)
		var got []consumer.Message
		for range 10 {
			msg, err := g.Streams("t")[0].Next()
			require.NoError(t, err)
			got = append(got, msg)
		}
		for _, step := range []struct{ done, committed int64 }{{3, 0}, {1, 0}, {0, 2}, {0, 2}, {9, 2}, {2, 4}, {4, 5}, {5, 6}, {6, 7}, {8, 7}, {7, 10}} {
			got[step.done].Done()
			require.NoError(t, g.Commit())
			require.EqualValues(t, step.committed, x.offsets[path], "record %d is done", step.done)
		}
		require.NoError(t, g.Close())
		got[0].Done() // too late to matter
		done = true
	})
	x.until(10*time.Second, "done", func() bool { return done })
	require.EqualValues(t, 10, x.offsets[path])
}

// A commit whose answer got lost is settled before its partitions go to somebody else: written again afterwards it would be a commit of the last owner.
func TestStalledCommitEndsBeforeTheRelease(t *testing.T) {
	for seed := range uint64(20) {
		x := newWorld(t, 100+seed, 2).up()
		require.NoError(t, x.c.Arm("fault/consumer/commit-again", virtual.Misfortune{Chance: 1, Delay: time.Second}))
		x.topic("t", 8)
		x.produce("p", "t", 4000, time.Millisecond)
		x.on("c0", func(m machine.Machine) {
			g, err := consumer.Join(m, consumer.Config{Group: "g", ID: "c0", Coord: []string{"zk:2181"}, Topics: map[string]int{"t": 1}, SessionTimeout: x.session, CoordTap: fence{x}})
			require.NoError(t, err)
			m.Go("app", func() {
				for {
					if _, err := g.Streams("t")[0].Next(); err != nil {
						return
					}
				}
			})
			for {
				_ = g.Commit() // some fail
				m.Sleep(5 * time.Millisecond)
			}
		})
		x.run(2 * time.Second)
		x.zk.Crash()
		x.member(x.c.Add("c1"), 0, map[string]int{"t": 1})
		x.run(time.Second)
		x.coordUp()
		x.until(10*time.Second, "owned by both", func() bool {
			n := 0
			for _, owner := range x.owners {
				if owner == x.sessions["c1"] {
					n++
				}
			}
			return n == 4 && len(x.owned()) == 8
		})
		x.run(time.Second)
		x.w.Close()
	}
}

func TestSeekMovesBackAndForth(t *testing.T) {
	x := newWorld(t, 7, 1).up()
	x.topic("t", 1)
	x.produce("p", "t", 100, time.Millisecond)
	x.run(2 * time.Second)
	done := false
	x.on("c0", func(m machine.Machine) {
		g, err := consumer.Join(m, consumer.Config{Group: "g", Coord: []string{"zk:2181"}, Topics: map[string]int{"t": 1}})
		require.NoError(t, err)
		require.ErrorIs(t, g.Seek("t", 0, 3), consumer.ErrNotOwner)
		s := g.Streams("t")[0]
		next := func() int64 {
			msg, err := s.Next()
			require.NoError(t, err)
			return msg.Offset
		}
		require.EqualValues(t, 0, next())
		require.NoError(t, g.Seek("t", 0, 50))
		require.EqualValues(t, 50, next())
		require.EqualValues(t, 51, next())
		require.NoError(t, g.Seek("t", 0, 7))
		require.EqualValues(t, 7, next())
		require.NoError(t, g.Seek("t", 0, 1000), "beyond the end: a reset follows")
		require.EqualValues(t, 0, next())
		require.NoError(t, g.Close())
		done = true
	})
	x.until(10*time.Second, "done", func() bool { return done })
	require.Len(t, x.resets, 2)
	require.EqualValues(t, 1000, x.resets[1].A)
}

// pinot 19359: a consumer that retention overtook goes on at the start of the log, and what it had queued is still handed over.
func TestOutOfRangeSkipsWhatWasDeletedOnly(t *testing.T) {
	x := newWorld(t, 8, 1)
	x.log.SegmentBytes, x.log.RetentionTime = 2000, 4*time.Second
	x.up()
	x.topic("t", 1)
	x.keep = true
	x.tune = func(c *consumer.Config) { c.QueueRecords, c.FetchBytes = 10, 1000 }
	x.member(x.c.Add("c0"), 300*time.Millisecond, map[string]int{"t": 1})
	x.produce("p", "t", 1500, 5*time.Millisecond)
	x.run(40 * time.Second)
	require.Greater(t, len(x.resets), 1)
	reset := x.resets[1]
	require.Greater(t, reset.B, reset.A)
	want := int64(0)
	for _, h := range x.handed {
		var at int64
		_, err := fmt.Sscanf(h, "c0 t/0@%d", &at)
		require.NoError(t, err)
		if at != want {
			require.Equal(t, reset.A, want, "nothing is skipped before the reset takes effect")
			require.Equal(t, reset.B, at)
			break
		}
		want++
	}
}

func TestLargestStartsAtTheEnd(t *testing.T) {
	x := newWorld(t, 9, 1).up()
	x.topic("t", 1)
	x.produce("old", "t", 100, time.Millisecond)
	x.run(2 * time.Second)
	x.tune = func(c *consumer.Config) { c.Reset = consumer.Largest }
	x.members(1)
	x.run(2 * time.Second)
	require.EqualValues(t, 100, x.offsets["/consumers/g/offsets/t/0"], "the starting point is committed")
	x.produce("new", "t", 10, time.Millisecond)
	x.run(2 * time.Second)
	require.Len(t, x.got, 10)
	require.Equal(t, 1, x.got["new-0"])
}

// Streams of one member are consumers in their own right.
func TestStreamsDivideATopic(t *testing.T) {
	x := newWorld(t, 10, 2).up()
	x.topic("t", 5)
	x.topic("u", 2)
	x.member(x.c.Add("c0"), 0, map[string]int{"t": 2, "u": 1})
	x.member(x.c.Add("c1"), 0, map[string]int{"t": 1})
	x.until(10*time.Second, "owned", func() bool { return len(x.owned()) == 7 })
	mine := map[string]int{}
	for path, owner := range x.owners {
		if owner == x.sessions["c0"] {
			mine[path]++
		}
	}
	require.Len(t, mine, 6, "t/0 to t/3 for two of three streams, and all of u")
	x.produce("p", "t", 200, time.Millisecond)
	x.produce("q", "u", 200, time.Millisecond)
	x.until(10*time.Second, "delivered", func() bool { return len(x.sent) == 400 && x.delivered() })
}

// A claim is kept by the registry alone: when somebody deletes it, the member notices with its next commit and claims anew.
func TestClaimThatVanishedIsNoticed(t *testing.T) {
	x := newWorld(t, 11, 1).up()
	x.topic("t", 2)
	x.produce("p", "t", 2000, 2*time.Millisecond)
	x.members(1)
	x.run(2 * time.Second)
	bad := x.bad
	x.on("vandal", func(m machine.Machine) {
		c := coordclient.Connect(m, coordclient.Config{Servers: []string{"zk:2181"}})
		require.NoError(t, c.Delete("/consumers/g/owners/t/0", -1))
		require.NoError(t, c.Delete("/consumers/g/ids/c0", -1))
	})
	end := x.w.Now() + time.Second
	x.w.Run(end)
	x.bad = bad // handing over without a node is what was provoked
	x.until(3*time.Second, "claimed again", func() bool { return len(x.owned()) == 2 })
	x.until(10*time.Second, "delivered", func() bool { return len(x.sent) == 2000 && x.delivered() })
}

// Close does not wait for ever for a coordination service that is away, and says so.
func TestCloseWithoutCoordination(t *testing.T) {
	for _, ever := range []bool{true, false} {
		x := newWorld(t, 13, 1)
		if ever {
			x.up()
			x.topic("t", 1)
		}
		var took time.Duration
		closing := false
		x.on("c0", func(m machine.Machine) {
			g, err := consumer.Join(m, consumer.Config{Group: "g", Coord: []string{"zk:2181"}, Topics: map[string]int{"t": 1}, SessionTimeout: x.session})
			require.NoError(t, err)
			m.Sleep(3 * time.Second)
			closing = true
			m.Sleep(time.Second)
			begin := m.Uptime()
			require.Error(t, g.Close())
			took = m.Uptime() - begin
			require.Error(t, g.Close())
		})
		x.until(5*time.Second, "closing", func() bool { return closing })
		if ever {
			x.zk.PowerLoss()
		}
		x.run(20 * time.Second)
		require.NotZero(t, took)
		require.Less(t, took, 4*x.session)
	}
}

// KAFKA-8350: a broker that takes less than the producer's batches ends up with smaller ones; a record that is too large alone fails.
func TestBatchesShrinkToWhatTheBrokerTakes(t *testing.T) {
	x := newWorld(t, 12, 1)
	x.log.MaxBatchBytes = 1000
	x.up()
	x.topic("t", 1)
	var failed, acked int
	closed := false
	x.on("p", func(m machine.Machine) {
		p, err := producer.New(m, producer.Config{Brokers: x.addresses(), Acks: producer.AcksAll, BatchBytes: 100_000, Linger: 50 * time.Millisecond})
		require.NoError(t, err)
		var last int64 = -1
		for i := range 300 {
			size := 30
			if i == 150 {
				size = 5000
			}
			require.NoError(t, p.Send(producer.Record{Topic: "t", Partition: -1, Value: make([]byte, size)}, func(r producer.Result) {
				if size == 5000 {
					require.ErrorIs(t, r.Err, producer.ErrTooLarge)
					require.NotErrorIs(t, r.Err, producer.ErrUnknown)
					failed++
					return
				}
				require.NoError(t, r.Err)
				require.Equal(t, last+1, r.Offset)
				last = r.Offset
				acked++
			}))
		}
		p.Flush()
		require.Equal(t, 299, acked)
		require.Equal(t, 1, failed)
		require.ErrorIs(t, p.Send(producer.Record{Topic: "t", Partition: 1, Value: []byte("x")}, nil), producer.ErrNoPartition)
		p.Close()
		require.ErrorIs(t, p.Send(producer.Record{Topic: "t", Value: []byte("x")}, nil), producer.ErrClosed)
		closed = true
	})
	x.until(20*time.Second, "closed", func() bool { return closed })
}
