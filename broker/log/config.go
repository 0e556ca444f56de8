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
	// MaxBatchBytes is the largest batch accepted. 0: 1 MiB. Copies may be larger.
	MaxBatchBytes int

	// Compact: of each key only the last record stays, see compact.go; every record must have a key.
	Compact bool
	// KeepOld: with Compact, no segment is deleted for its age or for space.
	KeepOld bool
	// CompactRatio: compaction waits until so much of the sealed segments, in bytes, is new since the last one. 0: 0.5.
	CompactRatio float64
	// CompactLag: records are not compacted before they are so old.
	CompactLag time.Duration
	// CompactKeys bounds the keys that one compaction keeps in memory, at about 40 bytes each; the rest waits for the next. 0: 1 million.
	CompactKeys int
	// DeleteRetention: a tombstone stays so long after what it supersedes was compacted away. 0: 24 hours.
	DeleteRetention time.Duration
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
	if c.CompactRatio == 0 {
		c.CompactRatio = 0.5
	}
	if c.CompactKeys == 0 {
		c.CompactKeys = 1 << 20
	}
	if c.DeleteRetention == 0 {
		c.DeleteRetention = 24 * time.Hour
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
	case c.CompactRatio < 0 || c.CompactRatio > 1:
		return fmt.Errorf("log: compact when %v of the log is new: want 0 to 1", c.CompactRatio)
	case c.CompactLag < 0 || c.DeleteRetention < 0 || c.CompactKeys < 0:
		return fmt.Errorf("log: compact after %v, %d keys at a time, keep tombstones for %v: want positive values", c.CompactLag, c.CompactKeys, c.DeleteRetention)
	}
	return nil
}
