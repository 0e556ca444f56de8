package assign_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"faultline/consumer/assign"
)

// A note says what was noted, and the assignment stays what it is.
func TestNotes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		counts := rapid.MapOf(rapid.StringMatching(`[a-zA-Z0-9._-]{1,20}`), rapid.Int32Range(0, 1<<30)).Draw(t, "counts")
		var mine []assign.Partition
		for p := range rapid.Int32Range(0, 5).Draw(t, "partitions") {
			mine = append(mine, assign.Partition{Topic: "t", Partition: p})
		}
		plain := assign.Plan{{Member: "m", Partitions: mine}}.Encode()[0].MemberAssignment
		_, ok := assign.Noted(plain)
		require.False(t, ok)
		with := assign.Note(plain, counts)
		got, ok := assign.Noted(with)
		require.True(t, ok)
		require.Equal(t, counts, got)
		parsed, err := assign.ParseAssignment(with)
		require.NoError(t, err)
		require.Equal(t, len(mine), len(parsed))
		require.Equal(t, with, assign.Note(with, counts))
	})
	for _, b := range [][]byte{nil, {1}, []byte("no assignment at all")} {
		_, ok := assign.Noted(b)
		require.False(t, ok)
	}
}
