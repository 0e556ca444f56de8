package linear

import (
	"math"
	"time"

	"github.com/anishathalye/porcupine"
)

// never is the return of an operation whose outcome nobody learnt: it may take effect at any later time.
const never = math.MaxInt64

// A Budget bounds the search, in steps of a model. It is shared by the objects of one run. Zero: the defaults.
type Budget struct {
	Window int // steps for one window (default 200,000)
	Total  int // steps for all windows together (default 20,000,000)
}

func (b *Budget) fill() {
	if b.Window <= 0 {
		b.Window = 200_000
	}
	if b.Total <= 0 {
		b.Total = 20_000_000
	}
}

// judge takes the order in which the operations are given, if that is one, or asks porcupine for one. When the budget ends, every further step is refused, so that the search comes
// home at once; what it then says is worth nothing unless it had already succeeded.
func (b *Budget) judge(m porcupine.Model, ops []porcupine.Operation) Outcome {
	if inTurn(m, ops) {
		return OK
	}
	out, _ := b.search(m, ops, false)
	return out
}

// inTurn tells whether the operations have a linearization that is just the order in which they are given: none of them returned before one in front of it was called, and the model takes one after the other.
func inTurn(m porcupine.Model, ops []porcupine.Operation) bool {
	state, called := m.Init(), int64(math.MinInt64)
	for i := range ops {
		op := &ops[i]
		if op.Return < called {
			return false
		}
		called = max(called, op.Call)
		var ok bool
		if ok, state = m.Step(state, op.Input, op.Output); !ok {
			return false
		}
	}
	return true
}

func (b *Budget) search(m porcupine.Model, ops []porcupine.Operation, verbose bool) (Outcome, porcupine.LinearizationInfo) {
	b.fill()
	limit := min(b.Window, b.Total)
	left := limit
	step := m.Step
	m.Step = func(state, in, out any) (bool, any) {
		if left <= 0 {
			return false, state
		}
		left--
		return step(state, in, out)
	}
	var info porcupine.LinearizationInfo
	var res porcupine.CheckResult
	if verbose {
		res, info = porcupine.CheckOperationsVerbose(m, ops, 0)
	} else {
		res = porcupine.CheckOperationsTimeout(m, ops, 0)
	}
	b.Total -= limit - left
	switch {
	case res == porcupine.Ok:
		return OK, info
	case left <= 0:
		return Inconclusive, info
	}
	return Violated, info
}

func span(call, ret int64) string {
	end := "..."
	if ret != never {
		end = time.Duration(ret).String()
	}
	return "[" + time.Duration(call).String() + " " + end + "]"
}
