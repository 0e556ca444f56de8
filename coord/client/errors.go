package client

import (
	"errors"
	"fmt"

	"faultline/coord/jute"
)

// Errors of calls, wrapped with the operation and path. Use errors.Is.
var (
	ErrNoNode                  = errors.New("node does not exist")
	ErrNodeExists              = errors.New("node exists already")
	ErrBadVersion              = errors.New("version does not match")
	ErrNotEmpty                = errors.New("node has children")
	ErrNoChildrenForEphemerals = errors.New("ephemeral nodes may not have children")
	ErrBadArguments            = errors.New("bad arguments")
	ErrUnimplemented           = errors.New("the server does not know this operation")

	// ErrConnectionLoss: sent, not answered. A write took effect once or never; see the package comment.
	ErrConnectionLoss = errors.New("connection lost")
	// ErrNotConnected: there was no connection within the request time-out. The request was never sent.
	ErrNotConnected = errors.New("not connected")
	// ErrSessionExpired: the server gave the session up. Final; connect anew for a new session.
	ErrSessionExpired = errors.New("session expired")
	// ErrClosed: Close was called. Nothing was sent.
	ErrClosed = errors.New("client is closed")
)

// Unknown reports whether a write that failed with err may have taken effect.
func Unknown(err error) bool { return errors.Is(err, ErrConnectionLoss) }

// MultiError is the reason why Multi changed nothing: its step Index failed with Err.
type MultiError struct {
	Index int
	Op    Op
	Err   error // one of the package's errors
}

func (e *MultiError) Error() string {
	return fmt.Sprintf("step %d (%s): %v", e.Index, e.Op, e.Err)
}

func (e *MultiError) Unwrap() error { return e.Err }

// errorOf translates a reply's code.
func errorOf(code jute.Code) error {
	switch code {
	case jute.OK:
		return nil
	case jute.NoNode:
		return ErrNoNode
	case jute.NodeExists:
		return ErrNodeExists
	case jute.BadVersion:
		return ErrBadVersion
	case jute.NotEmpty:
		return ErrNotEmpty
	case jute.NoChildrenForEphemerals:
		return ErrNoChildrenForEphemerals
	case jute.BadArguments, jute.MarshallingError:
		return ErrBadArguments
	case jute.Unimplemented:
		return ErrUnimplemented
	case jute.SessionExpired:
		return ErrSessionExpired
	}
	return fmt.Errorf("the server refused: %s", code)
}
