package consumer

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestAssignTable(t *testing.T) {
	for _, c := range []struct {
		name       string
		partitions []int32
		members    map[string]int
		want       string // member.stream:partitions, in order
	}{
		{"nobody", []int32{0, 1}, nil, ""},
		{"nothing available", nil, map[string]int{"a": 1}, ""},
		{"one takes all", []int32{2, 0, 1}, map[string]int{"a": 1}, "a.0:[0 1 2]"},
		{"even", []int32{0, 1, 2, 3}, map[string]int{"a": 1, "b": 1}, "a.0:[0 1] b.0:[2 3]"},
		{"the remainder goes to the first", []int32{0, 1, 2, 3, 4}, map[string]int{"b": 1, "a": 1}, "a.0:[0 1 2] b.0:[3 4]"},
		{"more streams than partitions", []int32{0, 1}, map[string]int{"a": 1, "b": 1, "c": 1}, "a.0:[0] b.0:[1]"},
		{"streams are entities of their own", []int32{0, 1, 2, 3, 4}, map[string]int{"a": 2, "b": 1}, "a.0:[0 1] a.1:[2 3] b.0:[4]"},
		{"ten streams sort by number", seq(11), map[string]int{"a": 11},
			"a.0:[0] a.1:[1] a.2:[2] a.3:[3] a.4:[4] a.5:[5] a.6:[6] a.7:[7] a.8:[8] a.9:[9] a.10:[10]"},
		{"holes are no partitions", []int32{7, 3, 9}, map[string]int{"a": 1, "b": 1}, "a.0:[3 7] b.0:[9]"},
		{"a member without streams gets nothing", []int32{0, 1}, map[string]int{"a": 0, "b": 1}, "b.0:[0 1]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.want, describe(c.partitions, c.members))
		})
	}
}

func describe(partitions []int32, members map[string]int) string {
	names := make([]string, 0, len(members))
	for m := range members {
		names = append(names, m)
	}
	slices.Sort(names)
	out := ""
	for _, m := range names {
		for _, s := range sharesOf(partitions, members, m) {
			if out != "" {
				out += " "
			}
			out += fmt.Sprintf("%s.%d:%v", m, s.stream, s.partitions)
		}
	}
	return out
}

func seq(n int) []int32 {
	p := make([]int32, n)
	for i := range p {
		p[i] = int32(i)
	}
	return p
}

// All members together: disjoint, complete, contiguous, sizes that differ by at most one, whatever the order of the input.
func TestAssignProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		partitions := rapid.SliceOfDistinct(rapid.Int32Range(0, 200), rapid.ID[int32]).Draw(t, "partitions")
		members := rapid.MapOf(rapid.StringMatching(`[a-z]{1,3}-[0-9]{1,2}`), rapid.IntRange(0, 4)).Draw(t, "members")
		input := slices.Clone(partitions)

		sorted := slices.Clone(partitions)
		slices.Sort(sorted)
		streams := 0
		var names []string
		for m, n := range members {
			names = append(names, m)
			streams += n
		}
		slices.Sort(names)

		var all []int32
		smallest, largest, given := len(sorted), 0, 0
		for _, m := range names {
			last := -1
			for _, s := range sharesOf(partitions, members, m) {
				require.Greater(t, s.stream, last)
				require.Less(t, s.stream, members[m])
				last = s.stream
				given++
				smallest, largest = min(smallest, len(s.partitions)), max(largest, len(s.partitions))
				at, found := slices.BinarySearch(sorted, s.partitions[0])
				require.True(t, found)
				require.Equal(t, sorted[at:at+len(s.partitions)], s.partitions, "contiguous")
				all = append(all, s.partitions...)
			}
		}
		require.Equal(t, input, partitions, "the input is left alone")
		if streams == 0 {
			require.Empty(t, all)
			return
		}
		if given < streams {
			smallest = 0
		}
		require.Equal(t, len(sorted), len(all), "complete and disjoint")
		require.True(t, slices.Equal(sorted, all), "members take their ranges in order")
		require.LessOrEqual(t, largest-smallest, 1)

		shuffled := rapid.Permutation(partitions).Draw(t, "shuffled")
		require.Equal(t, describe(partitions, members), describe(shuffled, members))
	})
}
