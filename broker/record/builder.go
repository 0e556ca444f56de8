package record

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
)

// Builder writes one batch at a time. The zero value is ready for Reset; its memory is used again, so building allocates nothing once warm.
type Builder struct {
	// Set after Reset, before Finish, by whoever needs them.
	ProducerID    int64 // -1 (Reset): not idempotent
	ProducerEpoch int16
	BaseSequence  int32
	Transactional bool
	Control       bool

	buf      []byte // header, then records, not compressed
	packed   []byte // the batch when compressed
	codec    Codec
	count    int32
	base     int64 // timestamp of the first record
	max      int64
	compress Compressor
}

// Reset starts an empty batch. What Finish returned before is overwritten.
func (b *Builder) Reset(codec Codec) {
	if b.buf == nil {
		b.buf = make([]byte, HeaderBytes, 1024)
	}
	b.buf = b.buf[:HeaderBytes]
	b.codec, b.count, b.base, b.max = codec, 0, 0, -1
	b.ProducerID, b.ProducerEpoch, b.BaseSequence = -1, -1, -1
	b.Transactional, b.Control = false, false
}

// Add appends a record. A nil key or value is null. The timestamp is in ms since 1970, -1 for none; the slices are copied.
func (b *Builder) Add(timestamp int64, key, value []byte, headers []RecordHeader) {
	if b.count == 0 {
		b.base, b.max = timestamp, timestamp
	}
	b.max = max(b.max, timestamp)
	body := bodySize(timestamp-b.base, int64(b.count), key, value, headers)
	if more := varintSize(int64(body)) + body; more > cap(b.buf)-len(b.buf) {
		b.buf = slices.Grow(b.buf, max(more, cap(b.buf))) // twice as much: append would take many small steps
	}
	p := binary.AppendVarint(b.buf, int64(body))
	p = append(p, 0)
	p = binary.AppendVarint(p, timestamp-b.base)
	p = binary.AppendVarint(p, int64(b.count))
	p = appendBytes(p, key)
	p = appendBytes(p, value)
	p = binary.AppendVarint(p, int64(len(headers)))
	for _, h := range headers {
		p = binary.AppendVarint(p, int64(len(h.Key)))
		p = append(p, h.Key...)
		p = appendBytes(p, h.Value)
	}
	b.buf = p
	b.count++
}

// Count is the number of records so far.
func (b *Builder) Count() int { return int(b.count) }

// Size is the batch's length in bytes so far, before compression.
func (b *Builder) Size() int { return len(b.buf) }

// SizeWith is what Size would be with this record added.
func (b *Builder) SizeWith(timestamp int64, key, value []byte, headers []RecordHeader) int {
	stamp := timestamp - b.base
	if b.count == 0 {
		stamp = 0
	}
	n := bodySize(stamp, int64(b.count), key, value, headers)
	return len(b.buf) + varintSize(int64(n)) + n
}

// Finish completes the batch with base offset 0 and returns its bytes, which are valid until Reset. It fails when the batch has no records, is too large for
// its length field, or cannot be compressed.
func (b *Builder) Finish() ([]byte, error) {
	if b.count == 0 {
		return nil, fmt.Errorf("%w: it has no records", ErrInvalid)
	}
	out := b.buf
	if b.codec != None {
		packed, err := b.compress.Append(append(b.packed[:0], b.buf[:HeaderBytes]...), b.buf[HeaderBytes:], b.codec)
		if err != nil {
			return nil, err
		}
		b.packed, out = packed, packed
	}
	if len(out)-PrefixBytes > math.MaxInt32 {
		return nil, fmt.Errorf("%w: %d bytes do not fit a batch", ErrInvalid, len(out))
	}
	attributes := int16(b.codec)
	if b.Transactional {
		attributes |= attrTransactional
	}
	if b.Control {
		attributes |= attrControl
	}
	be := binary.BigEndian
	be.PutUint64(out, 0)
	be.PutUint32(out[8:], uint32(len(out)-PrefixBytes))
	be.PutUint32(out[12:], math.MaxUint32) // leader epoch -1: unknown
	out[16] = Magic
	be.PutUint16(out[21:], uint16(attributes))
	be.PutUint32(out[23:], uint32(b.count-1))
	be.PutUint64(out[27:], uint64(b.base))
	be.PutUint64(out[35:], uint64(b.max))
	be.PutUint64(out[43:], uint64(b.ProducerID))
	be.PutUint16(out[51:], uint16(b.ProducerEpoch))
	be.PutUint32(out[53:], uint32(b.BaseSequence))
	be.PutUint32(out[57:], uint32(b.count))
	be.PutUint32(out[17:], Sum(out))
	return out, nil
}

func appendBytes(p, b []byte) []byte {
	if b == nil {
		return append(p, 1) // the varint -1
	}
	p = binary.AppendVarint(p, int64(len(b)))
	return append(p, b...)
}

// bodySize is the length of a record after its length field.
func bodySize(stamp, delta int64, key, value []byte, headers []RecordHeader) int {
	n := 1 + varintSize(stamp) + varintSize(delta) + bytesSize(key) + bytesSize(value) + varintSize(int64(len(headers)))
	for _, h := range headers {
		n += varintSize(int64(len(h.Key))) + len(h.Key) + bytesSize(h.Value)
	}
	return n
}

func bytesSize(b []byte) int {
	if b == nil {
		return 1
	}
	return varintSize(int64(len(b))) + len(b)
}

func varintSize(v int64) int {
	u := uint64(v<<1) ^ uint64(v>>63)
	n := 1
	for u >= 0x80 {
		u >>= 7
		n++
	}
	return n
}
