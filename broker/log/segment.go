package log

import (
	"fmt"
	"path"
	"strconv"
	"strings"
	"sync/atomic"

	"faultline/sim/machine"
)

const (
	logSuffix   = ".log"
	indexSuffix = ".index"
	timeSuffix  = ".timeindex"
)

// segment is one file of the log and what is known of it.
type segment struct {
	base int64
	file machine.File

	// Guarded by Log.mu.
	size      int64 // bytes of whole batches; what lies behind them in the file does not count
	next      int64 // offset after its last record; base when empty
	firstTime int64 // timestamp of its first record, ms; -1: none or empty
	maxTime   int64 // newest timestamp, ms; -1: none or empty
	index     index
	loaded    bool // index is in memory; always for the active segment
	trusted   bool // index was made from the log by this process, not read from its files

	// refs counts the spans and searches that read the file, less one once the segment is off the list: at -1 the file is closed. It rises only under Log.mu and while the segment is on the list.
	refs atomic.Int32

	// Guarded by Log.flushing.
	synced  int64 // bytes that are durable
	fresh   bool  // its directory entry may not be durable yet
	indexed bool  // sealed, and its index files are complete and durable
}

// segmentName is the file name of a segment or of its indexes.
func segmentName(base int64, suffix string) string { return fmt.Sprintf("%020d%s", base, suffix) }

// parseName splits a file name that segmentName made.
func parseName(name string) (base int64, suffix string, ok bool) {
	stem, ext, _ := strings.Cut(name, ".")
	suffix = "." + ext
	if len(stem) != 20 || suffix != logSuffix && suffix != indexSuffix && suffix != timeSuffix {
		return 0, "", false
	}
	base, err := strconv.ParseInt(stem, 10, 64)
	return base, suffix, err == nil && base >= 0
}

func (l *Log) path(name string) string { return path.Join(l.dir, name) }

// create makes the file of a new, empty segment. Its directory entry is not durable yet.
func (l *Log) create(base int64) (*segment, error) {
	name := l.path(segmentName(base, logSuffix))
	f, err := l.disk.Open(name, machine.Create|machine.Truncate)
	if err != nil {
		return nil, err
	}
	return &segment{base: base, file: f, next: base, firstTime: -1, maxTime: -1, loaded: true, trusted: true, fresh: true}, nil
}

// release gives back one reference. Call without mu.
func (s *segment) release() {
	if s.refs.Add(-1) < 0 {
		s.file.Close() // nothing was written through it since it was synced: an error says nothing
	}
}

// drop closes the file of a segment that is off the list, now or when its last reader is done. Call it once, without mu.
func (l *Log) drop(s *segment) {
	if s.refs.Add(-1) < 0 {
		s.file.Close()
	} else {
		l.m.Mark("mark/log/dropped-while-read")
	}
}

// unlink removes a segment's files. The indexes go last: without their log they are swept up when the log opens.
func (l *Log) unlink(base int64) error {
	var first error
	for _, suffix := range [...]string{logSuffix, indexSuffix, timeSuffix} {
		if err := l.remove(segmentName(base, suffix)); err != nil && first == nil {
			first = err
		}
	}
	return first
}
