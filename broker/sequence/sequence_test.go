package sequence

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func batch(first, last int32, base int64) *Batch {
	return &Batch{Producer: 7, First: first, Last: last, Base: base, End: base + int64(last-first)}
}

func TestCheck(t *testing.T) {
	var p Producers
	_, err := p.Check(batch(3, 3, 0))
	require.ErrorIs(t, err, ErrUnknown, "a producer begins at 0")
	for i := range int32(kept + 2) {
		b := batch(2*i, 2*i+1, int64(2*i))
		dup, err := p.Check(b)
		require.NoError(t, err)
		require.Nil(t, dup)
		p.Add(*b)
		p.Prune(int64(2*i)+2, 0)
	}
	dup, err := p.Check(batch(12, 13, -1))
	require.NoError(t, err)
	require.EqualValues(t, 12, dup.Base)
	_, err = p.Check(batch(0, 1, -1))
	require.ErrorIs(t, err, ErrDuplicate, "out of the window")
	_, err = p.Check(batch(26, 26, -1))
	require.ErrorIs(t, err, ErrOutOfOrder)
	next := batch(0, 0, 24)
	next.Epoch = 1
	_, err = p.Check(next)
	require.NoError(t, err)
	p.Add(*next)
	_, err = p.Check(batch(24, 24, -1))
	require.ErrorIs(t, err, ErrFenced)
	next.First, next.Last, next.Epoch = 5, 5, 2
	_, err = p.Check(next)
	require.ErrorIs(t, err, ErrOutOfOrder, "an epoch begins at 0")
}

func TestSequencesWrap(t *testing.T) {
	var p Producers
	p.Add(*batch(math.MaxInt32-1, math.MaxInt32, 0))
	_, err := p.Check(batch(0, 2, 2))
	require.NoError(t, err)
	_, err = p.Check(batch(3, 3, 2))
	require.ErrorIs(t, err, ErrOutOfOrder)
	p.Add(*batch(0, 2, 2))
	_, err = p.Check(batch(math.MaxInt32-9, math.MaxInt32-8, 2))
	require.ErrorIs(t, err, ErrDuplicate)
}

// What is known at a recovery point, and then told of what follows it, is what was known without a restart, as far as retries go; and a truncation behind the point
// leaves what was known there.
func TestARestartForgetsNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var live Producers
		var log []Batch
		next := map[int64]int32{}
		end, point := int64(0), int64(0)
		for range rapid.IntRange(1, 60).Draw(t, "batches") {
			id := rapid.Int64Range(1, 3).Draw(t, "producer")
			n := rapid.Int32Range(1, 3).Draw(t, "records")
			b := Batch{Producer: id, First: next[id], Last: next[id] + n - 1, Base: end, End: end + int64(n) - 1, Time: end}
			next[id] += n
			end += int64(n)
			live.Add(b)
			log = append(log, b)
			if rapid.IntRange(0, 4).Draw(t, "advance") == 0 {
				point = end
				live.Prune(point, 0)
			}
		}
		to := rapid.Int64Range(point, end).Draw(t, "log end")
		live.Truncate(to)
		var again Producers
		for _, b := range live.Below(point) {
			word, ok := Parse(b.String())
			require.True(t, ok)
			again.Add(word)
		}
		last := map[int64]Batch{}
		count := map[int64]int{}
		for _, b := range log {
			if b.End >= to {
				continue
			}
			if b.Base >= point {
				again.Add(b)
			}
			last[b.Producer] = b
			count[b.Producer]++
		}
		for id, b := range last {
			for _, p := range []*Producers{&live, &again} {
				dup, err := p.Check(&b)
				require.NoError(t, err)
				require.Equal(t, b, *dup)
				follow := Batch{Producer: id, First: b.Last + 1, Last: b.Last + 1}
				dup, err = p.Check(&follow)
				require.NoError(t, err)
				require.Nil(t, dup)
				require.GreaterOrEqual(t, len(p.byID[id].batches), min(count[id], kept))
			}
		}
	})
}

// A log is cut below its recovery point, and what lies below its start is deleted. What is known then, of what is left and of an earlier account, recognises what came last below the cut, as long as no more was cut off than may be
// under way.
func TestACutForgetsNobodyWhoseBatchesAreDeleted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var live, left Producers
		var log []Batch
		end := int64(0)
		next := map[int64]int32{}
		for range rapid.IntRange(1, 40).Draw(t, "batches") {
			id := rapid.Int64Range(1, 3).Draw(t, "producer")
			b := Batch{Producer: id, First: next[id], Last: next[id], Base: end, End: end, Time: end}
			next[id]++
			end++
			live.Add(b)
			log = append(log, b)
		}
		live.Prune(end, 0)
		to := rapid.Int64Range(max(0, end-Window), end).Draw(t, "cut")
		start := rapid.Int64Range(0, to).Draw(t, "log start")
		for _, b := range log[start:to] {
			left.Add(b)
		}
		left.Precede(&live, to)
		count := map[int64]int{}
		for i := len(log[:to]) - 1; i >= 0; i-- {
			b := log[i]
			if count[b.Producer]++; count[b.Producer] > Window {
				continue
			}
			dup, err := left.Check(&b)
			require.NoError(t, err)
			require.Equal(t, b, *dup)
		}
		for _, b := range log[to:] {
			dup, err := left.Check(&b)
			require.NoError(t, err, "what was cut off may come again")
			require.Nil(t, dup)
			left.Add(b)
		}
	})
}
