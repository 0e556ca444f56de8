package baseline

import (
	"cmp"
	"slices"
)

// index is the state of all messages and queues. It does no I/O; its user keeps it under one lock.
type index struct {
	next   uint64 // id of the next message; the first is 1
	blocks map[uint64]*block
	queues []*queue          // by number
	byName map[string]*queue // by name
	topics map[string][]*queue
	memory int64 // bytes of messages that are in memory
}

// Messages are kept in blocks of neighbouring ids, so that one that stays long holds up little memory.
const blockIDs = 256

type block struct {
	live     int
	messages [blockIDs]message
}

// message is what is known of a message that a queue has.
type message struct {
	holders int32 // queues that have it; 0: none, and the rest says nothing
	size    int32
	segment *segment // where its bytes are, or will be
	at      int64
	body    []byte // nil: in the journal only
}

// queue is the messages of a topic for one group of consumers that share them.
type queue struct {
	number      int32
	topic, name string
	slots       map[uint64]*slotBlock
	ready       row      // never handed over, ascending
	again       []uint64 // given back, descending
	consumers   []*consumer
	turn        int // who gets the next message
}

type slotBlock struct {
	live  int
	slots [blockIDs]slot
}

// row is a first-in-first-out list of ids. It is in pieces, so that a long one is never copied.
type row struct {
	pieces [][]uint64 // all but the last are full
	head   int        // of the first piece, what is gone
}

const pieceIDs = 1024

func (r *row) empty() bool { return len(r.pieces) == 0 }

func (r *row) push(id uint64) {
	n := len(r.pieces)
	switch {
	case n == 0 && cap(r.pieces) > 0 && cap(r.pieces[:1][0]) > 0:
		r.pieces = r.pieces[:1] // the one that was emptied last
		n++
	case n == 0 || len(r.pieces[n-1]) == pieceIDs:
		r.pieces = append(r.pieces, make([]uint64, 0, pieceIDs))
		n++
	}
	r.pieces[n-1] = append(r.pieces[n-1], id)
}

// pop takes the first id; the row must not be empty.
func (r *row) pop() uint64 {
	first := r.pieces[0]
	id := first[r.head]
	if r.head++; r.head < len(first) {
		return id
	}
	r.head = 0
	if len(r.pieces) == 1 {
		r.pieces[0] = first[:0]
		r.pieces = r.pieces[:0]
		return id
	}
	r.pieces[0] = nil
	r.pieces = r.pieces[1:]
	return id
}

// slot is the state of a message in a queue.
type slot struct {
	state  slotState
	again  bool      // it may have been handed over before
	holder *consumer // while it is out
}

type slotState uint8

const (
	absent slotState = iota // not here, or done
	ready
	out // with a consumer
)

// consumer is who gets messages of a queue.
type consumer struct {
	conn   *conn
	queue  *queue
	window int
	out    int      // messages it has not acknowledged
	given  []uint64 // these, and some that it has acknowledged
	outbox []uint64 // of these, what is not on the wire yet
}

func newIndex() *index {
	return &index{next: 1, blocks: map[uint64]*block{}, byName: map[string]*queue{}, topics: map[string][]*queue{}}
}

// bind lets the messages of a topic go to a queue; false: they do.
func (x *index) bind(topic, name string) bool {
	if q := x.byName[name]; q != nil {
		return false
	}
	q := &queue{number: int32(len(x.queues)), topic: topic, name: name, slots: map[uint64]*slotBlock{}}
	x.queues = append(x.queues, q)
	x.byName[name] = q
	x.topics[topic] = append(x.topics[topic], q)
	return true
}

// message finds a message that a queue has, or nil.
func (x *index) message(id uint64) *message {
	if b := x.blocks[id/blockIDs]; b != nil {
		if m := &b.messages[id%blockIDs]; m.holders > 0 {
			return m
		}
	}
	return nil
}

// hold makes the entry of a message. It must get holders.
func (x *index) hold(id uint64) *message {
	b := x.blocks[id/blockIDs]
	if b == nil {
		b = &block{}
		x.blocks[id/blockIDs] = b
	}
	m := &b.messages[id%blockIDs]
	if m.holders == 0 {
		b.live++
		*m = message{}
	}
	return m
}

// add takes a new message in for the queues of its topic, of which there must be one, and returns its id.
func (x *index) add(topic []*queue, s *segment, at int64, body []byte, keep bool) uint64 {
	id := x.next
	x.next++
	m := x.hold(id)
	m.holders, m.segment, m.at, m.size = int32(len(topic)), s, at, int32(len(body))
	s.hold(m)
	if keep {
		m.body = body
		x.memory += int64(len(body))
	}
	for _, q := range topic {
		q.slot(id).state = ready
		q.ready.push(id)
	}
	return id
}

// release is called when a queue has a message no more.
func (x *index) release(id uint64) {
	b := x.blocks[id/blockIDs]
	m := &b.messages[id%blockIDs]
	m.holders--
	if m.holders > 0 {
		return
	}
	m.segment.letGo(m)
	if m.body != nil {
		x.memory -= int64(m.size)
	}
	*m = message{}
	if b.live--; b.live == 0 {
		delete(x.blocks, id/blockIDs)
	}
}

// slot makes the entry of a message in the queue, or finds it.
func (q *queue) slot(id uint64) *slot {
	b := q.slots[id/blockIDs]
	if b == nil {
		b = &slotBlock{}
		q.slots[id/blockIDs] = b
	}
	s := &b.slots[id%blockIDs]
	if s.state == absent {
		b.live++ // the caller gives it a state
	}
	return s
}

// find finds the entry of a message in the queue, or nil.
func (q *queue) find(id uint64) *slot {
	if b := q.slots[id/blockIDs]; b != nil {
		if s := &b.slots[id%blockIDs]; s.state != absent {
			return s
		}
	}
	return nil
}

// drop removes a message from the queue.
func (x *index) drop(q *queue, id uint64) {
	b := q.slots[id/blockIDs]
	b.slots[id%blockIDs] = slot{}
	if b.live--; b.live == 0 {
		delete(q.slots, id/blockIDs)
	}
	x.release(id)
}

// waiting tells whether a message is ready.
func (q *queue) waiting() bool { return len(q.again) > 0 || !q.ready.empty() }

// pop takes the message that is ready and has the smallest id. There must be one.
func (q *queue) pop() uint64 {
	if n := len(q.again); n > 0 {
		id := q.again[n-1]
		q.again = q.again[:n-1]
		return id
	}
	return q.ready.pop()
}

// choose is the next consumer in turn that may get a message, or nil.
func (q *queue) choose() *consumer {
	for i := range q.consumers {
		k := (q.turn + i) % len(q.consumers)
		if c := q.consumers[k]; c.out < c.window {
			q.turn = (k + 1) % len(q.consumers)
			return c
		}
	}
	return nil
}

// dispatch gives ready messages to consumers and returns how many.
func (q *queue) dispatch() int {
	n := 0
	for ; q.waiting(); n++ {
		c := q.choose()
		if c == nil {
			break
		}
		id := q.pop()
		s := q.find(id)
		s.state, s.holder = out, c
		c.out++
		c.note(id)
		if c.outbox = append(c.outbox, id); len(c.outbox) == 1 {
			c.conn.wake.Signal()
		}
	}
	return n
}

// note puts a message on the list of what the consumer has.
func (c *consumer) note(id uint64) {
	if len(c.given) >= 2*c.window+64 {
		c.given = slices.DeleteFunc(c.given, func(id uint64) bool { return !c.has(id) })
	}
	c.given = append(c.given, id)
}

// has tells whether the consumer has a message that it has not acknowledged.
func (c *consumer) has(id uint64) bool {
	s := c.queue.find(id)
	return s != nil && s.state == out && s.holder == c
}

// ack takes an acknowledgement; false: it is for a message that the consumer does not have.
func (x *index) ack(c *consumer, id uint64) bool {
	if !c.has(id) {
		return false
	}
	c.out--
	x.drop(c.queue, id)
	return true
}

// leave ends a consumer: what it has is ready again.
func (q *queue) leave(c *consumer) {
	for _, id := range c.given {
		if c.has(id) {
			*q.find(id) = slot{state: ready, again: true}
			q.again = append(q.again, id)
		}
	}
	slices.SortFunc(q.again, func(a, b uint64) int { return cmp.Compare(b, a) })
	q.consumers = slices.DeleteFunc(q.consumers, func(o *consumer) bool { return o == c })
	q.turn = 0
	c.given, c.outbox, c.out, c.window = nil, nil, 0, 0
}
