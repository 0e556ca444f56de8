package consumer

import (
	"errors"
	"fmt"

	"faultline/broker/record"
)

// chunk is what one fetch brought of one partition: whole batches whose CRC is right.
type chunk struct {
	cursor  *cursor
	from    int64  // records below are not wanted: the first batch may begin before the position
	next    int64  // the position after it
	records int    // at most so many; for the bounds of the queue
	rest    []byte // batches that are not read yet
}

// newChunk checks fetched bytes. A batch that is cut off at the end is left for the next fetch. nil: there is no whole batch, and no error
// only when there are no bytes at all.
func newChunk(cur *cursor, from int64, p []byte) (*chunk, error) {
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
		if err == nil && b.BaseOffset < ch.next && end > 0 {
			err = fmt.Errorf("%w: offset %d comes after offset %d", record.ErrCorrupt, b.BaseOffset, ch.next-1)
		}
		if err != nil {
			return nil, err
		}
		ch.next = max(ch.next, b.NextOffset())
		ch.records += int(b.Count)
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
	}
}
