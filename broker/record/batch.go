// Package record reads and writes Kafka record batches, format v2 (KIP-98): the unit in which records travel on the
// wire and lie in the log. The broker, the producer, the consumer and the oracles share it.
//
// A batch is a header of 61 bytes and the records, which may be compressed together:
//
//	 0 base offset       int64     17 CRC-32C          uint32    35 max timestamp   int64, ms since 1970
//	 8 length            int32     21 attributes       int16     43 producer id     int64
//	12 leader epoch      int32     23 last delta       int32     51 producer epoch  int16
//	16 magic             int8 = 2  27 base timestamp   int64     53 base sequence   int32
//	                                                             57 record count    int32
//
// The length counts what follows it. The CRC covers everything from the attributes on, so whoever gives a batch its place in a log
// (base offset, leader epoch) need not compute it again.
package record

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

const (
	// Magic is the only batch format that is understood.
	Magic = 2
	// HeaderBytes is the size of a batch header.
	HeaderBytes = 61
	// PrefixBytes is the size of base offset and length: what must be read to know where a batch ends.
	PrefixBytes = 12

	crcStart = 21 // the CRC covers the batch from here
)

// Attribute bits of a batch.
const (
	attrCodec         = 0x07
	attrLogAppendTime = 0x08
	attrTransactional = 0x10
	attrControl       = 0x20
)

var (
	// ErrPartial: the bytes end before the batch does. At the end of a fetch this is regular.
	ErrPartial = errors.New("partial record batch")
	// ErrCorrupt: these bytes are not a record batch, or are one that was damaged (length, magic, CRC).
	ErrCorrupt = errors.New("corrupt record batch")
	// ErrInvalid: the CRC is right, but what it protects breaks the format or may not be appended.
	ErrInvalid = errors.New("invalid record batch")
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Header is the decoded header of a batch.
type Header struct {
	BaseOffset      int64
	Length          int32 // bytes after the length field
	LeaderEpoch     int32
	CRC             uint32
	Attributes      int16
	LastOffsetDelta int32 // last offset - base offset
	BaseTimestamp   int64 // ms since 1970; record timestamps are relative to it
	MaxTimestamp    int64 // ms since 1970; -1: none
	ProducerID      int64 // -1: not idempotent
	ProducerEpoch   int16
	BaseSequence    int32
	Count           int32
}

// Size is the whole batch's length in bytes.
func (h *Header) Size() int { return PrefixBytes + int(h.Length) }

// LastOffset is the offset of the last record.
func (h *Header) LastOffset() int64 { return h.BaseOffset + int64(h.LastOffsetDelta) }

// NextOffset is the offset of the record that follows this batch.
func (h *Header) NextOffset() int64 { return h.BaseOffset + int64(h.LastOffsetDelta) + 1 }

// Codec is what the records are compressed with.
func (h *Header) Codec() Codec { return Codec(h.Attributes & attrCodec) }

// LogAppendTime reports whether every record's timestamp is the batch's MaxTimestamp (given by a broker), not its own.
func (h *Header) LogAppendTime() bool { return h.Attributes&attrLogAppendTime != 0 }

// Transactional reports whether the batch belongs to a transaction.
func (h *Header) Transactional() bool { return h.Attributes&attrTransactional != 0 }

// Control reports whether the batch holds a control record (a transaction marker), which no application may see.
func (h *Header) Control() bool { return h.Attributes&attrControl != 0 }

// ParseHeader decodes the header at the start of p and checks everything in it that can be checked without the records.
// The records need not be there. Errors: ErrPartial when p is shorter than HeaderBytes, ErrCorrupt.
func ParseHeader(p []byte) (h Header, err error) {
	if len(p) < HeaderBytes {
		return h, fmt.Errorf("%w: %d bytes, a header has %d", ErrPartial, len(p), HeaderBytes)
	}
	be := binary.BigEndian
	h.BaseOffset = int64(be.Uint64(p))
	h.Length = int32(be.Uint32(p[8:]))
	h.LeaderEpoch = int32(be.Uint32(p[12:]))
	h.CRC = be.Uint32(p[17:])
	h.Attributes = int16(be.Uint16(p[21:]))
	h.LastOffsetDelta = int32(be.Uint32(p[23:]))
	h.BaseTimestamp = int64(be.Uint64(p[27:]))
	h.MaxTimestamp = int64(be.Uint64(p[35:]))
	h.ProducerID = int64(be.Uint64(p[43:]))
	h.ProducerEpoch = int16(be.Uint16(p[51:]))
	h.BaseSequence = int32(be.Uint32(p[53:]))
	h.Count = int32(be.Uint32(p[57:]))
	switch {
	case p[16] != Magic:
		return h, fmt.Errorf("%w: magic %d, want %d", ErrCorrupt, p[16], Magic)
	case h.Length < HeaderBytes-PrefixBytes:
		return h, fmt.Errorf("%w: length %d is shorter than a header", ErrCorrupt, h.Length)
	case h.BaseOffset < 0:
		return h, fmt.Errorf("%w: base offset %d", ErrCorrupt, h.BaseOffset)
	case h.LastOffsetDelta < 0:
		return h, fmt.Errorf("%w: last offset delta %d", ErrCorrupt, h.LastOffsetDelta)
	case h.Count < 0:
		return h, fmt.Errorf("%w: record count %d", ErrCorrupt, h.Count)
	case h.Codec() > Zstd:
		return h, fmt.Errorf("%w: compression codec %d is unknown", ErrCorrupt, h.Codec())
	}
	return h, nil
}

// Batch is one batch with its bytes.
type Batch struct {
	Header
	Bytes []byte // the whole batch, header included
}

// Next splits the first batch off p. It checks the header, not the CRC (see Check). Errors: ErrPartial when p ends inside the batch,
// ErrCorrupt. An empty p is ErrPartial too; loop while len(p) > 0.
func Next(p []byte) (b Batch, rest []byte, err error) {
	b.Header, err = ParseHeader(p)
	if err != nil {
		return b, p, err
	}
	n := b.Size()
	if n > len(p) {
		return b, p, fmt.Errorf("%w: %d of %d bytes", ErrPartial, len(p), n)
	}
	b.Bytes = p[:n:n]
	return b, p[n:], nil
}

// Check compares the CRC with the bytes. Error: ErrCorrupt.
func (b *Batch) Check() error {
	if sum := Sum(b.Bytes); sum != b.CRC {
		return fmt.Errorf("%w: CRC-32C of offset %d is %08x, the header says %08x", ErrCorrupt, b.BaseOffset, sum, b.CRC)
	}
	return nil
}

// Sum computes the CRC-32C of a whole batch.
func Sum(batch []byte) uint32 { return crc32.Checksum(batch[crcStart:], castagnoli) }

// Place writes the batch's place in a log into its bytes and its header: the offset of its first record and the epoch of the leader that
// gave it. The CRC stays right.
func (b *Batch) Place(base int64, leaderEpoch int32) {
	binary.BigEndian.PutUint64(b.Bytes, uint64(base))
	binary.BigEndian.PutUint32(b.Bytes[12:], uint32(leaderEpoch))
	b.BaseOffset, b.LeaderEpoch = base, leaderEpoch
}

// Stamp writes who appends the batch, for an idempotent producer, into the bytes of a whole batch, and makes its CRC right again.
func Stamp(batch []byte, producerID int64, epoch int16, sequence int32) {
	be := binary.BigEndian
	be.PutUint64(batch[43:], uint64(producerID))
	be.PutUint16(batch[51:], uint16(epoch))
	be.PutUint32(batch[53:], uint32(sequence))
	be.PutUint32(batch[17:], Sum(batch))
}
