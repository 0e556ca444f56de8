package linear

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

// How a long history is cut into windows, and why that is sound.
//
// Every operation has a place in the log: an append its base, a read the end that it saw. (An append without answer has one
// if its batch was read somewhere; equal batches are interchangeable, so the one called first goes to the first place, which
// constrains least. One whose batch nobody read had no effect that any read in the checked range could see, and is left out.) The state's end only
// grows, so every linearization orders the operations by rank: by place, and at the same place reads before the append. Hence
//
//	the history is linearizable  iff  each window (a run of ranks) is, from the state in which the window before it ends,
//	                             and  no operation returns before an operation of an earlier window is called:
//
// given an order for each window, the windows' orders one after the other respect real time inside the windows as each did, and
// between windows by the second condition; conversely a linearization, cut by rank, gives the orders. All operations of a
// window are linearized, and their order is that of the ranks, so the state that it ends in is the same for every order.
// This needs no moment without an operation under way, of which a group of long-polling consumers leaves none.

const windowOps = 64

// Check judges the history. It may be called once, when the run is over.
func (l *Log) Check() Verdict {
	seen, holes := l.cover()
	ops, _ := l.match(seen, holes, false)
	l.judge(append(ops, l.readOps(seen, holes, never)...), seen, holes)

	v := Verdict{Object: l.name, Checked: l.total}
	for _, h := range holes[:len(holes)-1] {
		l.unverified(&v, "contents of %d..%d, which nobody read", h.lo, h.hi-1)
	}
	if tail := holes[len(holes)-1]; slices.ContainsFunc(ops, func(o *logOp) bool { return o.next > tail.lo }) {
		l.unverified(&v, "contents from %d on, which nobody read", tail.lo)
	}
	if l.missed > 0 {
		l.unverified(&v, "%d operations that were reported long after their place was settled", l.missed)
	}
	if l.lost > 0 {
		l.unverified(&v, "%d appends with acks=1 that a power loss may have taken", l.lost)
	}
	switch {
	case len(l.found) > 0:
		slices.SortStableFunc(l.found, func(a, b finding) int {
			return cmp.Or(cmp.Compare(a.invariant, b.invariant), cmp.Compare(a.at, b.at)) // DUR before LIN: it says more
		})
		f := l.found[0]
		v.Outcome, v.Invariant, v.Message, v.At, v.Window = Violated, f.invariant, f.text, time.Duration(f.at), l.window
		if n := len(l.found) - 1; n > 0 {
			v.Message += fmt.Sprintf(" (and %d more in this log)", n)
		}
	case l.full:
		v.Outcome, v.Message = Inconclusive, fmt.Sprintf("more than %d appends wait for readers", 8*l.limit)
	case l.unclear != "":
		v.Outcome, v.Message = Inconclusive, l.unclear
	}
	return v
}

func (l *Log) unverified(v *Verdict, format string, args ...any) {
	if v.Unverified != "" {
		v.Unverified += "; "
	}
	v.Unverified += fmt.Sprintf(format, args...)
}

// readOps are the reads below the place stop, with the hash of what was read below their ends.
func (l *Log) readOps(seen []Batch, holes []hole, stop int64) []*logOp {
	hash := l.hashes(seen)
	var ops []*logOp
	for end, p := range l.reads {
		if end >= stop {
			continue
		}
		pair := []*logOp{&p.first, &p.last}
		if p.first == p.last {
			pair = pair[:1]
		}
		for _, op := range pair {
			op.hash = hash(end)
			if h, ok := holeAt(holes, end); ok {
				op.from = h.lo
			}
			ops = append(ops, op)
		}
	}
	return ops
}

// hashes returns the function that gives the state's hash at an offset.
func (l *Log) hashes(seen []Batch) func(offset int64) uint64 {
	sums := make([]uint64, len(seen)+1)
	sums[0] = l.start.hash
	for i, b := range seen {
		sums[i+1] = chain(sums[i], b)
	}
	return func(offset int64) uint64 {
		return sums[sort.Search(len(seen), func(i int) bool { return seen[i].Next() > offset })]
	}
}

// judge checks the operations from the state start and returns the state after them.
func (l *Log) judge(ops []*logOp, seen []Batch, holes []hole) logState {
	slices.SortStableFunc(ops, func(a, b *logOp) int {
		return cmp.Or(rank(a, b), cmp.Compare(a.call, b.call), cmp.Compare(a.ret, b.ret), strings.Compare(a.who, b.who))
	})
	l.realTime(ops, func(op *logOp) int64 { return op.ret })
	appends := slices.DeleteFunc(slices.Clone(ops), func(op *logOp) bool { return op.kind == opRead })
	l.realTime(appends, func(op *logOp) int64 { return op.acked })

	state := l.start
	hash := l.hashes(seen)
	for len(ops) > 0 {
		n := min(windowOps, len(ops))
		for n < len(ops) && rank(ops[n-1], ops[n]) == 0 {
			n++
		}
		init, near, first, broken := state, state, 0, -1 // near is the state before ops[first]
		for i, op := range ops[:n] {
			next, ok := stepLog(state, op)
			if !ok {
				if broken < 0 {
					broken = i
					l.misfit(state, op)
				}
				// Go on from what the readers say, to find what else is wrong.
				next = logState{op.next, hash(op.next)}
			}
			state = next
			if broken < 0 && i-first >= 8 {
				near, _ = stepLog(near, ops[first])
				first++
			}
		}
		if broken < 0 {
			l.search(init, ops[:n], false)
		} else {
			last := broken + 1
			for last < n && rank(ops[broken], ops[last]) == 0 {
				last++
			}
			l.search(near, ops[first:last], true)
		}
		ops = ops[n:]
	}
	return state
}

// misfit says why an operation is impossible in the state in which its place in the log puts it.
func (l *Log) misfit(s logState, op *logOp) {
	at := op.acked
	if at == never || op.kind == opRead {
		at = op.ret
	}
	if at == never {
		at = op.call
	}
	switch {
	case s.end > op.base:
		if op.kind == opRead {
			l.find(at, Linear, "%s by %s: that is inside a batch which ends at %d", op, op.who, s.end)
			return
		}
		l.find(at, Linear, "%s by %s: its first offset was given to another batch, the log ended at %d", op, op.who, s.end)
	case s.end < op.from:
		l.find(at, Linear, "%s by %s, but nobody appended %d..%d", op, op.who, s.end, op.base-1)
	default:
		l.find(at, Linear, "%s by %s: the records that clients read below it are not those that were acked (read #%04x, acked #%04x)",
			op, op.who, op.hash>>48, s.hash>>48)
	}
}

// realTime checks between any two operations what porcupine checks inside a window only: what comes later by rank has not returned
// before the other is called. It reports the worst pair.
func (l *Log) realTime(ops []*logOp, ret func(*logOp) int64) {
	called, who := l.called, (*logOp)(nil) // latest call of a lower rank
	var worst struct {
		by            int64
		before, after *logOp
	}
	for i := 0; i < len(ops); {
		j := i
		for j < len(ops) && rank(ops[i], ops[j]) == 0 {
			if by := called - ret(ops[j]); by > worst.by {
				worst.by, worst.before, worst.after = by, who, ops[j]
			}
			j++
		}
		for ; i < j; i++ {
			if ops[i].call > called {
				called, who = ops[i].call, ops[i]
			}
		}
	}
	if worst.by == 0 {
		return
	}
	after, before := worst.after, worst.before
	if before == nil {
		l.find(called, Linear, "%s by %s %s returned before %s was called, which comes before it in the log", after, after.who, span(after.call, ret(after)), l.calledN)
		return
	}
	what := "wrong order"
	if before.kind == opRead {
		what = "stale read"
	}
	l.find(before.call, Linear, "%s: %s by %s %s was called after this had returned: %s by %s %s", what,
		before, before.who, span(before.call, before.ret), after, after.who, span(after.call, ret(after)))

	// The pair alone, with a hole between them, is the smallest window.
	a, b := *before, *after
	a.from, a.blind, b.from, b.blind, b.ret = a.base, true, min(a.next, b.base), true, ret(after)
	l.search(logState{end: a.base}, []*logOp{&a, &b}, true)
}

// search lets porcupine judge a window; broken is what is expected.
func (l *Log) search(init logState, ops []*logOp, broken bool) {
	w := &Window{Object: l.name, model: logModel(init), ops: make([]porcupine.Operation, len(ops))}
	for i, op := range ops {
		w.ops[i] = porcupine.Operation{Input: op, Call: op.call, Return: op.ret, Metadata: op.who}
	}
	switch out := l.budget.judge(w.model, w.ops); {
	case out == Violated && l.window == nil:
		w.shrink(l.budget, func(o porcupine.Operation) bool { return o.Input.(*logOp).kind == opRead })
		l.window = w
		if !broken && len(l.found) == 0 {
			op := ops[len(ops)-1]
			l.find(op.call, Linear, "no order of the operations at offsets %d..%d explains what clients saw", ops[0].base, op.next-1)
		}
	case out == Inconclusive && !broken:
		l.unclear = fmt.Sprintf("the search at offsets %d..%d ran out of steps", ops[0].base, ops[len(ops)-1].next)
	}
}

// settle checks the part of the log that is read and whose appends are all known, at most half of it, and drops it.
func (l *Log) settle() {
	seen, holes := l.cover()
	ops, stop := l.match(seen, holes, true)
	if stop <= l.start.end {
		return
	}
	seen = slices.DeleteFunc(seen, func(b Batch) bool { return b.Base >= stop })
	ops = append(ops, l.readOps(seen, holes, stop)...)
	end := l.judge(ops, seen, holes)
	for _, op := range ops {
		if op.call > l.called {
			l.called, l.calledN = op.call, fmt.Sprintf("%s by %s %s", op, op.who, span(op.call, op.ret))
		}
		if op.kind == opRead {
			delete(l.reads, op.base)
		}
	}
	for base, b := range l.seen {
		if b.Next() <= min(l.logStart, stop) { // nobody can read it again
			delete(l.seen, base)
		}
	}
	l.start = end
	if l.start.end != stop { // a violation is known by now; go on from what readers saw
		l.start = logState{stop, l.hashes(seen)(stop)}
	}
}
