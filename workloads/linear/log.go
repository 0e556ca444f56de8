package linear

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/anishathalye/porcupine"
)

// The model of a partition is its visible log: what consumers may see. Its state has constant size: the end offset and
// the chained hash of all batches below it.
//
//	append: the batch is [base, next). Needs end == base; moves end to next, and the hash.
//	read:   some client learnt that the log ends at e (high watermark of a Fetch, or ListOffsets latest). Needs end == e, and
//	        the hash of what the clients read below e.
//
// What an acknowledgement promises:
//
//	acks=all   the append takes effect, becomes visible, between call and return.
//	acks=1     only the base is promised; the append becomes visible at any time after the call. A power loss of the
//	           broker (or a disk error that fenced the log) may take it before, and the offset goes to another batch;
//	           so may another leader, of several replicas. One that may be gone is not taken for what made a batch
//	           that an earlier attempt without answer at the same bytes can have made.
//	acks=0, or no answer
//	           it may become visible at any time after the call, or never.
//
// Records below a range that no client read (retention was faster, or the run ended) have no known hash. Such a range is a
// hole: the state's hash stands still in it, and the end may leap over what is missing. So inside a hole
// offsets and their order in time are verified, contents are not.
type logState struct {
	end  int64
	hash uint64
}

type logKind uint8

const (
	opRead logKind = iota // sorts before the append at the same offset
	opAppend
)

// logOp is an operation with its outcome.
type logOp struct {
	kind logKind
	acks int16 // of an append; anonymous: see below
	from int64 // smallest end at which it is possible: base, unless a hole lies before it
	base int64 // of a read: e
	next int64 // of a read: e
	hash uint64
	// blind: an append in a hole does not move the hash; a read does not look at it.
	blind bool
	call  int64
	ret   int64 // by then it was visible
	acked int64 // by then the append had its place, visible or not
	who   string
}

// anonymous marks an append that no surviving client reported: a crash took whoever sent it.
const anonymous int16 = 100

func stepLog(s logState, op *logOp) (logState, bool) {
	if s.end < op.from || s.end > op.base {
		return s, false
	}
	if op.kind == opRead {
		if !op.blind && op.hash != s.hash {
			return s, false
		}
		return logState{op.next, s.hash}, true
	}
	if !op.blind {
		s.hash = chain(s.hash, op.batch())
	}
	return logState{op.next, s.hash}, true
}

func (op *logOp) batch() Batch { return Batch{op.base, int32(op.next - op.base), op.hash} }

func (op *logOp) String() string {
	if op.kind == opRead {
		return fmt.Sprintf("read: log ends at %d", op.base)
	}
	what := fmt.Sprintf("append %d..%d #%04x", op.base, op.next-1, op.hash>>48)
	switch {
	case op.acks == anonymous:
		return what + " that no client reported"
	case op.acks == -1:
		return what + " acks=all"
	}
	return fmt.Sprintf("%s acks=%d", what, op.acks)
}

// rank orders operations as every linearization must: by offset, and at one offset reads before the append that ends their time.
func rank(a, b *logOp) int {
	return cmp.Or(cmp.Compare(a.base, b.base), cmp.Compare(a.kind, b.kind))
}

// inOrder forbids leaps over what a window knows to be there. Inside a hole an operation is possible at every end from the hole's
// beginning on, also at one that makes an operation of lower rank impossible for good. Nothing tells the search of that mistake before the
// lower one returns, which an append with acks=1 never does: it would try all the ways to leap, exponentially many. But all
// operations of a window take effect, by rank, so none is possible before the end is where those of lower rank leave it. That rules out no
// linearization, and at each end leaves the operations of one rank only.
func inOrder(ops []porcupine.Operation) []porcupine.Operation {
	at := func(op porcupine.Operation) *logOp { return op.Input.(*logOp) }
	if !slices.ContainsFunc(ops, func(op porcupine.Operation) bool { return at(op).from < at(op).base }) {
		return ops
	}
	ops = slices.Clone(ops)
	slices.SortStableFunc(ops, func(a, b porcupine.Operation) int { return rank(at(a), at(b)) })
	reach := int64(-1)
	for i := 0; i < len(ops); {
		lower, first := reach, at(ops[i])
		for ; i < len(ops) && rank(first, at(ops[i])) == 0; i++ {
			op := at(ops[i])
			reach = max(reach, op.next)
			if op.from < lower {
				tight := *op
				tight.from = lower
				ops[i].Input = &tight
			}
		}
	}
	return ops
}

func logModel(init logState) porcupine.Model {
	return porcupine.Model{
		// One part: the log. This is where a model sees all of a history before the search.
		Partition: func(ops []porcupine.Operation) [][]porcupine.Operation { return [][]porcupine.Operation{inOrder(ops)} },
		Init:      func() any { return init },
		Step: func(state, in, _ any) (bool, any) {
			was := state.(logState)
			next, ok := stepLog(was, in.(*logOp))
			if !ok || next == was {
				return ok, state // which costs no memory
			}
			return true, next
		},
		Hash:              func(state any) uint64 { s := state.(logState); return s.hash ^ uint64(s.end)*0x9e3779b97f4a7c15 },
		DescribeOperation: func(in, _ any) string { return in.(*logOp).String() },
		DescribeState: func(state any) string {
			s := state.(logState)
			return fmt.Sprintf("end %d #%04x", s.end, s.hash>>48)
		},
	}
}
