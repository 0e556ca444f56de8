package linear

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"
)

// How a znode's history is cut, and why that is sound.
//
// A cut lies at a moment when no operation is under way (quiescent, and no write without answer can take effect later) whose last
// operation before it overlapped no other and tells the whole state: a get, a write that was answered, or "no node". Every linearization of the
// whole orders what is before the cut before what is after it, with that operation last before the cut, so
// the state at the cut is the one that it tells; and linearizations of the parts, one after the other, are one of the whole.
//
// The same holds at a quiescent moment after a window that starts in a known state and whose only writes are answered sets: each adds one to the
// version, so whichever order there is, the set that was told the highest version was last.
const (
	nodeWindow = 32      // operations, at least, in a window
	nodeLimit  = 1 << 12 // operations kept; then the settled part is checked and dropped
	nodeLag    = 2 * time.Minute
)

// node is the history of one path and its check.
type node struct {
	name      string
	invariant string // reported for a violation
	budget    *Budget

	ops     []*nodeOp
	events  []nodeEvent
	total   int
	skipped int

	state      nodeState // at the place where the checked part ends
	known      bool      // state is known
	ephemeral  bool      // there were ephemerals
	checked    int64     // latest return in the part that is checked and dropped; -1: nothing is
	violations int
	verdict    Verdict
}

// newNode is the history of a path that does not exist yet.
func newNode(name, invariant string, budget *Budget) *node {
	return &node{name: name, invariant: invariant, budget: budget, known: true, checked: -1}
}

// add takes an operation, in any order.
func (n *node) add(op *nodeOp) {
	n.total++
	n.ephemeral = n.ephemeral || op.owner != 0
	if op.call <= n.checked {
		n.skipped++
		if !op.read() {
			n.known = false
		}
		return
	}
	n.ops = append(n.ops, op)
}

// full tells whether it is time to settle.
func (n *node) full() bool { return len(n.ops) >= nodeLimit && len(n.ops)%(nodeLimit/4) == 0 }

// settle checks and drops what ended long before now.
func (n *node) settle(now int64) {
	until := now - int64(nodeLag)
	n.explain(until, func(*nodeEvent) bool { return true })
	n.check(nil, until)
}

// conclude judges the history. lost are the moments after which nothing is known: what happened there was not reported.
func (n *node) conclude(lost []int64) Verdict {
	n.check(lost, never)
	v := n.verdict
	v.Object, v.Checked = n.name, n.total-n.skipped
	if n.skipped > 0 {
		v.Unverified = fmt.Sprintf("%d operations at times when the state was not known", n.skipped)
	}
	if n.violations > 1 {
		v.Message += fmt.Sprintf(" (and %d more at this path)", n.violations-1)
	}
	return v
}

// check judges everything (until = never), or what lies before the last cut whose operations returned by until, which it drops.
func (n *node) check(lost []int64, until int64) {
	slices.SortStableFunc(n.ops, func(a, b *nodeOp) int { return cmp.Or(cmp.Compare(a.call, b.call), cmp.Compare(a.ret, b.ret)) })
	ops := n.ops
	for _, at := range lost {
		i, _ := slices.BinarySearchFunc(ops, at, func(o *nodeOp, t int64) int {
			if o.call <= t {
				return -1
			}
			return 1
		})
		before := slices.Clone(ops[:i])
		var across []*nodeOp
		for j, op := range before {
			if op.ret < at {
				continue
			}
			// What was under way may have had its effect before or after; its result belongs to neither part.
			n.skipped++
			before[j] = nil
			maybe := *op
			maybe.result = perhaps
			if !op.read() {
				first := maybe
				first.ret = at
				before[j] = &first
			}
			maybe.call = at
			across = append(across, &maybe)
		}
		ops = append(across, ops[i:]...)
		n.run(slices.DeleteFunc(before, func(o *nodeOp) bool { return o == nil }), never)
		n.known = false
	}
	rest := n.run(ops, until)
	if until != never {
		n.ops = slices.Clone(rest)
	}
}

// run judges the operations window by window, and returns those behind the last cut that returned by until.
func (n *node) run(ops []*nodeOp, until int64) []*nodeOp {
	start := 0        // of the window
	busy := n.checked // latest return of ops[:i]
	before := busy    // latest return of ops[:i-1]
	told := anchor{0, n.state, n.known}
	for i, op := range ops {
		if i > start && op.call > busy {
			if told.next(ops, i, before, !n.ephemeral) && (i-start >= nodeWindow || !n.known) {
				if busy > until {
					break
				}
				n.window(ops[start:i])
				n.state, n.known, n.checked, start = told.state, true, busy, i
			}
		}
		before = busy
		busy = max(busy, op.ret)
	}
	if until == never {
		n.window(ops[start:])
		if len(ops) > 0 {
			n.checked = max(n.checked, ops[len(ops)-1].call)
		}
		return nil
	}
	return ops[start:]
}

// anchor is the latest place where a cut is possible, and the state there.
type anchor struct {
	at    int
	state nodeState
	known bool
}

// next moves the anchor to i, a quiescent place, if every order of the operations up to there ends in the same state.
// before is the latest return of ops[:i-1].
func (a *anchor) next(ops []*nodeOp, i int, before int64, persistent bool) bool {
	last := ops[i-1]
	if state, ok := last.settles(persistent); ok && last.call > before {
		*a = anchor{i, state, true}
		return true
	}
	if !a.known || !a.state.exists {
		return false
	}
	state := a.state
	for _, op := range ops[a.at:i] {
		switch {
		case op.read():
		case op.kind != nodeSet || op.result != done || op.blind:
			return false
		case op.got > state.version:
			state.version, state.data = op.got, op.data
		}
	}
	*a = anchor{i, state, true}
	return true
}

// window judges operations that start in the known state.
func (n *node) window(ops []*nodeOp) {
	if len(ops) == 0 {
		return
	}
	if !n.known {
		n.skipped += len(ops)
		return
	}
	switch n.judge(ops) {
	case Inconclusive:
		if n.verdict.Outcome == OK {
			n.verdict.Outcome = Inconclusive
			n.verdict.Message = fmt.Sprintf("the search over %d operations from %v on ran out of steps", len(ops), time.Duration(ops[0].call))
		}
	case Violated:
		n.violations++
		if n.verdict.Outcome == Violated {
			return
		}
		// The shortest beginning that has no order: by when was it wrong, and by which answer.
		rets := make([]int64, len(ops))
		for i, op := range ops {
			rets[i] = op.ret
		}
		slices.Sort(rets)
		i, _ := slices.BinarySearchFunc(rets, Violated, func(at int64, _ Outcome) int {
			if n.judge(beginning(ops, at)) == Violated {
				return 1
			}
			return -1
		})
		i = min(i, len(rets)-1)
		ops = beginning(ops, rets[i])
		w := n.asWindow(ops)
		w.shrink(n.budget, func(o porcupine.Operation) bool { return o.Input.(*nodeOp).read() })
		culprit := ops[slices.IndexFunc(ops, func(o *nodeOp) bool { return o.ret == rets[i] })]
		n.verdict.Outcome, n.verdict.Invariant, n.verdict.At, n.verdict.Window = Violated, n.invariant, time.Duration(rets[i]), w
		n.verdict.Message = fmt.Sprintf("%s: %s by %s %s cannot be explained by any order of the operations on this path",
			n.name, culprit, culprit.who, span(culprit.call, culprit.ret))
	}
}

// beginning is what was known at a moment: what has returned, and the writes under way, which may have had their effect.
func beginning(ops []*nodeOp, at int64) []*nodeOp {
	var out []*nodeOp
	for _, op := range ops {
		switch {
		case op.ret <= at:
			out = append(out, op)
		case op.call <= at && !op.read():
			maybe := *op
			maybe.result, maybe.ret = perhaps, never
			out = append(out, &maybe)
		}
	}
	return out
}

func (n *node) asWindow(ops []*nodeOp) *Window {
	w := &Window{Object: n.name, model: nodeModel(n.state, ops), ops: make([]porcupine.Operation, len(ops))}
	for i, op := range ops {
		w.ops[i] = porcupine.Operation{Input: op, Call: op.call, Return: op.ret, Metadata: op.who}
	}
	return w
}

func (n *node) judge(ops []*nodeOp) Outcome {
	w := n.asWindow(ops)
	return n.budget.judge(w.model, w.ops)
}
