package baseline

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"faultline/sim/machine"
)

func TestMessagesArriveOnceAndInOrder(t *testing.T) {
	for _, confirm := range []Confirm{Unconfirmed, Written, Synced} {
		for _, batch := range []int{1, 50} {
			t.Run(fmt.Sprintf("confirm %d batch %d", confirm, batch), func(t *testing.T) {
				s := newStage(t, 1, Config{FlushInterval: 50 * time.Millisecond})
				snd := s.send("producer", 0, 2000, SenderConfig{Confirm: confirm, BatchMessages: batch, InFlight: 5, Linger: time.Millisecond})
				r := s.receive("consumer", ReceiverConfig{Window: 100, AckBatch: 10}, nil)
				s.until(5 * time.Second)
				require.True(t, snd.closed)
				require.Equal(t, 2000, snd.confirmed)
				require.Equal(t, messages(0, 2000), r.got)
				require.Zero(t, r.again)
				require.Len(t, r.ids, 2000, "each has an id of its own")
			})
		}
	}
}

func TestConsumersShareAQueueAndEachQueueGetsAll(t *testing.T) {
	s := newStage(t, 1, Config{})
	both := []Binding{{"visits", "all"}, {"visits", "audit"}}
	s.send("producer", 0, 3000, SenderConfig{Confirm: Written, BatchMessages: 20, InFlight: 5, Queues: both})
	a := s.receive("a", ReceiverConfig{Window: 50, Queues: both[:1]}, nil)
	b := s.receive("b", ReceiverConfig{Window: 50, Queues: both[:1]}, nil)
	audit := s.receive("audit", ReceiverConfig{Queues: both[1:]}, nil)
	s.until(5 * time.Second)
	require.Len(t, a.got, 3000-len(b.got))
	require.Len(t, distinct(a, b), 3000)
	require.InDelta(t, 1500, len(a.got), 500)
	require.Equal(t, messages(0, 3000), audit.got)
}

// A consumer gets no more than its window before it acknowledges.
func TestWindowBoundsWhatIsPushed(t *testing.T) {
	s := newStage(t, 1, Config{})
	s.send("producer", 0, 1000, SenderConfig{Confirm: Written, BatchMessages: 100})
	slow := s.receive("slow", ReceiverConfig{Window: 10, AckBatch: 1}, func(m machine.Machine) { m.Sleep(time.Second) })
	fast := s.receive("fast", ReceiverConfig{Window: 10, AckBatch: 1}, nil)
	s.until(500 * time.Millisecond)
	require.Empty(t, slow.got)
	require.Len(t, fast.got, 990)
	s.until(12 * time.Second)
	require.Len(t, distinct(slow, fast), 1000)
}

func TestWhatADeadConsumerHadGoesToOthers(t *testing.T) {
	s := newStage(t, 1, Config{})
	dies := s.receive("dies", ReceiverConfig{Window: 100, AckBatch: 1}, func(m machine.Machine) { m.Sleep(10 * time.Millisecond) })
	s.until(100 * time.Millisecond)
	s.send("producer", 0, 1000, SenderConfig{Confirm: Written, BatchMessages: 100})
	s.until(505 * time.Millisecond)
	dies.comp.Crash()
	n := len(dies.got)
	require.Greater(t, n, 10)
	lives := s.receive("lives", ReceiverConfig{}, nil)
	s.until(3 * time.Second)
	require.Len(t, distinct(dies, lives), 1000)
	require.InDelta(t, 100, lives.again, 1, "its window")
	require.LessOrEqual(t, len(lives.got)+n, 1001, "one acknowledgement may have been lost")
	require.Equal(t, messages(n, 1000), lives.got[len(lives.got)-1000+n:], "in the order of their ids, those that come again first")
}

// A consumer whose machine went silent is cut when no sign of life comes.
func TestSilentConsumerIsCut(t *testing.T) {
	s := newStage(t, 1, Config{Heartbeat: time.Second})
	silent := s.receive("silent", ReceiverConfig{}, func(m machine.Machine) { m.Sleep(time.Hour) })
	s.until(100 * time.Millisecond)
	s.send("producer", 0, 500, SenderConfig{Confirm: Written, BatchMessages: 100})
	s.until(200 * time.Millisecond)
	silent.comp.PowerLoss()
	r := s.receive("consumer", ReceiverConfig{}, nil)
	s.until(500 * time.Millisecond)
	require.Empty(t, r.got)
	s.until(4 * time.Second)
	require.Len(t, distinct(r), 500)
}

// More than fits into memory is read from the journal, also by consumers far behind.
func TestBacklogIsReadFromTheJournal(t *testing.T) {
	s := newStage(t, 1, Config{MemoryBytes: 1000, SegmentBytes: 20_000})
	snd := s.send("producer", 0, 10_000, SenderConfig{Confirm: Written, BatchMessages: 30, InFlight: 5})
	s.until(3 * time.Second)
	require.Equal(t, 10_000, snd.confirmed)
	r := s.receive("consumer", ReceiverConfig{}, nil)
	s.until(6 * time.Second)
	require.Equal(t, messages(0, 10_000), r.got)
	require.LessOrEqual(t, len(s.server.Disk().Files()), 2, "what is done is removed")
}
