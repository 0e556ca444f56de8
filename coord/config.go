package coord

import (
	"fmt"
	"net"
	"strconv"
	"time"
)

// Config of a server. Zero values mean the defaults.
type Config struct {
	// Port to listen on; 0 picks a free one ([Server.Port]).
	Port int

	// Peers are the addresses ("host:port") at which the servers of the ensemble talk to each other: 1, 3 or 5, in the same order on every server, and the same
	// for ever. Empty: this server is the only one.
	Peers []string

	// ID is this server's place in Peers, from 1. Default 1.
	ID int

	// DataDir holds the transaction log and the snapshots, relative to the root of the machine's disk. Default "coord".
	DataDir string

	// TickTime is ZooKeeper's unit of session time-outs: a client gets the time-out that it asks for, but at least 2 and at most 20 ticks. A tenth
	// of it is the grace before a late session is expired; a server that hears of no leader for two to four of them asks for an election. Default 1 s.
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
	if len(c.Peers) == 0 {
		c.Peers = []string{""}
	}
	if c.ID == 0 {
		c.ID = 1
	}
	return c
}

func (c Config) check() error {
	n := len(c.Peers)
	if n != 1 && n != 3 && n != 5 {
		return fmt.Errorf("an ensemble of %d servers: allowed are 1, 3 and 5", n)
	}
	if c.ID < 1 || c.ID > n {
		return fmt.Errorf("server %d of %d: the ID is a place in Peers, from 1", c.ID, n)
	}
	for i, addr := range c.Peers {
		if _, port, err := net.SplitHostPort(addr); n > 1 && (err != nil || port == "") {
			return fmt.Errorf("peer %d is at %q: give host and port", i+1, addr)
		}
	}
	if n > 1 && c.peerPort() == 0 {
		return fmt.Errorf("peer %d is at %q: give the number of a port", c.ID, c.Peers[c.ID-1])
	}
	return nil
}

// peerPort is where this server listens to the others.
func (c Config) peerPort() int {
	_, port, _ := net.SplitHostPort(c.Peers[c.ID-1])
	n, _ := strconv.Atoi(port)
	return n
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
