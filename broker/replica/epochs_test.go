package replica_test

import (
	"testing"

	"faultline/broker/replica"

	"github.com/stretchr/testify/require"
)

// A leader that has no record of its own epoch yet tells a follower with a tail of a later epoch than its own last one where to cut. If it did not, nobody could get in sync with a leader
// whose partition gets no records before somebody is.
func TestLeaderWithoutOwnRecordsTellsWhereLogsPart(t *testing.T) {
	var e replica.Epochs
	e.Begin(0, 0)
	e.Begin(1, 10)
	d, parts := e.Diverges(18, 2, 17)
	require.True(t, parts)
	require.Equal(t, replica.Divergence{Epoch: 1, End: 17}, d)

	var follower replica.Epochs
	follower.Begin(0, 0)
	follower.Begin(1, 10)
	follower.Begin(2, 17)
	require.EqualValues(t, 17, follower.Cut(d, 0, 18))
	_, parts = e.Diverges(17, 1, 17)
	require.False(t, parts, "it is cut now")

	var empty replica.Epochs
	d, parts = empty.Diverges(1, 0, 0)
	require.True(t, parts)
	require.EqualValues(t, 0, follower.Cut(d, 0, 1))
	_, parts = empty.Diverges(5, 3, 5)
	require.False(t, parts, "nothing to compare, and it is not ahead")
}
