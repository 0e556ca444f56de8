package client

import (
	"time"
)

// Config says how to connect. Zero values mean the defaults.
type Config struct {
	// Servers are the addresses ("host:port") of the coordination service. They are tried in a seeded random order. Required.
	Servers []string

	// SessionTimeout is asked of the server, which may give another ([Client.SessionTimeout]). Default 6 s.
	SessionTimeout time.Duration

	// RequestTimeout bounds every call, the wait for a connection included. A request that was sent and is
	// not answered in this time breaks the connection. Default: SessionTimeout.
	RequestTimeout time.Duration

	// OnEvent receives watch events and session events, one at a time, in order. nil: nobody does.
	OnEvent func(Event)

	// Tap sees every finished call. nil: nobody does.
	Tap Tap

	// Name tells clients of one process apart: it keys the client's random stream and appears in task names. Default "".
	Name string
}

// Flags of a new node.
type Flags int32

const (
	Persistent Flags = 0      // stays until somebody deletes it
	Ephemeral  Flags = 1 << 0 // is deleted when the session that made it ends; may not have children
	Sequential Flags = 1 << 1 // the path gets a number of ten digits appended that grows with every sequential node of this parent
)

// AnyVersion as the version of Delete, Set, DeleteOp, SetOp: whatever version the node has.
const AnyVersion int32 = -1

// EventType says what happened.
type EventType int8

const (
	EventSession         EventType = iota // the session's state changed: see Event.State; Path is ""
	EventCreated                          // the node that a watch of Exists waited for was created
	EventDeleted                          // the watched node was deleted (data, exists and child watches)
	EventDataChanged                      // the watched node's data was set
	EventChildrenChanged                  // a child of the watched node was created or deleted
)

// State of the session as the client knows it.
type State int8

const (
	StateDisconnected State = iota // no connection now; the session may be alive or not
	StateConnected                 // connected, the session is alive
	StateExpired                   // the server says that the session is gone, and its ephemeral nodes with it. Final
)

// Event is a fired watch or a change of the session's state.
//
// StateConnected comes after every successful (re)connection, before the events that were missed. StateExpired comes at most once and is the last event.
type Event struct {
	Type  EventType
	Path  string // "" for EventSession
	State State  // of the session when the event was received; for EventSession the new one
}

// OpKind is what an [Op] does, or what a [Call] was.
type OpKind int8

const (
	OpCreate OpKind = iota
	OpDelete
	OpSet
	OpCheck // only inside Multi
	OpExists
	OpGet
	OpChildren
	OpMulti
	OpClose
)

// Op is one step of Multi.
type Op struct {
	Kind    OpKind // OpCreate, OpDelete, OpSet or OpCheck
	Path    string
	Data    []byte // OpCreate, OpSet
	Flags   Flags  // OpCreate
	Version int32  // OpDelete, OpSet, OpCheck; AnyVersion: whatever it has
}

// CreateOp makes a node.
func CreateOp(path string, data []byte, flags Flags) Op {
	return Op{Kind: OpCreate, Path: path, Data: data, Flags: flags}
}

// DeleteOp deletes a node that has the version and no children.
func DeleteOp(path string, version int32) Op { return Op{Kind: OpDelete, Path: path, Version: version} }

// SetOp replaces the data of a node that has the version.
func SetOp(path string, data []byte, version int32) Op {
	return Op{Kind: OpSet, Path: path, Data: data, Version: version}
}

// CheckOp requires that the node exists and has the version.
func CheckOp(path string, version int32) Op { return Op{Kind: OpCheck, Path: path, Version: version} }

// Tap sees calls for histories. Done runs on the calling task, after the call's outcome is settled and before it returns; it
// must not block and must not keep the slices beyond its return without copying.
//
// Heard runs for what the server sends, in the order in which it came, before anybody is told of it. It holds the client's lock: it must
// not call the client either.
//
// Asked runs on the calling task before a write can be sent, with its arguments; its Done follows, unless the process ends before.
type Tap interface {
	Asked(Call)
	Done(Call)
	Heard(Heard)
}

// Heard is something that the server sent in a session.
type Heard struct {
	Session int64
	Kind    HeardKind
	Path    string // HeardAnswer, HeardEvent

	Op    OpKind // HeardAnswer: of the request, when it read something
	Reads bool   // HeardAnswer: it did
	Watch bool   // HeardAnswer: it asked for a watch
	Found bool   // HeardAnswer: it succeeded; to a reading request: there is such a node
	Stat  Stat   // HeardAnswer: of the node, if the answer has one
	Zxid  int64  // HeardAnswer, HeardWatches: last transaction that the server had applied

	Event EventType // HeardEvent

	Sent time.Duration // HeardAlive: Uptime when what is answered was sent. The time-out begins anew no earlier
}

// HeardKind says what the server sent.
type HeardKind int8

const (
	HeardAnswer  HeardKind = iota // to a request
	HeardEvent                    // a watch fired, and OnEvent will be told
	HeardWatches                  // after a reconnection all watches are left again, or have fired
	HeardAlive                    // the session lives on: the answer to a ping, or to a connection's greeting
)

// Call is one finished call of a client.
type Call struct {
	Session int64 // session id when the call ended, 0: none yet
	Kind    OpKind
	Path    string // as asked (a sequential node: before the number). "" for OpMulti and OpClose

	// Arguments.
	Data    []byte // OpCreate, OpSet
	Flags   Flags  // OpCreate
	Version int32  // OpDelete, OpSet
	Ops     []Op   // OpMulti

	// Results.
	Created  string   // OpCreate: the node's full path
	Value    []byte   // OpGet
	Found    bool     // OpExists
	Stat     Stat     // OpCreate, OpSet, OpExists, OpGet, OpChildren, when successful
	Children []string // OpChildren: sorted names
	Err      error

	Sent       bool          // false: surely never reached the wire
	Start, End time.Duration // Uptime at the call and at its end
}
