package consumer

import (
	"errors"
	"fmt"
)

var (
	// ErrClosed: Close was called.
	ErrClosed = errors.New("consumer is closed")
	// ErrNotOwner: the partition is not owned by this member now.
	ErrNotOwner = errors.New("partition is not owned by this consumer")
	// ErrNotCommitted: an offset could not be committed; the records after the last commit may come again.
	ErrNotCommitted = errors.New("offset not committed")
)

// OutOfRangeError says that the log does not hold the offset that was asked for.
type OutOfRangeError struct {
	Topic     string
	Partition int32
	Offset    int64 // asked for
	Start     int64 // first offset that the log holds
	End       int64 // first offset that is not visible yet
}

func (e *OutOfRangeError) Error() string {
	return fmt.Sprintf("%s/%d: offset %d is out of range: the log holds %d up to, but not including, %d", e.Topic, e.Partition, e.Offset, e.Start, e.End)
}

// CorruptError says that a batch came unharmed over the wire (its CRC is right), but does not decode. Reading does not go past it by itself:
// Seek over it to go on.
type CorruptError struct {
	Topic     string
	Partition int32
	Offset    int64 // first offset that could not be decoded
	Err       error
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("%s/%d: record batch at offset %d: %v", e.Topic, e.Partition, e.Offset, e.Err)
}

func (e *CorruptError) Unwrap() error { return e.Err }
