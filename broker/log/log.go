// Package log is the log of one partition: segment files of record batches, their offset and time indexes, flush, retention and recovery.
package log

import (
	"errors"
	"time"

	"faultline/sim/machine"
)

var errPending = errors.New("log: this part is still being written")

// Log is one open partition log. Its methods may be called by several tasks at a time. Nothing is locked while an fsync runs, so appends and reads go on
// during a flush.
type Log struct{}

// Open opens the log in dir, or makes it (and dir). Clean says that the log was closed by Close and nothing happened since; otherwise what lies above the recovery point is read, checked,
// cut at the first bad batch and made durable again. After Open everything in the log is visible.
//
// Errors: machine.ErrIO, machine.ErrNoSpace (wrapped), ErrDamaged.
func Open(m machine.Machine, dir, topic string, partition int32, cfg Config, clean bool) (*Log, error) {
	return nil, errPending
}

// AppendOptions go with one Append.
type AppendOptions struct {
	LeaderEpoch int32 // written into every batch
}

// Appended says where an append ended up.
type Appended struct {
	Base, Next   int64 // offsets of its first record and of the one after its last
	Start        int64 // the log's start offset
	Records      int
	MaxTimestamp int64 // ms since 1970; -1: none
}

// Append adds the batches at the end of the log. All of them are checked first (see record.Validator), then get their offsets IN PLACE, then exactly their bytes are
// written. They are in the page cache then: they survive a crash of the process, not of the computer, and are not yet visible.
//
// Errors that say that nothing was appended: record.ErrCorrupt, record.ErrInvalid, record.ErrPartial, ErrTooLarge, ErrClosed, ErrFenced from an earlier failure. After any other (it wraps
// machine.ErrIO or machine.ErrNoSpace) the outcome is unknown to the caller: the batches may be found by a later recovery. After an I/O error the log is fenced; after machine.ErrNoSpace it
// goes on if the bytes that were written could be cut off again.
func (l *Log) Append(batches []byte, o AppendOptions) (Appended, error) {
	return Appended{}, errPending
}

// Flush makes everything appended so far durable and visible. It waits for the flush that covers it; several callers share one fsync. Errors: ErrFenced, ErrClosed.
func (l *Log) Flush() error { return errPending }

// RequestFlush starts a flush of everything appended so far without waiting for it.
func (l *Log) RequestFlush() {}

// WaitVisible waits until Visible() >= offset, and asks for the flush that makes it so. Acks=all waits here for Appended.Next. timeout <= 0: without limit.
// Errors: machine.ErrTimeout, ErrFenced, ErrClosed.
func (l *Log) WaitVisible(offset int64, timeout time.Duration) error { return errPending }

// OnVisible sets the function that is called after each move of Visible, and when the log is fenced or closed, by the task that did it and without any lock held. It must not block for
// long: the next flush waits for it. One function per log; set it right after Open.
func (l *Log) OnVisible(fn func()) {}

// State is the log's offsets at one moment. Start <= Visible <= End.
type State struct {
	Start   int64 // first offset there is
	Visible int64 // first offset that consumers may not see: what lies below is durable
	End     int64 // log end offset (LEO): what the next record gets
	Err     error // why the log is fenced or closed; nil: it works
}

// State returns all offsets under one lock.
func (l *Log) State() State { return State{} }

// Start is the first offset in the log.
func (l *Log) Start() int64 { return 0 }

// End is the log end offset.
func (l *Log) End() int64 { return 0 }

// Visible is the first offset that consumers may not see.
func (l *Log) Visible() int64 { return 0 }

// Size is the log's length in bytes over all segments.
func (l *Log) Size() int64 { return 0 }

// Span is a run of whole batches in a segment file. Len 0: there is nothing to read now.
type Span struct {
	File     machine.File // nil when Len is 0
	Pos, Len int64        // bytes in File
	Base     int64        // base offset of the first batch: at most the offset asked for
	Next     int64        // offset after the last batch: where to read on
}

// Release gives the file back. Call it once for every span when its bytes were sent; the file stays readable until then, even if its segment is deleted meanwhile.
func (s *Span) Release() {}

// Read finds the batches from the one that contains offset on, all of whose offsets are < below (Visible for consumers, End for replicas), up to maxBytes; at least one
// batch, even if it is larger. They may begin before offset: the reader skips. A span ends at the end of a segment.
//
// offset == End or at or above below: an empty span. Errors: ErrOffsetOutOfRange (*RangeError), ErrClosed, machine.ErrIO, and ErrFenced when the log is fenced and offset is not below Visible.
func (l *Log) Read(offset int64, maxBytes int, below int64) (Span, error) {
	return Span{}, errPending
}

// OffsetForTime finds the first visible record with a timestamp (ms since 1970) >= ts. Without one both results are -1.
func (l *Log) OffsetForTime(ts int64) (offset, timestamp int64, err error) {
	return -1, -1, errPending
}

// Retain deletes the oldest segments by policy. The active segment rolls first when all its records are too old, so offsets never start again; what is not visible stays.
func (l *Log) Retain() error { return errPending }

// Truncate removes every batch that has an offset >= to. Spans of the removed part may no longer be read.
func (l *Log) Truncate(to int64) error { return errPending }

// Close flushes, writes the indexes and the recovery point, and ends the log's task. Only after nil may the broker write its clean-shutdown marker. A second Close returns ErrClosed.
func (l *Log) Close() error { return errPending }

// Delete closes the log without a flush and removes its directory at one stroke (it is renamed to DeletedSuffix first; see RemoveDeleted).
func (l *Log) Delete() error { return errPending }

// DeletedSuffix ends the name of a directory whose log was deleted but whose files are not yet all removed.
const DeletedSuffix = ".deleted"

// RemoveDeleted removes what a crash left of deleted logs in the directory that holds the logs. The broker calls it before it opens any.
func RemoveDeleted(d machine.Disk, parent string) error { return errPending }
