package log

import (
	"errors"

	"faultline/sim/machine"
)

// Retain deletes the oldest segments by policy: those whose newest record is older than RetentionTime by the wall clock, and those that RetentionBytes leaves no room for. The active segment
// is never deleted; when all its records are too old a new one takes its place first, so offsets never start again. What is not durable, or not below the offset "below" (a high watermark), stays, and so does
// a segment behind one that stays.
// A segment without timestamps goes by size only.
func (l *Log) Retain(below int64) error {
	if l.cfg.Compact && l.cfg.KeepOld {
		return nil
	}
	l.flushing.Lock()
	defer l.flushing.Unlock()
	rolled := l.retireActive(below)
	if err := l.deleteOld(below); err != nil {
		return err
	}
	return rolled
}

// expired reports whether all the segment's records, if it has any, are older than the policy keeps them. Call with mu.
func (l *Log) expired(s *segment) bool {
	if l.cfg.RetentionTime <= 0 {
		return false
	}
	return s.size == 0 || s.maxTime >= 0 && l.m.Now().UnixMilli()-s.maxTime > l.cfg.RetentionTime.Milliseconds()
}

// retireActive rolls the active segment when all of it is visible and expired. The new one is durable before this returns. Call with flushing.
func (l *Log) retireActive(below int64) error {
	l.appending.Lock()
	l.mu.Lock()
	err := l.usable()
	s := l.active()
	due := err == nil && l.visible == l.end && below >= l.end && l.expired(s)
	l.mu.Unlock()
	next := s
	if due {
		next, err = l.roll(s)
	}
	l.appending.Unlock()
	if err == nil && next != s {
		l.m.Mark("mark/log/retired-active")
		l.m.Failpoint("fault/log/retired-slow")
		err = l.flushAndMark()
	}
	return err
}

// deleteOld deletes what the policy does not keep. Call with flushing.
//
// The checkpoint with the new log start comes first, so that a restart removes what a crash leaves of the deleted segments and never sees a part of them. When the disk is too full for a new
// checkpoint, the segments go one by one from the oldest on, each removal made durable before the next, which keeps the rest whole too.
func (l *Log) deleteOld(below int64) error {
	l.mu.Lock()
	if err := l.usable(); err != nil {
		l.mu.Unlock()
		return err
	}
	n := l.surplus(below)
	old := l.segments[:n:n]
	kept := l.segments[n]
	l.mu.Unlock()
	if n == 0 {
		return nil
	}
	if kept.fresh {
		l.m.Mark("mark/log/kept-segment-is-fresh")
		// The first segment must be sure to be there after a power loss: without it the rest would be a log with a gap before it.
		if err := l.flush(); kept.fresh {
			return err
		}
	}
	c := checkpoint{start: kept.base, recovery: max(l.recovery, kept.base)}
	if err := l.saveCheckpoint(c); errors.Is(err, machine.ErrNoSpace) {
		l.m.Mark("mark/log/deleted-one-by-one")
		return l.deleteOneByOne(old, kept)
	} else if err != nil {
		return err
	}
	l.recovery = c.recovery
	l.mu.Lock()
	for i, s := range old {
		l.traceDeleted(s, following(old, i, kept))
	}
	l.forget(n)
	l.mu.Unlock()
	var first error
	for _, s := range old {
		l.m.Failpoint("fault/log/delete-slow")
		if err := l.unlink(s.base); err != nil && first == nil {
			first = l.wrap("delete a segment", err) // the next start removes it
		}
		l.drop(s)
	}
	if err := l.syncDir(); err != nil {
		return err
	}
	return first
}

// deleteOneByOne deletes segments without a checkpoint; kept is the one behind them. A segment leaves the list only when it is surely gone. Call with flushing.
func (l *Log) deleteOneByOne(old []*segment, kept *segment) error {
	for i, s := range old {
		l.traceDeleted(s, following(old, i, kept))
		l.m.Failpoint("fault/log/delete-slow")
		if err := l.remove(segmentName(s.base, logSuffix)); err != nil {
			return l.wrap("delete a segment", err)
		}
		if err := l.syncDir(); err != nil {
			return err
		}
		l.mu.Lock()
		l.forget(1)
		l.mu.Unlock()
		l.drop(s)
		if err := l.unlink(s.base); err != nil {
			return l.wrap("delete a segment's indexes", err) // the next start removes them
		}
	}
	return nil
}

// following is the segment behind old[i].
func following(old []*segment, i int, kept *segment) *segment {
	if i+1 < len(old) {
		return old[i+1]
	}
	return kept
}

func (l *Log) traceDeleted(s, next *segment) {
	l.m.Trace(machine.Event{Kind: machine.LogDeleted, Subject: l.subject, A: s.base, B: next.base})
}

// forget takes the n oldest segments off the list. Call with mu.
func (l *Log) forget(n int) {
	l.segments = append([]*segment(nil), l.segments[n:]...)
	l.start = l.segments[0].base
	l.show()
	l.epochs.TruncateStart(l.start)
}

// surplus is the number of segments, from the oldest on, that are not kept. Call with mu.
func (l *Log) surplus(below int64) int {
	sealed := l.segments[:len(l.segments)-1]
	var size int64
	for _, s := range l.segments {
		size += s.size
	}
	for i, s := range sealed {
		large := l.cfg.RetentionBytes > 0 && size-s.size >= l.cfg.RetentionBytes
		if !large && !l.expired(s) {
			return i
		}
		if s.next > min(l.visible, below) {
			l.m.Mark("mark/log/kept-unflushed")
			return i
		}
		size -= s.size
	}
	return len(sealed)
}
