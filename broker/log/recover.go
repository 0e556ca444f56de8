package log

import (
	"fmt"
	"io"
	"math"

	"faultline/broker/record"
	"faultline/sim/machine"
)

// recover brings a log that was not closed cleanly to a state that can be relied on. Segments that end at or below the recovery point are durable, with their indexes; these are only
// inspected. From the segment that holds the recovery point on, every batch is read and checked: its header, that it follows the one before, its CRC. At the first that is not right the log is
// cut, and later segments go. Then indexes are made again.
//
// What was read may be in the page cache only: a process that died leaves such bytes, and so does an fsync that failed, after which the cache counts them as written though they are not.
// So whatever lies above the recovery point is written once more, in place and byte for byte, and synced, before the recovery point moves and before anybody may see it.
//
// A bad batch below the recovery point is no consequence of a crash. There recover touches nothing and returns ErrDamaged.
func (l *Log) recover() error {
	first := 0
	for i, s := range l.segments {
		if s.base <= l.recovery {
			first = i
		}
	}
	for i := 0; i < first; i++ {
		s := l.segments[i]
		if err := l.inspectOrScan(s); err != nil {
			return err
		}
		n, err := l.supersede(i)
		if err != nil {
			return err
		}
		if first -= n; i == first {
			return fmt.Errorf("%w: %s ends at offset %d, the recovery point is %d", ErrDamaged, s.file.Name(), s.next, l.recovery)
		}
		if s.next != l.segments[i+1].base {
			return fmt.Errorf("%w: %s ends at offset %d, the next segment begins at %d, the recovery point is %d", ErrDamaged, s.file.Name(), s.next, l.segments[i+1].base, l.recovery)
		}
	}
	l.m.Failpoint("fault/log/recover-slow")
	before := max(l.recovery, l.active().base) // the best that is known of where the log ended
	cut := false
	sc := scanner{log: l}
	for i := first; i < len(l.segments); i++ {
		s := l.segments[i]
		if i > first && s.base != l.segments[i-1].next {
			if s.base <= l.recovery {
				return fmt.Errorf("%w: offsets %d to %d are missing, the recovery point is %d", ErrDamaged, l.segments[i-1].next, s.base, l.recovery)
			}
			cut = true
			l.m.Mark("mark/log/recovered-gap")
			if err := l.cutSegments(i); err != nil {
				return err
			}
			break
		}
		good, err := sc.run(s, l.recovery)
		if err != nil {
			return err
		}
		before = max(before, s.next)
		if _, err := l.supersede(i); err != nil {
			return err
		}
		if !good {
			cut = true
			l.m.Mark("mark/log/recovered-torn-tail")
			if i+1 < len(l.segments) {
				l.m.Mark("mark/log/recovered-torn-amid")
			}
			if err := s.file.Truncate(s.size); err != nil {
				return err
			}
			if err := l.cutSegments(i + 1); err != nil {
				return err
			}
		}
	}
	return l.conclude(first, before, cut)
}

// supersede removes the segments behind the one with index i that begin before its end: a compaction was interrupted after it had put their records in there.
func (l *Log) supersede(i int) (n int, err error) {
	for s := l.segments[i]; i+1 < len(l.segments) && l.segments[i+1].base < s.next; n++ {
		l.m.Mark("mark/log/swept-superseded")
		old := l.segments[i+1]
		if err := l.unlink(old.base); err != nil {
			return n, err
		}
		old.file.Close()
		l.segments = append(l.segments[:i+1:i+1], l.segments[i+2:]...)
	}
	return n, nil
}

// inspectOrScan finds out about a segment below the recovery point. When its indexes are no use they are made again.
func (l *Log) inspectOrScan(s *segment) error {
	err := l.inspect(s)
	if err == nil || !missing(err) {
		return err
	}
	l.m.Mark("mark/log/recovered-index")
	sc := scanner{log: l}
	good, err := sc.run(s, math.MaxInt64)
	if err != nil {
		return err
	}
	if !good {
		return fmt.Errorf("%w: %s has no valid batch at position %d, offset %d; the recovery point is %d", ErrDamaged, s.file.Name(), s.size, s.next, l.recovery)
	}
	if err := l.storeIndex(s.base, &s.index); err != nil {
		return err
	}
	s.synced, s.indexed = s.size, true
	return l.disk.SyncDir(l.dir)
}

// cutSegments removes the segments from index i on, the last one first, so that a crash in between leaves no gap before them.
func (l *Log) cutSegments(i int) error {
	for n := len(l.segments) - 1; n >= i; n-- {
		s := l.segments[n]
		if err := l.unlink(s.base); err != nil {
			return err
		}
		s.file.Close()
		l.segments = l.segments[:n]
	}
	return nil
}

// conclude makes everything from segment index first on durable, and then says so.
func (l *Log) conclude(first int, before int64, cut bool) error {
	for i, s := range l.segments[first:] {
		if err := s.file.Sync(); err != nil {
			return err
		}
		if err := l.storeIndex(s.base, &s.index); err != nil {
			return err
		}
		s.synced, s.fresh, s.indexed = s.size, false, first+i < len(l.segments)-1
	}
	if err := l.disk.SyncDir(l.dir); err != nil {
		return err
	}
	end := l.active().next
	if before = max(before, end); cut || before > end {
		l.m.Trace(machine.Event{Kind: machine.LogTruncated, Subject: l.subject, A: before, B: end})
	}
	switch {
	case before > end:
		l.m.Mark("mark/log/recovered-shorter")
	case end > l.recovery:
		l.m.Mark("mark/log/recovered-unflushed") // or flushed, but not yet behind the recovery point
	}
	l.m.Failpoint("fault/log/recovered-slow")
	c := checkpoint{start: l.segments[0].base, recovery: end}
	if err := l.saveCheckpoint(c); err != nil {
		return err
	}
	l.recovery = end
	return nil
}

const (
	scanBytes = 1 << 20
	// maxBatch bounds the memory that a length which is not one can ask for.
	maxBatch = 256 << 20
)

// scanner reads a segment from its start and checks every batch.
type scanner struct {
	log *Log
	buf []byte
}

// run sets the segment's size, next, times and index by the valid batches at its start, and writes those from the offset "above" on once more. It returns false when other bytes
// follow them. Errors: those of the disk, and ErrDamaged when a bad batch lies below "above", if that is in the segment.
func (sc *scanner) run(s *segment, above int64) (good bool, err error) {
	l := sc.log
	size, err := s.file.Size()
	if err != nil {
		return false, err
	}
	s.size, s.next, s.firstTime, s.maxTime = 0, s.base, -1, -1
	s.index, s.loaded, s.trusted = index{}, true, true
	if room := min(size, scanBytes); int64(len(sc.buf)) < room {
		sc.buf = make([]byte, room)
	}
	var start, n int64 // the buffer holds n bytes of the file from start on
	for s.size < size {
		b, need, bad := sc.check(s, sc.buf[s.size-start:n], size)
		if need > 0 {
			start, n = s.size, 0
			if int64(len(sc.buf)) < need {
				sc.buf = make([]byte, need)
			}
			n = min(int64(len(sc.buf)), size-start)
			if k, err := machine.ReadFull(s.file, sc.buf[:n], start); err == io.EOF || err == io.ErrUnexpectedEOF {
				return false, fmt.Errorf("read %s at %d: %d bytes, its size is %d: %w", s.file.Name(), start, k, size, machine.ErrIO)
			} else if err != nil {
				return false, err
			}
			l.m.Work(machine.Work{Summed: n})
			continue
		}
		if bad != nil {
			if s.next < above && above <= l.recovery {
				l.m.Mark("mark/log/damaged-below-recovery-point")
				return false, fmt.Errorf("%w: %s, position %d, offset %d, the recovery point is %d: %w", ErrDamaged, s.file.Name(), s.size, s.next, above, bad)
			}
			s.seal()
			return false, nil
		}
		if b.NextOffset() > above {
			if _, err := machine.WriteFull(s.file, b.Bytes, s.size); err != nil {
				return false, err
			}
		}
		if s.size == 0 {
			s.firstTime = firstTimestamp(&b.Header)
		}
		l.epochs.Begin(b.LeaderEpoch, b.BaseOffset) // nobody else knows the log yet
		if b.BaseOffset >= above {
			l.note(&b.Header)
		}
		s.index.add(uint32(b.BaseOffset-s.base), uint32(s.size), int64(b.Size()), s.maxTime, l.cfg.IndexInterval)
		s.maxTime = max(s.maxTime, b.MaxTimestamp)
		s.size += int64(b.Size())
		s.next = b.NextOffset()
	}
	s.seal()
	return true, nil
}

// check looks at the batch that p begins with. Need > 0: p is too short, so many bytes are wanted. Bad: there is no valid batch at the segment's end.
func (sc *scanner) check(s *segment, p []byte, size int64) (b record.Batch, need int64, bad error) {
	left := size - s.size
	if left < record.HeaderBytes {
		return b, 0, fmt.Errorf("%d bytes are left, a batch has more", left)
	}
	if len(p) < record.HeaderBytes {
		return b, record.HeaderBytes, nil
	}
	h, err := record.ParseHeader(p)
	switch {
	case err != nil:
		return b, 0, err
	case h.BaseOffset != s.next:
		return b, 0, fmt.Errorf("base offset %d, want %d", h.BaseOffset, s.next)
	case h.NextOffset()-s.base > 1<<32:
		return b, 0, fmt.Errorf("last offset %d is too far from the segment's base", h.LastOffset())
	case int64(h.Size()) > left:
		return b, 0, fmt.Errorf("a batch of %d bytes, %d are left", h.Size(), left)
	case h.Size() > maxBatch:
		return b, 0, fmt.Errorf("a batch of %d bytes, none is larger than %d", h.Size(), maxBatch)
	case h.Size() > len(p):
		return b, int64(h.Size()), nil
	}
	b = record.Batch{Header: h, Bytes: p[:h.Size():h.Size()]}
	return b, 0, b.Check()
}
