package load

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

type words struct {
	left []string
	buf  []byte
	err  error
}

func (w *words) Next() (key, value []byte, ok bool) {
	if len(w.left) == 0 {
		return nil, nil, false
	}
	w.buf = append(w.buf[:0], w.left[0]...) // the slice is used again, as the contract allows
	w.left = w.left[1:]
	return nil, w.buf, true
}

func (w *words) Err() error { return w.err }

func TestFeedSendsAgainWhatWasReturned(t *testing.T) {
	f := NewFeed(&words{left: []string{"a", "b", "c", "d"}}, true)
	a, b, c := f.Take(1), f.Take(2), f.Take(1)
	f.Settle(b)
	f.ReturnAll(1) // owner 1 crashed
	require.Zero(t, f.Away())
	for _, want := range []string{"a", "c", "d"} {
		h := f.Take(3)
		require.Equal(t, want, string(h.Value()))
		require.Nil(t, h.Key())
	}
	require.Nil(t, f.Take(3))
	require.False(t, f.Over(), "three are under way")
	f.ReturnAll(3)
	f.ReturnAll(1) // nothing is left of it
	for f.Away() > 0 || !f.Over() {
		f.Settle(f.Take(4))
	}
	require.EqualValues(t, 4, f.Taken())
	_, _ = a, c
}

func TestFeedWithoutInsisting(t *testing.T) {
	f := NewFeed(&words{left: []string{"a", "b"}, err: errors.New("x")}, false)
	f.Return(f.Take(1))
	f.Take(1)
	f.ReturnAll(1)
	require.Nil(t, f.Take(1))
	require.True(t, f.Over())
	require.EqualError(t, f.Err(), "x")
}

func TestFeedSettlesEveryMessageOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 20).Draw(t, "n")
		w := &words{}
		for i := range n {
			w.left = append(w.left, fmt.Sprint(i))
		}
		f := NewFeed(w, true)
		away := map[*Held]int{}
		text := map[*Held]string{}
		settled := map[string]int{}
		for step := 0; !f.Over() && step < 2000; step++ {
			owner := rapid.IntRange(0, 2).Draw(t, "owner")
			var some *Held
			for h := range away {
				if some == nil || text[h] < text[some] {
					some = h
				}
			}
			switch op := rapid.IntRange(0, 5).Draw(t, "op"); {
			case op == 0 && some != nil:
				f.Return(some)
				delete(away, some)
			case op == 1 && step < 500:
				f.ReturnAll(owner)
				for h, o := range away {
					if o == owner {
						delete(away, h)
					}
				}
			case op <= 3 && some != nil:
				require.Equal(t, text[some], string(some.Value()), "nobody touched it meanwhile")
				settled[text[some]]++
				f.Settle(some)
				delete(away, some)
			default:
				if h := f.Take(owner); h != nil {
					away[h], text[h] = owner, string(h.Value())
				}
			}
			require.Equal(t, len(away), f.Away())
		}
		if f.Over() {
			require.Len(t, settled, n)
			for k, c := range settled {
				require.Equal(t, 1, c, k)
			}
		}
	})
}
