package log

import (
	"errors"
	"fmt"

	"faultline/sim/machine"
)

// Span is a run of whole batches in a segment file.
type Span struct {
	File     machine.File // nil when there is nothing to read now
	Pos, Len int64        // bytes in File
	Base     int64        // base offset of the first batch: at most the offset asked for
	Next     int64        // offset after the last batch: where to read on

	seg *segment
}

// Release gives the file back. Call it once for every span when its bytes were sent; the file stays readable until then, even if its segment is deleted or the log
// closed meanwhile.
func (s *Span) Release() {
	if s.seg != nil {
		s.seg.release()
		s.seg, s.File = nil, nil
	}
}

// Read finds the batches from the one that contains offset on, all of whose offsets are < below (Visible for consumers, End for replicas), up to maxBytes; at
// least one batch, even if it is larger. They may begin before offset: the reader skips. A span ends at the end of a segment at the latest, and may be shorter
// than it could be.
//
// When offset is End, or not below below, the span is empty: Len 0 and no File. Errors: ErrOffsetOutOfRange (*RangeError), ErrClosed, ErrDamaged, machine.ErrIO, and
// ErrFenced when the log is fenced and offset is not below Visible.
func (l *Log) Read(offset int64, maxBytes int, below int64) (Span, error) {
	_, span, err := l.Look(offset, maxBytes, func(State) (int64, bool) { return below, true })
	return span, err
}

// Look is State and then, if wanted says so, Read below the offset that it says, both at one moment. It may ask twice.
func (l *Log) Look(offset int64, maxBytes int, wanted func(State) (below int64, ok bool)) (State, Span, error) {
	if l.m.Failpoint("fault/log/read-one") {
		maxBytes = 1 // one batch is always a right answer
	}
	state := l.State()
	if _, ok := wanted(state); !ok {
		return state, Span{}, nil // as a rule: whoever is up to date asks for what is not there yet
	}
	l.mu.Lock()
	state = l.State()
	below, ok := wanted(state)
	if !ok {
		l.mu.Unlock()
		return state, Span{}, nil
	}
	span, err := l.readLocked(offset, maxBytes, below)
	return state, span, err
}

// readLocked is Read. Call with mu, which it gives back.
func (l *Log) readLocked(offset int64, maxBytes int, below int64) (Span, error) {
	s, below, err := l.readable(offset, below)
	if s == nil {
		l.mu.Unlock()
		return Span{}, err
	}
	s.refs.Add(1)
	q := query{offset: offset, maxBytes: int64(maxBytes), below: below}
	err = l.answer(&q, s)
	if err == nil && q.from != q.to {
		l.marks[l.nextMark] = mark{s, q.to}
		l.nextMark = (l.nextMark + 1) % len(l.marks)
		l.mu.Unlock()
		return Span{File: s.file, Pos: q.from.pos, Len: q.to.pos - q.from.pos, Base: q.from.offset, Next: q.to.offset, seg: s}, nil
	}
	l.mu.Unlock()
	s.release()
	return Span{}, l.wrap(fmt.Sprintf("read from offset %d", offset), err)
}

// readable returns the segment that holds offset and the bound that holds for this reader, or nil when there is nothing to read or an error. Call with mu.
func (l *Log) readable(offset, below int64) (*segment, int64, error) {
	switch {
	case l.closed:
		return nil, 0, l.usable()
	case offset < l.start || offset > l.end:
		return nil, 0, &RangeError{Offset: offset, Start: l.start, End: l.end}
	case l.failed != nil && offset >= min(below, l.visible):
		return nil, 0, l.failed
	case l.failed != nil:
		below = l.visible // what lies above may not be what was appended
	}
	below = min(below, l.end)
	if offset >= below {
		return nil, 0, nil
	}
	return l.find(offset), below, nil
}

// answer runs the query on a segment that is referenced: first from memory alone, else with the lock given up while the disk is read. Call with mu.
func (l *Log) answer(q *query, s *segment) error {
	for {
		if !s.loaded {
			if err := l.fetchIndex(s, false); err != nil {
				return err
			}
		}
		q.prepare(l, s)
		err := q.run(nil)
		if err == errNeedsDisk {
			buf := l.borrow()
			l.mu.Unlock()
			l.m.Failpoint("fault/log/lookup-slow")
			err = q.run(&walk{file: s.file, end: q.size, buf: buf})
			l.mu.Lock()
			l.lend(buf)
		}
		if !errors.Is(err, ErrDamaged) || q.trusted {
			return err
		}
		// It may be the index file that is wrong, not the log.
		if err := l.fetchIndex(s, true); err != nil {
			return err
		}
	}
}

// fetchIndex brings a segment's index into memory: from its files, or from the log when they are no use or rebuild is asked for. Call with mu, which is given up
// meanwhile, and a reference.
func (l *Log) fetchIndex(s *segment, rebuild bool) error {
	for {
		size, next := s.size, s.next
		l.mu.Unlock()
		var x index
		var err error
		rebuild = rebuild || l.m.Failpoint("fault/log/index-rebuild") // as if its files were no use
		if !rebuild {
			x, err = l.loadIndex(s, size, next)
			rebuild = err != nil
		}
		if rebuild {
			l.m.Mark("mark/log/index-rebuilt")
			x, err = l.buildIndex(s, size)
		}
		l.mu.Lock()
		if err != nil || s.trusted {
			return err
		}
		l.m.Mark("mark/log/index-loaded")
		if s.size == size { // else it grew or was cut; the index would not fit
			s.index, s.loaded, s.trusted = x, true, rebuild
			return nil
		}
	}
}

// buildIndex makes a segment's index from the headers in its file.
func (l *Log) buildIndex(s *segment, size int64) (x index, err error) {
	w := walk{file: s.file, end: size, buf: make([]byte, window)}
	newest := int64(-1)
	at := spot{s.base, 0}
	for at.pos < size {
		h, err := w.batch(at)
		if err != nil {
			return x, err
		}
		x.add(uint32(at.offset-s.base), uint32(at.pos), int64(h.Size()), newest, l.cfg.IndexInterval)
		newest = max(newest, h.MaxTimestamp)
		at = at.after(&h)
	}
	if size > 0 {
		x.addTime(newest, uint32(at.offset-1-s.base))
	}
	return x, nil
}

// query looks for the span that answers a read of one segment.
type query struct {
	offset, maxBytes, below int64

	// What is known, by prepare. Copies, so that run needs no lock.
	base, size int64
	index      index // its entries are never overwritten
	trusted    bool  // the index was made from the log by this process
	from       spot  // where to begin, when found
	found      bool
	limit      spot // the last boundary that below allows, when limited
	limited    bool

	to spot // the answer is from..to
}

var errNeedsDisk = errors.New("headers must be read")

// prepare copies what is known. Call with the log's mu.
func (q *query) prepare(l *Log, s *segment) {
	q.base, q.size, q.index, q.trusted = s.base, s.size, s.index, s.trusted
	q.found, q.limited = false, false
	for i := range l.marks {
		if m := &l.marks[i]; m.seg == s && m.offset == q.offset {
			q.from, q.found = m.spot, true
		}
	}
	switch {
	case q.below >= s.next:
		q.limit, q.limited = spot{s.next, s.size}, true
	case l.edge.seg == s && l.edge.offset == q.below:
		q.limit, q.limited = l.edge.spot, true
	}
}

// run finds from and to. Without a walk it returns errNeedsDisk when memory is not enough.
func (q *query) run(w *walk) error {
	if !q.found {
		from, err := q.begin(w)
		if err != nil {
			return err
		}
		q.from, q.found = from, true
	}
	to, err := q.finish(w)
	q.to = to
	return err
}

// begin finds the batch that contains the offset.
func (q *query) begin(w *walk) (spot, error) {
	e := q.index.floor(q.offset - q.base)
	at := spot{q.base + int64(e.offset), int64(e.pos)}
	if at.offset == q.offset && (q.trusted || at.pos == 0) {
		return at, nil
	}
	if w == nil {
		return at, errNeedsDisk
	}
	for {
		h, err := w.batch(at)
		if err != nil || h.NextOffset() > q.offset {
			return at, err
		}
		at = at.after(&h)
	}
}

// finish finds where the span ends: the last boundary that neither below nor maxBytes forbids, or, when the index gives one that is not far from it, that one.
func (q *query) finish(w *walk) (spot, error) {
	budget := q.from.pos + q.maxBytes
	if q.limited && q.limit.pos <= budget {
		return q.limit, nil
	}
	at := q.from
	e := q.index.floorPos(budget)
	if !q.limited {
		if f := q.index.floor(q.below - q.base); f.pos < e.pos {
			e = f
		}
	}
	if int64(e.pos) > at.pos {
		at = spot{q.base + int64(e.offset), int64(e.pos)}
		if q.trusted && at.pos-q.from.pos >= q.maxBytes/2 {
			return at, nil
		}
	}
	if w == nil {
		return at, errNeedsDisk
	}
	for at.pos < q.size {
		h, err := w.batch(at)
		if err != nil {
			return at, err
		}
		next := at.after(&h)
		if next.offset > q.below || next.pos > budget && at != q.from {
			break
		}
		at = next
	}
	return at, nil
}
