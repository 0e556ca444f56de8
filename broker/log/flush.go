package log

import (
	"errors"
	"fmt"
	"time"

	"faultline/sim/machine"
)

// Flush makes everything appended so far durable and visible. It waits for the flush that covers it; several callers share one fsync. Errors: ErrFenced, ErrClosed.
func (l *Log) Flush() error { return l.WaitVisible(l.End(), 0) }

// RequestFlush starts a flush of everything appended so far without waiting for it.
func (l *Log) RequestFlush() {
	l.mu.Lock()
	l.want(l.end)
	l.mu.Unlock()
}

// WaitVisible waits until Visible() >= offset, and asks for the flush that makes it so. Acks=all waits here for Appended.Next. timeout <= 0: without limit.
// Errors: machine.ErrTimeout, ErrFenced, ErrClosed.
func (l *Log) WaitVisible(offset int64, timeout time.Duration) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var deadline time.Duration
	for l.visible < offset {
		if err := l.usable(); err != nil {
			return err
		}
		l.want(offset)
		if timeout <= 0 {
			l.moved.Wait()
			continue
		}
		now := l.m.Uptime()
		if deadline == 0 {
			deadline = now + timeout
		}
		if now >= deadline {
			return fmt.Errorf("log %s: wait until offset %d is visible (it is up to %d): %w", l.subject, offset, l.visible, machine.ErrTimeout)
		}
		l.moved.WaitTimeout(deadline - now)
	}
	return nil
}

// want asks for a flush up to offset. Call with mu.
func (l *Log) want(offset int64) {
	if offset > l.wanted {
		l.wanted = offset
		if l.end > l.visible {
			l.wake()
		}
	}
}

// wake lets the flusher look whether a flush is due, unless it is about to look anyway. Call with mu.
func (l *Log) wake() {
	if l.asleep {
		l.asleep = false
		l.due.Signal()
	}
}

// flusher is the log's task. It sleeps without a timer while there is nothing to flush.
func (l *Log) flusher() {
	l.mu.Lock()
	for l.usable() == nil {
		wait, now := l.flushDue()
		switch {
		case now:
			l.mu.Unlock()
			l.flushing.Lock()
			l.flushAndMark() // a failure has fenced the log; a checkpoint that could not be written is tried again
			l.flushing.Unlock()
			l.mu.Lock()
		case wait > 0:
			l.asleep = true
			l.due.WaitTimeout(wait)
			l.asleep = false
		default:
			l.asleep = true
			l.due.Wait()
			l.asleep = false
		}
	}
	l.running = false
	l.moved.Broadcast()
	l.mu.Unlock()
}

// flushDue says whether a flush must start now, or else after which time; 0: when something happens. Call with mu.
func (l *Log) flushDue() (wait time.Duration, now bool) {
	pending := l.end - l.visible
	switch {
	case pending == 0:
		return 0, false
	case l.wanted > l.visible:
		return 0, true
	case l.cfg.FlushMessages > 0 && pending >= l.cfg.FlushMessages:
		return 0, true
	case l.cfg.FlushInterval > 0:
		wait = l.since + l.cfg.FlushInterval - l.m.Uptime()
		return wait, wait <= 0
	}
	return 0, false
}

// flush makes what was appended before it started durable, then visible. Call with flushing, not with mu: appends and reads go on meanwhile.
//
// The files come first, then the directory that names them, then Visible. An error without ErrFenced says that an index could not be written; all else is done. A failed fsync fences the log: the pages that it was to write may be
// gone, and another fsync would not say so.
func (l *Log) flush() error {
	l.mu.Lock()
	if err := l.usable(); err != nil {
		l.mu.Unlock()
		return err
	}
	first := len(l.segments) - 1
	for first > 0 && l.segments[first-1].unsettled() {
		first--
	}
	l.dirty = append(l.dirty[:0], l.segments[first:]...)
	last := l.active()
	target, size := l.end, last.size
	l.unflushed = false // an append from now on is the first of the next flush
	l.mu.Unlock()

	l.m.Failpoint("fault/log/flush-slow")
	indexes, err := l.settle(l.dirty, size)
	if len(l.dirty) > 2 {
		l.m.Mark("mark/log/flush-of-many-segments")
	}
	if err != nil {
		l.m.Mark("mark/log/fenced-by-flush")
		return l.fence(err)
	}
	l.m.Failpoint("fault/log/flush-unpublished")
	if err := l.reveal(mark{last, spot{target, size}}); err != nil {
		return err
	}
	return indexes
}

// markBytes is how much of the active segment may lie above the recovery point: recovery writes it again.
const markBytes = 64 << 20

// flushAndMark flushes and moves the recovery point up to the active segment, unless a sealed one has no index yet, and in steps of markBytes inside it. Call with flushing.
func (l *Log) flushAndMark() error {
	if err := l.flush(); err != nil {
		return err
	}
	l.mu.Lock()
	at := l.edge
	l.mu.Unlock()
	if at.pos < l.marked {
		l.marked = 0 // another segment
	}
	switch {
	case l.m.Failpoint("fault/log/checkpoint-skip"): // a recovery point may always be lower
	case at.seg.base > l.recovery:
		return l.advance(at.seg.base)
	case at.pos-l.marked >= l.markEvery:
		l.marked = at.pos
		return l.advance(at.offset)
	}
	return nil
}

// unsettled reports whether a sealed segment still has something to make durable. Those that have are always the newest. Call with mu and flushing.
func (s *segment) unsettled() bool { return s.synced < s.size || s.fresh || !s.indexed }

// settle makes the segments durable, the last one (the active) up to size, the others whole and with their indexes. Call with flushing.
//
// Indexes can be made again, so an error with one of them is returned apart: the next flush writes it anew.
func (l *Log) settle(segments []*segment, size int64) (indexes, err error) {
	names := false // the directory has new entries
	last := len(segments) - 1
	for i, s := range segments {
		length := size
		if i < last {
			length = s.size
		}
		if err := l.sync(s, length); err != nil {
			return nil, err
		}
		names = names || s.fresh
	}
	for _, s := range segments[:last] {
		if s.indexed {
			continue
		}
		l.mu.Lock()
		x := s.index
		l.mu.Unlock()
		err := machine.ErrNoSpace
		if !l.m.Failpoint("fault/log/index-unwritten") {
			err = l.storeIndex(s.base, &x)
		}
		if err != nil {
			l.m.Mark("mark/log/index-not-written")
			indexes = errors.Join(indexes, l.wrap("write an index", err))
			continue
		}
		s.indexed, names = true, true
	}
	if names {
		if err := l.disk.SyncDir(l.dir); err != nil {
			return nil, err
		}
	}
	for _, s := range segments {
		s.fresh = false
	}
	return indexes, nil
}

// sync makes the first size bytes of a segment durable unless they are. Call with flushing.
func (l *Log) sync(s *segment, size int64) error {
	if s.synced >= size && !s.fresh {
		return nil
	}
	l.m.Work(machine.Work{Flushed: size - s.synced, Syscalls: 1})
	if err := s.file.Sync(); err != nil {
		return err
	}
	s.synced = size
	return nil
}

// reveal moves Visible. Call with flushing.
func (l *Log) reveal(at mark) error {
	l.mu.Lock()
	if err := l.usable(); err != nil && !errors.Is(err, ErrClosed) {
		l.mu.Unlock()
		l.m.Mark("mark/log/fenced-while-flushing")
		return err // an append failed meanwhile; its fence holds for this flush too
	}
	moved := at.offset > l.visible
	if l.end > at.offset {
		l.m.Mark("mark/log/grew-while-flushing")
	}
	if moved {
		l.visible = at.offset
		l.show()
		l.m.Trace(machine.Event{Kind: machine.LogVisible, Subject: l.subject, A: l.visible})
		l.moved.Broadcast()
	}
	l.edge = at
	fn := l.onVisible
	l.mu.Unlock()
	if moved && fn != nil {
		fn()
	}
	return nil
}

// advance moves the recovery point up to offset, below which everything is durable. Call with flushing.
func (l *Log) advance(offset int64) error {
	c := checkpoint{start: l.Start(), recovery: offset}
	if err := l.saveCheckpoint(c); err != nil {
		return err
	}
	l.recovery = offset
	return nil
}
