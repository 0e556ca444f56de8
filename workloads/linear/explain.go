package linear

import (
	"cmp"
	"slices"
)

// A client that crashes does not report the write that it had under way. The coordination service traces each
// transaction that it applied, and an applied write that no client reported stands for such a one: it may have taken effect at
// that moment. Without this, every node that a crashed consumer left would look like a phantom.

// nodeEvent is a transaction that the service traced.
type nodeEvent struct {
	kind    nodeKind // nodeCreate, nodeSet, nodeDelete
	at      int64
	data    uint64
	owner   int64 // create, delete: session of an ephemeral
	version int32 // set
}

// explain finds for each event up to a time the operation that made it. The others become writes without answer, at the moment of the event,
// where plausible says so.
func (n *node) explain(until int64, plausible func(*nodeEvent) bool) {
	var add []*nodeOp
	slices.SortStableFunc(n.ops, func(a, b *nodeOp) int { return cmp.Or(cmp.Compare(a.call, b.call), cmp.Compare(a.ret, b.ret)) })
	ops := n.ops
	var active []*nodeOp // called, not returned, explaining nothing yet
	left := n.events[:0]
	for i := range n.events {
		e := &n.events[i]
		if e.at > until {
			left = append(left, *e)
			continue
		}
		for len(ops) > 0 && ops[0].call <= e.at {
			active = append(active, ops[0])
			ops = ops[1:]
		}
		active = slices.DeleteFunc(active, func(o *nodeOp) bool { return o.ret < e.at })
		if op := cause(e, active); op != nil {
			if op.kind != nodeEnd {
				active = slices.DeleteFunc(active, func(o *nodeOp) bool { return o == op })
			}
			continue
		}
		if plausible(e) {
			op := &nodeOp{kind: e.kind, result: perhaps, version: -1, data: e.data, call: e.at, ret: e.at, who: "somebody"}
			if e.kind == nodeCreate {
				op.owner = e.owner
			}
			add = append(add, op)
		}
	}
	n.events = left
	for _, op := range add {
		n.add(op)
		n.total-- // nobody reported it
	}
}

// cause is the operation that the event is the effect of, or nil.
func cause(e *nodeEvent, active []*nodeOp) *nodeOp {
	var best *nodeOp
	for _, op := range active {
		if op.kind == nodeEnd {
			if e.kind == nodeDelete && e.owner == op.owner && op.result == done {
				return op
			}
			continue
		}
		if op.kind != e.kind || op.result != done && op.result != perhaps {
			continue
		}
		switch e.kind {
		case nodeCreate:
			if op.data != e.data || op.owner != e.owner {
				continue
			}
		case nodeSet:
			if op.data != e.data || op.result == done && !op.blind && op.got != e.version {
				continue
			}
		}
		if best == nil || op.ret < best.ret {
			best = op
		}
	}
	return best
}
