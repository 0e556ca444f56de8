package record

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/klauspost/compress/s2"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"
)

type plain struct {
	Stamp      int64
	Key, Value []byte
	Headers    []RecordHeader
}

func build(t require.TestingT, codec Codec, records ...plain) []byte {
	var b Builder
	b.Reset(codec)
	for _, r := range records {
		size := b.SizeWith(r.Stamp, r.Key, r.Value, r.Headers)
		b.Add(r.Stamp, r.Key, r.Value, r.Headers)
		require.Equal(t, size, b.Size())
	}
	p, err := b.Finish()
	require.NoError(t, err)
	return append([]byte(nil), p...)
}

func read(t require.TestingT, p []byte) []plain {
	b, rest, err := Next(p)
	require.NoError(t, err)
	require.Empty(t, rest)
	require.NoError(t, b.Check())
	var it Iterator
	var out []plain
	for it.Reset(b); it.Next(); {
		require.Equal(t, b.BaseOffset+int64(len(out)), it.Record.Offset)
		r := plain{Stamp: it.Record.Timestamp, Key: bytes.Clone(it.Record.Key), Value: bytes.Clone(it.Record.Value)}
		for h := range it.Record.Headers {
			r.Headers = append(r.Headers, RecordHeader{bytes.Clone(h.Key), bytes.Clone(h.Value)})
		}
		out = append(out, r)
	}
	require.NoError(t, it.Err())
	return out
}

func drawRecords(t *rapid.T) []plain {
	field := func(name string) []byte {
		if rapid.IntRange(0, 4).Draw(t, name+" null") == 0 {
			return nil
		}
		return append([]byte{}, rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, name)...)
	}
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) plain {
		r := plain{Stamp: rapid.Int64Range(-1, 1<<45).Draw(t, "time"), Key: field("key"), Value: field("value")}
		for range rapid.IntRange(0, 3).Draw(t, "headers") {
			key := rapid.StringN(0, 10, 20).Draw(t, "header")
			r.Headers = append(r.Headers, RecordHeader{[]byte(key), field("header value")})
		}
		return r
	}), 1, 20).Draw(t, "records")
}

func TestWhatIsBuiltIsRead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		codec := Codec(rapid.IntRange(0, 4).Draw(t, "codec"))
		records := drawRecords(t)
		p := build(t, codec, records...)
		require.Equal(t, records, read(t, p))

		b, _, err := Next(p)
		require.NoError(t, err)
		require.Equal(t, codec, b.Codec())
		require.EqualValues(t, len(records), b.Count)
		var v Validator
		crc := b.CRC
		require.NoError(t, v.Validate(&b))
		require.Equal(t, crc, b.CRC, "the validator had nothing to put right")
		b.Place(1000, 3)
		require.NoError(t, b.Check())
		again, _, err := Next(p)
		require.NoError(t, err)
		require.Equal(t, b, again)
		require.Equal(t, int64(1000+len(records)), again.NextOffset())
	})
}

// kmsg has a decoder of its own.
func TestAnotherDecoderReadsTheSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		records := drawRecords(t)
		p := build(t, None, records...)
		var theirs kmsg.RecordBatch
		require.NoError(t, theirs.ReadFrom(p))
		ours, err := ParseHeader(p)
		require.NoError(t, err)
		require.Equal(t, ours, Header{
			BaseOffset: theirs.FirstOffset, Length: theirs.Length, LeaderEpoch: theirs.PartitionLeaderEpoch, CRC: uint32(theirs.CRC),
			Attributes: theirs.Attributes, LastOffsetDelta: theirs.LastOffsetDelta, BaseTimestamp: theirs.FirstTimestamp, MaxTimestamp: theirs.MaxTimestamp,
			ProducerID: theirs.ProducerID, ProducerEpoch: theirs.ProducerEpoch, BaseSequence: theirs.FirstSequence, Count: theirs.NumRecords,
		})
		rest := theirs.Records
		for i, want := range records {
			n, k := binary.Varint(rest)
			var r kmsg.Record
			require.NoError(t, r.ReadFrom(rest[:k+int(n)]))
			rest = rest[k+int(n):]
			got := plain{Stamp: theirs.FirstTimestamp + r.TimestampDelta64, Key: r.Key, Value: r.Value}
			for _, h := range r.Headers {
				got.Headers = append(got.Headers, RecordHeader{[]byte(h.Key), h.Value})
			}
			require.EqualValues(t, i, r.OffsetDelta)
			require.Equal(t, fmt.Sprintf("%x", want), fmt.Sprintf("%x", got))
		}
		require.Empty(t, rest)
	})
}

// reseal makes the CRC right after a change.
func reseal(p []byte) []byte {
	binary.BigEndian.PutUint32(p[17:], Sum(p))
	return p
}

func TestValidatorRefuses(t *testing.T) {
	good := func() []byte {
		return build(t, None, plain{Stamp: 5, Value: []byte("one")}, plain{Stamp: 9, Value: []byte("two")})
	}
	set32 := func(at int, v uint32) []byte {
		p := good()
		binary.BigEndian.PutUint32(p[at:], v)
		return reseal(p)
	}
	squeezed := build(t, Zstd, plain{Value: bytes.Repeat([]byte("x"), 100)})
	squeezed[len(squeezed)-5] ^= 0x40
	for name, c := range map[string]struct {
		p    []byte
		want error
		text string
	}{
		"empty":            {nil, ErrPartial, "0 bytes"},
		"short header":     {good()[:60], ErrPartial, "60 bytes, a header has 61"},
		"short":            {good()[:80], ErrPartial, "80 of 81 bytes"},
		"magic":            {func() []byte { p := good(); p[16] = 1; return p }(), ErrCorrupt, "magic 1"},
		"length":           {func() []byte { p := good(); p[8], p[11] = 0, 7; return p }(), ErrCorrupt, "length 7"},
		"negative length":  {func() []byte { p := good(); p[8] = 0x80; return p }(), ErrCorrupt, "length"},
		"flipped bit":      {func() []byte { p := good(); p[70] ^= 1; return p }(), ErrCorrupt, "CRC"},
		"codec":            {func() []byte { p := good(); p[22] = 5; return reseal(p) }(), ErrCorrupt, "codec 5"},
		"no records":       {set32(57, 0), ErrInvalid, "no records"},
		"count":            {set32(57, 1), ErrInvalid, "last offset delta 1 with 1 records"},
		"negative count":   {set32(57, 1<<31), ErrCorrupt, "record count"},
		"more than are":    {func() []byte { p := set32(57, 3); binary.BigEndian.PutUint32(p[23:], 2); return reseal(p) }(), ErrInvalid, "record 2 of 3"},
		"fewer than are":   {func() []byte { p := set32(57, 1); binary.BigEndian.PutUint32(p[23:], 0); return reseal(p) }(), ErrInvalid, "bytes after the last record"},
		"control":          {func() []byte { p := good(); p[22] = attrControl; return reseal(p) }(), ErrInvalid, "control"},
		"append time":      {func() []byte { p := good(); p[22] = attrLogAppendTime; return reseal(p) }(), ErrInvalid, "time of append"},
		"record length":    {func() []byte { p := good(); p[61] = 0x7e; return reseal(p) }(), ErrInvalid, "its length is 63"},
		"offset delta":     {func() []byte { p := good(); p[64] = 2; return reseal(p) }(), ErrInvalid, "offset delta"},
		"not gzip":         {func() []byte { p := good(); p[22] = byte(Gzip); return reseal(p) }(), ErrInvalid, "decompressed as gzip"},
		"not snappy":       {func() []byte { p := good(); p[22] = byte(Snappy); return reseal(p) }(), ErrInvalid, "decompressed as snappy"},
		"not lz4":          {func() []byte { p := good(); p[22] = byte(LZ4); return reseal(p) }(), ErrInvalid, "decompressed as lz4"},
		"damaged zstd":     {reseal(squeezed), ErrInvalid, "decompressed as zstd"},
		"negative base":    {func() []byte { p := good(); p[0] = 0x80; return p }(), ErrCorrupt, "base offset"},
		"negative last":    {set32(23, 1<<31), ErrCorrupt, "last offset delta"},
		"no value length":  {func() []byte { p := good(); p[66] = 0x7f; return reseal(p) }(), ErrInvalid, "ends inside a field"},
		"headers too many": {func() []byte { p := good(); p[70] = 0x7e; return reseal(p) }(), ErrInvalid, "63 headers"},
	} {
		b, _, err := Next(c.p)
		if err == nil {
			var v Validator
			err = v.Validate(&b)
		}
		require.ErrorIs(t, err, c.want, name)
		require.ErrorContains(t, err, c.text, name)
	}
}

func TestValidatorPutsTheNewestTimestampRight(t *testing.T) {
	p := build(t, LZ4, plain{Stamp: 7}, plain{Stamp: 3})
	binary.BigEndian.PutUint64(p[35:], 99)
	b, _, err := Next(reseal(p))
	require.NoError(t, err)
	var v Validator
	require.NoError(t, v.Validate(&b))
	require.EqualValues(t, 7, b.MaxTimestamp)
	b, _, err = Next(p)
	require.NoError(t, err)
	require.EqualValues(t, 7, b.MaxTimestamp)
	require.NoError(t, b.Check())
}

func TestXerialSnappyIsUnderstood(t *testing.T) {
	data := bytes.Repeat([]byte("page view "), 1000)
	framed := []byte(xerial + "\x00\x00\x00\x01\x00\x00\x00\x01")
	for part := data; len(part) > 0; {
		n := min(len(part), 3000)
		block := s2.EncodeSnappy(nil, part[:n])
		framed = binary.BigEndian.AppendUint32(framed, uint32(len(block)))
		framed = append(framed, block...)
		part = part[n:]
	}
	var d Decompressor
	out, err := d.Append(nil, framed, Snappy)
	require.NoError(t, err)
	require.Equal(t, data, out)
	_, err = d.Append(nil, framed[:len(framed)-1], Snappy)
	require.ErrorIs(t, err, ErrInvalid)
}

func TestFewBytesCannotTakeAllMemory(t *testing.T) {
	var c Compressor
	d := Decompressor{limit: 1 << 20}
	zeros := make([]byte, 1<<20+1)
	for _, codec := range []Codec{Gzip, LZ4, Zstd} {
		packed, err := c.Append(nil, zeros, codec)
		require.NoError(t, err)
		_, err = d.Append(nil, packed, codec)
		require.ErrorIs(t, err, ErrInvalid, codec)
	}
	for _, n := range []uint64{1 << 20, 1<<20 + 1} {
		_, err := d.Append(nil, append(binary.AppendUvarint(nil, n), 0, 0, 0), Snappy)
		require.ErrorIs(t, err, ErrInvalid)
	}
}

func TestCodecNames(t *testing.T) {
	for c := None; c <= Zstd; c++ {
		back, err := ParseCodec(c.String())
		require.NoError(t, err)
		require.Equal(t, c, back)
	}
	_, err := ParseCodec("brotli")
	require.ErrorContains(t, err, "brotli")
	require.Equal(t, "codec-6", Codec(6).String())
}

func TestWarmPathsDoNotAllocate(t *testing.T) {
	var b Builder
	var it Iterator
	value := []byte(strings.Repeat("v", 200))
	headers := []RecordHeader{{Key: []byte("trace"), Value: []byte("1")}}
	var p []byte
	write := func() {
		b.Reset(None)
		for i := range 100 {
			b.Add(int64(i), value[:10], value, headers)
		}
		p, _ = b.Finish()
	}
	write()
	require.Zero(t, testing.AllocsPerRun(100, write))
	n := 0
	walk := func() {
		batch, _, err := Next(p)
		if err != nil || batch.Check() != nil {
			n = -1
		}
		for it.Reset(batch); it.Next(); {
			for h := range it.Record.Headers {
				n += len(h.Key)
			}
		}
	}
	require.Zero(t, testing.AllocsPerRun(100, walk))
	require.Positive(t, n)
}

func FuzzBatch(f *testing.F) {
	f.Add(build(f, None, plain{Stamp: 5, Key: []byte("k"), Value: []byte("v"), Headers: []RecordHeader{{Key: []byte("h")}}}))
	for c := Gzip; c <= Zstd; c++ {
		f.Add(build(f, c, plain{Value: bytes.Repeat([]byte("v"), 50)}, plain{}))
	}
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, p []byte) {
		if len(p) >= HeaderBytes {
			reseal(p) // else nothing would get behind the CRC
		}
		var it Iterator
		var v Validator
		for len(p) > 0 {
			b, rest, err := Next(p)
			if err != nil {
				if !errors.Is(err, ErrPartial) && !errors.Is(err, ErrCorrupt) {
					t.Fatal(err)
				}
				return
			}
			if len(b.Bytes)+len(rest) != len(p) {
				t.Fatal("bytes got lost")
			}
			n := int32(0)
			var again Builder
			again.Reset(None)
			for it.Reset(b); it.Next(); n++ {
				again.Add(it.Record.Timestamp, it.Record.Key, it.Record.Value, nil)
			}
			if it.Err() == nil && n != b.Count {
				t.Fatalf("%d records, the header says %d", n, b.Count)
			}
			if v.Validate(&b) == nil {
				if it.Err() != nil {
					t.Fatal("valid, but cannot be read:", it.Err())
				}
				if b.Check() != nil {
					t.Fatal("valid, but its CRC is not")
				}
				if _, err := again.Finish(); err != nil {
					t.Fatal(err)
				}
			}
			p = rest
		}
	})
}

func BenchmarkBuild(b *testing.B) {
	var w Builder
	value := make([]byte, 200)
	b.ReportAllocs()
	for b.Loop() {
		w.Reset(None)
		for i := range 100 {
			w.Add(int64(i), nil, value, nil)
		}
		p, _ := w.Finish()
		b.SetBytes(int64(len(p)))
	}
}

func BenchmarkValidate(b *testing.B) {
	var records []plain
	for i := range 100 {
		records = append(records, plain{Stamp: int64(i), Value: make([]byte, 200)})
	}
	p := build(b, None, records...)
	var v Validator
	b.SetBytes(int64(len(p)))
	b.ReportAllocs()
	for b.Loop() {
		batch, _, _ := Next(p)
		if err := v.Validate(&batch); err != nil {
			b.Fatal(err)
		}
	}
}
