package consumer

import (
	"testing"

	"github.com/stretchr/testify/require"

	"faultline/broker/record"
	"faultline/broker/wire"
)

// A frame is used again when all that is in it was read, and not while a chunk of it may still be in somebody's hands.
func TestFrameIsFreeWhenAllItsChunksAreRead(t *testing.T) {
	var b record.Builder
	b.Reset(record.None)
	b.Add(0, nil, make([]byte, 20<<10), nil)
	batch, err := b.Finish()
	require.NoError(t, err)
	memory := append(append([]byte(nil), batch...), batch...)

	spare := &wire.Spare{}
	f := &frame{spare: spare, bytes: memory}
	var chunks []*chunk
	for i := range 2 {
		ch, err := newChunk(nil, 0, 1, memory[i*len(batch):(i+1)*len(batch)])
		require.NoError(t, err)
		ch.in(f)
		chunks = append(chunks, ch)
	}
	read := func(ch *chunk) {
		r := reader{chunk: ch}
		ok, err := r.next()
		require.NoError(t, err)
		require.True(t, ok)
		require.Nil(t, spare.Take(1), "a record of it was handed over")
		ok, err = r.next()
		require.NoError(t, err)
		require.False(t, ok)
		ch.over()
	}
	read(chunks[0])
	require.Nil(t, spare.Take(1), "the other chunk is not read")
	read(chunks[1])
	got := spare.Take(len(memory))
	require.NotNil(t, got)
	require.Same(t, &memory[0], &got[:1][0])
	chunks[1].over()
	require.Nil(t, spare.Take(1), "only once")
}
