package oracle

// queue is a sequence of items numbered from base on, of which old ones are dropped at the front. Its memory depends on how
// many it holds.
type queue[T any] struct {
	base int64
	buf  []T // a ring; its length is a power of two
	n    int
}

// end is the number that the next item gets.
func (q *queue[T]) end() int64 { return q.base + int64(q.n) }

// at returns the item with the number, nil when it was dropped or is still to come. The pointer is good until the next push.
func (q *queue[T]) at(number int64) *T {
	if number < q.base || number >= q.end() {
		return nil
	}
	return &q.buf[number&int64(len(q.buf)-1)]
}

// push adds a zero item and returns it.
func (q *queue[T]) push() *T {
	if q.n == len(q.buf) {
		buf := make([]T, max(16, 2*len(q.buf)))
		for i := q.base; i < q.end(); i++ {
			buf[i&int64(len(buf)-1)] = *q.at(i)
		}
		q.buf = buf
	}
	q.n++
	t := q.at(q.end() - 1)
	var zero T
	*t = zero
	return t
}

// dropBelow drops all items below the number; when there are not so many, the next item gets it.
func (q *queue[T]) dropBelow(number int64) {
	if number <= q.base {
		return
	}
	q.n = max(0, q.n-int(number-q.base))
	q.base = number
	// Give memory back after a backlog.
	if len(q.buf) > 1<<14 && q.n < len(q.buf)/8 {
		small := queue[T]{base: q.base, buf: make([]T, len(q.buf)/4)}
		for i := q.base; i < q.end(); i++ {
			*small.push() = *q.at(i)
		}
		*q = small
	}
}
