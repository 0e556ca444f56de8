package log

import (
	"encoding/binary"
	"fmt"
	"io"
	"sort"

	"faultline/broker/record"
)

// CheckDir judges the files of a partition by themselves, for oracles and tools.
//
// Verified: batches follow each other without a gap from each segment's base offset on and from segment to segment, their headers and CRCs are right; every entry of an offset index
// names a batch that starts there; every entry of a time index is the newest timestamp up to its offset, by linear scan.
// Not verified: the records inside the batches (record.Validator does), that an index has all the entries it could have, and that a sealed segment has index files at all (recovery makes
// them). Leftovers that an Open would sweep up are passed over: segments below the checkpoint's start, empty ones that are neither the first nor the last, those whose
// offsets the one before has, which a compaction put there, files that were not in place.
//
// It holds for a log that is open and not being written to at this moment, and for one that was closed, but not for what a crash left before it is recovered: there the report has the
// valid prefix and the error says where it ends.

// DirFile is one file of a partition's directory.
type DirFile struct {
	Name string // base name
	Size int64
	Data io.ReaderAt
}

// BatchInfo describes a batch that CheckDir found.
type BatchInfo struct {
	Base, Last   int64 // offsets
	CRC          uint32
	Count        int32
	Size         int32
	MaxTimestamp int64 // ms since 1970; -1: none
	Segment      int64 // base offset of its segment
	Pos          int64 // position in that segment's file
}

// Report is what CheckDir found.
type Report struct {
	Start, End int64       // offsets of the first batch (or the first segment, when there is none) and after the last valid one
	Segments   []int64     // base offsets
	Batches    []BatchInfo // those before the first damage
	Checkpoint bool        // there is a readable one
	Recovery   int64       // its recovery point
}

// Damage says where a log is not what it must be. errors.Is(err, ErrDamaged) holds.
type Damage struct {
	File string
	Pos  int64
	What string
}

func (d *Damage) Error() string {
	return fmt.Sprintf("log is damaged: %s, position %d: %s", d.File, d.Pos, d.What)
}

// Is makes errors.Is(err, ErrDamaged) true.
func (d *Damage) Is(target error) bool { return target == ErrDamaged }

// CheckDir reads all files, in any order, and returns what is in the log and the first damage (*Damage), or an error of reading.
// When only indexes are damaged the report still has all batches.
func CheckDir(files []DirFile) (Report, error) { return new(Checker).Check(files) }

// Checker does what CheckDir does, again and again with the same memory.
type Checker struct {
	buf     []byte
	batches []BatchInfo
}

// Check is CheckDir. The report's batches are valid until the next Check.
func (k *Checker) Check(files []DirFile) (Report, error) {
	c := checker{files: map[string]DirFile{}, buf: k.buf, report: Report{Batches: k.batches[:0]}}
	defer func() { k.buf, k.batches = c.buf, c.report.Batches }()
	for _, f := range files {
		c.files[f.Name] = f
		if base, suffix, ok := parseName(f.Name); ok && suffix == logSuffix {
			c.report.Segments = append(c.report.Segments, base)
		}
	}
	err := c.run()
	return c.report, err
}

type checker struct {
	files  map[string]DirFile
	report Report
	buf    []byte
}

func (c *checker) run() error {
	r := &c.report
	var ck checkpoint
	if p, err := c.read(checkpointName); err != nil {
		return err
	} else if ck, r.Checkpoint = decodeCheckpoint(p); r.Checkpoint {
		r.Recovery = ck.recovery
	}
	sort.Slice(r.Segments, func(i, j int) bool { return r.Segments[i] < r.Segments[j] })
	kept := r.Segments[:0]
	for i, base := range r.Segments {
		leftover := len(kept) > 0 && i < len(r.Segments)-1 && c.files[segmentName(base, logSuffix)].Size == 0
		if base >= ck.start && !leftover {
			kept = append(kept, base)
		}
	}
	r.Segments = kept
	if len(kept) == 0 {
		return &Damage{File: "the directory", What: "no segment is there"}
	}
	r.Start, r.End = kept[0], kept[0]
	kept = kept[:0:0]
	for _, base := range r.Segments {
		if base < r.End {
			continue // superseded
		}
		kept = append(kept, base)
		if err := c.segment(base); err != nil {
			return err
		}
	}
	r.Segments = kept
	for _, base := range kept {
		if err := c.offsets(base); err != nil {
			return err
		}
		if err := c.times(base); err != nil {
			return err
		}
	}
	return nil
}

// read returns a whole file's bytes, valid until the next read; none for a file that is not there.
func (c *checker) read(name string) ([]byte, error) {
	f, ok := c.files[name]
	if !ok {
		return nil, nil
	}
	if int64(cap(c.buf)) < f.Size {
		c.buf = make([]byte, f.Size)
	}
	p := c.buf[:f.Size]
	if n, err := f.Data.ReadAt(p, 0); n < len(p) {
		return nil, fmt.Errorf("log: read %s: %d of %d bytes: %w", name, n, len(p), err)
	}
	return p, nil
}

func (c *checker) segment(base int64) error {
	name := segmentName(base, logSuffix)
	if base != c.report.End {
		return &Damage{name, 0, fmt.Sprintf("the segment begins at offset %d, the one before ends at %d", base, c.report.End)}
	}
	rest, err := c.read(name)
	if err != nil {
		return err
	}
	for pos := int64(0); len(rest) > 0; {
		var b record.Batch
		if b, rest, err = record.Next(rest); err == nil {
			err = b.Check()
		}
		if err != nil {
			return &Damage{name, pos, err.Error()}
		}
		if b.BaseOffset != c.report.End {
			return &Damage{name, pos, fmt.Sprintf("base offset %d, the batch before ends at %d", b.BaseOffset, c.report.End)}
		}
		c.report.Batches = append(c.report.Batches, BatchInfo{
			Base: b.BaseOffset, Last: b.LastOffset(), CRC: b.CRC, Count: b.Count, Size: int32(b.Size()),
			MaxTimestamp: b.MaxTimestamp, Segment: base, Pos: pos,
		})
		c.report.End = b.NextOffset()
		pos += int64(b.Size())
	}
	return nil
}

// of returns the batches of a segment.
func (c *checker) of(base int64) []BatchInfo {
	all := c.report.Batches
	from := sort.Search(len(all), func(i int) bool { return all[i].Segment >= base })
	to := sort.Search(len(all), func(i int) bool { return all[i].Segment > base })
	return all[from:to]
}

func (c *checker) offsets(base int64) error {
	name := segmentName(base, indexSuffix)
	p, err := c.read(name)
	if err != nil {
		return err
	}
	batches := c.of(base)
	for pos := int64(0); len(p) > 0; pos += entryBytes {
		if len(p) < entryBytes {
			return &Damage{name, pos, fmt.Sprintf("%d bytes are no entry", len(p))}
		}
		offset, at := base+int64(binary.BigEndian.Uint32(p)), int64(binary.BigEndian.Uint32(p[4:]))
		p = p[entryBytes:]
		for len(batches) > 0 && batches[0].Base < offset {
			batches = batches[1:]
		}
		if len(batches) == 0 || batches[0].Base != offset || batches[0].Pos != at {
			return &Damage{name, pos, fmt.Sprintf("the entry says that a batch with base offset %d starts at %d; none does, or not in this order", offset, at)}
		}
		batches = batches[1:]
	}
	return nil
}

func (c *checker) times(base int64) error {
	name := segmentName(base, timeSuffix)
	p, err := c.read(name)
	if err != nil {
		return err
	}
	newest, batches := int64(-1), c.of(base)
	for pos := int64(0); len(p) > 0; pos += timeEntryBytes {
		if len(p) < timeEntryBytes {
			return &Damage{name, pos, fmt.Sprintf("%d bytes are no entry", len(p))}
		}
		stamp, offset := int64(binary.BigEndian.Uint64(p)), base+int64(binary.BigEndian.Uint32(p[8:]))
		p = p[timeEntryBytes:]
		last := int64(-1)
		for len(batches) > 0 && batches[0].Last <= offset {
			last, newest = batches[0].Last, max(newest, batches[0].MaxTimestamp)
			batches = batches[1:]
		}
		if last != offset || newest != stamp {
			return &Damage{name, pos, fmt.Sprintf("the entry says that up to offset %d the newest timestamp is %d; it is %d up to offset %d", offset, stamp, newest, last)}
		}
	}
	return nil
}
