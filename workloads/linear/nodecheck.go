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
// The same holds at a quiescent moment after a window that starts in a known state,
//   - if its writes come one after the other and only one state is possible behind them (a write without answer makes two, of which a
//     read that overlaps no write may rule one out),
//   - or if its only writes are answered sets: each adds one to the version, so the set that was told the highest version was last.
const (
	nodeWindow = 32      // operations, at least, in a window
	nodeLimit  = 1 << 12 // operations kept; then the settled part is checked and dropped
	nodeLag    = 2 * time.Minute
	nodeMost   = 8 * nodeLimit // operations kept where no cut is possible; beyond, the verdict is inconclusive
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
	full       bool      // an operation had no place
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
	if len(n.ops) >= nodeMost {
		n.full = true
	}
	if !n.full {
		n.ops = append(n.ops, op)
	}
}

// due tells whether it is time to settle. A full history is settled no more: it takes nothing, so the time would come with every operation.
func (n *node) due() bool { return !n.full && len(n.ops) >= nodeLimit && len(n.ops)%(nodeLimit/4) == 0 }

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
	if n.full && v.Outcome == OK {
		v.Outcome = Inconclusive
		v.Message = fmt.Sprintf("more than %d operations without a moment at which the state is known", nodeMost)
	}
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
	told := anchorAt(0, n.state, n.known)
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
	after trail // from there on
}

func anchorAt(at int, state nodeState, known bool) anchor {
	a := anchor{at: at, state: state, known: known}
	if known {
		a.after = trail{seen: at, states: []nodeState{state}, wrote: -1}
	}
	return a
}

// next moves the anchor to i, a quiescent place, if every order of the operations up to there ends in the same state.
// before is the latest return of ops[:i-1].
func (a *anchor) next(ops []*nodeOp, i int, before int64, persistent bool) bool {
	last := ops[i-1]
	if state, ok := last.settles(persistent); ok && last.call > before {
		*a = anchorAt(i, state, true)
		return true
	}
	if !a.known {
		return false
	}
	if a.after.follow(ops, i); len(a.after.states) == 1 {
		*a = anchorAt(i, a.after.states[0], true)
		return true
	}
	if state, ok := afterSets(a.state, ops[a.at:i]); ok {
		*a = anchorAt(i, state, true)
		return true
	}
	return false
}

// trail follows writes that come one after the other, so that their order is given: the states that are possible behind them.
// It is lost, without states, once two writes overlap or too much is possible.
type trail struct {
	seen   int // operations followed
	states []nodeState
	wrote  int64 // latest return of a write
}

// follow goes on to i, a quiescent place.
func (p *trail) follow(ops []*nodeOp, i int) {
	const most = 8 // states
	for j := p.seen; j < i && len(p.states) > 0; j++ {
		op := ops[j]
		if op.read() {
			if op.call > p.wrote && !slices.ContainsFunc(ops[j+1:i], func(o *nodeOp) bool { return o.call <= op.ret && !o.read() }) {
				p.states = slices.DeleteFunc(p.states, func(s nodeState) bool { _, ok := stepNode(s, op); return !ok })
			}
			continue
		}
		if op.call <= p.wrote {
			p.states = nil
			break
		}
		p.wrote = op.ret
		var next []nodeState
		for _, s := range p.states {
			to, ok := stepNode(s, op)
			if ok && !slices.Contains(next, to) {
				next = append(next, to)
			}
			if op.result == perhaps && !slices.Contains(next, s) {
				next = append(next, s)
			}
		}
		if p.states = next; len(next) > most {
			p.states = nil
		}
	}
	p.seen = i
}

// afterSets is the state behind answered sets, in whatever order, and reads.
func afterSets(state nodeState, ops []*nodeOp) (nodeState, bool) {
	for _, op := range ops {
		switch {
		case op.read():
		case !state.exists || op.kind != nodeSet || op.result != done || op.blind:
			return state, false
		case op.got > state.version:
			state.version, state.data = op.got, op.data
		}
	}
	return state, true
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
