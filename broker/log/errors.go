package log

import (
	"errors"
	"fmt"
)

var (
	// ErrOffsetOutOfRange: the offset asked for is not in the log. The error is a *RangeError, which says what is.
	ErrOffsetOutOfRange = errors.New("offset out of range")
	// ErrFenced: an I/O error left the log's end uncertain. Whatever would add to it or rely on it fails until the log is opened again (with clean false).
	ErrFenced = errors.New("log is fenced after an I/O error")
	// ErrClosed: the log was closed or deleted.
	ErrClosed = errors.New("log is closed")
	// ErrOldEpoch: the change is wanted in the name of a leader epoch that is over. See Log.Fence.
	ErrOldEpoch = errors.New("leader epoch is over")
	// ErrTooLarge: a batch is larger than MaxBatchBytes.
	ErrTooLarge = errors.New("record batch too large")
	// ErrDamaged: bytes that were durable are no longer what was written. The log does not open, and nothing was removed; they may still be saved by hand.
	ErrDamaged = errors.New("log is damaged below its recovery point")
)

// RangeError says which offsets there are instead of the one asked for.
type RangeError struct {
	Offset     int64 // asked for
	Start, End int64 // the log has Start <= offset < End; reading at End waits for more
}

func (e *RangeError) Error() string {
	return fmt.Sprintf("offset %d out of range: the log has %d to %d", e.Offset, e.Start, e.End)
}

// Is makes errors.Is(err, ErrOffsetOutOfRange) true.
func (e *RangeError) Is(target error) bool { return target == ErrOffsetOutOfRange }
