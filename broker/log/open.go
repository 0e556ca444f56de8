package log

import (
	"errors"
	"fmt"
	"io/fs"
	"sort"
	"strings"

	"faultline/broker/record"
	"faultline/broker/replica"
	"faultline/sim/machine"
)

// Open opens the log in dir, or makes it (and dir). Clean says that Close returned nil and nothing happened since; otherwise what lies above the recovery point is read,
// checked, cut at the first bad batch and made durable again (see recover.go). After Open everything in the log is visible.
//
// Errors: machine.ErrIO and machine.ErrNoSpace (wrapped), ErrDamaged.
func Open(m machine.Machine, dir, topic string, partition int32, cfg Config, clean bool) (*Log, error) {
	if err := cfg.Check(); err != nil {
		return nil, err
	}
	l := &Log{m: m, disk: m.Disk(), dir: dir, subject: fmt.Sprintf("%s/%d", topic, partition), cfg: cfg.filled(), markEvery: markBytes}
	l.validator.Keyed = cfg.Compact
	l.cleaning = m.NewMutex("log compaction " + l.subject)
	l.flushing = m.NewMutex("log flush " + l.subject)
	l.appending = m.NewMutex("log append " + l.subject)
	l.mu = m.NewMutex("log " + l.subject)
	l.due = m.NewCond("log flush due "+l.subject, l.mu)
	l.moved = m.NewCond("log visible "+l.subject, l.mu)
	trusted, err := l.open(clean)
	if err != nil {
		for _, s := range l.segments {
			s.file.Close()
		}
		return nil, l.wrap("open", err)
	}
	l.show()
	e := machine.Event{Kind: machine.LogOpened, Subject: l.subject, A: l.start, B: l.end}
	if trusted {
		e.C = 1
	}
	m.Trace(e)
	l.running = true
	m.Go("log flush "+l.subject, l.flusher)
	return l, nil
}

// open reports whether the files were taken over as a clean shutdown left them.
func (l *Log) open(clean bool) (trusted bool, err error) {
	l.m.Failpoint("fault/log/open-slow")
	if err := machine.MakeDir(l.disk, l.dir); err != nil {
		return false, err
	}
	if !clean {
		// What a process did right before it crashed may be in the page cache only, the name of its last checkpoint as well. Nothing may go because of a file that may be gone itself after
		// a power loss.
		if err := l.disk.SyncDir(l.dir); err != nil {
			return false, err
		}
	}
	c, known, err := l.loadCheckpoint()
	if err != nil {
		return false, err
	}
	bases, err := l.sweep(c)
	if err != nil {
		return false, err
	}
	if len(bases) == 0 {
		return false, l.begin(c)
	}
	for _, base := range bases {
		f, err := l.disk.Open(l.path(segmentName(base, logSuffix)), 0)
		if err != nil {
			return false, err
		}
		l.segments = append(l.segments, &segment{base: base, file: f, next: base, firstTime: -1, maxTime: -1})
	}
	l.recovery, l.cleaned = c.recovery, c.cleaned
	l.epochs, _ = replica.NewEpochs(c.epochs) // checked as it was read
	for _, b := range c.producers {
		l.producers.Add(b)
	}
	if clean && l.m.Failpoint("fault/log/distrust") {
		clean = false // recovery is right for a clean log too
	}
	trusted = clean && known && l.trust() == nil
	switch {
	case trusted:
		l.m.Mark("mark/log/trusted")
	case clean:
		l.m.Mark("mark/log/clean-but-distrusted")
	case !known:
		l.m.Mark("mark/log/no-checkpoint")
	}
	if !trusted {
		if err := l.recover(); err != nil {
			return false, err
		}
	}
	last := l.active()
	l.start, l.end, l.visible = max(l.segments[0].base, c.start), last.next, last.next
	l.epochs.TruncateEnd(l.end)
	l.producers.Truncate(l.end)
	l.epochs.TruncateStart(l.start)
	l.edge = mark{last, spot{last.next, last.size}}
	l.marked = last.size
	return trusted, nil
}

// begin makes the first segment. When there was a log here before (its files are lost, or were never made durable) its offsets are not used again.
func (l *Log) begin(c checkpoint) error {
	base := max(c.start, c.recovery)
	if base > 0 {
		l.m.Mark("mark/log/begun-again-behind-lost-files")
	}
	s, err := l.create(base)
	if err != nil {
		return err
	}
	l.segments = []*segment{s}
	if err := s.file.Sync(); err != nil {
		return err
	}
	if err := l.disk.SyncDir(l.dir); err != nil {
		return err
	}
	s.fresh = false
	l.start, l.end, l.visible, l.recovery = base, base, base, base
	l.edge = mark{s, spot{base, 0}}
	return nil
}

// sweep lists the segments by base offset, after it removed what a crash may leave: files that were not yet in place, segments below the log start, indexes
// without a log, and empty files amid the segments (a roll that failed, or one that lost its bytes, which the gap will show).
func (l *Log) sweep(c checkpoint) (bases []int64, err error) {
	list, err := l.disk.ReadDir(l.dir)
	if err != nil {
		return nil, err
	}
	var indexes []int64
	empty := map[int64]bool{}
	removed := false
	for _, info := range list {
		base, suffix, ok := parseName(info.Name)
		switch {
		case strings.HasSuffix(info.Name, temporary):
			l.m.Mark("mark/log/swept-temporary")
			err = l.remove(info.Name)
			removed = true
		case ok && suffix == logSuffix:
			bases = append(bases, base)
			empty[base] = info.Size == 0
		case ok:
			indexes = append(indexes, base)
		}
		if err != nil {
			return nil, err
		}
	}
	sort.Slice(bases, func(i, j int) bool { return bases[i] < bases[j] })
	kept := bases[:0:0]
	for i, base := range bases {
		if base < c.start {
			l.m.Trace(machine.Event{Kind: machine.LogDeleted, Subject: l.subject, A: base, B: c.start})
		}
		amid := len(kept) > 0 && i < len(bases)-1
		if base < c.start || amid && empty[base] {
			if base < c.start {
				l.m.Mark("mark/log/swept-below-start")
			} else {
				l.m.Mark("mark/log/swept-empty-amid")
			}
			if err := l.unlink(base); err != nil {
				return nil, err
			}
			removed = true
			continue
		}
		kept = append(kept, base)
	}
	for _, base := range indexes {
		i := sort.Search(len(kept), func(i int) bool { return kept[i] >= base })
		if i < len(kept) && kept[i] == base {
			continue
		}
		l.m.Mark("mark/log/swept-index-without-log")
		if err := l.unlink(base); err != nil {
			return nil, err
		}
		removed = true
	}
	if removed {
		err = l.disk.SyncDir(l.dir)
	}
	return kept, err
}

// trust takes over the segments of a cleanly closed log as their indexes describe them. An error says that they disagree with the log or with each other.
func (l *Log) trust() error {
	for i, s := range l.segments {
		if err := l.inspect(s); err != nil {
			return err
		}
		if i+1 < len(l.segments) && s.next != l.segments[i+1].base {
			return fmt.Errorf("%w: %s ends at offset %d, the next segment begins at %d", ErrDamaged, s.file.Name(), s.next, l.segments[i+1].base)
		}
	}
	s := l.active()
	if s.next < l.recovery {
		return fmt.Errorf("%w: it ends at offset %d, it was closed at %d", ErrDamaged, s.next, l.recovery)
	}
	x, err := l.loadIndex(s, s.size, s.next)
	if err != nil {
		return err
	}
	s.index, s.loaded = x, true
	if s.size > 0 {
		if s.firstTime, err = s.firstTimestamp(); err != nil {
			return err
		}
	}
	return nil
}

// firstTimestamp reads the timestamp of the segment's first record.
func (s *segment) firstTimestamp() (int64, error) {
	w := walk{file: s.file, end: s.size, buf: make([]byte, record.HeaderBytes)}
	h, err := w.batch(spot{s.base, 0})
	return firstTimestamp(&h), err
}

// firstTimestamp is that of the batch's first record, -1: the header does not tell.
func firstTimestamp(h *record.Header) int64 {
	if _, ok := h.Horizon(); ok || h.IsGap() {
		return -1
	}
	return h.BaseTimestamp
}

// inspect finds where a segment ends and its newest timestamp, from the last entries of its indexes and the batches behind them. An error (ErrDamaged, fs.ErrNotExist, ...) says that
// the indexes are missing or the log is not what they say.
func (l *Log) inspect(s *segment) error {
	size, err := s.file.Size()
	if err != nil {
		return err
	}
	e, err := l.lastOf(segmentName(s.base, indexSuffix), entryBytes)
	if err != nil {
		return err
	}
	t, err := l.lastOf(segmentName(s.base, timeSuffix), timeEntryBytes)
	if err != nil {
		return err
	}
	at := spot{s.base, 0}
	if e != nil {
		last := decodeEntry(e)
		at = spot{s.base + int64(last.offset), int64(last.pos)}
	}
	buf := l.borrow() // nobody else knows the log yet: no lock
	defer l.lend(buf)
	w := walk{file: s.file, end: size, buf: buf}
	newest := int64(-1)
	for at.pos < size {
		h, err := w.batch(at)
		if err != nil {
			return err
		}
		newest = max(newest, h.MaxTimestamp)
		at = at.after(&h)
	}
	if at.pos != size {
		return fmt.Errorf("%w: %s has %d bytes, its index speaks of %d", ErrDamaged, s.file.Name(), size, at.pos)
	}
	if size > 0 {
		if t == nil || s.base+int64(decodeTime(t).offset) != at.offset-1 || decodeTime(t).time < newest {
			return fmt.Errorf("%w: the time index of %s does not end with its last offset, %d", ErrDamaged, s.file.Name(), at.offset-1)
		}
		newest = decodeTime(t).time
	}
	s.size, s.synced, s.next, s.maxTime, s.indexed = size, size, at.offset, newest, true
	return nil
}

// lastOf reads the last entry of an index file; nil when it has none.
func (l *Log) lastOf(name string, entry int64) ([]byte, error) {
	f, err := l.disk.Open(l.path(name), 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	if size%entry != 0 {
		return nil, fmt.Errorf("%w: %s has %d bytes, an entry has %d", ErrDamaged, name, size, entry)
	}
	if size == 0 {
		return nil, nil
	}
	p := make([]byte, entry)
	_, err = machine.ReadFull(f, p, size-entry)
	return p, err
}

// missing reports whether the error says that indexes are no use, as opposed to a disk that does not answer.
func missing(err error) bool { return errors.Is(err, ErrDamaged) || errors.Is(err, fs.ErrNotExist) }
