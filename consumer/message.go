package consumer

import "faultline/broker/record"

// Message is a record and where it came from. Its slices are valid until the next call that asks the same stream or reader for a record; copy
// what is kept. Timestamp is in ms since 1970; Headers iterates over the headers.
type Message struct {
	Topic     string
	Partition int32
	record.Record
}
