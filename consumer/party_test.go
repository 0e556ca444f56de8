package consumer_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"faultline/consumer"
	"faultline/consumer/assign"
	"faultline/sim/machine"
	"faultline/sim/virtual"
)

func cooperative(c *consumer.Config) { c.Assignors = []*assign.Assignor{assign.CooperativeSticky} }

// A paused partition is still the member's: it hands over nothing, its commits and its assignment stand, others go on, and it goes on where it was.
func TestAPausedPartitionKeepsItsAssignmentAndGoesOnWhereItWas(t *testing.T) {
	for seed := range uint64(5) {
		x := newPartyWorld(t, seed, 2)
		x.topic("t", 2)
		a := x.join("a", func(c *consumer.Config) { c.QueueRecords = 20 })
		x.produce("p", "t", 3000, 2*time.Millisecond)
		x.settled(10*time.Second, map[*partyMember]int{a: 2})
		x.until(10*time.Second, "flows", func() bool { return len(a.of("t/0", 0)) > 100 && len(a.of("t/1", 0)) > 100 })
		a.does(time.Second, "pause", func() error { return a.g.Pause("t", 0) })
		at := x.w.Now()
		x.run(3 * time.Second)
		require.Empty(t, a.of("t/0", at), "seed %d: paused", seed)
		require.Greater(t, len(a.of("t/1", at)), 500, "seed %d: the other goes on, though the queue is a small one", seed)
		require.Equal(t, []string{"t/0", "t/1"}, a.owns())
		last := a.of("t/0", 0)[len(a.of("t/0", 0))-1].offset
		a.does(time.Second, "commit and look", func() error {
			if err := a.g.Commit(); err != nil {
				return err
			}
			if p := a.g.Progress(); len(p) != 2 || p[0].Processed != last+1 {
				return fmt.Errorf("progress %+v, want t/0 at %d", p, last+1)
			}
			return nil
		})
		a.does(time.Second, "resume", func() error { return a.g.Resume("t", 0) })
		resumed := x.w.Now()
		x.until(10*time.Second, "all delivered", func() bool { return len(x.sent) == 3000 && x.delivered() })
		require.Less(t, a.of("t/0", resumed)[0].at-resumed, 100*time.Millisecond)
		for i, h := range a.of("t/0", 0) {
			require.EqualValues(t, i, h.offset, "seed %d: nothing is skipped, nothing comes twice", seed)
		}
		require.Len(t, x.log, 1, "nobody was told anything but the assignment: %v", x.log)
	}
}

// What waits of a paused partition takes none of the room that others need.
func TestAPausedPartitionHoldsUpNoOther(t *testing.T) {
	x := newPartyWorld(t, 1, 1)
	x.topic("t", 2)
	x.produce("p", "t", 600, time.Millisecond)
	x.until(10*time.Second, "sent", func() bool { return len(x.sent) == 600 })
	a := x.join("a", func(c *consumer.Config) { c.QueueRecords, c.QueueBytes, c.FetchBytes = 20, 2000, 2000 })
	a.work = 5 * time.Millisecond
	x.until(10*time.Second, "flows", func() bool { return len(a.of("t/0", 0)) > 20 })
	a.does(time.Second, "pause", func() error { return a.g.Pause("t", 0) })
	at := x.w.Now()
	x.run(10 * time.Second)
	require.Empty(t, a.of("t/0", at+5*time.Millisecond))
	x.produce("q", "t", 100, time.Millisecond)
	x.run(5 * time.Second)
	end := int64(0)
	for place := range x.at {
		var offset int64
		if n, _ := fmt.Sscanf(place, "t/1@%d", &offset); n == 1 {
			end = max(end, offset+1)
		}
	}
	require.Len(t, a.of("t/1", 0), int(end), "all of the other")
	a.does(time.Second, "resume", func() error { return a.g.Resume("t", 0) })
	x.until(10*time.Second, "delivered", x.delivered)
	require.Zero(t, x.duplicates())
}

// A rebalance in which the member keeps the partition leaves it paused; a partition that it gives up and gets again is not.
func TestAPauseEndsWithTheClaim(t *testing.T) {
	for name, keeps := range map[string]bool{"cooperative": true, "eager": false} {
		t.Run(name, func(t *testing.T) {
			x := newPartyWorld(t, 1, 1)
			x.topic("t", 2)
			var tune []func(*consumer.Config)
			if keeps {
				tune = append(tune, cooperative)
			}
			a := x.join("a", tune...)
			x.settled(10*time.Second, map[*partyMember]int{a: 2})
			for _, p := range []int32{0, 1} {
				a.does(time.Second, "pause", func() error { return a.g.Pause("t", p) })
			}
			b := x.join("b", tune...)
			x.settled(10*time.Second, map[*partyMember]int{a: 1, b: 1})
			mine := a.owns()[0]
			x.produce("p", "t", 200, time.Millisecond)
			x.until(10*time.Second, "sent", func() bool { return len(x.sent) == 200 })
			x.run(2 * time.Second)
			require.NotEmpty(t, b.handed, "what was given to another is not paused there")
			require.Equal(t, keeps, len(a.of(mine, 0)) == 0)
			other := map[string]int32{"t/0": 1, "t/1": 0}[mine]
			a.does(time.Second, "pause what it has not", func() error {
				require.ErrorIs(t, a.g.Pause("t", other), consumer.ErrNotOwner)
				require.ErrorIs(t, a.g.Resume("t", other), consumer.ErrNotOwner)
				return nil
			})
			b.does(5*time.Second, "close", b.g.Close)
			x.settled(10*time.Second, map[*partyMember]int{a: 2})
			x.until(10*time.Second, "the partition that came back flows", func() bool { return len(a.of(fmt.Sprint("t/", other), 0))+len(b.handed) > 0 })
			require.Equal(t, keeps, len(a.of(mine, 0)) == 0)
			if keeps {
				a.does(time.Second, "resume", func() error { return a.g.Resume("t", 1-other) })
			}
			x.until(10*time.Second, "delivered", x.delivered)
		})
	}
}

// Who gives up is told before who gets it, with what it processed committed: the next owner begins exactly there.
func TestListenersAreToldInOrder(t *testing.T) {
	for name, c := range map[string]struct {
		tune []func(*consumer.Config)
		want []string // when b joins, and when it leaves
		back []string
	}{
		"eager": {nil,
			[]string{"a revoked t/0 t/1 t/2 t/3", "a assigned t/0 t/1", "b assigned t/2 t/3"},
			[]string{"b revoked t/2 t/3", "a revoked t/0 t/1", "a assigned t/0 t/1 t/2 t/3"}},
		"cooperative": {[]func(*consumer.Config){cooperative},
			[]string{"a revoked t/2 t/3", "b assigned t/2 t/3"},
			[]string{"b revoked t/2 t/3", "a assigned t/2 t/3"}},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(5) {
				x := newPartyWorld(t, seed, 2)
				x.topic("t", 4)
				a := x.join("a", c.tune...)
				x.produce("p", "t", 2000, 3*time.Millisecond)
				x.settled(10*time.Second, map[*partyMember]int{a: 4})
				require.Equal(t, []string{"a assigned t/0 t/1 t/2 t/3"}, x.since(0))
				at := x.w.Now()
				b := x.join("b", c.tune...)
				x.settled(10*time.Second, map[*partyMember]int{a: 2, b: 2})
				got := x.since(at)
				if name == "eager" && got[1] == "b assigned t/2 t/3" {
					got[1], got[2] = got[2], got[1] // both get theirs after the one has given up
				}
				require.ElementsMatch(t, c.want, got, "seed %d", seed)
				require.Equal(t, c.want[0], got[0], "seed %d", seed)
				x.run(time.Second)
				at = x.w.Now()
				b.does(5*time.Second, "close", b.g.Close)
				x.settled(10*time.Second, map[*partyMember]int{a: 4, b: 0})
				require.Equal(t, c.back, x.since(at), "seed %d", seed)
				x.until(10*time.Second, "all delivered", func() bool { return len(x.sent) == 2000 && x.delivered() })
				require.Zero(t, x.duplicates(), "seed %d: each owner begins where the last one ended", seed)
			}
		})
	}
}

// What the application commits when it is told that partitions are revoked still counts, without AutoCommit, too.
func TestCommitInTheRevokedListenerCounts(t *testing.T) {
	x := newPartyWorld(t, 1, 2)
	x.topic("t", 4)
	var commits []error
	manual := func(m **partyMember) func(*consumer.Config) {
		return func(c *consumer.Config) {
			c.AutoCommit = false
			told := c.Listener.Revoked
			c.Listener.Revoked = func(p []assign.Partition) {
				commits = append(commits, (*m).g.Commit())
				told(p)
			}
		}
	}
	var a, b *partyMember
	a = x.join("a", manual(&a))
	x.settled(10*time.Second, map[*partyMember]int{a: 4})
	x.produce("p", "t", 300, 2*time.Millisecond)
	x.until(10*time.Second, "read", func() bool { return len(x.sent) == 300 && x.delivered() })
	b = x.join("b", manual(&b))
	x.settled(10*time.Second, map[*partyMember]int{a: 2, b: 2})
	x.produce("q", "t", 300, 2*time.Millisecond)
	x.until(10*time.Second, "read", func() bool { return len(x.sent) == 600 && x.delivered() })
	require.Equal(t, []error{nil}, commits)
	require.Zero(t, x.duplicates(), "nothing was committed but there")
}

// A member that stood still for longer than its session lost its partitions: it is told so, as lost and not as revoked, and the next owner did not wait for it.
func TestAFrozenMemberIsToldThatItsPartitionsAreLost(t *testing.T) {
	for seed := range uint64(5) {
		x := newPartyWorld(t, seed, 2)
		x.topic("t", 4)
		a := x.join("a")
		b := x.join("b")
		x.produce("p", "t", 3000, 3*time.Millisecond)
		x.settled(10*time.Second, map[*partyMember]int{a: 2, b: 2})
		x.run(time.Second)
		had, at := a.owns(), x.w.Now()
		x.away["a"] = true
		a.c.Pause()
		a.c.Freeze()
		x.settled(10*time.Second, map[*partyMember]int{b: 4})
		require.Less(t, x.w.Now()-at, x.session+4*time.Second+time.Second, "a session, and a rebalance that nobody holds up")
		x.run(time.Second)
		before := len(a.handed)
		thawed := x.w.Now()
		a.c.Thaw()
		a.c.Resume()
		x.until(10*time.Second, "told", func() bool {
			return len(x.log) > 0 && slices.ContainsFunc(x.log, func(n note) bool { return n.at >= thawed && n.member == "a" })
		})
		for _, n := range x.log {
			if n.at >= thawed && n.member == "a" {
				require.Equal(t, "lost "+had[0]+" "+had[1], n.what, "seed %d", seed)
				break
			}
		}
		require.Len(t, a.handed, before, "seed %d: not one record before it knew", seed)
		delete(x.away, "a")
		x.settled(15*time.Second, map[*partyMember]int{a: 2, b: 2})
		x.until(20*time.Second, "delivered", func() bool { return len(x.sent) == 3000 && x.delivered() })
	}
}

// KIP-62: a member whose application works on one record for too long leaves, though its heartbeats go on, and comes back when it asks for the next.
func TestAMemberThatIsTooSlowLeavesAndComesBack(t *testing.T) {
	for name, instance := range map[string]string{"dynamic": "", "static": "i-a"} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(3) {
				x := newPartyWorld(t, seed, 2)
				x.topic("t", 4)
				slow := func(c *consumer.Config) {
					c.MaxPollInterval, c.RebalanceTimeout, c.Instance = 3*time.Second, 3*time.Second, instance
				}
				a := x.join("a", slow)
				b := x.join("b", func(c *consumer.Config) { c.MaxPollInterval, c.RebalanceTimeout = 3*time.Second, 3*time.Second })
				x.produce("p", "t", 4000, 5*time.Millisecond)
				x.settled(10*time.Second, map[*partyMember]int{a: 2, b: 2})
				x.run(5 * time.Second)
				require.Equal(t, 2, len(a.owns()), "seed %d: who works and asks for more is not slow", seed)

				a.work = 10 * time.Second
				x.run(50 * time.Millisecond)
				at := a.handed[len(a.handed)-1].at // it got this one, and does not come back
				a.work = 0                         // for the next
				x.until(10*time.Second, "left", func() bool { return len(a.owns()) == 0 })
				require.Greater(t, x.w.Now()-at, 2900*time.Millisecond, "seed %d: not before its time", seed)
				require.Less(t, x.w.Now()-at, 3500*time.Millisecond, "seed %d", seed)
				told := x.since(at)
				require.Contains(t, told[0], "a revoked", "seed %d: others have it only afterwards", seed)
				left := x.w.Now()
				x.settled(10*time.Second, map[*partyMember]int{b: 4})
				if instance == "" {
					require.Less(t, x.w.Now()-left, 1500*time.Millisecond, "seed %d: it says that it leaves", seed)
				} else {
					require.Greater(t, x.w.Now()-left, x.session/2, "seed %d: a static one is missed when its session is over", seed)
				}
				before := len(a.handed)
				x.until(10*time.Second, "asks for the next", func() bool { return x.w.Now() >= at+10*time.Second })
				require.Len(t, a.handed, before)
				x.until(5*time.Second, "back", func() bool { return len(a.owns()) == 2 && len(b.owns()) == 2 })
				require.Greater(t, x.w.Now()-at, 10*time.Second, "seed %d: not before it asks for the next record", seed)
				x.until(30*time.Second, "delivered", func() bool { return len(x.sent) == 4000 && x.delivered() })
			}
		})
	}
}

// A member has joined and is about to begin with what it was given when its coordinator goes, and with that its lease. Nobody else looks for a coordinator, so it must not wait for the lease there, and it must hand nothing
// over without one.
func TestAMemberThatLosesItsCoordinatorBeforeItBeginsFindsItAgain(t *testing.T) {
	for seed := range uint64(4) {
		x := newPartyWorld(t, seed, 1)
		x.topic("t", 4)
		x.produce("p", "t", 200, time.Millisecond)
		require.NoError(t, x.c.Arm("fault/consumer/begin", virtual.Misfortune{Chance: 1, Delay: 20 * time.Second}))
		joined := false
		on := x.c.OnEvent
		x.c.OnEvent = func(c *virtual.Computer, e *machine.Event) {
			joined = joined || e.Kind == machine.GroupGiven
			on(c, e)
		}
		a := x.join("a")
		x.until(10*time.Second, "joined", func() bool { return joined })
		x.run(200 * time.Millisecond)
		require.NoError(t, x.c.Arm("fault/consumer/begin", virtual.Misfortune{}))
		require.Empty(t, a.owns(), "seed %d: it begins too early for this story", seed)
		x.brokers[0].Crash()
		x.run(3 * time.Second)
		x.brokerUp(0)
		x.settled(40*time.Second, map[*partyMember]int{a: 4})
		x.until(20*time.Second, "delivered", func() bool { return len(x.sent) == 200 && x.delivered() })
	}
}

// Whoever waits in Next is woken by Close, whatever the member waits for itself.
func TestCloseWakesWhoeverWaits(t *testing.T) {
	for name, c := range map[string]struct {
		before func(x *partyWorld, a *partyMember)
		within time.Duration
		fails  bool
	}{
		"for records": {func(x *partyWorld, a *partyMember) { x.settled(10*time.Second, map[*partyMember]int{a: 2}) }, 500 * time.Millisecond, false},
		"paused": {func(x *partyWorld, a *partyMember) {
			x.settled(10*time.Second, map[*partyMember]int{a: 2})
			for p := range int32(2) {
				a.does(time.Second, "pause", func() error { return a.g.Pause("t", p) })
			}
			x.produce("p", "t", 20, time.Millisecond)
			x.run(time.Second)
			require.Empty(x.t, a.handed)
		}, 500 * time.Millisecond, false},
		"for others to join": {func(x *partyWorld, a *partyMember) {
			x.settled(10*time.Second, map[*partyMember]int{a: 2})
			b := x.join("b")
			x.settled(10*time.Second, map[*partyMember]int{a: 1, b: 1})
			x.away["b"] = true
			b.c.Pause()
			x.join("c") // a rebalance that waits for b
			x.run(time.Second)
			require.Empty(x.t, a.owns())
		}, 500 * time.Millisecond, false},
		"for a coordinator that is away": {func(x *partyWorld, a *partyMember) {
			x.settled(10*time.Second, map[*partyMember]int{a: 2})
			x.brokers[0].PowerLoss()
			x.run(300 * time.Millisecond)
		}, 5 * time.Second, true},
		"for a cluster that never was": {func(x *partyWorld, a *partyMember) {
			x.brokers[0].PowerLoss()
			x.run(3 * time.Second)
		}, 2100 * time.Millisecond, false}, // an attempt to connect is not cut short
	} {
		t.Run(name, func(t *testing.T) {
			x := newPartyWorld(t, 1, 1)
			x.topic("t", 2)
			if name == "for a cluster that never was" {
				x.brokers[0].Crash()
			} else {
				x.run(2 * time.Second)
			}
			a := x.join("a")
			c.before(x, a)
			require.True(t, a.awaiting)
			start := x.w.Now()
			var took time.Duration
			var err error
			closed := 0
			for range 2 { // the second call waits for the first
				a.c.Go("close", func() { err = a.g.Close(); took = x.w.Now() - start; closed++ })
			}
			x.until(time.Second, "woken", func() bool { return len(a.ended) == 1 })
			require.ErrorIs(t, a.ended[0], consumer.ErrClosed)
			x.until(c.within+5*time.Second, "closed", func() bool { return closed == 2 })
			require.LessOrEqual(t, took, c.within)
			require.Equal(t, c.fails, err != nil, "%v", err)
			require.Empty(t, a.owns())
			a.does(time.Second, "afterwards", func() error {
				if _, err := a.g.Streams("t")[0].Next(); err != consumer.ErrClosed {
					return fmt.Errorf("Next after Close: %v", err)
				}
				if err := a.g.Pause("t", 0); err != consumer.ErrClosed {
					return fmt.Errorf("Pause after Close: %v", err)
				}
				return nil
			})
		})
	}
}

// A static member that leads, restarts and comes back within its session gets what it had, without a rebalance; and if a topic has got more partitions meanwhile they get an owner, by whatever assignor.
func TestAStaticLeaderThatRestartsSeesWhatGrewMeanwhile(t *testing.T) {
	for _, how := range assign.All() {
		for grown, want := range map[int32]map[string]int{4: {"a": 2, "b": 2}, 6: {"a": 3, "b": 3}} {
			t.Run(fmt.Sprintf("%s %d", how.Name(), grown), func(t *testing.T) {
				for seed := range uint64(2) {
					x := newPartyWorld(t, seed, 2)
					x.topic("t", 4)
					static := func(instance string) func(*consumer.Config) {
						return func(c *consumer.Config) {
							c.Instance, c.Assignors, c.SessionTimeout = instance, []*assign.Assignor{how}, 6*time.Second
						}
					}
					a := x.join("a", static("i-a")) // the first leads
					x.settled(10*time.Second, map[*partyMember]int{a: 4})
					b := x.join("b", static("i-b"))
					x.settled(10*time.Second, map[*partyMember]int{a: 2, b: 2})
					x.run(time.Second)
					had := a.owns()
					a.crash()
					x.run(500 * time.Millisecond)
					if grown > 4 {
						x.grow("t", grown)
					}
					at := x.w.Now()
					a.boot(static("i-a"))
					x.settled(12*time.Second, map[*partyMember]int{a: want["a"], b: want["b"]})
					x.run(10 * time.Second)
					require.Equal(t, want["a"], len(a.owns()))
					require.Equal(t, "a assigned "+had[0]+" "+had[1], x.since(at)[0], "seed %d: first it is given what it had", seed)
					if grown == 4 {
						require.Len(t, x.since(at), 1, "seed %d: and nothing else happens", seed)
					}
					x.produce("p", "t", 300, time.Millisecond)
					x.until(10*time.Second, "delivered", func() bool { return len(x.sent) == 300 && x.delivered() })
				}
			})
		}
	}
}
