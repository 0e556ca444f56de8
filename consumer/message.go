package consumer

import (
	"slices"

	"faultline/broker/record"
)

// Message is a record and where it came from. Its slices are valid until the next call that asks the same stream or reader for a record; copy
// what is kept. Timestamp is in ms since 1970; Headers iterates over the headers.
type Message struct {
	Topic     string
	TopicID   [16]byte // tells the topic from others that had its name before; zero: the brokers tell none
	Partition int32
	record.Record

	stream *Stream
	cursor *cursor
}

// Done says that the application is done with the record. It may be called from any task, in any order, and counts with Config.OutOfOrder only. What is committed ends before
// the first record that is not done: whoever owns the partition next begins with that, however many after it are done.
func (m Message) Done() {
	cur := m.cursor
	if cur == nil {
		return
	}
	g := m.stream.g
	g.mu.Lock()
	defer g.mu.Unlock()
	i, ok := slices.BinarySearch(cur.open, m.Offset)
	if !ok {
		return // it said so before
	}
	cur.open = slices.Delete(cur.open, i, i+1)
	done := cur.after
	if len(cur.open) > 0 {
		done = cur.open[0]
	}
	cur.processed.Store(done)
	g.touch()
}
