package linear

import (
	"fmt"
	"slices"
	"sort"
)

// match finds the append that made each batch which was read, and returns the appends of the checked range. With settling, it stops at the
// first hole or batch without a known append and returns that place.
func (l *Log) match(seen []Batch, holes []hole, settling bool) (ops []*logOp, stop int64) {
	stop = never
	half := int64(never)
	if settling {
		stop = holes[0].lo
		if n := len(l.acked); n > 0 {
			half = l.acked[n/2].base
		}
	}
	byBase := make(map[int64][]*logOp, len(l.acked))
	ackedHash := make(map[uint64]*logOp)
	for _, op := range l.acked {
		byBase[op.base] = append(byBase[op.base], op)
		ackedHash[op.hash] = op
	}
	taken := make(map[*logOp]bool, len(l.acked))
	reads := l.earliest()
	spare := l.spare(seen, byBase)
	for _, b := range seen {
		if settling && (b.Base >= stop || b.Base >= half) {
			stop = min(stop, b.Base)
			break
		}
		op := l.source(b, byBase[b.Base], taken)
		if op != nil && op.acked != never && spare[b.Hash] > 0 && l.mayBeLost(op, reads) {
			// It may be lost, and an attempt without answer that came before have made what is read.
			if earlier := l.attempt(b, op.call); earlier != nil {
				spare[b.Hash]--
				op = earlier
			}
		}
		if op == nil && settling {
			stop = b.Base
			break
		}
		if op == nil {
			op = l.orphan(b, ackedHash[b.Hash])
		}
		if h, ok := holeAt(holes, b.Base); ok {
			op.from = h.lo
		}
		taken[op] = true
		ops = append(ops, op)
	}
	var rest []*logOp
	for _, op := range l.acked {
		if taken[op] {
			continue
		}
		if op.base >= stop {
			rest = append(rest, op)
			continue
		}
		h, ok := holeAt(holes, op.base)
		op.blind = ok && op.base < h.hi
		if ok {
			op.from = h.lo
		}
		if l.mayBeLost(op, reads) {
			l.lost++
			continue
		}
		if !op.blind {
			inv := Linear
			if op.acks == -1 {
				inv = Durable
			}
			l.find(op.acked, inv, "%s by %s, acked, but readers found %s there", op, op.who, l.at(seen, op.base))
		}
		ops = append(ops, op)
	}
	if settling {
		l.acked = rest
		l.fresh = slices.DeleteFunc(l.fresh, func(b Batch) bool { return b.Base < stop })
	}
	return ops, stop
}

// source takes the append that made the batch: the one acked at its base, or one without answer.
func (l *Log) source(b Batch, acked []*logOp, taken map[*logOp]bool) *logOp {
	// The same bytes acked twice at one base: the first were lost before the second came, so the batch is the latest.
	var latest *logOp
	for _, op := range acked {
		if op.batch() == b && !taken[op] && (latest == nil || op.call > latest.call) {
			latest = op
		}
	}
	if latest != nil {
		return latest
	}
	return l.attempt(b, never)
}

// spare counts, by their bytes, the attempts without answer that are more than the batches that were read and that no acked append made.
func (l *Log) spare(seen []Batch, acked map[int64][]*logOp) map[uint64]int {
	spare := make(map[uint64]int, len(l.unknown))
	for hash, list := range l.unknown {
		spare[hash] = len(list)
	}
	for _, b := range seen {
		if !slices.ContainsFunc(acked[b.Base], func(op *logOp) bool { return op.batch() == b }) {
			spare[b.Hash]--
		}
	}
	return spare
}

// attempt takes the first of the appends without answer that were called before a time and may have made the batch, nil: there is none.
func (l *Log) attempt(b Batch, before int64) *logOp {
	list := l.unknown[b.Hash]
	best := -1
	for i, op := range list {
		if op.next-op.base == int64(b.Records) && op.call < before && (best < 0 || op.call < list[best].call) {
			best = i
		}
	}
	if best < 0 {
		return nil
	}
	op := list[best]
	if list = slices.Delete(list, best, best+1); len(list) == 0 {
		delete(l.unknown, b.Hash)
	} else {
		l.unknown[b.Hash] = list
	}
	op.from, op.base, op.next = b.Base, b.Base, b.Next()
	return op
}

// orphan is the append of a batch that no surviving client reported. twin is an acked append of the same bytes: then nobody had a reason
// to send them again, but a producer that took the answer for lost, and then crashed.
func (l *Log) orphan(b Batch, twin *logOp) *logOp {
	op := &logOp{kind: opAppend, acks: anonymous, from: b.Base, base: b.Base, next: b.Next(), hash: b.Hash, ret: never, acked: never, who: "somebody"}
	switch {
	case twin != nil && (l.begun.Between(twin.base, b.Base) || l.crashed && l.deaf):
	case twin != nil && twin.base != b.Base:
		l.find(twin.acked, Linear, "the batch at %d..%d is there twice: it was acked at %d, and nobody sent it again", b.Base, b.Next()-1, twin.base)
	case twin == nil && !l.crashed:
		l.find(l.firstRead(b.Base), Linear, "readers found a batch at %d..%d that nobody sent, and no client crashed", b.Base, b.Next()-1)
	}
	return op
}

// firstRead is when a reader first learnt that the log reaches beyond the offset.
func (l *Log) firstRead(offset int64) int64 {
	at := int64(never)
	for end, p := range l.reads {
		if end > offset {
			at = min(at, p.first.ret)
		}
	}
	if at == never {
		return 0
	}
	return at
}

// at says what readers found at an offset.
func (l *Log) at(seen []Batch, offset int64) string {
	i := sort.Search(len(seen), func(i int) bool { return seen[i].Next() > offset })
	if i < len(seen) && seen[i].Base <= offset {
		return fmt.Sprintf("%d..%d #%04x", seen[i].Base, seen[i].Next()-1, seen[i].Hash>>48)
	}
	return "nothing"
}

// horizon is, by end offset, when a read first told that the log reaches that far.
type horizon struct {
	ends []int64
	ret  []int64 // earliest return of a read of at least ends[i]
}

func (l *Log) earliest() horizon {
	var h horizon
	for end := range l.reads {
		h.ends = append(h.ends, end)
	}
	slices.Sort(h.ends)
	h.ret = make([]int64, len(h.ends)+1)
	h.ret[len(h.ends)] = never
	for i := len(h.ends) - 1; i >= 0; i-- {
		h.ret[i] = min(h.ret[i+1], l.reads[h.ends[i]].first.ret)
	}
	return h
}

// beyond is when a read first told that the offset is visible.
func (h horizon) beyond(offset int64) int64 {
	i, _ := slices.BinarySearch(h.ends, offset+1)
	return h.ret[i]
}

// mayBeLost tells that an append acked with acks=1 may be gone: the broker lost unflushed records after it was called and
// before anybody saw that its offset is visible.
func (l *Log) mayBeLost(op *logOp, reads horizon) bool {
	if op.acks == -1 {
		return false
	}
	if l.several && l.moved {
		return true
	}
	visible := reads.beyond(op.base)
	return slices.ContainsFunc(l.powerLoss, func(at int64) bool { return op.call <= at && at <= visible })
}
