package consumer

import (
	"errors"
	"fmt"

	"faultline/broker/record"
	"faultline/sim/machine"
)

// chunk is what one fetch brought of one partition: whole batches whose CRC is right.
type chunk struct {
	cursor  *cursor
	from    int64 // records below are not wanted: the first batch may begin before the position
	next    int64 // the position after it
	records int   // at most so many; for the bounds of the queue
	batches int
	rest    []byte // batches that are not read yet
	frame   *frame // which they are in; nil: memory of their own
}

// in notes which frame the chunk is in.
func (ch *chunk) in(f *frame) {
	ch.frame = f
	f.unread.Add(1)
}

// over says that it was read to its end, and that the application is done with its last record.
func (ch *chunk) over() {
	if ch.frame != nil {
		ch.frame.read()
		ch.frame = nil
	}
}

// newChunk checks fetched bytes, which a broker gave for the position from and which lie below end by its own account. A batch that is cut off at the end is left for the next fetch. nil: there is
// no whole batch, and no error only when there are no bytes at all.
//
// The CRC of a batch does not cover its base offset. But the first batch has the record at the position in it, each other one begins where the one before ends, and none reaches over the end: a base offset that cannot be is found
// by that. (Compaction leaves no gaps between batches.)
func newChunk(cur *cursor, from, below int64, p []byte) (*chunk, error) {
	ch := &chunk{cursor: cur, from: from, next: from}
	end := 0
	for end < len(p) {
		b, _, err := record.Next(p[end:])
		if errors.Is(err, record.ErrPartial) && end > 0 {
			break
		}
		if err == nil {
			err = b.Check()
		}
		if err == nil && (b.BaseOffset > ch.next || b.BaseOffset < ch.next && end > 0 || b.NextOffset() <= ch.next || b.NextOffset() > below) {
			err = fmt.Errorf("%w: it has offsets %d to %d, where one that begins with offset %d must be, below %d", record.ErrCorrupt, b.BaseOffset, b.LastOffset(), ch.next, below)
		}
		if err != nil {
			return nil, err
		}
		ch.next = b.NextOffset()
		ch.records += int(b.Count)
		ch.batches++
		end += b.Size()
	}
	if end == 0 {
		return nil, nil
	}
	ch.rest = p[:end]
	return ch, nil
}

// reader walks the records of a chunk.
type reader struct {
	work  machine.Work // decompression that nobody was charged for yet
	it    record.Iterator
	chunk *chunk
	head  []byte // the batches from the one on that it is in
	batch bool   // it is inside a batch
}

// next moves to the next wanted record. False: the chunk is over, or an error that moving on does not mend.
func (r *reader) next() (bool, error) {
	ch := r.chunk
	for {
		for r.batch {
			if !r.it.Next() {
				if err := r.it.Err(); err != nil {
					return false, err
				}
				r.batch = false
				break
			}
			if r.it.Record.Offset >= ch.from {
				return true, nil
			}
		}
		if len(ch.rest) == 0 {
			return false, nil
		}
		b, rest, err := record.Next(ch.rest)
		if err != nil {
			return false, err
		}
		r.head, ch.rest = ch.rest, rest
		if b.Control() || b.NextOffset() <= ch.from {
			continue
		}
		r.it.Reset(b)
		r.batch = true
		if n := r.it.Inflated(); n > 0 {
			r.work.Inflated, r.work.Codec = r.work.Inflated+n, int8(b.Codec())
		}
	}
}

// charge has the machine do what decompression cost.
func (r *reader) charge(m machine.Machine) {
	if r.work.Inflated > 0 {
		m.Work(r.work)
		r.work = machine.Work{}
	}
}
