package log

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"

	"faultline/broker/record"
	"faultline/sim/machine"
)

// Compaction keeps of each key the last record. It reads the sealed segments whose records are new since the last time and notes the last offset of each key; then it writes all sealed segments up to there
// anew, from the oldest on, without the records whose key comes again later. Small neighbours become one segment.
//
// What stays keeps its offset and leader epoch, and batches begin and end where they did. Batches without a record left are replaced by a header that stands for their offsets, one for a run of them (record.Gap),
// so a log has no holes and everything that reads one can go on demanding that a batch follows the one before. The last batch of an idempotent producer stays as a header of its own, with the sequence.
// A record without value, a tombstone, says that a key is gone. It stays for DeleteRetention after the compaction that removed what it supersedes: so long a reader that has seen the old
// value has time to see the tombstone. The batch says until when (record.Header.Horizon). A reader, or a replica, that lags longer may miss it, and then keeps the old value, as with Kafka.
//
// Only durable records below the high watermark are looked at, and never those of the active segment.
//
// # Swapping
//
// The new file is written and made durable beside the old ones, under a name that a restart removes. Then, each step durable before the next: the indexes of the old segments go, the new file takes the
// place of the first of them at one stroke, the others go, the new index comes. A restart that finds a segment behind one which has its offsets already knows that it was superseded, and makes indexes that are missing anew.
// Segments are swapped from the oldest on, so a tombstone never goes before what it supersedes. The compaction point in the checkpoint moves last.

// key is a record's key in little memory: two keys with the same one are taken for the same, which does not happen with 128 bits of SHA-256.
type key [16]byte

func keyOf(p []byte) key {
	sum := sha256.Sum256(p)
	return key(sum[:16])
}

// compaction is one run.
type compaction struct {
	log   *Log
	now   int64 // wall clock, ms
	until int64 // records from here on are left alone
	cuts  int   // of the log's end, before this began
	last  map[key]int64
	// horizon is when the first of the tombstones that stay may go; 0: there is none.
	horizon int64
	buf     []byte
}

var errGone = errors.New("the log was changed meanwhile")

// Compact compacts the log as its policy says, if there is enough to do. What is not below the offset "below" (a high watermark) stays as it is. Errors: ErrDamaged, machine.ErrIO or
// machine.ErrNoSpace without ErrFenced (nothing was changed that is not whole), ErrFenced, ErrClosed.
func (l *Log) Compact(below int64) error {
	if !l.cfg.Compact {
		return nil
	}
	l.cleaning.Lock()
	defer l.cleaning.Unlock()
	c := &compaction{log: l, now: l.m.Now().UnixMilli(), last: map[key]int64{}}
	segments, cleaned, err := c.choose(below)
	if err != nil || len(segments) == 0 {
		return err
	}
	defer func() {
		for _, s := range segments {
			s.release()
		}
	}()
	err = c.run(segments, cleaned)
	if errors.Is(err, errGone) {
		l.m.Mark("mark/log/compaction-given-up")
		return nil
	}
	return l.wrap("compact", err)
}

// choose returns the segments to compact, each referenced, and the offset from which on they are new; none: there is not enough to do.
func (c *compaction) choose(below int64) (segments []*segment, cleaned int64, err error) {
	l := c.log
	l.flushing.Lock() // for the recovery point
	defer l.flushing.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.usable(); err != nil {
		return nil, 0, err
	}
	c.until = min(l.visible, below, l.recovery)
	c.cuts = l.cuts
	sealed := l.segments[:len(l.segments)-1]
	n, all, fresh := 0, int64(0), int64(0)
	for _, s := range sealed {
		if s.next > c.until || l.cfg.CompactLag > 0 && s.maxTime > c.now-l.cfg.CompactLag.Milliseconds() {
			break
		}
		n++
		all += s.size
		if s.next > l.cleaned {
			fresh += s.size
		}
	}
	if n == 0 {
		return nil, 0, nil
	}
	enough := fresh > 0 && float64(fresh) >= l.cfg.CompactRatio*float64(all)
	if due := l.horizon > 0 && c.now >= l.horizon; !enough && !due {
		return nil, 0, nil
	}
	c.until = sealed[n-1].next
	segments = slices.Clone(sealed[:n])
	for _, s := range segments {
		s.refs.Add(1)
	}
	return segments, max(l.cleaned, l.start), nil
}

func (c *compaction) run(segments []*segment, cleaned int64) error {
	l := c.log
	for _, s := range segments {
		if s.next <= cleaned || s.base >= c.until {
			continue
		}
		if err := c.note(s, cleaned); err != nil {
			return err
		}
	}
	for len(segments) > 0 && segments[0].base < c.until {
		n := c.group(segments)
		if err := c.rewrite(segments[:n]); err != nil {
			return err
		}
		segments = segments[n:]
	}
	l.flushing.Lock()
	defer l.flushing.Unlock()
	if err := c.same(); err != nil {
		return err
	}
	l.horizon = c.horizon
	if c.until <= l.cleaned {
		return nil
	}
	l.m.Failpoint("fault/log/compacted-slow")
	old := l.cleaned
	l.cleaned = c.until
	err := l.saveCheckpoint(checkpoint{start: l.Start(), recovery: l.recovery})
	if err != nil {
		l.cleaned = min(l.cleaned, old)
	}
	return err
}

// note takes down the last offset of each key in a segment. When memory is full, later batches are left to the next compaction.
func (c *compaction) note(s *segment, cleaned int64) error {
	var it record.Iterator
	return c.batches(s, func(b record.Batch) error {
		if b.NextOffset() <= cleaned || b.BaseOffset >= c.until {
			return nil
		}
		if len(c.last) >= c.log.cfg.CompactKeys {
			c.log.m.Mark("mark/log/compaction-map-full")
			c.until = b.BaseOffset
			return nil
		}
		for it.Reset(b); it.Next(); {
			if it.Record.Key != nil {
				c.last[keyOf(it.Record.Key)] = it.Record.Offset
			}
		}
		return it.Err()
	})
}

// batches reads a segment from its start to its end and checks every batch, which is valid during the call.
func (c *compaction) batches(s *segment, fn func(b record.Batch) error) error {
	l := c.log
	l.mu.Lock()
	size := s.size
	l.mu.Unlock()
	r := batchReader{file: s.file, size: size, buf: c.buf}
	for at := (spot{s.base, 0}); at.pos < size; {
		b, read, err := r.batch(at)
		if read > 0 {
			l.m.Work(machine.Work{Summed: read, Copied: read})
			if e := c.same(s); e != nil { // while it was read
				return e
			}
		}
		if err != nil {
			return errors.Join(c.same(s), err)
		}
		if err := fn(b); err != nil {
			return err
		}
		at = at.after(&b.Header)
	}
	c.buf = r.buf
	return nil
}

// same tells errGone when the log is being closed, its end was cut off meanwhile, or one of the segments was deleted; the error of the log when it is fenced.
func (c *compaction) same(segments ...*segment) error {
	l := c.log
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.usable(); err != nil {
		return err
	}
	if l.closing || l.cuts != c.cuts {
		return errGone
	}
	for _, s := range segments {
		if !slices.Contains(l.segments, s) {
			return errGone
		}
	}
	return nil
}

// batchReader reads whole batches of a file.
type batchReader struct {
	file  machine.File
	size  int64
	buf   []byte
	start int64 // position of buf[0]
	n     int64 // bytes in buf
}

// batch returns the batch at a spot, valid until the next call, and how many bytes it had to read. Errors: ErrDamaged, those of the disk.
func (r *batchReader) batch(at spot) (b record.Batch, read int64, err error) {
	for need := int64(record.HeaderBytes); ; need = int64(b.Size()) {
		if at.pos+need > r.size || need > maxBatch {
			return b, read, fmt.Errorf("%w: %s, position %d: a batch of %d bytes, the segment ends at %d", ErrDamaged, r.file.Name(), at.pos, need, r.size)
		}
		if at.pos < r.start || at.pos+need > r.start+r.n {
			n := min(max(need, scanBytes), r.size-at.pos)
			if int64(len(r.buf)) < n {
				r.buf = make([]byte, n)
			}
			r.start, r.n = at.pos, 0
			if _, err := machine.ReadFull(r.file, r.buf[:n], at.pos); err != nil {
				return b, read, fmt.Errorf("read %s at %d: %w", r.file.Name(), at.pos, err)
			}
			r.n = n
			read += n
		}
		if b.Header, err = record.ParseHeader(r.buf[at.pos-r.start : r.n]); err != nil {
			break
		}
		if size := int64(b.Size()); size <= need {
			b.Bytes = r.buf[at.pos-r.start:][:size:size]
			err = b.Check()
			break
		}
	}
	switch {
	case err != nil:
		err = fmt.Errorf("%w: %s, position %d: %w", ErrDamaged, r.file.Name(), at.pos, err)
	case b.BaseOffset != at.offset:
		err = fmt.Errorf("%w: %s, position %d: base offset %d, want %d", ErrDamaged, r.file.Name(), at.pos, b.BaseOffset, at.offset)
	}
	return b, read, err
}
