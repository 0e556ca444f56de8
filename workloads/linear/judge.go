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

// judge asks porcupine for an order of the operations. When the budget ends, every further step is refused, so that the search comes
// home at once; what it then says is worth nothing unless it had already succeeded.
func (b *Budget) judge(m porcupine.Model, ops []porcupine.Operation) Outcome {
	out, _ := b.search(m, ops, false)
	return out
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
