package client

import (
	"time"

	"faultline/coord/jute"
	"faultline/sim/machine"
)

// Stat describes a node: zxids and times of creation and last change, versions, owner session of an ephemeral node.
type Stat = jute.Stat

// Client is one session with the coordination service.
type Client struct{}

// Connect starts a client. It returns at once; the first calls wait for the connection.
func Connect(m machine.Machine, cfg Config) *Client { return &Client{} }

// Create makes a node and returns its path (a Sequential one: with its number). ErrNodeExists, ErrNoNode (no parent), ErrNoChildrenForEphemerals.
func (c *Client) Create(path string, data []byte, flags Flags) (string, error) {
	return "", ErrClosed
}

// Delete removes a node that has the version and no children. ErrNoNode, ErrBadVersion, ErrNotEmpty.
func (c *Client) Delete(path string, version int32) error { return ErrClosed }

// Exists tells whether there is a node. With watch: its creation, deletion or next change of data is an event. A missing node is no error.
func (c *Client) Exists(path string, watch bool) (Stat, bool, error) {
	return Stat{}, false, ErrClosed
}

// Get reads a node's data. With watch: its deletion or next change of data is an event. ErrNoNode (no watch is left then).
func (c *Client) Get(path string, watch bool) ([]byte, Stat, error) { return nil, Stat{}, ErrClosed }

// Set replaces the data of a node that has the version, and returns its new Stat. ErrNoNode, ErrBadVersion.
func (c *Client) Set(path string, data []byte, version int32) (Stat, error) {
	return Stat{}, ErrClosed
}

// Children lists the names (not paths) of a node's children, sorted. With watch: the next child created or deleted, or the deletion of the node, is an event. ErrNoNode.
func (c *Client) Children(path string, watch bool) ([]string, Stat, error) {
	return nil, Stat{}, ErrClosed
}

// Multi does all steps as one transaction or none. When a step is refused the error is a *MultiError.
func (c *Client) Multi(ops ...Op) error { return ErrClosed }

// EnsurePath makes the node and its missing parents, persistent and empty. One that exists is no error.
func (c *Client) EnsurePath(path string) error { return ErrClosed }

// Session is the session's id, 0 before the first connection. It never changes afterwards.
func (c *Client) Session() int64 { return 0 }

// SessionTimeout is what the server granted, 0 before the first connection.
func (c *Client) SessionTimeout() time.Duration { return 0 }

// Lease is how much longer the session is surely alive, by this machine's Uptime: nine tenths of the session time-out after the latest
// acknowledged request or ping was SENT. At 0 or below the caller must not act as owner of the session's ephemeral nodes. Uptime is read last,
// after any scheduling point of the call.
func (c *Client) Lease() time.Duration { return 0 }

// LeaseUntil is the Uptime until which the session is surely alive. It only grows, until Close is called, so a caller on a
// hot path may keep it and compare with Uptime.
func (c *Client) LeaseUntil() time.Duration { return 0 }

// Close ends the session: the server deletes its ephemeral nodes before Close returns nil. The lease ends when Close is called. After an error
// the session, if there is one, ends by its time-out. Calls made earlier are finished first, later ones return ErrClosed.
func (c *Client) Close() error { return ErrClosed }
