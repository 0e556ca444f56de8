package linear

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"faultline/coord/client"
	"faultline/sim/machine"
	"faultline/workloads/history"
)

// tree gathers the operations on the coordination service, path by path.
type tree struct {
	budget   *Budget
	nodes    map[string]*node
	order    []*node
	children map[string][]*node // by path of the parent

	sessions map[int64]*session
	crashes  []int64 // of clients
	stops    []int64 // of the service
	wiped    []int64 // of the service
	// sequential are the paths, without number, of sequential creates that got no answer or whose answer does not tell the name.
	sequential map[string]bool

	now int64
}

// session is what matters of a session.
type session struct {
	owned   []*node   // paths where it may have an ephemeral
	pending []*nodeOp // writes without answer that may still take effect
	ended   int64     // never: alive
}

func (t *tree) init(b *Budget) {
	t.budget = b
	t.nodes, t.children = map[string]*node{}, map[string][]*node{}
	t.sessions, t.sequential = map[int64]*session{}, map[string]bool{}
}

func (t *tree) node(path string) *node {
	n := t.nodes[path]
	if n == nil {
		n = newNode(path, invariantOf(path), t.budget)
		// Nodes that the service has from the start are not created by anybody.
		if path == "/" || path == "/zookeeper" || strings.HasPrefix(path, "/zookeeper/") {
			n.known = false
		}
		t.nodes[path] = n
		t.order = append(t.order, n)
		if i := strings.LastIndexByte(path, '/'); i >= 0 && path != "/" {
			t.children[parent(path)] = append(t.children[parent(path)], n)
		}
	}
	return n
}

func parent(path string) string {
	i := strings.LastIndexByte(path, '/')
	if i <= 0 {
		return "/"
	}
	return path[:i]
}

func (t *tree) session(id int64) *session {
	s := t.sessions[id]
	if s == nil {
		s = &session{ended: never}
		t.sessions[id] = s
	}
	return s
}

// add puts an operation on its path.
func (t *tree) add(path string, op *nodeOp) {
	n := t.node(path)
	n.add(op)
	if op.owner != 0 && op.kind != nodeEnd {
		t.owns(op.owner, n, op.call)
	}
	if n.due() {
		n.settle(t.now)
	}
}

// owns notes that the session may have an ephemeral at the path, since a moment.
func (t *tree) owns(id int64, n *node, since int64) {
	s := t.session(id)
	if slices.Contains(s.owned, n) {
		return
	}
	s.owned = append(s.owned, n)
	if s.ended != never {
		n.add(&nodeOp{kind: nodeEnd, owner: id, call: s.ended, ret: s.ended, who: "service"})
	}
	for _, at := range t.stops {
		if at >= since && at < s.ended {
			t.mayEnd(id, n, at)
		}
	}
}

// mayEnd: a stop of the service may have come between the transaction that ended a session and its trace.
func (t *tree) mayEnd(id int64, n *node, at int64) {
	n.add(&nodeOp{kind: nodeEnd, result: perhaps, owner: id, call: at, ret: at, who: "service"})
}

func (t *tree) serverStopped(at int64, wiped bool) {
	if wiped {
		t.wiped = append(t.wiped, at)
		return
	}
	t.stops = append(t.stops, at)
	for _, id := range slices.Sorted(maps.Keys(t.sessions)) {
		if s := t.sessions[id]; s.ended == never {
			for _, n := range s.owned {
				t.mayEnd(id, n, at)
			}
		}
	}
}

// traced takes an applied transaction.
func (t *tree) traced(e *history.Event) {
	ev, at := &e.Trace, int64(e.At)
	switch ev.Kind {
	case machine.SessionClosed, machine.SessionExpired:
		s := t.session(ev.A)
		if s.ended != never {
			return
		}
		s.ended = at
		for _, op := range s.pending {
			op.ret = min(op.ret, at)
		}
		s.pending = nil
		for _, n := range s.owned {
			n.add(&nodeOp{kind: nodeEnd, owner: ev.A, call: at, ret: at, who: "service"})
		}
	case machine.ZnodeCreated:
		t.event(ev.Subject, nodeEvent{kind: nodeCreate, at: at, data: hashOf([]byte(ev.Detail)), owner: ev.A})
	case machine.ZnodeSet:
		t.event(ev.Subject, nodeEvent{kind: nodeSet, at: at, data: hashOf([]byte(ev.Detail)), version: int32(ev.A)})
	case machine.ZnodeDeleted:
		t.event(ev.Subject, nodeEvent{kind: nodeDelete, at: at, owner: ev.A})
	}
}

func (t *tree) event(path string, e nodeEvent) {
	n := t.node(path)
	n.events = append(n.events, e)
}

// called takes an operation of a client.
func (t *tree) called(who string, c *history.CoordCall, now int64) {
	t.now = now
	if c.Err != nil && (!c.Unknown && !refused(c.Err) || !c.Sent && c.Unknown) {
		return // it never reached the service, or is a read without answer
	}
	if !c.Unknown {
		t.answered(c)
	}
	op := nodeOp{version: c.Version, call: int64(c.Start), ret: int64(c.End), who: who, session: c.Session}
	switch c.Op {
	case "create":
		path := c.Path
		if c.Sequential {
			if c.Err != nil {
				if c.Unknown {
					t.sequential[c.Path] = true
				}
				return
			}
			path = c.Name
		}
		t.write(path, t.creates(op, c), c)
	case "delete":
		op.kind = nodeDelete
		t.write(c.Path, op, c)
	case "set":
		op.kind, op.data, op.got = nodeSet, hashOf(c.Data), c.Stat.Version
		t.write(c.Path, op, c)
	case "get", "exists":
		t.read(op, c)
	case "children":
		t.listed(op, c)
	case "multi":
		t.multi(op, c)
	}
}

func (t *tree) creates(op nodeOp, c *history.CoordCall) nodeOp {
	op.kind, op.data = nodeCreate, hashOf(c.Data)
	if c.Ephemeral {
		op.owner = op.session
	}
	return op
}

// refused tells that the service answered with a refusal that says something of the tree.
func refused(err error) bool {
	return errors.Is(err, client.ErrNoNode) || errors.Is(err, client.ErrNodeExists) || errors.Is(err, client.ErrBadVersion) ||
		errors.Is(err, client.ErrNotEmpty) || errors.Is(err, client.ErrNoChildrenForEphemerals)
}

// answered settles the session's writes without answer: those that ended before this call was made took effect by now, or never will.
func (t *tree) answered(c *history.CoordCall) {
	s := t.sessions[c.Session]
	if s == nil || len(s.pending) == 0 {
		return
	}
	left := s.pending[:0]
	for _, op := range s.pending {
		if op.ended > int64(c.Start) {
			left = append(left, op)
			continue
		}
		op.ret = int64(c.End)
	}
	s.pending = left
}

func (t *tree) write(path string, op nodeOp, c *history.CoordCall) {
	switch {
	case c.Unknown:
		op.result, op.ended, op.ret = perhaps, op.ret, never
		s := t.session(op.session)
		if s.ended < op.call {
			return // refused: the session was over
		}
		op.ret = s.ended
		o := &op
		if s.ended == never {
			s.pending = append(s.pending, o)
		}
		t.add(path, o)
		return
	case errors.Is(c.Err, client.ErrNoNode):
		op.result = noNode
		if op.kind == nodeCreate {
			op.owner = 0
			parentOp := op
			t.add(parent(path), &parentOp)
		}
	case errors.Is(c.Err, client.ErrNodeExists):
		op.result, op.owner = nodeThere, 0
	case errors.Is(c.Err, client.ErrBadVersion):
		op.result = badVersion
	case errors.Is(c.Err, client.ErrNotEmpty):
		op.result = notEmpty
	case errors.Is(c.Err, client.ErrNoChildrenForEphemerals):
		op = nodeOp{kind: nodePresent, call: op.call, ret: op.ret, who: op.who}
		path = parent(path)
	}
	t.add(path, &op)
}

func (t *tree) read(op nodeOp, c *history.CoordCall) {
	if c.Unknown {
		return
	}
	op.kind, op.version = nodeGet, -1
	if c.Op == "exists" {
		op.kind = nodeExists
	}
	switch {
	case errors.Is(c.Err, client.ErrNoNode), c.Op == "exists" && !c.Found:
		op.result = noNode
	case c.Err != nil:
		return
	default:
		op.got, op.owner = c.Stat.Version, c.Stat.Owner
		if op.kind == nodeGet {
			op.data = hashOf(c.Value)
		}
	}
	t.add(c.Path, &op)
}

// listed takes a list of children: it says of each path below the parent that it was there, or was not.
func (t *tree) listed(op nodeOp, c *history.CoordCall) {
	if c.Unknown {
		return
	}
	op.kind, op.version = nodePresent, -1
	if c.Err != nil {
		if errors.Is(c.Err, client.ErrNoNode) {
			op.result = noNode
			t.add(c.Path, &op)
		}
		return
	}
	at := op
	t.add(c.Path, &at)
	prefix := strings.TrimSuffix(c.Path, "/") + "/"
	for _, name := range c.Children {
		t.node(prefix + name)
	}
	for _, n := range t.children[c.Path] {
		child := op
		if _, there := slices.BinarySearch(c.Children, n.name[len(prefix):]); !there {
			child.result = noNode
		}
		t.add(n.name, &child)
	}
}

// multi takes the steps one by one.
func (t *tree) multi(op nodeOp, c *history.CoordCall) {
	var failed *client.MultiError
	errors.As(c.Err, &failed)
	for i := range c.Ops {
		step := &c.Ops[i]
		one := op
		one.version, one.blind = step.Version, true
		switch step.Op {
		case "create":
			one = t.creates(one, step)
		case "delete":
			one.kind = nodeDelete
		case "set":
			one.kind, one.data = nodeSet, hashOf(step.Data)
		case "check":
			one.kind = nodeCheck
		}
		result := history.CoordCall{Unknown: c.Unknown}
		if failed != nil {
			// Only the step that was refused tells something; the steps before it were undone, so its own reason must
			// hold without them too only if none of them touches its path.
			if i != failed.Index || touched(c.Ops[:i], step.Path) {
				continue
			}
			result.Err = failed.Err
		}
		switch {
		case step.Op == "create" && step.Sequential:
			if failed == nil {
				t.sequential[step.Path] = true
			}
			continue
		case step.Op == "check" && c.Unknown, c.Err != nil && failed == nil && !c.Unknown:
			continue
		case failed == nil && !c.Unknown && touched(c.Ops[:i], step.Path):
			one.result = perhaps // its result depends on the step before, and both count as free to come in any order
		}
		t.write(step.Path, one, &result)
	}
}

// touched tells whether one of the steps is about the path or its parent.
func touched(steps []history.CoordCall, path string) bool {
	return slices.ContainsFunc(steps, func(s history.CoordCall) bool { return s.Path == path || s.Path == parent(path) })
}

// conclude judges a path.
func (t *tree) conclude(n *node) Verdict {
	const near = int64(time.Minute)
	n.explain(never, func(e *nodeEvent) bool {
		if e.kind == nodeCreate && t.isSequential(n.name) {
			return true
		}
		return slices.ContainsFunc(t.crashes, func(at int64) bool { return e.at >= at-near && e.at <= at+near })
	})
	lost := slices.Clone(t.wiped)
	for _, at := range t.stops {
		// A crash of a client and then of the service may hide a write that neither of them told.
		if t.isSequential(n.name) || slices.ContainsFunc(t.crashes, func(c int64) bool { return c <= at && c >= at-near }) {
			lost = append(lost, at)
		}
	}
	slices.Sort(lost)
	return n.conclude(slices.Compact(lost))
}

func (t *tree) isSequential(path string) bool {
	const digits = 10
	return len(path) > digits && t.sequential[path[:len(path)-digits]]
}
