package oracle

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"

	simdisk "faultline/sim/disk"
)

// What a partition's files hold, read off the disk by the oracles' own eyes: record batches of format v2 (Kafka protocol guide, "Record Batch"), one
// behind the other, in segments named by their base offset. Nothing here asks the broker's code.

// logBatch describes a batch on disk.
type logBatch struct {
	base    int64
	count   int32
	size    int32
	crc     uint32
	epoch   int32 // of the leader that appended it
	first   int64 // timestamp of its first record, ms since 1970
	maxTime int64 // ms since 1970; -1: none
}

func (b logBatch) next() int64 { return b.base + int64(b.count) }

const (
	batchHead   = 61 // bytes of a batch before its records
	batchPrefix = 12 // base offset and length, which the length does not count
	batchSummed = 21 // where the part that the CRC covers begins
	batchMost   = 256 << 20
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// errBatchCut says that bytes end inside a batch: more may come.
var errBatchCut = errors.New("the file ends inside a batch")

// readBatch reads the batch at the start of p. On errBatchCut need is how many bytes it wants.
func readBatch(p []byte) (b logBatch, need int, err error) {
	if len(p) < batchHead {
		return b, batchHead, errBatchCut
	}
	length := int64(int32(binary.BigEndian.Uint32(p[8:])))
	size := length + batchPrefix
	if size < batchHead || size > batchMost {
		return b, 0, fmt.Errorf("a batch of %d bytes", size)
	}
	if p[16] != 2 {
		return b, 0, fmt.Errorf("format %d where a batch of format 2 should begin", p[16])
	}
	if int64(len(p)) < size {
		return b, int(size), errBatchCut
	}
	last := int32(binary.BigEndian.Uint32(p[23:]))
	b = logBatch{
		base: int64(binary.BigEndian.Uint64(p)), count: last + 1, size: int32(size), crc: binary.BigEndian.Uint32(p[17:]),
		epoch:   int32(binary.BigEndian.Uint32(p[12:])),
		first:   int64(binary.BigEndian.Uint64(p[27:])),
		maxTime: int64(binary.BigEndian.Uint64(p[35:])),
	}
	if last < 0 || last == 1<<31-1 || b.base < 0 {
		return b, 0, fmt.Errorf("base offset %d, last offset %d further", b.base, last)
	}
	if sum := crc32.Checksum(p[batchSummed:size], castagnoli); sum != b.crc {
		return b, 0, fmt.Errorf("the batch at offset %d has CRC %08x, its header says %08x", b.base, sum, b.crc)
	}
	return b, 0, nil
}

// eachHeader calls fn for each whole batch, without a look at its CRC.
func eachHeader(p []byte, fn func(logBatch)) {
	for len(p) >= batchHead {
		size := int64(int32(binary.BigEndian.Uint32(p[8:]))) + batchPrefix
		if size < batchHead || size > int64(len(p)) {
			return
		}
		fn(logBatch{base: int64(binary.BigEndian.Uint64(p)), count: int32(binary.BigEndian.Uint32(p[23:])) + 1, size: int32(size)})
		p = p[size:]
	}
}

// segmentScan is what was read of one segment's file so far.
type segmentScan struct {
	base    int64
	path    string
	seen    simdisk.FileView // the file when it was looked at last
	batches []logBatch
	pos     int64 // bytes that batches cover
	named   bool  // the file's name is durable
	sealed  bool  // whole, durable and followed by the next segment, as are all before it: no need to look again
	sized   bool  // its size was judged, and it does not grow any more
	aged    int   // so many batches were judged by their age
	stamp   int64 // the newest timestamp of so many batches:
	stamped int
	dead    bool // the broker said that it is deleted; the file may stay when the disk fails
}

// file is the segment's file as it is now, if it is there.
func (s *segmentScan) file(m *simdisk.Model) (simdisk.FileView, bool) {
	f, ok := m.Again(s.seen, s.path)
	s.seen = f
	return f, ok
}

// next is the offset after the last batch.
func (s *segmentScan) next() int64 {
	if n := len(s.batches); n > 0 {
		return s.batches[n-1].next()
	}
	return s.base
}

// newest is the newest timestamp, -1: none. It looks at each batch once.
func (s *segmentScan) newest() int64 {
	if s.stamped == 0 {
		s.stamp = -1
	}
	for ; s.stamped < len(s.batches); s.stamped++ {
		s.stamp = max(s.stamp, s.batches[s.stamped].maxTime)
	}
	return s.stamp
}

// scanBuffer is shared by all scans of one run.
type scanBuffer struct{ p []byte }

// scan reads batches from s.pos up to size with readAt and adds them. It stops, with the reason, at what is no whole batch that follows the
// one before; nil: everything up to size is batches.
func (s *segmentScan) scan(buf *scanBuffer, readAt func([]byte, int64) (int, error), size int64) error {
	return s.scanTo(buf, readAt, size, math.MaxInt64)
}

// scanTo is scan that stops at the offset to, or a little behind it.
func (s *segmentScan) scanTo(buf *scanBuffer, readAt func([]byte, int64) (int, error), size, to int64) error {
	if buf.p == nil {
		buf.p = make([]byte, 64<<10)
	}
	for s.pos < size && s.next() < to {
		n := int(min(int64(len(buf.p)), size-s.pos))
		if k, err := readAt(buf.p[:n], s.pos); k < n {
			return fmt.Errorf("read %s at %d: %d of %d bytes: %w", s.path, s.pos, k, n, err)
		}
		for p := buf.p[:n]; len(p) > 0; {
			b, need, err := readBatch(p)
			if err == errBatchCut && s.pos+int64(need) <= size {
				for len(buf.p) < need {
					buf.p = make([]byte, 2*len(buf.p))
				}
				break // read again from s.pos, with room for it
			}
			if err != nil {
				return err
			}
			if b.base != s.next() {
				return fmt.Errorf("base offset %d where %d is due", b.base, s.next())
			}
			s.batches = append(s.batches, b)
			s.pos += int64(b.size)
			p = p[b.size:]
		}
	}
	return nil
}

// cut forgets the batches that do not lie whole below size, and reports whether there were any.
func (s *segmentScan) cut(size int64) (some bool) {
	for s.pos > size {
		last := len(s.batches) - 1
		s.pos -= int64(s.batches[last].size)
		s.batches = s.batches[:last]
		some, s.stamped = true, 0
	}
	return some
}

// fileReader reads a view whole, for log.CheckDir.
type fileReader struct{ simdisk.FileView }

func (f fileReader) ReadAt(p []byte, offset int64) (int, error) {
	n, err := f.FileView.ReadAt(p, offset)
	if n == len(p) && err == io.EOF {
		err = nil
	}
	return n, err
}
