package history

import (
	"testing"

	"faultline/sim/machine"

	"github.com/stretchr/testify/require"
)

func TestAppliedTellsNewTransactionsFromThoseTracedAgain(t *testing.T) {
	var a Applied
	say := func(inc int, kind machine.Kind, subject string, zxid int64) bool {
		e := machine.Event{Kind: kind, Subject: subject, B: zxid}
		if kind == machine.SessionExpired {
			e.B, e.C = 0, zxid
		}
		return a.Fresh(Who{"coord", inc}, &e)
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
	require.Zero(t, a.Lost)
	// It lost transaction 4 and 5: others take their place.
	require.True(t, say(4, machine.ZnodeCreated, "/x", 4))
	require.EqualValues(t, 4, a.Lost)
	a.Lost = 0
	require.True(t, say(4, machine.ZnodeCreated, "/y", 5))
	require.Zero(t, a.Lost)
	// It lost the last one, and traced nothing again.
	require.True(t, say(5, machine.ZnodeCreated, "/z", 5))
	require.EqualValues(t, 5, a.Lost)
}

func TestAppliedKeepsTheLastOnly(t *testing.T) {
	var a Applied
	for z := range int64(100_000) {
		require.True(t, a.Fresh(Who{Machine: "coord"}, &machine.Event{Kind: machine.ZnodeSet, B: z + 1}))
	}
	require.LessOrEqual(t, len(a.recent), 2*recentKept)
}

// Several servers trace the same transactions, one after the other, and start anew; whoever is first counts.
func TestAppliedTakesTheFirstOfSeveralServers(t *testing.T) {
	var a Applied
	say := func(who string, inc int, subject string, zxid int64) bool {
		return a.Fresh(Who{who, inc}, &machine.Event{Kind: machine.ZnodeSet, Subject: subject, B: zxid})
	}
	require.True(t, say("a", 1, "/x", 1))
	require.True(t, say("a", 1, "/x", 2))
	require.True(t, say("a", 1, "/y", 2))
	require.False(t, say("b", 1, "/x", 1))
	require.False(t, say("b", 1, "/x", 2))
	require.True(t, say("a", 1, "/x", 3))
	require.False(t, say("b", 1, "/y", 2))
	require.False(t, say("b", 1, "/x", 3))
	require.True(t, say("b", 1, "/x", 4)) // b is ahead
	require.False(t, say("c", 1, "/x", 3))
	require.False(t, say("a", 1, "/x", 4))
	require.False(t, say("a", 2, "/x", 3)) // a restarts
	require.True(t, say("c", 1, "/z", 5))  // c got a snapshot of what came before
	require.False(t, say("a", 2, "/x", 4))
	require.False(t, say("a", 2, "/z", 5))
	require.Zero(t, a.Lost)
	require.True(t, say("b", 1, "/other", 5)) // b has something else there
	require.EqualValues(t, 5, a.Lost)
}
