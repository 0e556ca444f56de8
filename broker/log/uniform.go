package log

import (
	"encoding/binary"
	"fmt"

	"faultline/broker/record"
	"faultline/broker/replica"
)

// UniformFile is a file of a log whose batches are all the same but for their offsets: Count times Unit, of which Patch changes what is different at place i.
type UniformFile struct {
	Name  string
	Unit  []byte
	Count int64
	Patch func(unit []byte, i int64)
}

// Size is the file's length in bytes.
func (f *UniformFile) Size() int64 { return f.Count * int64(len(f.Unit)) }

// Fill writes the file's bytes from offset on into p.
func (f *UniformFile) Fill(p []byte, offset int64) {
	unit := append([]byte(nil), f.Unit...)
	size := int64(len(unit))
	for len(p) > 0 {
		i := offset / size
		if f.Patch != nil {
			f.Patch(unit, i)
		}
		n := copy(p, unit[offset%size:])
		p = p[n:]
		offset += int64(n)
	}
}

// Uniform is what lies on the disk of a log that was closed after so many segments were filled with one batch over and over, at leader epoch 0: for benchmarks that need more data than can be
// appended. Where the batch leaves room in a segment, the last one is followed by an empty one, as if its age had ended it: no append changes what is there. It also tells the log's end.
func Uniform(cfg Config, batch []byte, segments int64) (files []UniformFile, end int64, err error) {
	cfg = cfg.filled()
	b, rest, err := record.Next(append([]byte(nil), batch...))
	if err == nil {
		err = b.Check()
	}
	if err != nil || len(rest) > 0 {
		return nil, 0, fmt.Errorf("found %d bytes behind a batch, allowed is one batch: %w", len(rest), err)
	}
	b.Place(0, 0)
	size := int64(len(batch))
	if size > cfg.SegmentBytes {
		return nil, 0, fmt.Errorf("a batch of %d bytes does not fit into a segment of %d", size, cfg.SegmentBytes)
	}
	span, perSegment := b.Header.NextOffset(), cfg.SegmentBytes/size
	every := (int64(cfg.IndexInterval) + size - 1) / size // batches from one index entry to the next
	entries := (perSegment - 1) / every
	newest := uint64(b.Header.MaxTimestamp)
	for k := range segments {
		base := k * perSegment * span
		files = append(files,
			UniformFile{segmentName(base, logSuffix), b.Bytes, perSegment, func(unit []byte, i int64) {
				(&record.Batch{Bytes: unit}).Place(base+i*span, 0)
			}},
			UniformFile{segmentName(base, indexSuffix), make([]byte, entryBytes), entries, func(unit []byte, i int64) {
				binary.BigEndian.PutUint32(unit, uint32((i+1)*every*span))
				binary.BigEndian.PutUint32(unit[4:], uint32((i+1)*every*size))
			}},
			UniformFile{segmentName(base, timeSuffix), make([]byte, timeEntryBytes), entries + 1, func(unit []byte, i int64) {
				last := (i+1)*every*span - 1
				if i == entries {
					last = perSegment*span - 1
				}
				binary.BigEndian.PutUint64(unit, newest)
				binary.BigEndian.PutUint32(unit[8:], uint32(last))
			}},
		)
	}
	end = segments * perSegment * span
	if perSegment*size < cfg.SegmentBytes {
		for _, suffix := range []string{logSuffix, indexSuffix, timeSuffix} {
			files = append(files, UniformFile{Name: segmentName(end, suffix)})
		}
	}
	point := checkpoint{recovery: end, epochs: []replica.Entry{{Epoch: 0, Start: 0}}}.encode()
	return append(files, UniformFile{Name: checkpointName, Unit: point, Count: 1}), end, nil
}
