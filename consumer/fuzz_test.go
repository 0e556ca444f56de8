package consumer

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"faultline/broker/record"
	coord "faultline/coord/client"
)

// Whatever bytes a broker answers: a chunk gives records in order, all of them wanted, or an error.
func FuzzChunk(f *testing.F) {
	var b record.Builder
	var log []byte
	for base, codec := range []record.Codec{record.None, record.Snappy, record.None} {
		b.Reset(codec)
		for range 3 {
			b.Add(1000, []byte("k"), []byte("value"), []record.RecordHeader{{Key: []byte("id"), Value: []byte("7")}})
		}
		p, err := b.Finish()
		require.NoError(f, err)
		batch, _, err := record.Next(append([]byte(nil), p...))
		require.NoError(f, err)
		batch.Place(int64(base)*3, 0)
		log = append(log, batch.Bytes...)
	}
	f.Add(log, int64(0))
	f.Add(log, int64(4))
	f.Add(log[:len(log)-5], int64(8))
	f.Add(append(log, log...), int64(0))
	f.Add([]byte{}, int64(0))
	f.Fuzz(func(t *testing.T, p []byte, from int64) {
		ch, err := newChunk(nil, from, math.MaxInt64, p)
		if err != nil || ch == nil {
			require.True(t, err != nil || len(p) == 0)
			return
		}
		require.GreaterOrEqual(t, ch.next, from)
		r := reader{chunk: ch}
		last := from - 1
		n := 0
		for {
			ok, err := r.next()
			if err != nil || !ok {
				break
			}
			require.Greater(t, r.it.Record.Offset, last)
			require.Less(t, r.it.Record.Offset, ch.next)
			last = r.it.Record.Offset
			n++
		}
		require.LessOrEqual(t, n, ch.records)
	})
}

func TestChunkLeavesOutWhatIsNotWanted(t *testing.T) {
	var b record.Builder
	b.Reset(record.None)
	for range 5 {
		b.Add(1000, nil, []byte("v"), nil)
	}
	p, err := b.Finish()
	require.NoError(t, err)
	batch, _, err := record.Next(p)
	require.NoError(t, err)
	batch.Place(10, 0)

	ch, err := newChunk(nil, 13, 15, append(append([]byte(nil), batch.Bytes...), batch.Bytes[:20]...))
	require.NoError(t, err)
	require.EqualValues(t, 15, ch.next, "the batch that was cut off comes with the next fetch")
	r := reader{chunk: ch}
	var got []int64
	for {
		ok, err := r.next()
		require.NoError(t, err)
		if !ok {
			break
		}
		got = append(got, r.it.Record.Offset)
	}
	require.Equal(t, []int64{13, 14}, got)

	_, err = newChunk(nil, 13, 15, batch.Bytes[:40])
	require.ErrorIs(t, err, record.ErrPartial)
	damaged := append([]byte(nil), batch.Bytes...)
	damaged[70] ^= 1
	_, err = newChunk(nil, 13, 15, damaged)
	require.ErrorIs(t, err, record.ErrCorrupt)
}

// The CRC does not cover the base offset; that it fits does.
func TestAChunkWhoseOffsetsCannotBeIsCorrupt(t *testing.T) {
	var b record.Builder
	var log []byte
	for i := range 3 {
		b.Reset(record.None)
		for range 5 {
			b.Add(1000, nil, []byte("v"), nil)
		}
		p, err := b.Finish()
		require.NoError(t, err)
		batch, _, err := record.Next(append([]byte(nil), p...))
		require.NoError(t, err)
		batch.Place(int64(10+5*i), 0)
		log = append(log, batch.Bytes...)
	}
	_, err := newChunk(nil, 12, 25, log)
	require.NoError(t, err)
	for bit := range 64 {
		for i := range 3 {
			flipped := append([]byte(nil), log...)
			flipped[i*len(log)/3+bit/8] ^= 0x80 >> (bit % 8)
			ch, err := newChunk(nil, 12, 25, flipped)
			if err == nil { // the first batch still has the position in it, and is all that there is no other to tell of: none here
				t.Fatalf("bit %d of base offset %d: %+v", bit, i, ch)
			}
			require.ErrorIs(t, err, record.ErrCorrupt)
		}
	}
	_, err = newChunk(nil, 12, 24, log)
	require.ErrorIs(t, err, record.ErrCorrupt, "it reaches over what is visible")
	_, err = newChunk(nil, 15, 25, log)
	require.ErrorIs(t, err, record.ErrCorrupt, "the first batch lies below the position")
}

// The nodes are written by others: any bytes decode or are refused.
func FuzzRegistry(f *testing.F) {
	f.Add([]byte(`{"host":"b0","port":9092,"incarnation":3}`))
	f.Add([]byte(`{"id":"x","partitions":{"0":[1],"10":[2],"2":[]},"config":{}}`))
	f.Add([]byte(`{"version":1,"subscription":{"t":2}}`))
	f.Add([]byte(`12345`))
	f.Add([]byte(`-1`))
	f.Fuzz(func(t *testing.T, p []byte) {
		if _, err := decodeBroker("0", p, coord.Stat{}); err != nil {
			require.ErrorContains(t, err, "broker")
		}
		if _, parts, _, err := decodeTopic(p); err == nil {
			for i, part := range parts {
				require.GreaterOrEqual(t, part.partition, int32(0))
				require.True(t, i == 0 || parts[i-1].partition <= part.partition)
			}
		}
		if m, err := decodeMember("m", p, coord.Stat{}); err == nil {
			topics := map[string]int{}
			for _, s := range m.topics {
				topics[s.topic] = s.streams
			}
			again, err := decodeMember("m", encodeSubscription(topics), coord.Stat{})
			require.NoError(t, err)
			require.Equal(t, m, again)
		}
		if n, err := decodeOffset(p); err == nil {
			m, err := decodeOffset(encodeOffset(n))
			require.NoError(t, err)
			require.Equal(t, n, m)
		}
	})
}
