package replica

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWhereAFollowerMustBeCut(t *testing.T) {
	for _, c := range []struct {
		why              string
		leader, follower []Entry
		leaderEnd, end   int64
		cut              int64 // -1: not at all
	}{
		{"the follower is behind", []Entry{{0, 0}, {2, 5}}, []Entry{{0, 0}}, 9, 4, -1},
		{"the follower is where its leader is", []Entry{{0, 0}, {2, 5}}, []Entry{{0, 0}, {2, 5}}, 9, 9, -1},
		{"the follower has more of an epoch", []Entry{{0, 0}, {2, 5}}, []Entry{{0, 0}}, 9, 7, 5},
		{"the follower has an epoch in between", []Entry{{0, 0}, {2, 5}}, []Entry{{0, 0}, {1, 3}}, 9, 7, 3},
		{"the leader has appended nothing since a later epoch than all of its records, and has more of an older one", []Entry{{0, 0}}, []Entry{{0, 0}, {1, 54}}, 88, 85, 54},
		{"and less of it", []Entry{{0, 0}}, []Entry{{0, 0}, {1, 54}}, 40, 85, 40},
		{"and nothing of any epoch of the follower", []Entry{{0, 0}}, []Entry{{1, 0}}, 7, 5, 0},
		{"the leader knows of no epoch", nil, []Entry{{1, 0}}, 5, 5, 0},
	} {
		lead, err := NewEpochs(c.leader)
		require.NoError(t, err)
		follow, err := NewEpochs(c.follower)
		require.NoError(t, err)
		cut := int64(-1)
		if d, diverges := lead.Diverges(c.end, follow.Latest(), 0, c.leaderEnd); diverges {
			cut, _ = follow.Cut(d, 0, 0, c.end)
			require.Less(t, cut, c.end, "%s: or it asks the same again", c.why)
		}
		require.Equal(t, c.cut, cut, c.why)
	}
}
