package oracle

import (
	"testing"

	"faultline/sim/machine"
	"faultline/workloads/history"

	"github.com/stretchr/testify/require"
)

func TestAppliedTellsNewTransactionsFromThoseTracedAgain(t *testing.T) {
	var a applied
	say := func(inc int, kind, subject string, zxid int64) bool {
		e := history.Event{Kind: history.Traced, Machine: "coord", Incarnation: inc, Trace: machine.Event{Kind: kind, Subject: subject, B: zxid}}
		if kind == machine.SessionExpired {
			e.Trace.B, e.Trace.C = 0, zxid
		}
		return a.fresh(&e)
	}
	require.True(t, say(1, machine.ZnodeCreated, "/a", 1))
	require.True(t, say(1, machine.ZnodeDeleted, "/a", 2))
	require.True(t, say(1, machine.ZnodeDeleted, "/b", 2))
	require.True(t, say(1, machine.SessionExpired, "", 2))
	// It restarts and traces the last transactions again, some of which nobody saw.
	require.False(t, say(2, machine.ZnodeDeleted, "/a", 2))
	require.False(t, say(2, machine.ZnodeDeleted, "/b", 2))
	require.False(t, say(2, machine.SessionExpired, "", 2))
	require.True(t, say(2, machine.ZnodeCreated, "/c", 3))
	// The trace broke off inside a transaction.
	require.True(t, say(2, machine.ZnodeDeleted, "/d", 4))
	require.False(t, say(3, machine.ZnodeDeleted, "/d", 4))
	require.True(t, say(3, machine.ZnodeDeleted, "/e", 4))
	require.True(t, say(3, machine.ZnodeCreated, "/e", 5))
	require.Zero(t, a.lost)
	// It lost transaction 4 and 5: others take their place.
	require.True(t, say(4, machine.ZnodeCreated, "/x", 4))
	require.EqualValues(t, 4, a.lost)
	a.lost = 0
	require.True(t, say(4, machine.ZnodeCreated, "/y", 5))
	require.Zero(t, a.lost)
	// It lost the last one, and traced nothing again.
	require.True(t, say(5, machine.ZnodeCreated, "/z", 5))
	require.EqualValues(t, 5, a.lost)
}

func TestAppliedKeepsTheLastOnly(t *testing.T) {
	var a applied
	for z := range int64(100_000) {
		require.True(t, a.fresh(&history.Event{Kind: history.Traced, Machine: "coord", Trace: machine.Event{Kind: machine.ZnodeSet, B: z + 1}}))
	}
	require.LessOrEqual(t, len(a.recent), 2*recentKept)
}
