package coord

import "time"

// Config of a server. Zero values mean the defaults.
type Config struct {
	// Port to listen on; 0 picks a free one ([Server.Port]).
	Port int

	// DataDir holds the transaction log and the snapshots, relative to the root of the machine's disk. Default "coord".
	DataDir string

	// TickTime is ZooKeeper's unit of session time-outs: a client gets the time-out that it asks for, but at least 2 and at most 20 ticks. A tenth
	// of it is the grace before a late session is expired. Default 1 s.
	TickTime time.Duration

	// SnapshotEvery is the number of transactions after which the log is rolled and a snapshot is taken. Default 10,000.
	SnapshotEvery int
}

func (c Config) withDefaults() Config {
	if c.DataDir == "" {
		c.DataDir = "coord"
	}
	if c.TickTime <= 0 {
		c.TickTime = time.Second
	}
	if c.SnapshotEvery <= 0 {
		c.SnapshotEvery = 10_000
	}
	return c
}

func (c Config) minTimeout() time.Duration { return 2 * c.TickTime }
func (c Config) maxTimeout() time.Duration { return 20 * c.TickTime }

// Bounds on what clients can make the server keep.
const (
	maxConns    = 1000     // connections; more are refused
	maxQueued   = 64       // requests that a connection may have in the queue before it is read no further
	maxUnread   = 2 << 20  // bytes of these
	maxUnsent   = 4 << 20  // bytes of replies that a connection may leave unread before it is read no further
	maxLogBytes = 64 << 20 // size at which the log is rolled before SnapshotEvery
)
