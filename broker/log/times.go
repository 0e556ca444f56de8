package log

import (
	"errors"
	"fmt"

	"faultline/broker/record"
	"faultline/sim/machine"
)

// OffsetForTime finds the first record below an offset (Visible, or a high watermark) with a timestamp (ms since 1970) >= ts. Without one both results are -1.
func (l *Log) OffsetForTime(ts, below int64) (offset, timestamp int64, err error) {
	search := timeSearch{log: l, ts: ts}
	for base := int64(-1); ; {
		var from, until int64
		base, from, until, err = l.newerThan(ts, base, below)
		if err != nil || base < 0 {
			return -1, -1, err
		}
		offset, timestamp, err = search.run(from, until)
		if errors.Is(err, ErrOffsetOutOfRange) {
			base = -1 // the segment was deleted meanwhile
		} else if err != nil || offset >= 0 {
			return offset, timestamp, err
		}
	}
}

// newerThan finds the first segment above the base offset "after" that has a record of time ts or later: its base, the offset to look from, and the one to look up to (limited by
// below). Without one the base is -1.
func (l *Log) newerThan(ts, after, below int64) (base, from, until int64, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return -1, 0, 0, l.usable()
	}
	for _, s := range l.segments {
		if s.base <= after || s.maxTime < ts {
			continue
		}
		if s.base >= below {
			break
		}
		if !s.loaded {
			s.refs.Add(1)
			err := l.fetchIndex(s, false)
			l.mu.Unlock()
			s.release()
			l.mu.Lock()
			if err != nil {
				return -1, 0, 0, l.wrap(fmt.Sprintf("find time %d", ts), err)
			}
		}
		return s.base, s.base + s.index.before(ts), min(s.next, below), nil
	}
	return -1, 0, 0, nil
}

// timeSearch reads batches until it finds a record that is new enough.
type timeSearch struct {
	log *Log
	ts  int64
	it  record.Iterator
	buf []byte
}

func (t *timeSearch) run(from, until int64) (offset, timestamp int64, err error) {
	for from < until {
		span, err := t.log.Read(from, window, until)
		if err != nil || span.Len == 0 {
			return -1, -1, err
		}
		t.buf = append(t.buf[:0], make([]byte, span.Len)...)
		_, err = machine.ReadFull(span.File, t.buf, span.Pos)
		span.Release()
		if err != nil {
			return -1, -1, t.log.wrap(fmt.Sprintf("find time %d", t.ts), err)
		}
		for rest := t.buf; len(rest) > 0; {
			var b record.Batch
			found := false
			if b, rest, err = record.Next(rest); err == nil && b.MaxTimestamp >= t.ts {
				found, err = t.find(b)
			}
			if err != nil {
				return -1, -1, t.log.wrap(fmt.Sprintf("find time %d", t.ts), err)
			}
			if found {
				return t.it.Record.Offset, t.it.Record.Timestamp, nil
			}
		}
		from = span.Next
	}
	return -1, -1, nil
}

// find moves the iterator to the first record of the batch that is new enough.
func (t *timeSearch) find(b record.Batch) (bool, error) {
	for t.it.Reset(b); t.it.Next(); {
		if t.it.Record.Timestamp >= t.ts {
			return true, nil
		}
	}
	return false, t.it.Err()
}
