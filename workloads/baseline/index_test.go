package baseline

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestRowIsFirstInFirstOut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var r row
		var model []uint64
		next := uint64(0)
		for range rapid.IntRange(0, 20).Draw(t, "rounds") {
			for range rapid.IntRange(0, 2*pieceIDs).Draw(t, "pushed") {
				r.push(next)
				model = append(model, next)
				next++
			}
			for range min(len(model), rapid.IntRange(0, 3*pieceIDs).Draw(t, "popped")) {
				require.False(t, r.empty())
				require.Equal(t, model[0], r.pop())
				model = model[1:]
			}
			require.Equal(t, len(model) == 0, r.empty())
		}
	})
}

// A frame or record of any bytes is read or refused, without more memory than it has bytes.
func FuzzReader(f *testing.F) {
	f.Add(appendSpans(nil, 3, []span{{1, 2}, {9, 1}}))
	f.Add(bindFrame(nil, "visits", "all"))
	f.Fuzz(func(t *testing.T, p []byte) {
		r := &reader{rest: p}
		_, list := r.spans(nil)
		if r.end() == nil {
			require.Equal(t, 8+12*len(list), len(p))
		}
		r = &reader{rest: p}
		text := r.text()
		require.LessOrEqual(t, len(text), len(p))
	})
}
