package record

import (
	"encoding/binary"
	"fmt"
)

// Record is one record of a batch. Its slices point into the batch (or into the iterator's memory when the batch is compressed) and are
// valid until the iterator is Reset.
type Record struct {
	Offset      int64
	Timestamp   int64  // ms since 1970; -1: none
	Key, Value  []byte // nil: null
	HeaderCount int
	headers     []byte
}

// RecordHeader is one header of a record. Key is bytes so that reading it allocates nothing.
type RecordHeader struct {
	Key   []byte
	Value []byte // nil: null
}

// Headers calls yield for each header, in order, until it returns false. It allocates nothing.
func (r *Record) Headers(yield func(RecordHeader) bool) {
	p := reader{p: r.headers}
	for range r.HeaderCount {
		var h RecordHeader
		h.Key = p.bytes()
		h.Value = p.bytes()
		if p.bad || !yield(h) {
			return
		}
	}
}

// Iterator walks the records of a batch without allocation (a compressed batch is inflated into memory that is used again). The zero value is
// ready for Reset. It trusts nothing: any bytes give records or an error.
//
//	it.Reset(batch)
//	for it.Next() {
//		use(&it.Record)
//	}
//	err := it.Err()
type Iterator struct {
	Record Record // the current one, after Next returned true

	head    Header
	rest    reader
	index   int32
	last    int64 // offset delta of the record before; -1 at the start
	err     error
	inflate Decompressor
	mem     []byte
}

// Reset starts at the first record of the batch. Its CRC is not checked here; see Batch.Check.
func (it *Iterator) Reset(b Batch) {
	it.Record = Record{}
	it.head, it.index, it.last, it.err = b.Header, 0, -1, nil
	it.rest = reader{p: b.Bytes[HeaderBytes:]}
	if codec := b.Codec(); codec != None {
		it.mem, it.err = it.inflate.Append(it.mem[:0], it.rest.p, codec)
		it.rest.p = it.mem
	}
}

// Inflated is how many bytes Reset decompressed the batch to, 0: it was not compressed.
func (it *Iterator) Inflated() int64 {
	if it.head.Codec() == None {
		return 0
	}
	return int64(len(it.mem))
}

// Next moves to the next record. False: no more, or an error.
func (it *Iterator) Next() bool {
	if it.err != nil || it.index == it.head.Count {
		if it.err == nil && len(it.rest.p) > 0 {
			it.fail("%d bytes after the last record", len(it.rest.p))
		}
		return false
	}
	size := it.rest.varint()
	if it.rest.bad || size < 0 || size > int64(len(it.rest.p)) {
		return it.fail("its length is %d, %d bytes are left", size, len(it.rest.p))
	}
	p := reader{p: it.rest.p[:size:size]}
	it.rest.p = it.rest.p[size:]

	r := &it.Record
	p.byte() // attributes: unused in this format
	stamp := p.varint()
	delta := p.varint()
	r.Key = p.bytes()
	r.Value = p.bytes()
	headers := p.varint()
	if p.bad {
		return it.fail("it ends inside a field")
	}
	// A compacted batch may have gaps between its offsets, never steps back.
	if delta <= it.last || delta > int64(it.head.LastOffsetDelta) {
		return it.fail("offset delta %d after %d, the last of the batch is %d", delta, it.last, it.head.LastOffsetDelta)
	}
	if headers < 0 || headers > int64(len(p.p))/2 {
		return it.fail("%d headers in %d bytes", headers, len(p.p))
	}
	r.headers, r.HeaderCount = p.p, int(headers)
	for range headers {
		if p.bytes() == nil {
			return it.fail("a header has no key")
		}
		p.bytes()
	}
	if p.bad || len(p.p) > 0 {
		return it.fail("its headers and its length disagree")
	}
	r.Offset = it.head.BaseOffset + delta
	r.Timestamp = it.head.BaseTimestamp + stamp
	if it.head.LogAppendTime() {
		r.Timestamp = it.head.MaxTimestamp
	}
	it.last = delta
	it.index++
	return true
}

// Err is what stopped Next: nil at a regular end, otherwise it wraps ErrInvalid.
func (it *Iterator) Err() error { return it.err }

func (it *Iterator) fail(format string, args ...any) bool {
	it.err = fmt.Errorf("%w: record %d of %d at base offset %d: %s", ErrInvalid, it.index, it.head.Count, it.head.BaseOffset, fmt.Sprintf(format, args...))
	return false
}

// reader takes fields off the front of p. After the first field that is not there it is bad and gives zeros.
type reader struct {
	p   []byte
	bad bool
}

func (r *reader) byte() byte {
	if len(r.p) == 0 {
		r.bad = true
		return 0
	}
	b := r.p[0]
	r.p = r.p[1:]
	return b
}

func (r *reader) varint() int64 {
	if len(r.p) > 0 && r.p[0] < 0x80 { // most are one byte
		b := r.p[0]
		r.p = r.p[1:]
		return int64(b>>1) ^ -int64(b&1)
	}
	v, n := binary.Varint(r.p)
	if n <= 0 {
		r.bad = true
		r.p = nil
		return 0
	}
	r.p = r.p[n:]
	return v
}

// bytes takes a length and as many bytes; length -1 is null.
func (r *reader) bytes() []byte {
	n := r.varint()
	if n < -1 || n > int64(len(r.p)) {
		r.bad = true
		r.p = nil
		return nil
	}
	if n == -1 {
		return nil
	}
	b := r.p[:n:n]
	r.p = r.p[n:]
	return b
}
