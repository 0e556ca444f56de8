package oracle

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestQueueAgreesWithASlice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var q queue[int64]
		base, all := int64(0), []int64{}
		for range rapid.IntRange(0, 30).Draw(t, "steps") {
			if rapid.Bool().Draw(t, "push") {
				for range rapid.IntRange(1, 900).Draw(t, "n") {
					v := base + int64(len(all))
					*q.push() = v
					all = append(all, v)
				}
			} else {
				n := rapid.IntRange(0, 2000).Draw(t, "drop")
				q.dropBelow(base + int64(n))
				all = all[min(n, len(all)):]
				base += int64(n)
				if len(all) > 0 {
					base = all[0]
				}
			}
			require.Equal(t, base, q.base)
			require.Equal(t, base+int64(len(all)), q.end())
			for i, v := range all {
				if got := q.at(base + int64(i)); got == nil || *got != v {
					t.Fatalf("item %d: got %v, want %d", base+int64(i), got, v)
				}
			}
			require.Nil(t, q.at(base-1))
			require.Nil(t, q.at(q.end()))
		}
	})
}

func TestQueueGivesMemoryBack(t *testing.T) {
	var q queue[int64]
	for i := range int64(1 << 20) {
		*q.push() = i
	}
	for i := range int64(1 << 20) {
		q.dropBelow(i)
	}
	require.LessOrEqual(t, len(q.buf), 1<<14)
}
