package record

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Compaction takes records out of batches. What stays keeps its offset, timestamp, key, value and headers, and a batch keeps its first and last offset, its leader epoch, its producer and its newest
// timestamp, be the record of that time still there or not. A batch that lost all its records is only a header: it says that there was something.
//
// A tombstone (a record without value) must stay for a while after the records that it supersedes are gone. Its batch says until when in the place of its base timestamp, with an attribute bit
// (KIP-534); the records' own timestamps are relative to that then.

const attrHorizon = 0x40

// Horizon is when tombstones of the batch may go, ms since 1970, if the batch says so.
func (h *Header) Horizon() (at int64, ok bool) {
	return h.BaseTimestamp, h.Attributes&attrHorizon != 0
}

// Rewriter writes batches anew without some of their records. The zero value is ready; its memory is used again. One task at a time.
type Rewriter struct {
	it       Iterator
	compress Compressor
	records  []byte
	out      []byte
}

// Rewrite returns the batch without the records that keep is false for, and the number of those left. When all are kept and the horizon does not change these are the batch's own bytes, otherwise they are
// valid until the next call. Horizon, ms since 1970, is asked for when a tombstone is kept and the batch has no horizon yet. Errors: ErrInvalid, those of the codec.
func (w *Rewriter) Rewrite(b Batch, keep func(r *Record) bool, horizon func() int64) (batch []byte, left int, err error) {
	base, has := b.Horizon()
	tombstone := false
	w.it.Reset(b)
	for w.it.Next() {
		if keep(&w.it.Record) {
			left++
			tombstone = tombstone || w.it.Record.Value == nil
		}
	}
	if err := w.it.Err(); err != nil {
		return nil, 0, err
	}
	if left == int(b.Count) && (has || !tombstone) {
		return b.Bytes, left, nil
	}
	if left == 0 {
		return w.empty(b, b.BaseOffset, b.LastOffset()), 0, nil
	}
	if tombstone && !has {
		base, has = horizon(), true
	}
	w.records = w.records[:0]
	w.it.Reset(b)
	for w.it.Next() {
		if r := &w.it.Record; keep(r) {
			w.records = r.appendTo(w.records, b.BaseOffset, base)
		}
	}
	if err := w.it.Err(); err != nil {
		return nil, 0, err
	}
	out, err := w.compress.Append(append(w.out[:0], b.Bytes[:HeaderBytes]...), w.records, b.Codec())
	if err != nil {
		return nil, 0, err
	}
	w.out = out
	if len(out)-PrefixBytes > math.MaxInt32 {
		return nil, 0, fmt.Errorf("%w: %d bytes do not fit a batch", ErrInvalid, len(out))
	}
	be := binary.BigEndian
	if has {
		be.PutUint16(out[21:], uint16(b.Attributes)|attrHorizon)
		be.PutUint64(out[27:], uint64(base))
	}
	be.PutUint32(out[57:], uint32(left))
	seal(out)
	return out, left, nil
}

// empty is the batch's header alone, for the offsets from base to last.
func (w *Rewriter) empty(b Batch, base, last int64) []byte {
	out := append(w.out[:0], b.Bytes[:HeaderBytes]...)
	w.out = out
	be := binary.BigEndian
	be.PutUint64(out, uint64(base))
	be.PutUint16(out[21:], uint16(b.Attributes)&^(attrCodec|attrHorizon))
	be.PutUint32(out[23:], uint32(last-base))
	be.PutUint64(out[27:], uint64(b.MaxTimestamp))
	be.PutUint32(out[57:], 0)
	seal(out)
	return out
}

// seal makes length and CRC those of the bytes.
func seal(batch []byte) {
	binary.BigEndian.PutUint32(batch[8:], uint32(len(batch)-PrefixBytes))
	binary.BigEndian.PutUint32(batch[17:], Sum(batch))
}

// appendTo writes the record for a batch with this base offset and base timestamp.
func (r *Record) appendTo(p []byte, offset, timestamp int64) []byte {
	stamp, delta := r.Timestamp-timestamp, r.Offset-offset
	n := 1 + varintSize(stamp) + varintSize(delta) + bytesSize(r.Key) + bytesSize(r.Value) + varintSize(int64(r.HeaderCount)) + len(r.headers)
	p = append(binary.AppendVarint(p, int64(n)), 0)
	p = binary.AppendVarint(p, stamp)
	p = binary.AppendVarint(p, delta)
	p = appendBytes(p, r.Key)
	p = appendBytes(p, r.Value)
	p = binary.AppendVarint(p, int64(r.HeaderCount))
	return append(p, r.headers...)
}

// Gap appends a batch without records, of no producer, that stands for the offsets from first to last of a leader epoch: all that is left there of a compacted log. Newest is the newest timestamp
// that there was, -1: none.
func Gap(p []byte, first, last int64, leaderEpoch int32, newest int64) []byte {
	at := len(p)
	p = append(p, make([]byte, HeaderBytes)...)
	out := p[at:]
	be := binary.BigEndian
	be.PutUint64(out, uint64(first))
	be.PutUint32(out[12:], uint32(leaderEpoch))
	out[16] = Magic
	be.PutUint32(out[23:], uint32(last-first))
	be.PutUint64(out[27:], uint64(newest))
	be.PutUint64(out[35:], uint64(newest))
	be.PutUint64(out[43:], math.MaxUint64)
	be.PutUint16(out[51:], math.MaxUint16)
	be.PutUint32(out[53:], math.MaxUint32)
	seal(out)
	return p
}

// IsGap reports whether the batch is one that Gap made.
func (h *Header) IsGap() bool { return h.Count == 0 && h.ProducerID < 0 }
