package oracle

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestWindowAgreesWithASet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var w window
		set := map[int64]bool{}
		lowest := int64(0)
		if rapid.Bool().Draw(t, "later") {
			lowest = rapid.Int64Range(1, 1000).Draw(t, "start")
			w.startAt(lowest)
		}
		in := func(o int64) bool { return o < lowest || set[o] }
		for range rapid.IntRange(0, 30).Draw(t, "steps") {
			o := lowest + rapid.Int64Range(-3, 200).Draw(t, "offset")
			switch rapid.IntRange(0, 3).Draw(t, "op") {
			case 0:
				to := o + rapid.Int64Range(0, 100).Draw(t, "length")
				w.addRange(o, to)
				for ; o < to; o++ {
					set[o] = true
				}
			case 1:
				w.moveBase(o)
				for b := lowest; b < o; b++ {
					set[b] = true
				}
			default:
				require.Equal(t, !in(o), w.add(o))
				set[o] = true
			}
			base := lowest
			for in(base) {
				base++
			}
			require.Equal(t, base, w.base)
			for o := lowest - 5; o < lowest+320; o++ {
				if in(o) != w.has(o) {
					t.Fatalf("offset %d: want %v", o, in(o))
				}
			}
			require.False(t, w.has(w.next(lowest+10)))
		}
	})
}

func TestWindowMemoryFollowsTheHoles(t *testing.T) {
	var w window
	for o := range int64(1_000_000) {
		w.add(o)
		if o > 500 {
			require.LessOrEqual(t, cap(w.words), 256)
		}
	}
	require.EqualValues(t, 1_000_000, w.base)
	require.True(t, w.add(1<<60), "absurd offsets cost nothing")
	require.LessOrEqual(t, cap(w.words), 256)
}

func BenchmarkWindow(b *testing.B) {
	var w window
	o := int64(0)
	for b.Loop() {
		w.add(o)
		o++
	}
}
