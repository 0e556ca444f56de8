package jute

import "fmt"

// OpCode is the operation of a request.
type OpCode int32

const (
	OpCreate       OpCode = 1
	OpDelete       OpCode = 2
	OpExists       OpCode = 3
	OpGetData      OpCode = 4
	OpSetData      OpCode = 5
	OpGetACL       OpCode = 6
	OpGetChildren  OpCode = 8
	OpSync         OpCode = 9
	OpPing         OpCode = 11
	OpGetChildren2 OpCode = 12
	OpCheck        OpCode = 13
	OpMulti        OpCode = 14
	OpCreate2      OpCode = 15
	OpAuth         OpCode = 100
	OpSetWatches   OpCode = 101
	OpSetWatches2  OpCode = 105
	OpCloseSession OpCode = -11
	OpError        OpCode = -1 // only as a step's type in the reply to a failed multi
)

func (o OpCode) String() string {
	switch o {
	case OpCreate:
		return "create"
	case OpDelete:
		return "delete"
	case OpExists:
		return "exists"
	case OpGetData:
		return "getData"
	case OpSetData:
		return "setData"
	case OpGetACL:
		return "getACL"
	case OpGetChildren:
		return "getChildren"
	case OpSync:
		return "sync"
	case OpPing:
		return "ping"
	case OpGetChildren2:
		return "getChildren2"
	case OpCheck:
		return "check"
	case OpMulti:
		return "multi"
	case OpCreate2:
		return "create2"
	case OpAuth:
		return "auth"
	case OpSetWatches:
		return "setWatches"
	case OpSetWatches2:
		return "setWatches2"
	case OpCloseSession:
		return "closeSession"
	case OpError:
		return "error"
	}
	return fmt.Sprintf("operation %d", int32(o))
}

// Xids that are no request's number.
const (
	XidEvent      int32 = -1
	XidPing       int32 = -2
	XidAuth       int32 = -4
	XidSetWatches int32 = -8
)

// Code is the error of a reply.
type Code int32

const (
	OK                      Code = 0
	RuntimeInconsistency    Code = -2 // in a multi: not tried, because a step before it failed
	MarshallingError        Code = -5
	Unimplemented           Code = -6
	BadArguments            Code = -8
	NoNode                  Code = -101
	BadVersion              Code = -103
	NoChildrenForEphemerals Code = -108
	NodeExists              Code = -110
	NotEmpty                Code = -111
	SessionExpired          Code = -112
)

func (c Code) String() string {
	switch c {
	case OK:
		return "ok"
	case RuntimeInconsistency:
		return "not tried"
	case MarshallingError:
		return "malformed request"
	case Unimplemented:
		return "unimplemented"
	case BadArguments:
		return "bad arguments"
	case NoNode:
		return "no node"
	case BadVersion:
		return "bad version"
	case NoChildrenForEphemerals:
		return "no children for ephemerals"
	case NodeExists:
		return "node exists"
	case NotEmpty:
		return "not empty"
	case SessionExpired:
		return "session expired"
	}
	return fmt.Sprintf("error %d", int32(c))
}

// EventType is what a watch saw.
type EventType int32

const (
	EventCreated         EventType = 1
	EventDeleted         EventType = 2
	EventDataChanged     EventType = 3
	EventChildrenChanged EventType = 4
)

func (t EventType) String() string {
	switch t {
	case EventCreated:
		return "created"
	case EventDeleted:
		return "deleted"
	case EventDataChanged:
		return "data changed"
	case EventChildrenChanged:
		return "children changed"
	}
	return fmt.Sprintf("event %d", int32(t))
}

// Flags of create.
const (
	FlagEphemeral  int32 = 1
	FlagSequential int32 = 2
)
