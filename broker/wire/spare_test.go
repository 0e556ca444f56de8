package wire

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A connection that waits holds no memory of a large frame: the next one that reads a frame, on whatever connection, has it.
func TestSpareIsSharedByConnections(t *testing.T) {
	s := &Spare{}
	frame := func(n int) *bufio.Reader {
		return bufio.NewReaderSize(bytes.NewReader(append(binary.BigEndian.AppendUint32(nil, uint32(n)), make([]byte, n)...)), 4<<10)
	}
	first, err := s.Read(frame(100<<10), nil, 4, 1<<20)
	require.NoError(t, err)
	require.Len(t, first, 100<<10)
	own := make([]byte, 0, 512)
	require.Equal(t, 512, cap(s.Keep(first, own)), "its owner has it no more")
	second, err := s.Read(frame(90<<10), own, 4, 1<<20)
	require.NoError(t, err)
	require.Len(t, second, 90<<10)
	require.Same(t, &first[0], &second[0])
	require.Nil(t, s.Take(1), "one at a time")

	small, err := s.Read(frame(100), own, 4, 1<<20)
	require.NoError(t, err)
	require.Equal(t, 512, cap(small))
	require.Equal(t, 512, cap(s.Keep(small, own)))
	require.Equal(t, 600, cap(s.Keep(make([]byte, 600), own)), "it is its owner's from now on")

	require.Nil(t, s.Keep(make([]byte, keepBytes+1), nil))
	require.Nil(t, s.Take(1), "too large to be kept")
	for range 2 * len(s.slots) {
		s.Keep(make([]byte, 0, 10<<10), nil)
	}
	s.Keep(make([]byte, 0, 20<<10), nil)
	require.GreaterOrEqual(t, cap(s.Take(15<<10)), 20<<10, "where all places are taken the larger stays")
}

// What is wrong with a frame shows as it does without spare memory.
func TestSpareReadsAsReadFrameDoes(t *testing.T) {
	for _, text := range []string{"", "\x00\x00", "\x00\x00\x00\x01", "\x00\x00\x00\x05abc", "\x7f\x00\x00\x00", "\x00\x00\x00\x04abcd"} {
		want, wantErr := ReadFrame(strings.NewReader(text), nil, 4, 1<<20)
		got, err := (&Spare{}).Read(bufio.NewReader(strings.NewReader(text)), nil, 4, 1<<20)
		require.Equal(t, wantErr, err, "%q", text)
		require.Equal(t, len(want), len(got), "%q", text)
		_, err = (*Spare)(nil).Read(bufio.NewReader(io.LimitReader(strings.NewReader(text), 1<<20)), nil, 4, 1<<20)
		require.Equal(t, wantErr, err, "%q", text)
	}
}
