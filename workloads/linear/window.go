package linear

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

// Window is a small part of an object's history that has no linearization by itself, with the state that it starts from.
type Window struct {
	Object string
	model  porcupine.Model
	ops    []porcupine.Operation // Metadata: who, a string
}

// Len is the number of operations.
func (w *Window) Len() int { return len(w.ops) }

// maxShrink bounds the windows that are worth shrinking: each try is a search of its own.
const maxShrink = 400

// shrink leaves out reads as long as no order exists. A read changes nothing, so what fails without it fails with it too;
// the same does not hold for writes, which are kept.
func (w *Window) shrink(b *Budget, isRead func(porcupine.Operation) bool) {
	if len(w.ops) > maxShrink {
		return
	}
	for i := len(w.ops) - 1; i >= 0; i-- {
		if !isRead(w.ops[i]) {
			continue
		}
		rest := slices.Delete(slices.Clone(w.ops), i, i+1)
		if b.judge(w.model, rest) == Violated {
			w.ops = rest
		}
	}
}

const maxLines = 24

// String is the window as text: a line for each operation in the order of the calls, with the interval in world time, who asked, and
// what came out.
func (w *Window) String() string {
	var s strings.Builder
	fmt.Fprintf(&s, "%s starts as %s; these have no order:\n", w.Object, w.model.DescribeState(w.model.Init()))
	ops := slices.Clone(w.ops)
	slices.SortStableFunc(ops, func(a, b porcupine.Operation) int { return cmp.Compare(a.Call, b.Call) })
	skip := 0
	if len(ops) > maxLines {
		skip = len(ops) - maxLines
		fmt.Fprintf(&s, "  (%d more)\n", skip)
	}
	for _, op := range ops[skip:] {
		who, _ := op.Metadata.(string)
		fmt.Fprintf(&s, "  %-32s %-14s %s\n", span(op.Call, op.Return), who, w.model.DescribeOperation(op.Input, op.Output))
	}
	return s.String()
}

// WritePicture writes porcupine's interactive picture of the window, an HTML page of its own, to a file.
func (w *Window) WritePicture(path string) error {
	ops := slices.Clone(w.ops)
	lanes(ops)
	b := Budget{Window: 1_000_000, Total: 1_000_000}
	_, info := b.search(w.model, ops, true)
	if err := porcupine.VisualizePath(w.model, info, path); err != nil {
		return fmt.Errorf("picture of the history of %s: %w", w.Object, err)
	}
	return nil
}

// lanes gives operations that overlap different client numbers, as the picture wants, and those that never return an end
// that does not squeeze the others.
func lanes(ops []porcupine.Operation) {
	slices.SortStableFunc(ops, func(a, b porcupine.Operation) int { return cmp.Compare(a.Call, b.Call) })
	var last int64
	for _, op := range ops {
		last = max(last, op.Call)
		if op.Return != never {
			last = max(last, op.Return)
		}
	}
	var free []int64 // return of the latest operation in each lane
	for i := range ops {
		if ops[i].Return == never {
			ops[i].Return = last + int64(time.Millisecond)
		}
		lane := slices.IndexFunc(free, func(ret int64) bool { return ret < ops[i].Call })
		if lane < 0 {
			lane = len(free)
			free = append(free, 0)
		}
		free[lane] = ops[i].Return
		ops[i].ClientId = lane
	}
}
