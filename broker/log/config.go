package log

import (
	"fmt"
	"math"
	"time"
)

// Config is the policy of one log. The zero value of a field means what its comment says; Defaults is what a topic without settings of its own gets.
type Config struct {
	// SegmentBytes: the active segment rolls before an append that would make it larger. 0: 1 GiB. At most 2 GiB - 1.
	SegmentBytes int64
	// SegmentAge: the active segment rolls before an append whose newest record is at least this much younger than the segment's first. 0: never by age.
	SegmentAge time.Duration
	// IndexInterval is the number of log bytes between two index entries. 0: 4096.
	IndexInterval int
	// FlushMessages: a flush starts when so many records were appended since the last. 0: not by count.
	FlushMessages int64
	// FlushInterval: a flush starts when the oldest record that is not flushed was appended this long ago. 0: not by time.
	FlushInterval time.Duration
	// RetentionTime: a segment goes when its newest record is older by the wall clock. 0: 7 days. Negative: never by time.
	RetentionTime time.Duration
	// RetentionBytes: the oldest segments go while the log without them still has at least so many bytes. 0 or negative: unlimited.
	RetentionBytes int64
	// MaxBatchBytes is the largest batch accepted. 0: 1 MiB.
	MaxBatchBytes int
}

// Defaults is the policy of a topic without settings: segments of 1 GiB or 7 days, a flush after 10,000 records or 50 ms, 7 days of retention.
func Defaults() Config {
	return Config{
		SegmentAge:    7 * 24 * time.Hour,
		FlushMessages: 10_000,
		FlushInterval: 50 * time.Millisecond,
	}.filled()
}

// filled replaces zeros that stand for a default.
func (c Config) filled() Config {
	if c.SegmentBytes == 0 {
		c.SegmentBytes = 1 << 30
	}
	if c.IndexInterval == 0 {
		c.IndexInterval = 4096
	}
	if c.RetentionTime == 0 {
		c.RetentionTime = 7 * 24 * time.Hour
	}
	if c.RetentionBytes == 0 {
		c.RetentionBytes = -1
	}
	if c.MaxBatchBytes == 0 {
		c.MaxBatchBytes = 1 << 20
	}
	return c
}

// Check says what is wrong with the policy, or nil.
func (c Config) Check() error {
	switch {
	case c.SegmentBytes < 0 || c.SegmentBytes > math.MaxInt32:
		return fmt.Errorf("log: segment size %d: want 1 to %d bytes, or 0 for the default", c.SegmentBytes, math.MaxInt32)
	case c.SegmentAge < 0:
		return fmt.Errorf("log: segment age %v: want a positive time, or 0 for never", c.SegmentAge)
	case c.IndexInterval < 0:
		return fmt.Errorf("log: index interval %d: want a number of bytes, or 0 for the default", c.IndexInterval)
	case c.FlushMessages < 0 || c.FlushInterval < 0:
		return fmt.Errorf("log: flush after %d messages or %v: want positive values, or 0 for not", c.FlushMessages, c.FlushInterval)
	case c.MaxBatchBytes < 0 || c.MaxBatchBytes > math.MaxInt32:
		return fmt.Errorf("log: largest batch %d: want 1 to %d bytes, or 0 for the default", c.MaxBatchBytes, math.MaxInt32)
	}
	return nil
}
