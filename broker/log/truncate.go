package log

import (
	"fmt"

	"faultline/broker/replica"
	"faultline/broker/sequence"
	"faultline/sim/machine"
)

// Truncate removes every batch that has an offset >= to, so the log may end below to. Spans of the removed part may no longer be read. Truncating at or above the
// end does nothing. Errors: ErrOffsetOutOfRange when to lies below the start, ErrOldEpoch (see Fence); an I/O error fences the log.
func (l *Log) Truncate(to int64, epoch int32) error {
	l.flushing.Lock()
	defer l.flushing.Unlock()
	l.appending.Lock()
	defer l.appending.Unlock()

	l.mu.Lock()
	err := l.usable()
	if err == nil {
		err = l.current(epoch)
	}
	if err == nil && to < l.start {
		err = &RangeError{Offset: to, Start: l.start, End: l.end}
	}
	if err != nil || to >= l.end {
		l.mu.Unlock()
		return err
	}
	before := l.end
	s := l.find(to)
	s.refs.Add(1)
	q := query{offset: to, maxBytes: 1, below: l.end}
	err = l.answer(&q, s)
	l.mu.Unlock()
	if err == nil {
		err = l.cut(s, q.from)
	}
	s.release()
	if err != nil {
		return l.wrap(fmt.Sprintf("truncate to offset %d", to), err)
	}
	l.m.Trace(machine.Event{Kind: machine.LogTruncated, Subject: l.subject, A: before, B: q.from.offset})
	return nil
}

// Restart drops every batch and begins anew at an offset, as a follower does whose leader has nothing of what it has. Spans may no longer be read. An I/O error fences the log.
//
// The checkpoint says first that nothing below the offset counts. The old segments go before the new one is made, which may have the name of one of them (KAFKA-654), the last one first.
func (l *Log) Restart(at int64, epoch int32) error {
	l.flushing.Lock()
	defer l.flushing.Unlock()
	l.appending.Lock()
	defer l.appending.Unlock()
	l.mu.Lock()
	err := l.usable()
	old, before := l.segments, l.end
	l.mu.Unlock()
	if err == nil {
		err = l.current(epoch)
	}
	if err != nil {
		return err
	}
	l.mu.Lock()
	l.epochs, l.producers = replica.Epochs{}, sequence.Producers{} // nor what it says of the records there
	l.cleaned = at                                                 // and nothing is left to be compacted
	l.mu.Unlock()
	if err := l.saveCheckpoint(checkpoint{start: at, recovery: at}); err != nil {
		return l.fence(err)
	}
	for n := len(old) - 1; n >= 0; n-- {
		if err := l.unlink(old[n].base); err != nil {
			return l.fence(err)
		}
	}
	if err := l.syncDir(); err != nil {
		return err
	}
	s, err := l.create(at)
	if err == nil {
		err = s.file.Sync()
	}
	if err == nil {
		err = l.disk.SyncDir(l.dir)
	}
	if err != nil {
		return l.fence(err)
	}
	s.fresh = false
	l.mu.Lock()
	l.segments = []*segment{s}
	l.cuts++
	l.start, l.end, l.visible, l.wanted = at, at, at, min(l.wanted, at)
	l.show()
	l.recovery, l.marked, l.unflushed = at, 0, false
	clear(l.marks[:])
	l.edge = mark{s, spot{at, 0}}
	l.mu.Unlock()
	for _, s := range old {
		l.drop(s)
	}
	l.m.Trace(machine.Event{Kind: machine.LogTruncated, Subject: l.subject, A: before, B: at, C: 1})
	return nil
}

// cut ends the log at a batch boundary in s. Call with flushing and appending.
//
// The recovery point moves down first: whatever a crash leaves of the rest is then checked. Later segments go from the last on, and indexes shrink before their logs.
func (l *Log) cut(s *segment, at spot) error {
	if at.offset < l.recovery {
		l.mu.Lock()
		known := l.producers
		l.mu.Unlock()
		if err := l.remember(s, at); err != nil {
			return err
		}
		if err := l.advance(at.offset); err != nil {
			l.mu.Lock()
			l.producers = known // nothing was cut off
			l.mu.Unlock()
			return err
		}
	}
	newest, err := l.newest(s, at)
	if err != nil {
		return err
	}
	first := int64(-1)
	if at.pos > 0 {
		if first, err = s.firstTimestamp(); err != nil {
			return err
		}
	}
	l.mu.Lock()
	i := 0
	for l.segments[i] != s {
		i++
	}
	l.cuts++
	later := l.segments[i+1:]
	l.segments = append([]*segment(nil), l.segments[:i+1]...)
	s.index = s.index.truncate(at.offset-s.base, at.pos)
	s.size, s.next, s.firstTime, s.maxTime = at.pos, at.offset, first, newest
	l.end = at.offset
	l.epochs.TruncateEnd(l.end)
	l.producers.Truncate(l.end)
	l.visible = min(l.visible, l.end)
	l.show()
	l.wanted = min(l.wanted, l.end)
	clear(l.marks[:])
	l.edge = mark{}
	x := s.index
	l.mu.Unlock()

	s.indexed = false
	if err := l.storeIndex(s.base, &x); err != nil {
		return l.fence(err)
	}
	for n := len(later) - 1; n >= 0; n-- {
		l.drop(later[n])
		if err := l.unlink(later[n].base); err != nil {
			return l.fence(err)
		}
	}
	if err := l.syncDir(); err != nil {
		return err
	}
	if err := s.file.Truncate(at.pos); err != nil {
		return l.fence(err)
	}
	if err := s.file.Sync(); err != nil {
		return l.fence(err)
	}
	s.synced, s.fresh = at.pos, false
	l.marked = min(l.marked, at.pos)
	return nil
}

// newest is the newest timestamp of the segment's batches before a boundary.
func (l *Log) newest(s *segment, at spot) (int64, error) {
	x := s.index.truncate(at.offset-s.base, at.pos) // only whoever holds appending changes it
	newest, from := int64(-1), spot{s.base, 0}
	if n := len(x.times); n > 0 {
		newest = x.times[n-1].time
	}
	if n := len(x.offsets); n > 0 {
		from = spot{s.base + int64(x.offsets[n-1].offset), int64(x.offsets[n-1].pos)}
	}
	w := walk{file: s.file, end: at.pos, buf: make([]byte, window)}
	for from.pos < at.pos {
		h, err := w.batch(from)
		if err != nil {
			return 0, err
		}
		newest = max(newest, h.MaxTimestamp)
		from = from.after(&h)
	}
	return newest, nil
}
