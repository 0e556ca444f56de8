package trial

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"faultline/sim/machine"
	"faultline/workloads/history"
)

// A group that is behind is told where; what it skipped by a reset, because retention took it, is not waited for.
func TestTallyBehind(t *testing.T) {
	y := newTally(map[string][]string{"g": {"t"}}, nil)
	rec := history.NewRecorder(func() time.Duration { return 0 })
	rec.Attach(y)
	who := history.Who{Machine: "b", Incarnation: 1}
	trace := func(kind machine.Kind, subject string, a, b int64) {
		rec.Traced(who, machine.Event{Kind: kind, Subject: subject, A: a, B: b})
	}
	trace(machine.LogOpened, "t/0", 0, 0)
	trace(machine.LogOpened, "other/0", 0, 7)
	require.Empty(t, y.behind(func(partition) bool { return false }))
	trace(machine.LogVisible, "t/0", 9, 0)
	require.Equal(t, "group g is at offset 0 of t/0, of which offsets below 9 are visible", y.behind(func(partition) bool { return false }))
	trace(machine.ConsumerReset, "g/t/0", 0, 8)
	require.Equal(t, "group g is at offset 8 of t/0, of which offsets below 9 are visible", y.behind(func(partition) bool { return false }))
	trace(machine.ConsumerReset, "g/t/0", 0, 9)
	require.Empty(t, y.behind(func(partition) bool { return false }))
	trace(machine.LogVisible, "t/0", 10, 0)
	trace(machine.ConsumerCommitted, "g/t/0", 10, 0)
	require.Empty(t, y.behind(func(partition) bool { return false }))
	trace(machine.LogVisible, "t/0", 20, 0)
	trace(machine.ConsumerClaimed, "g/t/0", -1, 0)
	require.NotEmpty(t, y.behind(func(partition) bool { return false }))
	trace(machine.ConsumerClaimed, "g/t/0", 20, 0) // at most once: who committed it died before it heard so, and nobody will process them
	require.Empty(t, y.behind(func(partition) bool { return false }))
}
