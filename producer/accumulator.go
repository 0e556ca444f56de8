package producer

import (
	"fmt"
	"slices"
	"time"

	"faultline/broker/client"
)

// accumulator holds the batches that are not delivered: which are open, waiting, in flight, and when each may go. It does no I/O, waits for
// nothing and reads no clock: now is the Uptime throughout. Its user keeps it under one lock.
type accumulator struct {
	cfg    Config
	topics map[string]*topic
	nodes  []*node // by broker id
	lost   []*partition

	as       identity
	renewing bool // the next epoch is due, see identity
	spoilt   bool // and needs another id
	inFlight int  // batches of all partitions

	used       int   // bytes of the buffer that are occupied
	starved    int   // Sends that wait for room
	nextID     int64 // of the next batch
	flushBelow int64 // batches with a smaller id do not linger
	oldest     *batch
	newest     *batch
	free       []*batch
}

type topic struct {
	name      string
	id        [16]byte // zero: the brokers tell none
	count     int      // partitions that it has; an earlier topic of the name may have had more
	parts     []*partition
	available []int32 // partitions that have a leader, or all when none has
	refreshed time.Duration
}

type partition struct {
	topic        *topic
	id           int32
	subject      string   // "topic/partition"
	node         *node    // of its leader; nil when there is none
	queue        []*batch // ascending by first; only the last may be open
	inFlight     int      // batches
	sent         int64    // records ever added
	nextSequence int32    // of an idempotent producer
	limit        int      // bytes of a batch; less after a broker refused one as too large
}

// node is a broker and the partitions that it leads.
type node struct {
	broker int32
	parts  []*partition
	turn   int // where the next request begins to collect
}

func newAccumulator(cfg Config) *accumulator {
	return &accumulator{cfg: cfg, as: identity{producer: -1}, topics: map[string]*topic{}}
}

// learn takes in what the metadata says of a topic: new partitions and where each leader is now. In another topic of the same name the brokers know none of the numbers that were given: an idempotent producer goes to the next epoch.
func (a *accumulator) learn(meta *client.Topic, now time.Duration) *topic {
	t := a.topics[meta.Name]
	if t == nil {
		t = &topic{name: meta.Name}
		a.topics[meta.Name] = t
	}
	t.refreshed = now
	if t.id != meta.ID {
		a.renewing = a.renewing || a.cfg.Idempotent && len(t.parts) > 0
		t.id, t.count = meta.ID, 0
	}
	t.count = max(t.count, len(meta.Partitions))
	for _, p := range meta.Partitions {
		if int(p.ID) == len(t.parts) {
			part := &partition{topic: t, id: p.ID, subject: fmt.Sprintf("%s/%d", t.name, p.ID), limit: a.cfg.BatchBytes}
			t.parts = append(t.parts, part)
			a.lost = append(a.lost, part)
		}
		if int(p.ID) < len(t.parts) {
			a.lead(t.parts[p.ID], p.Leader)
		}
	}
	for _, p := range t.parts[t.count:] {
		a.lead(p, -1)
	}
	t.available = t.available[:0]
	for _, p := range t.parts {
		if p.node != nil {
			t.available = append(t.available, p.id)
		}
	}
	if len(t.available) == 0 {
		for _, p := range t.parts[:t.count] {
			t.available = append(t.available, p.id)
		}
	}
	return t
}

// lead moves a partition to its leader's node; -1: it has none.
func (a *accumulator) lead(p *partition, broker int32) {
	var to *node
	if broker >= 0 {
		to = a.node(broker)
	}
	if p.node == to {
		return
	}
	from := &a.lost
	if p.node != nil {
		from = &p.node.parts
	}
	*from = slices.DeleteFunc(*from, func(o *partition) bool { return o == p })
	p.node = to
	if to == nil {
		a.lost = append(a.lost, p)
	} else {
		to.parts = append(to.parts, p)
	}
}

func (a *accumulator) node(broker int32) *node {
	i, found := slices.BinarySearchFunc(a.nodes, broker, func(n *node, id int32) int { return int(n.broker) - int(id) })
	if !found {
		a.nodes = slices.Insert(a.nodes, i, &node{broker: broker})
	}
	return a.nodes[i]
}

// cost bounds the bytes of the buffer that a record takes, with a batch of its own.
func cost(r *Record) int {
	n := 61 + 30 + len(r.Key) + len(r.Value)
	for i := range r.Headers {
		n += 10 + len(r.Headers[i].Key) + len(r.Headers[i].Value)
	}
	return n
}

// fits tells whether the buffer has room for so many bytes more.
func (a *accumulator) fits(n int) bool { return a.used+n <= a.cfg.BufferBytes }

// add puts a record into the partition's open batch, or opens one. The timestamp is in ms since 1970.
func (a *accumulator) add(p *partition, r *Record, timestamp int64, done func(Result), now time.Duration) {
	var b *batch
	if n := len(p.queue); n > 0 {
		b = p.queue[n-1]
		if !b.room(p.limit, a.cfg.BatchRecords, timestamp, r) {
			b.closed = true
			b = nil
		}
	}
	if b == nil {
		b = a.blank()
		b.part, b.id, b.first, b.created = p, a.nextID, p.sent, now
		b.builder.Reset(a.cfg.Compression)
		a.nextID++
		a.append(b)
		p.queue = append(p.queue, b)
	}
	b.builder.Add(timestamp, r.Key, r.Value, r.Headers)
	b.done = append(b.done, done)
	p.sent++
	a.used += b.builder.Size() - b.charged
	b.charged = b.builder.Size()
	if b.charged >= p.limit || b.builder.Count() >= a.cfg.BatchRecords {
		b.closed = true
	}
}

// never is later than any Uptime.
const never = time.Duration(1<<63 - 1)

// sendable is the Uptime at which the partition's next batch may be sent; never when there is none, or enough are in flight.
func (a *accumulator) sendable(p *partition) time.Duration {
	if len(p.queue) == 0 || p.inFlight >= a.cfg.MaxInFlight || !a.may(p.queue[0]) {
		return never
	}
	return p.queue[0].ready
}

// due is the Uptime at which it must be sent: one that may still grow lingers.
func (a *accumulator) due(p *partition) time.Duration {
	at := a.sendable(p)
	if at == never {
		return never
	}
	b := p.queue[0]
	if b.closed || len(p.queue) > 1 || a.starved > 0 || b.id < a.flushBelow {
		return at
	}
	return max(at, b.created+a.cfg.Linger)
}

// next is the Uptime at which the node has something to send.
func (a *accumulator) next(n *node) time.Duration {
	at := never
	for _, p := range n.parts {
		at = min(at, a.due(p))
	}
	return at
}

// drain takes one batch of each partition of the node, as many as a request carries, if one is due: the others go along, however short they have lingered. They are in flight then.
func (a *accumulator) drain(n *node, now time.Duration, into []*batch) []*batch {
	if a.next(n) > now {
		return into
	}
	size := 0
	for i := range n.parts {
		p := n.parts[(n.turn+i)%len(n.parts)]
		if a.sendable(p) > now {
			continue
		}
		b := p.queue[0]
		if size > 0 && size+b.charged > a.cfg.RequestBytes {
			n.turn = (n.turn + i) % len(n.parts)
			return into
		}
		size += b.charged
		p.queue = slices.Delete(p.queue, 0, 1)
		p.inFlight++
		a.inFlight++
		b.closed, b.topic = true, p.topic.id
		a.number(b)
		into = append(into, b)
	}
	return into
}

// requeue puts a batch that was in flight back: before everything that was sent to Send after it, so at the head. It is sent again at ready at the earliest.
func (a *accumulator) requeue(b *batch, ready time.Duration) {
	b.part.inFlight--
	a.inFlight--
	b.ready = ready
	a.insert(b)
}

func (a *accumulator) insert(b *batch) {
	p := b.part
	i := 0
	for i < len(p.queue) && p.queue[i].first < b.first {
		i++
	}
	p.queue = slices.Insert(p.queue, i, b)
}

// split replaces a batch that was in flight by its halves, at the head of the queue. What broke the limit once is not tried again: later batches of the
// partition stay below it.
func (a *accumulator) split(b *batch) error {
	x, y := a.blank(), a.blank()
	if err := b.splitInto(a.cfg.Compression, x, y); err != nil {
		return err
	}
	p := b.part
	p.limit = min(p.limit, max(b.charged/2, 1))
	p.inFlight--
	a.inFlight--
	a.used += x.charged + y.charged - b.charged
	a.replace(b, x, y)
	a.insert(x)
	a.insert(y)
	a.recycle(b)
	return nil
}

// finish ends a batch that was in flight; base is the offset of its first record (-1: not known) when err is nil.
func (a *accumulator) finish(b *batch, base int64, err error) {
	b.part.inFlight--
	a.inFlight--
	if err != nil {
		a.gap(b)
	}
	a.settle(b, base, err)
}

func (a *accumulator) settle(b *batch, base int64, err error) {
	b.base, b.err = base, err
	a.used -= b.charged
	b.charged = 0
}

// expire takes out the queued batches whose delivery time-out is over, oldest first in each partition, and tells when to look again.
func (a *accumulator) expire(now time.Duration) (expired []*batch, again time.Duration) {
	again = never
	look := func(p *partition) {
		for len(p.queue) > 0 {
			b := p.queue[0]
			if at := b.created + a.cfg.DeliveryTimeout; at > now {
				again = min(again, at)
				return
			}
			p.queue = slices.Delete(p.queue, 0, 1)
			a.gap(b)
			a.settle(b, -1, final(ErrTimedOut, b.unknown))
			expired = append(expired, b)
		}
	}
	for _, n := range a.nodes {
		for _, p := range n.parts {
			look(p)
		}
	}
	for _, p := range a.lost {
		look(p)
	}
	return expired, again
}

// closeOpen makes every batch that exists now go out without lingering, and returns the id below which all must be finished for that to be done.
func (a *accumulator) closeOpen() int64 {
	a.flushBelow = a.nextID
	return a.nextID
}

// doneBelow tells whether every batch with a smaller id is finished and forgotten.
func (a *accumulator) doneBelow(id int64) bool { return a.oldest == nil || a.oldest.id >= id }

// blank returns an empty batch.
func (a *accumulator) blank() *batch {
	if n := len(a.free); n > 0 {
		b := a.free[n-1]
		a.free = a.free[:n-1]
		return b
	}
	return &batch{}
}

// forget takes a finished batch, whose callbacks ran, off the books.
func (a *accumulator) forget(b *batch) {
	a.unlink(b)
	a.recycle(b)
}

// maxFree bounds the memory that is kept for batches to come.
const maxFree = 64

func (a *accumulator) recycle(b *batch) {
	clear(b.done)
	if len(a.free) == maxFree {
		return
	}
	*b = batch{builder: b.builder, done: b.done[:0]}
	a.free = append(a.free, b)
}

// The list of unfinished batches, ascending by id.

func (a *accumulator) append(b *batch) {
	b.prev, b.next = a.newest, nil
	if a.newest == nil {
		a.oldest = b
	} else {
		a.newest.next = b
	}
	a.newest = b
}

func (a *accumulator) unlink(b *batch) {
	if b.prev == nil {
		a.oldest = b.next
	} else {
		b.prev.next = b.next
	}
	if b.next == nil {
		a.newest = b.prev
	} else {
		b.next.prev = b.prev
	}
	b.prev, b.next = nil, nil
}

// replace puts x and y in the place of b.
func (a *accumulator) replace(b, x, y *batch) {
	x.prev, x.next = b.prev, y
	y.prev, y.next = x, b.next
	if x.prev == nil {
		a.oldest = x
	} else {
		x.prev.next = x
	}
	if y.next == nil {
		a.newest = y
	} else {
		y.next.prev = y
	}
	b.prev, b.next = nil, nil
}
