package linear

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"faultline/coord/client"
	"faultline/sim/machine"
	"faultline/workloads/history"
	"faultline/workloads/oracle"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// logEvent is an operation of a generated history: it happened at the moment at, inside [call, ret].
type logEvent struct {
	read     bool
	call     int
	ret      int
	acks     int16
	answered bool
	end      int64
	batch    Batch
}

// drawLog draws a history of a log that works: moments in order, operations of random length around them.
func drawLog(t *rapid.T) (events []logEvent, log []Batch) {
	var end int64
	at := 0
	overlap := rapid.IntRange(1, 40).Draw(t, "overlap")
	for i := range rapid.IntRange(1, 150).Draw(t, "operations") {
		at += rapid.IntRange(1, 10).Draw(t, "step")
		e := logEvent{read: rapid.Bool().Draw(t, "read"), call: at - rapid.IntRange(0, overlap).Draw(t, "before"), ret: at + rapid.IntRange(0, overlap).Draw(t, "after")}
		if e.read {
			e.end = end
			events = append(events, e)
			continue
		}
		e.acks = rapid.SampledFrom([]int16{-1, -1, 1, 0}).Draw(t, "acks")
		e.answered = e.acks != 0 && rapid.IntRange(0, 9).Draw(t, "answered") > 0
		e.batch = Batch{end, int32(rapid.IntRange(1, 3).Draw(t, "records")), uint64(i+1) << 40}
		if e.acks == 1 && e.answered {
			e.ret = at // that it may come before the record is visible is for the stories in log_test.go
		}
		if !e.answered && rapid.Bool().Draw(t, "never") {
			events = append(events, e) // sent, and never there
			continue
		}
		end = e.batch.Next()
		log = append(log, e.batch)
		events = append(events, e)
	}
	return events, log
}

// drawUnread takes a range out of what readers will see.
func drawUnread(t *rapid.T, log []Batch) []Batch {
	from := rapid.IntRange(0, len(log)).Draw(t, "unread from")
	return slices.Delete(slices.Clone(log), from, rapid.IntRange(from, len(log)).Draw(t, "unread to"))
}

func feed(l *Log, events []logEvent, log []Batch) {
	slices.SortStableFunc(events, func(a, b logEvent) int { return a.ret - b.ret })
	for i, e := range events {
		call, ret := ms*time.Duration(e.call+100), ms*time.Duration(e.ret+100)
		who := fmt.Sprint("client-", i%3)
		switch {
		case e.read:
			l.Read(who, call, ret, e.end)
		case e.answered:
			l.AppendAcked(who, call, ret, e.acks, e.batch)
		default:
			l.AppendUnknown(who, call, e.acks, e.batch)
		}
		for ; len(log) > 0 && e.read && log[0].Next() <= e.end; log = log[1:] {
			l.Saw(who, call, ret, log[0])
		}
	}
}

func TestLogThatWorksPasses(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		events, log := drawLog(t)
		l := NewLog("t/0", &Budget{})
		l.limit = rapid.SampledFrom([]int{8, 64, 1 << 17}).Draw(t, "limit")
		feed(l, events, drawUnread(t, log))
		v := l.Check()
		require.Equal(t, OK, v.Outcome, "%v\n%v", v, v.Window)
		require.Empty(t, l.window)
	})
}

func TestLogWithOneCorruptionFails(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		events, log := drawLog(t)
		l := NewLog("t/0", &Budget{})
		l.limit = rapid.SampledFrom([]int{64, 1 << 17}).Draw(t, "limit")
		// Where the log is known to stand: an acked append, called after all that came before.
		var end int64
		if len(log) > 0 {
			end = log[len(log)-1].Next()
		}
		at := 100_000
		next := func(e logEvent) logEvent {
			at += 1000
			e.call, e.ret = at, at+10
			return e
		}
		acked := func(records int32, hash uint64) logEvent {
			e := next(logEvent{acks: -1, answered: true, batch: Batch{end, records, hash}})
			end = e.batch.Next()
			return e
		}
		read := func(end int64) logEvent { return next(logEvent{read: true, end: end}) }
		a, b := acked(2, 1<<30), acked(3, 2<<30)
		tail := []logEvent{a, b, read(end)}
		seen := append(drawUnread(t, log), a.batch, b.batch)
		switch rapid.IntRange(0, 6).Draw(t, "corruption") {
		case 0: // stale read
			tail = append(tail, read(a.batch.Next()))
		case 1: // the log goes back to its beginning
			tail = append(tail, read(0))
		case 2: // the acked append is not there
			seen = seen[:len(seen)-1]
			tail[2].end = a.batch.Next()
		case 3: // two acked at the same place
			tail[1].batch.Base = a.batch.Base
		case 4: // exchanged
			seen = slices.Clone(seen)
			n := len(seen)
			seen[n-2], seen[n-1] = Batch{a.batch.Base, 3, b.batch.Hash}, Batch{a.batch.Base + 3, 2, a.batch.Hash}
		case 5: // changed
			seen = slices.Clone(seen)
			seen[len(seen)-1].Hash++
		case 6: // phantom
			x := acked(1, 3<<30)
			seen = append(seen, x.batch)
			tail = append(tail, read(end))
		}
		feed(l, append(events, tail...), seen)
		require.Equal(t, Violated, l.Check().Outcome)
	})
}

// A search that keeps to the order of the ranks finds an order exactly when a search that may leap finds one.
func TestLogInOrderRulesOutNoLinearization(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var ops []porcupine.Operation
		var end int64
		small := rapid.IntRange(0, 20)
		for i := range rapid.IntRange(1, 8).Draw(t, "operations") {
			op := &logOp{kind: rapid.SampledFrom([]logKind{opRead, opAppend}).Draw(t, "kind"), blind: true, ret: never}
			op.base = max(0, end+int64(rapid.SampledFrom([]int{0, 0, 0, 1, 2, -1}).Draw(t, "leap")))
			op.from = rapid.SampledFrom([]int64{0, 0, 0, op.base}).Draw(t, "from")
			op.next = op.base
			if op.kind == opAppend {
				op.next += int64(rapid.IntRange(1, 2).Draw(t, "records"))
			}
			end = max(end, op.next)
			op.call = int64(4*i + small.Draw(t, "call"))
			if op.kind == opRead || rapid.Bool().Draw(t, "returns") {
				op.ret = op.call + int64(small.Draw(t, "takes"))
			}
			ops = append(ops, porcupine.Operation{Input: op, Call: op.call, Return: op.ret})
		}
		ops = rapid.Permutation(ops).Draw(t, "listed")
		leaps := logModel(logState{})
		leaps.Partition = nil
		want := (&Budget{Window: 1 << 22}).judge(leaps, ops)
		require.NotEqual(t, Inconclusive, want)
		require.Equal(t, want, (&Budget{Window: 4 * 64}).judge(logModel(logState{}), ops))
	})
}

// world is a znode that works.
type world struct {
	o       *Oracle
	state   nodeState
	data    string
	at      int
	overlap int
	calls   []func()
	n       int
}

const path = "/consumers/g/owners/t/0"

func (w *world) call(t *rapid.T, c history.CoordCall) {
	c.Path, c.Sent = path, true
	c.Session = int64(10 + rapid.IntRange(0, 2).Draw(t, "session"))
	w.apply(t, c)
}

func (w *world) apply(t *rapid.T, c history.CoordCall) {
	start := w.at - rapid.IntRange(0, w.overlap).Draw(t, "before")
	end := w.at + rapid.IntRange(0, w.overlap).Draw(t, "after")
	lost := c.Op != "get" && c.Op != "exists" && rapid.IntRange(0, 11).Draw(t, "lost") == 0
	happens := !lost || rapid.Bool().Draw(t, "happens")
	match := c.Version == -1 || c.Version == w.state.version
	switch {
	case c.Op == "create" && w.state.exists:
		c.Err = client.ErrNodeExists
	case c.Op == "create":
		if happens {
			w.state, w.data = nodeState{exists: true, owner: c.Session}, string(c.Data)
		}
		c.Name = c.Path
	case !w.state.exists && c.Op == "exists":
	case !w.state.exists:
		c.Err = client.ErrNoNode
	case !match && (c.Op == "set" || c.Op == "delete"):
		c.Err = client.ErrBadVersion
	case c.Op == "set":
		if happens {
			w.state.version++
			w.data = string(c.Data)
		}
		c.Stat = history.Stat{Version: w.state.version, Owner: w.state.owner}
	case c.Op == "delete":
		if happens {
			w.state = nodeState{}
		}
	default:
		c.Value, c.Found = []byte(w.data), true
		c.Stat = history.Stat{Version: w.state.version, Owner: w.state.owner}
	}
	if lost {
		c.Err, c.Unknown, c.Name, c.Stat = client.ErrConnectionLoss, true, "", history.Stat{}
	}
	c.Start, c.End = ms*time.Duration(start+100), ms*time.Duration(end+100)
	w.calls = append(w.calls, func() {
		call := c
		w.o.Observe(&history.Event{Kind: history.CoordCalled, At: c.End, Machine: "m", Coord: &call})
	})
}

func (w *world) step(t *rapid.T) {
	w.at += rapid.IntRange(1, 8).Draw(t, "step")
	w.n++
	data := fmt.Appendf(nil, "data %d", w.n)
	version := int32(-1)
	if rapid.Bool().Draw(t, "conditional") {
		version = max(w.state.version-int32(rapid.IntRange(0, 1).Draw(t, "old")), 0)
	}
	switch rapid.IntRange(0, 9).Draw(t, "op") {
	case 0, 1:
		w.call(t, history.CoordCall{Op: "create", Data: data, Ephemeral: true})
	case 2:
		w.call(t, history.CoordCall{Op: "delete", Version: version})
	case 3, 4, 5:
		w.call(t, history.CoordCall{Op: "set", Data: data, Version: version})
	case 6:
		w.call(t, history.CoordCall{Op: "exists"})
	case 7:
		id := int64(20 + w.n)
		if w.state.exists {
			id = w.state.owner
		}
		// A session that ended does nothing more: this one only owned.
		if id >= 20 {
			at := ms * time.Duration(w.at+100)
			w.calls = append(w.calls, func() {
				w.o.Observe(&history.Event{Kind: history.Traced, At: at, Machine: "coord", Trace: machine.Event{Kind: machine.SessionExpired, A: id}})
			})
			w.state = nodeState{}
		}
	default:
		w.call(t, history.CoordCall{Op: "get"})
	}
}

func drawWorld(t *rapid.T) *world {
	w := &world{o: New(&oracle.Promise{Coord: []string{"coord"}}), overlap: rapid.IntRange(0, 25).Draw(t, "overlap")}
	for range rapid.IntRange(1, 80).Draw(t, "operations") {
		w.step(t)
	}
	return w
}

func (w *world) verdict() Verdict {
	for _, call := range w.calls {
		call()
	}
	w.o.Finish(oracle.End{At: time.Hour})
	if len(w.o.Verdicts()) == 0 {
		return Verdict{}
	}
	return w.o.Verdicts()[0]
}

func TestNodeThatWorksPasses(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := drawWorld(t).verdict()
		require.Equal(t, OK, v.Outcome, "%v\n%v", v, v.Window)
	})
}

func TestNodeWithOneCorruptionFails(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		w.overlap = 0
		quiet := func(c history.CoordCall) {
			w.at += 1000
			c.Path, c.Sent, c.Session = path, true, 99
			c.Start, c.End = ms*time.Duration(w.at+100), ms*time.Duration(w.at+101)
			w.calls = append(w.calls, func() {
				call := c
				w.o.Observe(&history.Event{Kind: history.CoordCalled, At: c.End, Machine: "m", Coord: &call})
			})
		}
		// Sessions end: nothing is open any more. Then a known state.
		for _, s := range []int64{10, 11, 12} {
			at := ms * time.Duration(w.at+500)
			w.calls = append(w.calls, func() {
				w.o.Observe(&history.Event{Kind: history.Traced, At: at, Machine: "coord", Trace: machine.Event{Kind: machine.SessionExpired, A: s}})
			})
		}
		quiet(history.CoordCall{Op: "get", Err: client.ErrNoNode})
		quiet(history.CoordCall{Op: "create", Data: []byte("a"), Name: path})
		quiet(history.CoordCall{Op: "set", Data: []byte("b"), Version: 0, Stat: history.Stat{Version: 1}})
		switch rapid.IntRange(0, 5).Draw(t, "corruption") {
		case 0: // stale
			quiet(history.CoordCall{Op: "get", Value: []byte("a")})
		case 1: // lost set: the next one is told the same version
			quiet(history.CoordCall{Op: "set", Data: []byte("c"), Version: -1, Stat: history.Stat{Version: 1}})
		case 2: // phantom
			quiet(history.CoordCall{Op: "get", Value: []byte("x"), Stat: history.Stat{Version: 1}})
		case 3: // resurrected
			quiet(history.CoordCall{Op: "delete", Version: 1})
			quiet(history.CoordCall{Op: "get", Value: []byte("b"), Stat: history.Stat{Version: 1}})
		case 4: // false refusal
			quiet(history.CoordCall{Op: "delete", Version: 1, Err: client.ErrBadVersion})
		case 5: // stale version accepted
			quiet(history.CoordCall{Op: "set", Data: []byte("c"), Version: 0, Stat: history.Stat{Version: 2}})
		}
		require.Equal(t, Violated, w.verdict().Outcome)
	})
}

// finals are the states in which some order of the operations ends that real time allows and that explains every result.
func finals(state nodeState, left []*nodeOp, found map[nodeState]bool) {
	if len(left) == 0 {
		found[state] = true
	}
	for i, op := range left {
		if slices.ContainsFunc(left, func(o *nodeOp) bool { return o.ret < op.call }) {
			continue
		}
		rest := slices.Concat(left[:i], left[i+1:])
		if next, ok := stepNode(state, op); ok {
			finals(next, rest, found)
		}
		if op.result == perhaps {
			finals(state, rest, found)
		}
	}
}

func TestNodeCutOnlyWhereOneStateIsPossible(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		start := rapid.SampledFrom([]nodeState{{}, {exists: true}, {exists: true, version: 1, owner: 7}}).Draw(t, "start")
		told := anchorAt(0, start, true)
		var ops []*nodeOp
		state, at := start, int64(0)
		busy, before := int64(-1), int64(-1)
		for range rapid.IntRange(1, 6).Draw(t, "operations") {
			at += rapid.Int64Range(1, 4).Draw(t, "later")
			op := &nodeOp{call: at, ret: at + rapid.SampledFrom([]int64{0, 0, 1, 3, 9}).Draw(t, "takes"), version: -1,
				kind:  nodeKind(rapid.IntRange(int(nodeCreate), int(nodeEnd)).Draw(t, "kind")),
				data:  rapid.Uint64Range(0, 1).Draw(t, "data"),
				blind: rapid.Bool().Draw(t, "blind")}
			switch op.kind {
			case nodeCreate, nodeEnd:
				op.owner = rapid.SampledFrom([]int64{0, 7}).Draw(t, "owner")
			case nodeGet, nodeExists:
				op.owner, op.data, op.got = state.owner, state.data, state.version
			case nodeSet:
				op.got = state.version + 1
			}
			switch rapid.IntRange(0, 5).Draw(t, "result") {
			case 0:
				op.result = perhaps
			case 1:
				op.result = noNode
			case 2:
				op.result = nodeThere
			}
			if op.kind == nodeEnd && op.result != perhaps {
				op.result = done
			}
			if op.read() && op.result == perhaps {
				op.result = done
			}
			if next, ok := stepNode(state, op); ok {
				state = next
			}
			// The place before the operation.
			if i := len(ops); i > 0 && op.call > busy && told.next(ops, i, before, start.owner == 0 && !owned(ops)) {
				found := map[nodeState]bool{}
				finals(start, ops, found)
				for s := range found {
					require.Equal(t, told.state, s)
				}
			}
			ops = append(ops, op)
			before, busy = busy, max(busy, op.ret)
		}
	})
}

func owned(ops []*nodeOp) bool {
	return slices.ContainsFunc(ops, func(o *nodeOp) bool { return o.owner != 0 })
}

// A node whose versions nobody is told (steps of a multi are blind) and that nobody reads must be checked as it goes.
func TestLongHistoryOfBlindSetsIsChecked(t *testing.T) {
	budget := &Budget{}
	budget.fill()
	n := newNode(path, Linear, budget)
	n.add(&nodeOp{kind: nodeCreate, call: 0, ret: 1})
	for i := range int64(10 * nodeLimit) {
		at := 10 + 10*i*int64(time.Millisecond)
		n.add(&nodeOp{kind: nodeSet, version: int32(i), blind: true, call: at, ret: at + 5})
		if n.due() {
			n.settle(at + int64(nodeLag))
		}
		require.Less(t, len(n.ops), nodeLimit+1)
	}
	require.Equal(t, OK, n.conclude(nil).Outcome)
	n = newNode(path, Linear, budget)
	for i := range int64(nodeMost + 2) { // never a moment without something under way
		n.add(&nodeOp{kind: nodeSet, version: -1, blind: true, result: perhaps, call: i, ret: i + 10})
	}
	require.Equal(t, Inconclusive, n.conclude(nil).Outcome)
}
