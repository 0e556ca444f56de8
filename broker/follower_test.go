package broker

import (
	"testing"
	"time"

	"faultline/broker/log"
	"faultline/broker/record"
	"faultline/broker/replica"
	"faultline/sim"
	"faultline/sim/machine"
	"faultline/sim/virtual"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// followed is a replica on a broker of its own, alone in a world, that has the records 0..9 of leader epoch 1 and follows in that.
type followed struct {
	*testing.T
	b     *Broker
	p     *partition
	topic *topic
	f     *fetcher
	told  []int64 // high watermarks
}

func follow(t *testing.T, committed int64, story func(x *followed)) {
	w := sim.New(sim.Config{Seed: 1})
	c := virtual.New(w, virtual.Config{})
	x := &followed{T: t}
	c.OnEvent = func(_ *virtual.Computer, e *machine.Event) {
		if e.Kind == machine.HighWatermark {
			x.told = append(x.told, e.A)
		}
	}
	done := false
	c.Add("b2").Boot(func(m machine.Machine) error {
		cfg, err := Config{ID: 2, Coord: []string{"zk:2181"}}.withDefaults("b2")
		require.NoError(t, err)
		x.b = &Broker{m: m, cfg: cfg, mu: m.NewMutex("broker"), loadedHW: map[string]int64{}}
		x.b.waits.mu = m.NewMutex("broker.waits")
		require.NoError(t, machine.MakeDir(m.Disk(), cfg.DataDir))
		x.topic = &topic{name: "t", replicas: [][]int32{{1, 2, 3}}, policy: cfg.policy()}
		x.p, err = x.b.openPartition(x.topic, 0)
		require.NoError(t, err)
		x.role(1, 1)
		for range 10 {
			var batch record.Builder
			batch.Reset(record.None)
			batch.Add(1, nil, []byte("v"), nil)
			bytes, err := batch.Finish()
			require.NoError(t, err)
			_, err = x.p.log.Append(bytes, log.AppendOptions{LeaderEpoch: 1})
			require.NoError(t, err)
		}
		x.p.setHW(m, committed)
		x.told = nil
		x.f = &fetcher{b: x.b, leader: 1}
		story(x)
		done = true
		w.Halt()
		return nil
	})
	w.Run(time.Hour)
	require.True(t, done)
}

// role makes broker leader the leader in an epoch.
func (x *followed) role(leader, epoch int32) {
	x.topic.version++
	x.b.assume(x.p, &replica.State{Leader: leader, LeaderEpoch: epoch, ISR: []replica.Member{{ID: leader, Epoch: 1}}}, x.topic, 0)
}

// parts is what the leader answers whose log starts there, committed to its start, and where what it knows of epoch 1 ends.
func (x *followed) parts(end, leaderStart int64) {
	rp := kmsg.NewFetchResponseTopicPartition()
	rp.HighWatermark, rp.LogStartOffset = leaderStart, leaderStart
	rp.DivergingEpoch.Epoch, rp.DivergingEpoch.EndOffset = 1, end
	x.f.take(&following{p: x.p, epoch: x.p.epoch}, &rp)
}

// The log begins anew, and before the fetch that did so can tell the high watermark of it the partition has another role. In that nothing may come into a log that starts above the high watermark.
func TestTheHighWatermarkFollowsALogThatBeganAnewInTheRoleBefore(t *testing.T) {
	follow(t, 8, func(x *followed) {
		require.NoError(x, x.p.log.Restart(20, 1))
		x.role(3, 2)
		require.EqualValues(x, 20, x.p.hw)
	})
	follow(t, 8, func(x *followed) {
		require.NoError(x, x.p.log.Restart(20, 1))
		x.role(2, 2)
		require.EqualValues(x, 20, x.p.hw)
		require.EqualValues(x, 20, x.p.leader.HW())
	})
}

// The leader's log began anew where the follower's ends, or before, and can tell of none of the follower's records whether it is right. Those that are committed are not cut off before the whole log begins
// anew: the high watermark does not go back.
func TestAFollowerOfALogThatBeganAnewForgetsNothingThatIsCommitted(t *testing.T) {
	follow(t, 10, func(x *followed) {
		x.role(3, 2)
		x.parts(9, 10)
		_, start, end := x.p.log.Reach()
		require.Equal(x, []int64{10, 10, 10}, []int64{start, end, x.p.hw})
		require.Empty(x, x.told)
	})
	follow(t, 8, func(x *followed) {
		x.role(3, 2)
		x.parts(7, 8)
		_, start, end := x.p.log.Reach()
		require.Equal(x, []int64{0, 8, 8}, []int64{start, end, x.p.hw}, "what is not committed goes first")
		x.parts(7, 8)
		_, start, end = x.p.log.Reach()
		require.Equal(x, []int64{8, 8, 8}, []int64{start, end, x.p.hw})
		require.Empty(x, x.told)
	})
}

// A leader asks for no other in-sync replicas while it has not taken the replicas that the topic has by now: one that was taken out would come back.
func TestALeaderWithAnOlderAssignmentAsksForNothing(t *testing.T) {
	follow(t, 10, func(x *followed) {
		x.topic.local = []*partition{x.p}
		x.role(2, 2)
		x.b.live = []liveBroker{{id: 3, epoch: 1}}
		x.p.leader.Fetched(3, 1, 10, 0)
		newer := *x.topic
		newer.node++
		_, asks := x.b.propose(&newer, 0)
		require.False(x, asks)
		x.b.assume(x.p, &replica.State{Leader: 2, LeaderEpoch: 2, ISR: []replica.Member{{ID: 2, Epoch: 1}}}, &newer, 0)
		_, asks = x.b.propose(&newer, 0)
		require.True(x, asks)
	})
}

// A change of the in-sync replicas whose answer was lost was made, or never will be, by what the registry has now; once others have changed that again nobody can tell, and it must not count as refused: the
// high watermark would go by the in-sync replicas of before.
func TestWhatBecameOfAChangeWhoseAnswerWasLost(t *testing.T) {
	pr := proposal{version: 7}
	for _, c := range []struct {
		version     int32
		asWanted    bool
		done, known bool
	}{{7, false, false, true}, {8, true, true, true}, {8, false, false, true}, {9, true, false, false}, {9, false, false, false}, {1, false, false, true}} {
		done, known := pr.became(c.version, c.asWanted)
		require.Equal(t, c.done, done, "%+v", c)
		require.Equal(t, c.known, known, "%+v", c)
	}
}
