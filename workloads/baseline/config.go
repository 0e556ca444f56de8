// Package baseline is the kind of message queue that the 2011 Kafka paper compares with (ActiveMQ, RabbitMQ): the broker pushes messages to consumers, gives each an id, and keeps for each and for each
// queue whether it is ready, with a consumer, or done, until its acknowledgement has come. It is persistent: a journal has the messages and the acknowledgements.
//
// It is meant to be as good as its kind can be, so that what a comparison shows is what the kind costs: clients send many messages in a frame if they like, frames of all connections share one write
// and one fsync of the journal (group commit), messages go out while the journal is being written, what is in memory is not read again, many messages go out with one write, and acknowledgements
// come many in a frame, if the client wants it so. On simulated hardware its work is counted by what it does (machine.QueueWork): frames, messages, and how often the state of a message is looked at or changed.
//
// Promise: a message whose confirmation came is handed to a consumer of each queue of its topic at least once, and again until one has acknowledged it; in the order of ids, but for what is handed again.
// Messages that were confirmed as [Written] survive a crash of the process, those confirmed as [Synced] a power loss. Acknowledgements are not confirmed; one that was lost makes a message come again. A
// disk error ends the process. There is one copy of everything: brokers know nothing of each other.
//
// The code sees the outside through sim/machine only, as brokers do.
package baseline

import (
	"errors"
	"time"
)

// ErrClosed: the client or the server was closed.
var ErrClosed = errors.New("closed")

// Confirm says when the broker confirms messages.
type Confirm uint8

const (
	Unconfirmed Confirm = iota // never
	Written                    // when they are in the journal's page cache
	Synced                     // when they are durable
)

// Config of a server. Zero fields take the default.
type Config struct {
	Port    int    // 0: one that is free
	DataDir string // below the machine's disk

	SegmentBytes  int64         // a journal file ends at this size (default 32 MiB)
	FlushInterval time.Duration // the journal is synced so long after a write at the latest; 0: when a client wants it, and at the end of a file
	MemoryBytes   int64         // messages beyond that are read from the journal when they are delivered (default 64 MiB)
	BacklogBytes  int64         // producers are held back while so much waits to be written to the journal (default 8 MiB)
	DeliveryBatch int           // messages in one frame to a consumer at most (default 1000)
	DeliveryBytes int           // and bytes (default 64 KiB)
	Heartbeat     time.Duration // a connection of which nothing was heard so long is cut (default 10 s)
}

func (c Config) withDefaults() Config {
	orElse(&c.SegmentBytes, 32<<20)
	orElse(&c.MemoryBytes, 64<<20)
	orElse(&c.BacklogBytes, 8<<20)
	orElse(&c.DeliveryBatch, 1000)
	orElse(&c.DeliveryBytes, 64<<10)
	orElse(&c.Heartbeat, 10*time.Second)
	return c
}

func orElse[T int | int64 | time.Duration](v *T, d T) {
	if *v <= 0 {
		*v = d
	}
}
