// Package log is the log of one partition: segment files of record batches, their offset and time indexes, flush, retention and recovery.
//
// # Files
//
// A log is a directory. A segment is a run of record batches without a gap, in a file named by its base offset:
//
//	00000000000000000000.log        record batches, nothing else
//	00000000000000000000.index      offset index, see index.go
//	00000000000000000000.timeindex  time index
//	checkpoint                      log start and recovery point, see checkpoint.go
//
// Appends go to the last segment, the active one; the others are sealed. There always is an active segment, be it empty, so offsets never start again.
//
// # What is durable
//
// Append leaves bytes in the page cache. A flush makes the files durable, and the directory when it got a new file, and only then moves Visible. So what
// lies below Visible survives a power loss. Everything below the recovery point is durable together with its indexes; above it recovery reads
// and checks every batch.
//
// # What is checked, and where
//
// A CRC is computed when a batch is appended, and when a restart reads what lies above the recovery point: there a bad batch is taken for a torn one, and the log ends before it, also if it was
// durable and has rotted. Below the recovery point a restart trusts the indexes and reads little; a bad batch that it meets there is no work of a crash, and it refuses to open (ErrDamaged), with
// nothing touched. Reads look at headers on their way at most and send the bytes as they are on disk: bytes that rotted, or were written to the wrong place, are caught by the CRC check of whoever
// fetches them. An index is a hint that is compared with the log and made again when it is wrong; the checkpoint has a CRC, and without one everything is checked.
//
// After an I/O error that leaves the log's end uncertain (write, fsync, truncate, syncdir) the log is fenced, and its broker exits; the restart brings back what is acknowledged. Other errors (no space; no file for a roll, an index or a
// checkpoint) fail the operation, and the next try may succeed.
//
// # Locks
//
// Four, always taken in this order: cleaning (one compaction at a time), flushing (held over fsync: one flush, retention, truncation or close at a time), appending (held over a write: one append at a
// time) and mu (the bookkeeping; never held over I/O). Readers take only mu.
package log

import (
	"errors"
	"fmt"
	"sort"
	"sync/atomic"
	"time"

	"faultline/broker/record"
	"faultline/broker/replica"
	"faultline/broker/sequence"
	"faultline/sim/machine"
)

// Log is one open partition log. Its methods may be called by several tasks at a time. Appends and reads go on while an fsync runs.
type Log struct {
	m       machine.Machine
	disk    machine.Disk
	dir     string
	subject string // "topic/partition", for traces and errors
	cfg     Config

	markEvery int64 // markBytes, or less in a test

	cleaning  machine.Mutex
	flushing  machine.Mutex
	appending machine.Mutex
	mu        machine.Mutex
	due       machine.Cond // on mu: the flusher may have something to do
	moved     machine.Cond // on mu: visible, failed, closed or running changed

	// Guarded by cleaning.
	rewriter record.Rewriter

	// Guarded by flushing.
	cleaned  int64      // compaction has seen what lies below
	horizon  int64      // wall clock, ms, at which the first tombstone may go; 0: none that the last compaction knew of
	recovery int64      // recovery point as checkpointed
	marked   int64      // its position in the segment that flushes end in
	dirty    []*segment // scratch of flush

	// Guarded by appending.
	validator record.Validator
	least     int32 // leader epoch below which nothing is accepted

	shown atomic.Pointer[State] // the latest, for readers without mu; set under it

	// Guarded by mu. The list grows at its end only under appending, too; everything else changes it under flushing, too.
	segments  []*segment // by base offset; the last one is active; never empty
	start     int64
	visible   int64
	end       int64
	cuts      int   // how often the end was cut off
	edge      mark  // where Visible lies in its file
	wanted    int64 // somebody waits for this offset to be visible
	epochs    replica.Epochs
	producers sequence.Producers
	unflushed bool          // something was appended since the last flush took its measure
	since     time.Duration // Uptime of the first such append
	failed    error         // fenced: the reason
	closed    bool
	closing   bool // a compaction must give up
	running   bool // the flusher task
	asleep    bool // it waits on due
	onVisible func()
	marks     [8]mark // where recent reads ended, so that the next ones need no search
	nextMark  int
	buffers   [][]byte // spare ones for readers
}

// mark is a boundary between batches of a segment.
type mark struct {
	seg *segment
	spot
}

// State is the log's offsets at one moment. Start <= Visible <= End.
type State struct {
	Start   int64 // first offset there is
	Visible int64 // first offset that consumers may not see: what lies below is durable
	End     int64 // log end offset (LEO): what the next record gets
	Err     error // why the log is fenced or closed; nil: it works
}

// State returns all offsets at one moment. It takes no lock and is no scheduling point.
func (l *Log) State() State { return *l.shown.Load() }

// show lets State tell what changed. Call with mu, at each change of what it tells.
func (l *Log) show() {
	l.shown.Store(&State{Start: l.start, Visible: l.visible, End: l.end, Err: l.usable()})
}

// Start is the first offset in the log.
func (l *Log) Start() int64 { return l.State().Start }

// End is the log end offset.
func (l *Log) End() int64 { return l.State().End }

// Visible is the first offset that consumers may not see.
func (l *Log) Visible() int64 { return l.State().Visible }

// Size is the log's length in bytes over all segments.
func (l *Log) Size() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	var n int64
	for _, s := range l.segments {
		n += s.size
	}
	return n
}

// OnVisible sets the function that is called after each move of Visible, and when the log is fenced or closed, by the task that did it and without any lock
// that readers or appenders need. It must not block for long (the next flush waits for it) and must not flush, retain or close this log. One function a log; set it right after Open.
func (l *Log) OnVisible(fn func()) {
	l.mu.Lock()
	l.onVisible = fn
	l.mu.Unlock()
}

// usable returns why the log accepts nothing more, or nil. Call with mu.
func (l *Log) usable() error {
	if l.closed {
		return fmt.Errorf("log %s: %w", l.subject, ErrClosed)
	}
	return l.failed
}

// fence makes the log refuse everything from now on: an I/O error left it unknown what the file holds after the last flush, so nothing may be added behind
// it. It returns the error to hand out.
func (l *Log) fence(reason error) error {
	l.mu.Lock()
	fn := l.onVisible
	first := l.failed == nil
	if first && l.end > l.visible {
		l.m.Mark("mark/log/fenced-with-unflushed")
	}
	if first {
		l.failed = fmt.Errorf("log %s: %w: %w", l.subject, ErrFenced, reason)
		if !l.closed {
			l.m.Trace(machine.Event{Kind: machine.LogFailed, Subject: l.subject, Detail: reason.Error()})
		}
		l.show()
		l.moved.Broadcast()
		l.wake()
	}
	err := l.failed
	l.mu.Unlock()
	if first && fn != nil {
		fn()
	}
	return err
}

// active is the segment that appends go to. Call with mu.
func (l *Log) active() *segment { return l.segments[len(l.segments)-1] }

// find returns the segment that offset belongs to: the last one whose base is not above it. Call with mu and start <= offset.
func (l *Log) find(offset int64) *segment {
	i := sort.Search(len(l.segments), func(i int) bool { return l.segments[i].base > offset })
	return l.segments[max(i-1, 0)]
}

// wrap puts the log's name before an I/O error.
func (l *Log) wrap(doing string, err error) error {
	if err == nil || errors.Is(err, ErrFenced) || errors.Is(err, ErrClosed) {
		return err
	}
	return fmt.Errorf("log %s: %s: %w", l.subject, doing, err)
}
