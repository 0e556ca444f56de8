package producer

import (
	"time"

	"faultline/broker/record"
)

// batch is a record batch on its way: open in its partition's queue, closed there, or in flight.
type batch struct {
	part     *partition
	first    int64 // number of its first record among those of the partition: the order of the queue
	id       int64 // in the order of creation; halves of a split batch keep it. For Flush
	builder  record.Builder
	done     []func(Result)
	created  time.Duration // Uptime of the first Send
	ready    time.Duration // Uptime before which it is not sent: a retry's back-off
	closed   bool          // takes no more records
	bytes    []byte        // encoded; nil until it is sent first
	charged  int           // bytes of the buffer that it occupies
	attempts int           // that failed
	unknown  bool          // some attempt may have reached the log
	topic    [16]byte      // id of the topic that it was sent to last; zero: the brokers tell none

	// Of an idempotent producer, once it was sent first.
	numbered bool
	stamped  bool // the bytes say so
	as       identity
	sequence int32 // of the first record

	// Outcome, once there is one.
	base int64
	err  error

	prev, next *batch // list of the unfinished, by id
}

// room tells whether a record still fits.
func (b *batch) room(limit, records int, timestamp int64, r *Record) bool {
	return !b.closed && b.builder.Count() < records && b.builder.SizeWith(timestamp, r.Key, r.Value, r.Headers) <= limit
}

// encode closes the batch and returns its bytes.
func (b *batch) encode() ([]byte, error) {
	b.closed = true
	if b.bytes == nil {
		p, err := b.builder.Finish()
		if err != nil {
			return nil, err
		}
		b.bytes = p
	}
	if b.numbered && !b.stamped {
		record.Stamp(b.bytes, b.as.producer, b.as.epoch, b.sequence)
		b.stamped = true
	}
	return b.bytes, nil
}

// splitInto moves the records to two batches, half of them to each, in order. It must have two or more.
func (b *batch) splitInto(codec Codec, x, y *batch) error {
	whole, _, err := record.Next(b.bytes)
	if err != nil {
		return err
	}
	half := len(b.done) / 2
	for _, h := range []*batch{x, y} {
		h.part, h.id, h.created, h.attempts, h.unknown, h.closed = b.part, b.id, b.created, b.attempts, b.unknown, true
		h.numbered, h.as, h.sequence = b.numbered, b.as, b.sequence
		h.builder.Reset(codec)
	}
	if b.numbered {
		y.sequence = follow(b.sequence, half)
	}
	x.first, y.first = b.first, b.first+int64(half)
	x.done = append(x.done[:0], b.done[:half]...)
	y.done = append(y.done[:0], b.done[half:]...)

	var it record.Iterator
	var headers []record.RecordHeader
	it.Reset(whole)
	for i := 0; it.Next(); i++ {
		r := &it.Record
		headers = headers[:0]
		for h := range r.Headers {
			headers = append(headers, h)
		}
		to := x
		if i >= half {
			to = y
		}
		to.builder.Add(r.Timestamp, r.Key, r.Value, headers)
	}
	x.charged, y.charged = x.builder.Size(), y.builder.Size()
	return it.Err()
}
