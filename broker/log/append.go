package log

import (
	"errors"
	"fmt"
	"math"

	"faultline/broker/record"
	"faultline/sim/machine"
)

// AppendOptions go with one Append.
type AppendOptions struct {
	LeaderEpoch int32 // of the leader that wants it; written into every batch, unless it is a copy
	// Copy: the batches come from the log of the partition's leader. They keep the offsets and epochs that they have; the first must follow the log's end, or be a gap that reaches over it.
	Copy bool
}

// Appended says where an append ended up.
type Appended struct {
	Base, Next   int64 // offsets of its first record and of the one after its last
	Start        int64 // the log's start offset
	Records      int
	Duplicate    bool  // the batch of an idempotent producer was in the log already, at these offsets
	MaxTimestamp int64 // ms since 1970; -1: none
}

// Append adds the batches at the end of the log. All of them are checked first (see record.Validator), then get their offsets IN PLACE, then exactly their bytes
// are written. They are in the page cache then: they survive a crash of the process, not of the computer, and are not yet visible.
//
// Errors that say that nothing was appended: record.ErrCorrupt, record.ErrInvalid, record.ErrPartial (bytes behind the last whole batch), ErrTooLarge, ErrClosed, ErrOldEpoch, and
// machine.ErrNoSpace or machine.ErrIO without ErrFenced (the part that was written was cut off again, or there was no new segment). ErrFenced: an I/O error, now or earlier;
// whether the batches are in the log is unknown, and a later recovery may find them.
func (l *Log) Append(batches []byte, o AppendOptions) (Appended, error) {
	records, err := l.measure(batches, o.Copy)
	if err != nil {
		return Appended{}, err
	}
	size := int64(len(batches))
	work := machine.Work{Records: records, Stored: size, Summed: size, Syscalls: 1}
	if o.Copy {
		work.Records = 0 // their leader looked at them
	}
	l.m.Work(work)

	l.appending.Lock()
	defer l.appending.Unlock()
	l.mu.Lock()
	out := Appended{Base: l.end, Start: l.start, Records: records}
	s := l.active()             // it changes, and grows, only under appending;
	latest := l.epochs.Latest() // likewise
	err = l.usable()
	l.mu.Unlock()
	if err == nil {
		err = l.current(o.LeaderEpoch)
	}
	if err != nil {
		return Appended{}, err
	}
	if !o.Copy {
		if dup, err := l.recognise(batches); err != nil {
			return Appended{}, fmt.Errorf("log %s: append: %w", l.subject, err)
		} else if dup != nil {
			l.m.Mark("mark/log/duplicate-recognised")
			return Appended{Base: dup.Base, Next: dup.End + 1, Start: out.Start, Records: records, MaxTimestamp: dup.Time, Duplicate: true}, nil
		}
	}
	if out.Next, out.MaxTimestamp, err = l.place(batches, out.Base, latest, o); err != nil {
		return Appended{}, err
	}
	if l.m.Failpoint("fault/log/append-refused") {
		return Appended{}, l.wrap("append", machine.ErrNoSpace)
	}
	if l.mustRoll(s, size, out) || l.m.Failpoint("fault/log/roll-early") {
		if s, err = l.roll(s); err != nil {
			return Appended{}, err
		}
	}
	l.m.Failpoint("fault/log/append-slow")
	if err := l.write(s, batches); err != nil {
		return Appended{}, err
	}
	// The end moves only when the bytes are there: a reader that sees the new end finds them.
	l.m.Failpoint("fault/log/append-unpublished")
	interval := l.cfg.IndexInterval
	if l.m.Failpoint("fault/log/index-skip") {
		interval = math.MaxInt // an index may leave out any entry
	}
	l.mu.Lock()
	l.publish(s, batches, out, interval)
	l.mu.Unlock()
	if l.m.Failpoint("fault/log/flush-early") {
		l.RequestFlush()
	}
	return out, nil
}

// measure splits the bytes into batches without looking at the records, and counts these.
func (l *Log) measure(batches []byte, isCopy bool) (records int, err error) {
	if len(batches) == 0 {
		return 0, fmt.Errorf("log %s: append: %w: there is none", l.subject, record.ErrInvalid)
	}
	if len(batches) > math.MaxInt32 {
		return 0, fmt.Errorf("log %s: append: %w: %d bytes at once, a segment holds %d", l.subject, ErrTooLarge, len(batches), math.MaxInt32)
	}
	for rest := batches; len(rest) > 0; {
		var b record.Batch
		if b, rest, err = record.Next(rest); err != nil {
			return 0, fmt.Errorf("log %s: append: %w", l.subject, err)
		}
		if b.Size() > l.cfg.MaxBatchBytes && !isCopy {
			return 0, fmt.Errorf("log %s: append: %w: %d bytes, the limit is %d", l.subject, ErrTooLarge, b.Size(), l.cfg.MaxBatchBytes)
		}
		records += int(b.Count)
	}
	return records, nil
}

// place checks every batch and gives it its offsets, or checks those that a copy has. latest is the leader epoch of the log's last batch, -1: there is none, or it is not
// known. Call with appending.
func (l *Log) place(batches []byte, base int64, latest int32, o AppendOptions) (next, newest int64, err error) {
	next, newest = base, -1
	epoch := int32(-1)
	for rest := batches; len(rest) > 0; {
		var b record.Batch
		if b, rest, err = record.Next(rest); err != nil {
			return 0, 0, fmt.Errorf("log %s: append: %w", l.subject, err)
		}
		if o.Copy {
			if err = b.Check(); err == nil && b.IsGap() && b.BaseOffset < next && b.NextOffset() > next {
				// The leader compacted batches into one of which this log has some already.
				record.Gap(b.Bytes[:0], next, b.LastOffset(), b.LeaderEpoch, b.MaxTimestamp)
				b.Header, err = record.ParseHeader(b.Bytes)
			}
		} else {
			err = l.validator.Validate(&b)
			if n := l.validator.Inflated(); n > 0 {
				l.m.Work(machine.Work{Inflated: n, Codec: int8(b.Codec())})
			}
		}
		if err != nil {
			return 0, 0, fmt.Errorf("log %s: append: %w", l.subject, err)
		}
		if o.Copy && b.BaseOffset != next {
			return 0, 0, fmt.Errorf("log %s: append a copy: %w: the batch begins at offset %d, the log ends at %d", l.subject, record.ErrInvalid, b.BaseOffset, next)
		}
		if o.Copy && (b.LeaderEpoch > o.LeaderEpoch || b.LeaderEpoch < max(latest, epoch) && !b.IsGap()) {
			// The CRC covers the epoch no more than the offset. One that the leader cannot have, or that goes back, was not written so.
			return 0, 0, fmt.Errorf("log %s: append a copy: %w: the batch at offset %d is of leader epoch %d, what is before it of %d, and the leader leads in %d",
				l.subject, record.ErrInvalid, next, b.LeaderEpoch, max(latest, epoch), o.LeaderEpoch)
		}
		epoch = max(epoch, b.LeaderEpoch)
		if next > math.MaxInt64-int64(b.Count) {
			return 0, 0, fmt.Errorf("log %s: append: %w: no offsets are left after %d", l.subject, record.ErrInvalid, next)
		}
		if !o.Copy {
			b.Place(next, o.LeaderEpoch)
		}
		next = b.NextOffset()
		newest = max(newest, b.MaxTimestamp)
	}
	return next, newest, nil
}

// mustRoll says whether the append would make the active segment too large or too old. Call with appending.
func (l *Log) mustRoll(s *segment, size int64, a Appended) bool {
	full := s.size+size > l.cfg.SegmentBytes || a.Next-s.base > math.MaxUint32
	old := l.cfg.SegmentAge > 0 && s.firstTime >= 0 && a.MaxTimestamp-s.firstTime >= l.cfg.SegmentAge.Milliseconds()
	if old && !full {
		l.m.Mark("mark/log/rolled-by-age")
	}
	return full || old
}

// roll seals the active segment and returns a new one, which becomes durable by the next flush. Call with appending.
func (l *Log) roll(old *segment) (*segment, error) {
	if old.size == 0 {
		return old, nil // the new segment would have the name of this one
	}
	l.m.Failpoint("fault/log/roll-slow")
	if l.m.Failpoint("fault/log/roll-refused") {
		return nil, l.wrap("roll", machine.ErrNoSpace)
	}
	s, err := l.create(old.next)
	if err != nil {
		l.m.Mark("mark/log/roll-failed")
		// A file that stays behind would look like a segment to the next start, amid later ones.
		if e := l.remove(segmentName(old.next, logSuffix)); e != nil {
			return nil, l.fence(errors.Join(err, e))
		}
		return nil, l.wrap("roll", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	old.seal()
	l.segments = append(l.segments, s)
	l.m.Trace(machine.Event{Kind: machine.LogRolled, Subject: l.subject, A: s.base})
	return s, nil
}

// seal completes the time index: its last entry is the segment's newest timestamp. Call with mu.
func (s *segment) seal() {
	if s.size > 0 {
		s.index.addTime(s.maxTime, uint32(s.next-1-s.base))
	}
}

// write puts the bytes behind the last batch, all of them or none. Call with appending.
func (l *Log) write(s *segment, batches []byte) error {
	_, err := machine.WriteFull(s.file, batches, s.size)
	if err == nil {
		return nil
	}
	// Nothing may follow a part of a batch: cut it off. Only a full disk is an error that can pass; after any other nobody knows what the file holds.
	cut := s.file.Truncate(s.size)
	if errors.Is(err, machine.ErrNoSpace) && cut == nil {
		// A flush may have made that part durable. Its end must be, too, before other batches take the place.
		if cut = s.file.Sync(); cut == nil {
			l.m.Mark("mark/log/part-of-append-cut-off")
			return l.wrap("append", err)
		}
	}
	l.m.Mark("mark/log/fenced-by-append")
	return l.fence(fmt.Errorf("append at position %d: %w", s.size, err))
}

// publish makes the written batches part of the log, with an index entry for each interval bytes. Call with appending and mu.
func (l *Log) publish(s *segment, batches []byte, a Appended, interval int) {
	pos := s.size
	for rest := batches; len(rest) > 0; {
		var b record.Batch
		b, rest, _ = record.Next(rest) // place has checked it
		if pos == 0 {
			s.firstTime = firstTimestamp(&b.Header)
		}
		l.epochs.Begin(b.LeaderEpoch, b.BaseOffset)
		l.note(&b.Header)
		s.index.add(uint32(b.BaseOffset-s.base), uint32(pos), int64(b.Size()), s.maxTime, interval)
		s.maxTime = max(s.maxTime, b.MaxTimestamp)
		pos += int64(b.Size())
	}
	s.size, s.next, l.end = pos, a.Next, a.Next
	l.show()
	l.m.Trace(machine.Event{Kind: machine.LogAppended, Subject: l.subject, A: a.Base, B: a.Next})
	first := !l.unflushed
	if first {
		l.unflushed, l.since = true, l.m.Uptime()
	}
	if first && l.cfg.FlushInterval > 0 || l.wanted > l.visible || l.cfg.FlushMessages > 0 && l.end-l.visible >= l.cfg.FlushMessages {
		l.wake()
	}
}
