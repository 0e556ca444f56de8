package linear

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"faultline/workloads/oracle"
)

// Log is the history of one partition's log and its check.
//
// Memory: the appends and, for each end offset that was read, two reads: the one that returned first and the one that was called last. The
// end never goes back, so it is e during one span of time; every read of e has a moment in that span if these two have one. Beyond
// a limit of appends the settled part is checked and dropped (see settle).
type Log struct {
	name   string
	budget *Budget
	limit  int // appends kept before the settled part is checked
	total  int // operations seen
	full   bool

	start   logState // state below which everything is checked and dropped
	called  int64    // latest call among what was dropped
	calledN string   // what that operation was
	missed  int      // operations that came too late: below start
	lost    int      // acked appends with acks=1 that a power loss may have taken

	acked   []*logOp // in the order of their returns
	unknown map[uint64][]*logOp
	reads   map[int64]*readPair
	seen    map[int64]Batch // by base: what clients read
	fresh   []Batch         // of seen, above start, in the order of reading

	several   bool    // replicas: reads are not judged
	moved     bool    // another replica led since: it may lack what was acked with acks=1 and not committed
	powerLoss []int64 // times at which unflushed records may have gone
	begun     oracle.Begun
	crashed   bool  // a client crashed, so there may be appends that nobody reported
	deaf      bool  // a misfortune has producers take answers for lost, so that they send again what was acked
	logStart  int64 // that a broker told
	notBefore int64 // operations called before belong to a log of the same name that is deleted
	notAfter  int64 // what is told from then on may be of another log, and counts no more
	ruined    bool  // that time has come

	found   []finding
	window  *Window // of the first violation that a search showed
	unclear string  // why the verdict cannot be ok
}

type readPair struct{ first, last logOp } // first to return, last to be called

// finding is a violation that was seen without a search.
type finding struct {
	at        int64
	invariant string
	text      string
}

// NewLog is an empty log. The name is for people: "topic/partition".
func NewLog(name string, budget *Budget) *Log {
	return &Log{name: name, budget: budget, limit: 1 << 12, unknown: map[uint64][]*logOp{}, reads: map[int64]*readPair{}, seen: map[int64]Batch{}}
}

// AppendAcked tells that a request (acks 1 or -1) was answered: the batch has the offsets from b.Base. Times are world time.
func (l *Log) AppendAcked(who string, call, ret time.Duration, acks int16, b Batch) {
	if l.ruined {
		l.AppendUnknown(who, call, acks, b)
		return
	}
	if l.skip(call) {
		return
	}
	if b.Base < l.start.end {
		l.late(ret, b)
		return
	}
	op := &logOp{kind: opAppend, acks: acks, from: b.Base, base: b.Base, next: b.Next(), hash: b.Hash,
		call: int64(call), ret: int64(ret), acked: int64(ret), who: who}
	if acks != -1 {
		op.ret = never
	}
	l.acked = append(l.acked, op)
	if len(l.acked) >= l.limit && len(l.acked)%(l.limit/4) == 0 {
		l.settle()
		l.full = len(l.acked) >= 8*l.limit
	}
}

// Again tells that a batch that only one append can have the bytes of was acknowledged. Its attempts without answer are the same append: it returns when that was called first, and forgets them.
// known: it was acknowledged before, at the same place, and is no further append.
func (l *Log) Again(call time.Duration, b Batch) (first time.Duration, known bool) {
	for _, earlier := range l.unknown[b.Hash] {
		call = min(call, time.Duration(earlier.call))
		l.total--
	}
	delete(l.unknown, b.Hash)
	known = slices.ContainsFunc(l.acked, func(op *logOp) bool { return op.hash == b.Hash && op.base == b.Base && op.next == b.Next() })
	return call, known
}

// skip tells that an operation does not count: it was meant for an older log or a later one, or there are too many.
func (l *Log) skip(call time.Duration) bool {
	if int64(call) < l.notBefore || l.full || l.ruined && int64(call) >= l.notAfter {
		return true
	}
	l.total++
	return false
}

// late compares an append that was answered after its place was checked.
func (l *Log) late(ret time.Duration, b Batch) {
	l.missed++
	if s, ok := l.seen[b.Base]; ok && s != b {
		l.find(int64(ret), Durable, "append acked at %d..%d, but readers found another batch there", b.Base, b.Next()-1)
	}
}

// AppendUnknown tells that a request got no answer, or one that leaves the outcome open. b.Base means nothing.
func (l *Log) AppendUnknown(who string, call time.Duration, acks int16, b Batch) {
	if l.skip(call) {
		return
	}
	l.unknown[b.Hash] = append(l.unknown[b.Hash], &logOp{kind: opAppend, acks: acks, next: int64(b.Records), hash: b.Hash,
		call: int64(call), ret: never, acked: never, who: who})
}

// Read tells that a client learnt that the log ends at end.
func (l *Log) Read(who string, call, ret time.Duration, end int64) {
	if l.several || l.ruined || l.skip(call) {
		return
	}
	if end < l.start.end {
		l.missed++
		return
	}
	op := logOp{kind: opRead, from: end, base: end, next: end, call: int64(call), ret: int64(ret), who: who}
	p := l.reads[end]
	if p == nil {
		l.reads[end] = &readPair{op, op}
		return
	}
	if op.ret < p.first.ret {
		p.first = op
	}
	if op.call > p.last.call {
		p.last = op
	}
}

// Saw tells that a client called for and got a batch. Readers must agree on every byte.
func (l *Log) Saw(who string, call, ret time.Duration, b Batch) {
	if int64(call) < l.notBefore || l.full || l.ruined {
		return
	}
	s, ok := l.seen[b.Base]
	if !ok {
		l.seen[b.Base] = b
		if b.Base >= l.start.end {
			l.fresh = append(l.fresh, b)
		} else {
			l.missed++
		}
		return
	}
	if s != b {
		l.find(int64(ret), Linear, "%s read another batch at offset %d than was read there before: %d records #%04x, before %d records #%04x",
			who, b.Base, b.Records, b.Hash>>48, s.Records, s.Hash>>48)
	}
}

// MayLose tells that the broker lost its page cache, or that a disk error fenced the log: appends acked with acks=1 that nobody saw may be gone.
func (l *Log) MayLose(at time.Duration) { l.powerLoss = append(l.powerLoss, int64(at)) }

// Ruined tells that from now on the log may be another one, so nothing is verified any more. A request that was sent before and is answered, or given up, later may
// have made one of the batches that were read before.
func (l *Log) Ruined(at time.Duration) { l.ruined, l.notAfter = true, int64(at) }

// Moved tells that another replica leads.
func (l *Log) Moved() { l.moved = true }

// Crashed tells that a client crashed: it may have sent appends that are never reported.
func (l *Log) Crashed() { l.crashed = true }

// Deaf tells that a producer may take an answer that came for lost, and so sends again what was acked.
func (l *Log) Deaf() { l.deaf = true }

func (l *Log) find(at int64, invariant, format string, args ...any) {
	l.found = append(l.found, finding{at, invariant, fmt.Sprintf(format, args...)})
}

// hole is a range of offsets [lo, hi) that no client read.
type hole struct{ lo, hi int64 }

// cover sorts what was read from start on and finds the holes; the last one has no end.
func (l *Log) cover() (seen []Batch, holes []hole) {
	slices.SortFunc(l.fresh, func(a, b Batch) int { return cmp.Compare(a.Base, b.Base) })
	end := l.start.end
	for _, b := range l.fresh {
		switch {
		case b.Base > end:
			holes = append(holes, hole{end, b.Base})
		case b.Base < end:
			l.find(l.firstRead(b.Base), Linear, "readers found a batch at %d..%d inside one that ends at %d", b.Base, b.Next()-1, end-1)
			continue
		}
		seen = append(seen, b)
		end = b.Next()
	}
	return seen, append(holes, hole{end, never})
}

// holeAt returns the hole that contains the offset or ends at it.
func holeAt(holes []hole, offset int64) (hole, bool) {
	i, _ := slices.BinarySearchFunc(holes, offset, func(h hole, o int64) int {
		if h.hi < o {
			return -1
		}
		return 1
	})
	if i < len(holes) && holes[i].lo <= offset {
		return holes[i], true
	}
	return hole{}, false
}
