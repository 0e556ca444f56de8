package linear

import (
	"fmt"

	"github.com/anishathalye/porcupine"
)

// The model of a znode is one path: whether the node is there, the hash of its data, its version, and the session that an ephemeral belongs
// to. Linearizability is local: the tree is linearizable only if every path is. Verified, by path:
//
//   - create, delete, set, get, exists with their results; versions and conditional writes;
//   - definite refusals (no node, node exists, wrong version, not empty) as reads: what they claim must be true at some moment of the call;
//   - writes without answer: they take effect at a moment after the call, or never. By the time that the same session is answered
//     again, or has ended, it is settled (coord/client says so);
//   - ephemerals: the end of a session, at the moment that the service traced, deletes its nodes;
//   - children: each name in the list was there, each path known otherwise that is not in the list was not;
//   - the steps of a multi.
//
// Not verified: that the steps of a multi, or the names in a list of children, are true at the same moment; the order of zxids;
// watches (oracle.Watches). A write that a crashed client did not live to report is believed to the service's own trace, if it came within a minute of the crash.
type nodeState struct {
	exists  bool
	version int32
	data    uint64 // hash
	owner   int64  // session of an ephemeral, 0: persistent
}

func (s nodeState) String() string {
	switch {
	case !s.exists:
		return "absent"
	case s.owner != 0:
		return fmt.Sprintf("#%04x v%d of session %x", s.data>>48, s.version, s.owner)
	}
	return fmt.Sprintf("#%04x v%d", s.data>>48, s.version)
}

type nodeKind uint8

const (
	nodeCreate nodeKind = iota
	nodeDelete
	nodeSet
	nodeCheck  // of a multi
	nodeGet    // data, version, owner known
	nodeExists // version, owner known
	nodePresent
	nodeEnd // of session owner
)

var nodeKindNames = [...]string{"create", "delete", "set", "check", "get", "exists", "exists", "end of session"}

type nodeResult uint8

const (
	done nodeResult = iota
	noNode
	nodeThere // create refused
	badVersion
	notEmpty
	// perhaps: a write without answer. It takes effect once, if it is possible at that moment, or never.
	perhaps
)

// nodeOp is an operation on one path with its result.
type nodeOp struct {
	kind    nodeKind
	result  nodeResult
	version int32  // asked for (delete, set, check; -1: any)
	got     int32  // version that the result tells
	data    uint64 // hash: of create and set the argument, of get the result
	owner   int64
	blind   bool // a write whose result does not tell the version
	call    int64
	ret     int64
	who     string
	session int64
	ended   int64 // of a write without answer: when the client gave it up
}

// read tells that the operation cannot change anything.
func (op *nodeOp) read() bool {
	switch op.kind {
	case nodeCreate, nodeDelete, nodeSet:
		return op.result != done && op.result != perhaps
	case nodeEnd:
		return false
	}
	return true
}

// stepNode applies the operation. It is impossible when the result could not be what it was. perhaps counts as done here.
func stepNode(s nodeState, op *nodeOp) (nodeState, bool) {
	match := op.version == -1 || op.version == s.version
	switch op.result {
	case noNode:
		return s, !s.exists
	case nodeThere:
		return s, s.exists
	case badVersion:
		return s, s.exists && !match
	case notEmpty:
		return s, s.exists && match
	}
	switch op.kind {
	case nodeCreate:
		return nodeState{exists: true, data: op.data, owner: op.owner}, !s.exists
	case nodeDelete:
		return nodeState{}, s.exists && match
	case nodeSet:
		next := nodeState{true, s.version + 1, op.data, s.owner}
		known := op.result == done && !op.blind
		return next, s.exists && match && (!known || op.got == next.version)
	case nodeCheck:
		return s, s.exists && match
	case nodeGet:
		return s, s == nodeState{true, op.got, op.data, op.owner}
	case nodeExists:
		return s, s.exists && s.version == op.got && s.owner == op.owner
	case nodePresent:
		return s, s.exists
	}
	if s.exists && s.owner == op.owner { // nodeEnd
		return nodeState{}, true
	}
	return s, true
}

// settles is the state after the operation, as far as its result tells all of it; persistent: no ephemeral was ever made at the path.
func (op *nodeOp) settles(persistent bool) (nodeState, bool) {
	switch {
	case op.result == noNode, op.kind == nodeDelete && op.result == done:
		return nodeState{}, true
	case op.result != done:
		return nodeState{}, false
	}
	switch op.kind {
	case nodeCreate:
		return nodeState{exists: true, data: op.data, owner: op.owner}, true
	case nodeGet:
		return nodeState{true, op.got, op.data, op.owner}, true
	case nodeSet:
		return nodeState{true, op.got, op.data, 0}, persistent && !op.blind
	}
	return nodeState{}, false
}

func (op *nodeOp) String() string {
	s := nodeKindNames[op.kind]
	switch {
	case op.kind == nodeEnd:
		return fmt.Sprintf("%s %x", s, op.owner)
	case op.kind == nodeCreate && op.owner != 0:
		s += fmt.Sprintf(" #%04x of session %x", op.data>>48, op.owner)
	case op.kind == nodeCreate || op.kind == nodeSet:
		s += fmt.Sprintf(" #%04x", op.data>>48)
	}
	if op.version >= 0 && (op.kind == nodeSet || op.kind == nodeDelete || op.kind == nodeCheck) {
		s += fmt.Sprintf(" if v%d", op.version)
	}
	switch op.result {
	case noNode:
		return s + ": no node"
	case nodeThere:
		return s + ": node exists"
	case badVersion:
		return s + ": wrong version"
	case notEmpty:
		return s + ": not empty"
	case perhaps:
		return s + ": no answer"
	}
	switch op.kind {
	case nodeGet:
		return s + ": " + nodeState{true, op.got, op.data, op.owner}.String()
	case nodeExists:
		s += fmt.Sprintf(": v%d", op.got)
		if op.owner != 0 {
			s += fmt.Sprintf(" of session %x", op.owner)
		}
		return s
	case nodeSet:
		if !op.blind {
			return s + fmt.Sprintf(": v%d", op.got)
		}
	}
	return s + ": ok"
}

// nodeModel is the deterministic model or, when there are writes without answer, the one that follows both what is if they took effect
// and what is if they never do.
func nodeModel(init nodeState, ops []*nodeOp) porcupine.Model {
	describe := func(in, _ any) string { return in.(*nodeOp).String() }
	hash := func(state any) uint64 {
		s := state.(nodeState)
		h := s.data ^ uint64(s.version)*0x9e3779b97f4a7c15 ^ uint64(s.owner)*0xd6e8feb86659fd93
		if s.exists {
			h = ^h
		}
		return h
	}
	show := func(state any) string { return state.(nodeState).String() }
	for _, op := range ops {
		if op.result != perhaps {
			continue
		}
		m := porcupine.NondeterministicModel{
			Init: func() []any { return []any{init} },
			Step: func(state, in, _ any) []any {
				op := in.(*nodeOp)
				next, ok := stepNode(state.(nodeState), op)
				switch {
				case op.result == perhaps && ok:
					return []any{state, next}
				case op.result == perhaps:
					return []any{state}
				case ok:
					return []any{next}
				}
				return nil
			},
			Hash: hash, DescribeOperation: describe, DescribeState: show,
		}
		return m.ToModel()
	}
	return porcupine.Model{
		Init: func() any { return init },
		Step: func(state, in, _ any) (bool, any) {
			was := state.(nodeState)
			next, ok := stepNode(was, in.(*nodeOp))
			if !ok || next == was {
				return ok, state // which costs no memory
			}
			return true, next
		},
		Hash: hash, DescribeOperation: describe, DescribeState: show,
	}
}
