package baseline

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"faultline/sim/machine"
	"faultline/sim/virtual"
)

// ordeal runs producers and consumers while the server and a consumer crash, and checks what was promised.
func ordeal(t *testing.T, seed uint64, power bool) (hash uint64) {
	cfg := Config{SegmentBytes: 3000, MemoryBytes: 2000, DeliveryBatch: 7, FlushInterval: 20 * time.Millisecond, Heartbeat: time.Second}
	s := newStage(t, seed, cfg)
	confirm := Written
	if power {
		confirm = Synced
	}
	queues := []Binding{{"visits", "all"}, {"visits", "slow"}}
	var senders []*sending
	for i := range 2 {
		senders = append(senders, s.send(fmt.Sprint("producer-", i), i*1000, i*1000+1000, SenderConfig{Confirm: confirm, BatchMessages: 3, InFlight: 2, Queues: queues, Silence: 2 * time.Second, Backoff: 5 * time.Millisecond}))
	}
	rc := ReceiverConfig{Window: 20, AckBatch: 3, Queues: queues[:1], Silence: 2 * time.Second, Backoff: 5 * time.Millisecond}
	a, b := s.receive("a", rc, nil), s.receive("b", rc, func(m machine.Machine) { m.Sleep(time.Millisecond) })
	rc.Queues = queues[1:]
	n := 0
	slow := s.receive("slow", rc, func(m machine.Machine) {
		if n++; n%200 == 0 {
			m.Sleep(300 * time.Millisecond) // holds up segments while others are done with all that follows
		}
	})
	rng := s.w.Stream("test", "crashes")
	fell := func(c *virtual.Computer, boot func()) {
		if power {
			c.PowerLoss()
		} else {
			c.Crash()
		}
		s.w.At(s.w.Now()+time.Duration(rng.IntN(50))*time.Millisecond, boot)
	}
	for range 6 {
		s.w.At(time.Duration(rng.Int64N(int64(600*time.Millisecond))), func() {
			if s.server.Running() {
				fell(s.server, s.boot)
			}
		})
	}
	s.until(20 * time.Second)
	for _, snd := range senders {
		require.True(t, snd.closed, "seed %d", seed)
		require.Equal(t, 1000, snd.confirmed, "seed %d", seed)
	}
	for name, got := range map[string]map[string]int{"all": distinct(a, b), "slow": distinct(slow)} {
		for _, want := range messages(0, 2000) {
			require.NotZero(t, got[want], "seed %d, queue %s: %s was confirmed and never came", seed, name, want)
		}
		require.Len(t, got, 2000, "seed %d, queue %s: messages that nobody sent", seed, name)
	}
	require.LessOrEqual(t, len(s.server.Disk().Files()), 4, "seed %d: what is done is removed", seed)
	return s.w.Hash()
}

func TestConfirmedMessagesSurviveCrashes(t *testing.T) {
	for seed := range uint64(8) {
		ordeal(t, seed, false)
	}
}

func TestConfirmedMessagesSurvivePowerLoss(t *testing.T) {
	for seed := range uint64(8) {
		ordeal(t, seed, true)
	}
}

func TestOneSeedOneRun(t *testing.T) {
	require.Equal(t, ordeal(t, 7, true), ordeal(t, 7, true))
	require.NotEqual(t, ordeal(t, 7, true), ordeal(t, 8, true))
}

// One message that stays does not keep the journal of all that came after it.
func TestJournalOfDoneMessagesGoesThoughOneStays(t *testing.T) {
	s := newStage(t, 1, Config{SegmentBytes: 10_000})
	first := true
	r := s.receive("consumer", ReceiverConfig{Window: 1000, AckBatch: 1}, nil)
	s.receive("holds", ReceiverConfig{Window: 1, AckBatch: 1}, func(m machine.Machine) {
		if first {
			first = false
			m.Sleep(time.Hour)
		}
	})
	s.until(50 * time.Millisecond)
	s.send("producer", 0, 20_000, SenderConfig{Confirm: Written, BatchMessages: 20, InFlight: 5})
	s.until(10 * time.Second)
	require.Len(t, r.got, 19_999)
	require.LessOrEqual(t, len(s.server.Disk().Files()), compactAt)
	s.server.Crash()
	s.boot()
	s.until(12 * time.Second)
	require.Len(t, distinct(r), 20_000)
	require.Equal(t, 1, r.again)
}
