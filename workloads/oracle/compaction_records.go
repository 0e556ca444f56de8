package oracle

import (
	"encoding/binary"
	"fmt"

	wire "faultline/broker/record"
	"faultline/workloads/history"
)

// stored is a record on disk.
type stored struct {
	offset    int64
	epoch     int32
	hash      uint64 // of time, key, value and headers
	key       string
	keyed     bool
	tombstone bool
	horizon   int64 // of its batch: when tombstones may go, ms since 1970; 0: not said
}

// read calls fn for the records of batches, and returns the offset behind the last batch; wrong says what is in the way.
func (o *Compaction) read(p []byte, from int64, fn func(stored)) (next int64, wrong string) {
	for next = from; len(p) > 0; {
		b, rest, err := wire.Next(p)
		if err == nil {
			err = b.Check()
		}
		if err != nil {
			return next, err.Error()
		}
		if b.BaseOffset != next {
			return next, fmt.Sprintf("a batch at offset %d where the one at %d is due", b.BaseOffset, next)
		}
		horizon := int64(0)
		if at, ok := b.Horizon(); ok {
			horizon = at
		}
		for o.records.Reset(b); o.records.Next(); {
			r := &o.records.Record
			fn(stored{r.Offset, b.LeaderEpoch, hashStored(r), string(r.Key), r.Key != nil, r.Value == nil, horizon})
		}
		if err := o.records.Err(); err != nil {
			return next, err.Error()
		}
		p, next = rest, b.NextOffset()
	}
	return next, ""
}

// hashStored is over all of a record that clients see, but its offset.
func hashStored(r *wire.Record) uint64 {
	p := binary.BigEndian.AppendUint64(nil, uint64(r.Timestamp))
	p = binary.BigEndian.AppendUint64(p, history.HashRecord(r.Key, r.Value))
	r.Headers(func(h wire.RecordHeader) bool {
		p = binary.BigEndian.AppendUint64(p, history.HashRecord(h.Key, h.Value))
		return true
	})
	return history.HashRecord(nil, p)
}

// bytes are those of a file as processes see them, from a position on, valid until the next call.
func (o *Compaction) bytes(l *diskLog, name string, from int64) []byte {
	f, ok := l.on.model.File(name)
	if !ok || f.Size <= from {
		return nil
	}
	if n := f.Size - from; int64(cap(o.buf)) < n {
		o.buf = make([]byte, n)
	}
	p := o.buf[:f.Size-from]
	n, _ := f.ReadAt(p, from)
	return p[:n]
}

// all are the records of a log, by offset; those of segments that begin at or behind an offset are left out.
func (o *Compaction) all(l *diskLog, before int64) (list []stored) {
	for _, s := range l.live() {
		if s.base < before {
			o.read(o.bytes(l, s.path, 0), s.base, func(r stored) { list = append(list, r) })
		}
	}
	return list
}

// numbered calls fn for the batches of idempotent producers in a file.
func (o *Compaction) numbered(l *diskLog, name string, fn func(h numbers)) {
	for p := o.bytes(l, name, 0); len(p) >= batchHead; {
		h, size := readNumbers(p)
		if size < batchHead || size > int64(len(p)) {
			return
		}
		if h.producer >= 0 && h.first >= 0 {
			fn(h)
		}
		p = p[size:]
	}
}
