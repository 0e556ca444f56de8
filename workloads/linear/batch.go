package linear

import (
	"encoding/binary"

	"github.com/cespare/xxhash/v2"
)

// Batch is a record batch (Kafka format v2) as clients see it. Hash covers what the producer wrote, from the attributes to
// the last record; the broker assigns only what lies before: offset and leader epoch.
type Batch struct {
	Base    int64 // offset of the first record; what the producer put there, in a request
	Records int32
	Hash    uint64
}

// Next is the offset after the batch.
func (b Batch) Next() int64 { return b.Base + int64(b.Records) }

const (
	batchOverhead   = 12 // base offset and length
	batchHeader     = 61
	batchAttributes = 21 // where the part that belongs to the producer begins
	batchLastDelta  = 23
	batchProducer   = 43
	batchCount      = 57

	attrHorizon = 0x40
)

// eachBatch calls fn for each whole batch in b and stops at the first one that is cut short. What compaction changed (there are fewer records than offsets, or it says until when tombstones stay) is passed over:
// to the log it is as if nobody had read that.
func eachBatch(b []byte, fn func(Batch)) {
	for len(b) >= batchHeader {
		n := batchOverhead + int(int32(binary.BigEndian.Uint32(b[8:])))
		if n < batchHeader || n > len(b) {
			return
		}
		last := int32(binary.BigEndian.Uint32(b[batchLastDelta:]))
		if last < 0 || last == 1<<31-1 {
			return
		}
		if records, attributes := int32(binary.BigEndian.Uint32(b[batchCount:])), binary.BigEndian.Uint16(b[batchAttributes:]); records <= last || attributes&attrHorizon != 0 {
			b = b[n:]
			continue
		}
		fn(Batch{int64(binary.BigEndian.Uint64(b)), last + 1, xxhash.Sum64(b[batchAttributes:n])})
		b = b[n:]
	}
}

// numbered tells whether the first batch in b was numbered by an idempotent producer: no two batches have its bytes, and one that is sent again is the same append.
func numbered(b []byte) bool {
	return len(b) >= batchHeader && int64(binary.BigEndian.Uint64(b[batchProducer:])) >= 0
}

// chain is the hash of a log that grew by one batch.
func chain(log uint64, b Batch) uint64 {
	var buf [28]byte
	binary.LittleEndian.PutUint64(buf[:], log)
	binary.LittleEndian.PutUint64(buf[8:], uint64(b.Base))
	binary.LittleEndian.PutUint32(buf[16:], uint32(b.Records))
	binary.LittleEndian.PutUint64(buf[20:], b.Hash)
	return xxhash.Sum64(buf[:])
}
