package log

import (
	"math"

	"faultline/broker/record"
	"faultline/sim/machine"
)

// group is how many of the segments, from the first on, become one: as many as fit.
func (c *compaction) group(segments []*segment) int {
	n, size := 1, segments[0].size
	for n < len(segments) && segments[n].base < c.until {
		s := segments[n]
		if size += s.size; size > c.log.cfg.SegmentBytes || s.next-segments[0].base > math.MaxUint32 {
			break
		}
		n++
	}
	return n
}

// output is the new segment that a group becomes.
type output struct {
	*compaction
	seg     *segment
	buf     []byte // to be written
	changed bool   // it is not what the old ones were

	gap     record.Header // offsets without records, not yet written: count of batches in it, 0: none
	gaps    int           // batches in the gap
	wasGap  bool          // the first of them was a gap
	newest  int64         // of the gap
	lastGap int64
}

// rewrite compacts a group of segments into one, unless nothing would change.
func (c *compaction) rewrite(group []*segment) error {
	l := c.log
	name := segmentName(group[0].base, logSuffix)
	f, err := l.disk.Open(l.path(name+temporary), machine.Create|machine.Truncate)
	if err != nil {
		return err
	}
	o := &output{compaction: c, changed: len(group) > 1,
		seg: &segment{base: group[0].base, file: f, next: group[0].base, firstTime: -1, maxTime: -1, loaded: true, trusted: true}}
	for _, s := range group {
		if err == nil {
			err = c.batches(s, o.take)
		}
	}
	if err == nil {
		err = o.endGap()
	}
	if err == nil && o.changed {
		err = o.flush(0)
	}
	if err == nil && o.changed {
		l.m.Failpoint("fault/log/compacted-unsynced")
		err = f.Sync()
	}
	swapped := false
	if err == nil && o.changed {
		o.seg.synced = o.seg.size
		swapped, err = c.swap(group, o.seg)
	}
	if !swapped {
		f.Close()
		if e := l.remove(name + temporary); err == nil {
			err = e
		}
	}
	return err
}

// take puts what stays of a batch into the new segment.
func (o *output) take(b record.Batch) error {
	if b.IsGap() {
		return o.skip(&b)
	}
	l := o.log
	left, bytes := 0, b.Bytes
	if b.BaseOffset < o.until {
		var err error
		if bytes, left, err = l.rewriter.Rewrite(b, o.keeps(&b), o.tombstonesUntil); err != nil {
			return err
		}
		if at, has := b.Horizon(); has && left > 0 {
			o.due(at)
		}
		if left == 0 && !o.needed(&b) {
			return o.skip(&b)
		}
	}
	if err := o.endGap(); err != nil {
		return err
	}
	o.changed = o.changed || &bytes[0] != &b.Bytes[0]
	return o.add(bytes, b.BaseOffset, b.LastOffset(), b.MaxTimestamp)
}

// keeps decides about a batch's records.
func (o *output) keeps(b *record.Batch) func(r *record.Record) bool {
	horizon, has := b.Horizon()
	return func(r *record.Record) bool {
		if r.Key == nil {
			return true // of a time when the log was not compacted
		}
		if last, ok := o.last[keyOf(r.Key)]; ok && last > r.Offset {
			return false
		}
		return r.Value != nil || !has || o.now < horizon
	}
}

// tombstonesUntil is when the tombstones go that this compaction meets first.
func (o *output) tombstonesUntil() int64 {
	at := o.now + o.log.cfg.DeleteRetention.Milliseconds()
	o.due(at)
	return at
}

// due takes note of tombstones that may go at a time.
func (c *compaction) due(at int64) {
	if c.horizon == 0 || at < c.horizon {
		c.horizon = at
	}
}

// needed reports whether the header of a batch without records must stay.
func (o *output) needed(b *record.Batch) bool {
	if !isSequenced(&b.Header) {
		return false
	}
	l := o.log
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.producers.Needs(b.ProducerID, b.LastOffset(), o.until)
}

// skip leaves a batch out: its offsets go into the gap.
func (o *output) skip(b *record.Batch) error {
	if o.gaps > 0 && (o.gap.LeaderEpoch != b.LeaderEpoch || b.LastOffset()-o.gap.BaseOffset > math.MaxInt32) {
		if err := o.endGap(); err != nil {
			return err
		}
	}
	if o.gaps == 0 {
		o.gap, o.wasGap, o.newest = b.Header, b.IsGap(), -1
	}
	o.gaps++
	o.lastGap = b.LastOffset()
	o.newest = max(o.newest, b.MaxTimestamp)
	return nil
}

// endGap writes the gap, if there is one.
func (o *output) endGap() error {
	if o.gaps == 0 {
		return nil
	}
	o.changed = o.changed || o.gaps > 1 || !o.wasGap
	o.gaps = 0
	var p [record.HeaderBytes]byte
	return o.add(record.Gap(p[:0], o.gap.BaseOffset, o.lastGap, o.gap.LeaderEpoch, o.newest), o.gap.BaseOffset, o.lastGap, o.newest)
}

// add puts a batch behind the others.
func (o *output) add(batch []byte, base, last, newest int64) error {
	s := o.seg
	pos := s.size + int64(len(o.buf))
	s.index.add(uint32(base-s.base), uint32(pos), int64(len(batch)), s.maxTime, o.log.cfg.IndexInterval)
	s.maxTime = max(s.maxTime, newest)
	s.next = last + 1
	o.buf = append(o.buf, batch...)
	return o.flush(scanBytes)
}

// flush writes what has gathered if it is as much as that.
func (o *output) flush(least int) error {
	if len(o.buf) < least || len(o.buf) == 0 {
		return nil
	}
	n := int64(len(o.buf))
	if _, err := machine.WriteFull(o.seg.file, o.buf, o.seg.size); err != nil {
		return err
	}
	o.log.m.Work(machine.Work{Summed: n, Copied: n})
	o.seg.size += n
	o.buf = o.buf[:0]
	return nil
}

// swap puts the new segment, whose file is durable, in the place of the old ones.
func (c *compaction) swap(group []*segment, s *segment) (done bool, err error) {
	l := c.log
	l.flushing.Lock()
	defer l.flushing.Unlock()
	if err := c.same(group...); err != nil {
		return false, err
	}
	s.seal()
	for _, old := range group {
		old.indexed = false
		for _, suffix := range [...]string{indexSuffix, timeSuffix} {
			if err := l.remove(segmentName(old.base, suffix)); err != nil {
				return false, err
			}
		}
	}
	if err := l.syncDir(); err != nil {
		return false, err
	}
	l.m.Failpoint("fault/log/swap-slow")
	l.m.Trace(machine.Event{Kind: machine.LogCompacted, Subject: l.subject, A: s.base, B: s.next, C: c.until})
	name := l.path(segmentName(s.base, logSuffix))
	if err := l.disk.Rename(name+temporary, name); err != nil {
		return false, l.fence(err)
	}
	if f, err := l.disk.Open(name, 0); err == nil { // the same file; errors tell its right name from now on
		s.file.Close()
		s.file = f
	}
	if err := l.syncDir(); err != nil {
		return false, err
	}
	for _, old := range group[1:] {
		if err := l.remove(segmentName(old.base, logSuffix)); err != nil {
			return false, l.fence(err)
		}
	}
	if len(group) > 1 {
		l.m.Mark("mark/log/segments-merged")
		if err := l.syncDir(); err != nil {
			return false, err
		}
	}
	l.replace(group, s)
	for _, old := range group {
		l.drop(old)
	}
	if err := l.storeIndex(s.base, &s.index); err != nil {
		l.m.Mark("mark/log/compacted-without-index")
		return true, nil // it can be made again from the log
	}
	s.indexed = true
	return true, l.syncDir()
}

// replace puts a segment in the place of a run of others in the list. Call with flushing.
func (l *Log) replace(group []*segment, s *segment) {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := 0
	for l.segments[i] != group[0] {
		i++
	}
	list := append(l.segments[:i:i], s)
	l.segments = append(list, l.segments[i+len(group):]...)
	clear(l.marks[:])
	for _, old := range group {
		if l.edge.seg == old {
			l.edge = mark{}
		}
	}
}
