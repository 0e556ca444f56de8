package packed

import (
	"encoding/binary"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

var errTest = errors.New("test")

func TestReader(t *testing.T) {
	b := append([]byte{7}, AppendText(nil, "text")...)
	b = binary.AppendUvarint(b, 300)
	b = binary.AppendVarint(b, -300)
	b = AppendText(b, []byte{1, 2})
	r := Reader{Rest: b, Wrap: errTest}
	require.EqualValues(t, 7, r.Byte())
	require.Equal(t, "text", string(r.Text()))
	require.EqualValues(t, 300, r.Uint())
	require.EqualValues(t, -300, r.Int())
	require.ErrorContains(t, func() error { c := r; return c.End() }(), "bad end, 3 bytes before the end")
	require.Equal(t, 2, r.Count(1))
	require.Equal(t, []byte{1, 2}, r.Bytes(2))
	require.NoError(t, r.End())
}

// The first error sticks, says what was wrong and where, and everything after it is zero.
func TestTheFirstErrorSticks(t *testing.T) {
	for what, read := range map[string]func(r *Reader){
		"length": func(r *Reader) { r.Bytes(4) },
		"count":  func(r *Reader) { r.Count(2) },
		"number": func(r *Reader) { r.Bytes(2); r.Uint() },
		"end":    func(r *Reader) { _ = r.End() },
	} {
		r := Reader{Rest: []byte{2, 0, 0x80}, Wrap: errTest}
		read(&r)
		require.ErrorIs(t, r.Err, errTest)
		require.ErrorContains(t, r.Err, "bad "+what)
		first := r.Err
		require.Zero(t, r.Byte())
		require.Zero(t, r.Int())
		require.Zero(t, r.Count(1))
		require.Empty(t, r.Text())
		require.Equal(t, first, r.End())
	}
}

func FuzzReader(f *testing.F) {
	f.Add([]byte{3, 1, 2, 3})
	f.Fuzz(func(t *testing.T, b []byte) {
		r := Reader{Rest: b, Wrap: errTest}
		for range 4 {
			n := r.Count(2)
			require.LessOrEqual(t, n*2, len(b))
			require.LessOrEqual(t, len(r.Text()), len(b))
			r.Uint()
			r.Int()
		}
	})
}
