package linear

import (
	"fmt"
	"testing"
	"time"

	"faultline/coord/client"
	"faultline/sim/machine"
	"faultline/workloads/history"
	"faultline/workloads/oracle"

	"github.com/stretchr/testify/require"
)

// registry tells what clients asked of the coordination service. Times are milliseconds.
type registry struct{ *Oracle }

func newRegistry() registry {
	return registry{New(&oracle.Promise{Coord: []string{"coord"}, Brokers: []string{"broker"}})}
}

func (r registry) call(who string, session int64, call, ret int, c history.CoordCall) {
	c.Session, c.Start, c.End, c.Sent = session, ms*time.Duration(call), ms*time.Duration(ret), true
	c.Unknown = client.Unknown(c.Err)
	r.Observe(&history.Event{Kind: history.CoordCalled, At: c.End, Machine: who, Coord: &c})
}

func (r registry) create(call, ret int, path, data string, session int64, err error) {
	r.call("a", session, call, ret, history.CoordCall{Op: "create", Path: path, Data: []byte(data), Ephemeral: session > 9, Name: path, Err: err})
}

func (r registry) set(call, ret int, path, data string, if_, got int32, err error) {
	r.call("a", 1, call, ret, history.CoordCall{Op: "set", Path: path, Data: []byte(data), Version: if_, Stat: history.Stat{Version: got}, Err: err})
}

func (r registry) remove(call, ret int, path string, if_ int32, err error) {
	r.call("a", 1, call, ret, history.CoordCall{Op: "delete", Path: path, Version: if_, Err: err})
}

func (r registry) get(call, ret int, path, data string, version int32, owner int64) {
	r.call("b", 2, call, ret, history.CoordCall{Op: "get", Path: path, Value: []byte(data), Stat: history.Stat{Version: version, Owner: owner}})
}

func (r registry) absent(call, ret int, path string) {
	r.call("b", 2, call, ret, history.CoordCall{Op: "get", Path: path, Err: fmt.Errorf("get: %w", client.ErrNoNode)})
}

func (r registry) trace(at int, e machine.Event) {
	r.Observe(&history.Event{Kind: history.Traced, At: ms * time.Duration(at), Machine: "coord", Trace: e})
}

func (r registry) gone(at int, who string) {
	r.Observe(&history.Event{Kind: history.MachineCrashed, At: ms * time.Duration(at), Machine: who})
}

func (r registry) verdict(path string) Verdict {
	r.Finish(oracle.End{At: time.Hour})
	for _, v := range r.Verdicts() {
		if v.Object == path {
			return v
		}
	}
	return Verdict{}
}

func (r registry) ok(t *testing.T, path string) {
	t.Helper()
	v := r.verdict(path)
	require.Equal(t, OK, v.Outcome, "%v", v)
	require.Empty(t, v.Unverified)
}

func (r registry) broken(t *testing.T, path, text string) {
	t.Helper()
	v := r.verdict(path)
	require.Equal(t, Violated, v.Outcome, "%v", v)
	require.Contains(t, v.Message, text)
	require.NotNil(t, v.Window)
	require.NotEmpty(t, r.Violations())
}

func TestNodeCreateSetGetDelete(t *testing.T) {
	r := newRegistry()
	r.absent(0, 1, "/x")
	r.create(2, 3, "/x", "one", 1, nil)
	r.get(2, 4, "/x", "one", 0, 0)
	r.set(5, 9, "/x", "two", 0, 1, nil)
	r.get(5, 6, "/x", "one", 0, 0)
	r.set(5, 9, "/x", "three", 0, 0, client.ErrBadVersion)
	r.create(7, 8, "/x", "again", 1, client.ErrNodeExists)
	r.remove(10, 11, "/x", 1, nil)
	r.absent(12, 13, "/x")
	r.ok(t, "/x")
}

func TestNodeStaleRead(t *testing.T) {
	r := newRegistry()
	r.create(2, 3, "/x", "one", 1, nil)
	r.set(5, 6, "/x", "two", 0, 1, nil)
	r.get(7, 8, "/x", "one", 0, 0)
	r.broken(t, "/x", "get: #")
}

func TestNodeLostSetIsSeenByVersions(t *testing.T) {
	r := newRegistry()
	r.create(2, 3, "/consumers/g/offsets/t/0", "1", 1, nil)
	r.set(5, 6, "/consumers/g/offsets/t/0", "2", -1, 1, nil)
	r.set(7, 8, "/consumers/g/offsets/t/0", "3", -1, 1, nil) // acked as version 1 again
	r.broken(t, "/consumers/g/offsets/t/0", "set #")
	require.Equal(t, oracle.CMono, r.Violations()[0].Invariant)
}

func TestNodeResurrected(t *testing.T) {
	r := newRegistry()
	r.create(2, 3, "/x", "one", 1, nil)
	r.remove(5, 6, "/x", -1, nil)
	r.get(7, 8, "/x", "one", 0, 0)
	r.broken(t, "/x", "get: #")
}

func TestNodeFalseRefusals(t *testing.T) {
	r := newRegistry()
	r.create(2, 3, "/x", "one", 1, nil)
	r.set(5, 6, "/x", "two", 0, 0, client.ErrBadVersion)
	r.broken(t, "/x", "wrong version")
	r = newRegistry()
	r.create(2, 3, "/x", "one", 1, client.ErrNodeExists)
	r.broken(t, "/x", "node exists")
	r = newRegistry()
	r.create(2, 3, "/x", "one", 1, nil)
	r.create(4, 5, "/x/y", "one", 1, client.ErrNoNode)
	r.broken(t, "/x", "no node")
}

func TestNodePhantomData(t *testing.T) {
	r := newRegistry()
	r.create(2, 3, "/x", "one", 1, nil)
	r.get(7, 8, "/x", "won", 0, 0)
	r.broken(t, "/x", "get: #")
}

func TestNodeTwoOwnersOfOneClaim(t *testing.T) {
	r := newRegistry()
	r.create(2, 5, "/x", "a", 10, nil)
	r.create(3, 6, "/x", "b", 11, nil)
	r.broken(t, "/x", "create #")
}

func TestNodeWriteWithoutAnswer(t *testing.T) {
	lost := fmt.Errorf("set: %w", client.ErrConnectionLoss)
	r := newRegistry()
	r.create(2, 3, "/x", "one", 1, nil)
	r.set(5, 6, "/x", "two", 0, 0, lost)
	r.get(7, 8, "/x", "one", 0, 0)
	r.get(9, 10, "/x", "two", 1, 0)
	r.ok(t, "/x")
	r = newRegistry()
	r.create(2, 3, "/x", "one", 1, nil)
	r.set(5, 6, "/x", "two", 0, 0, lost)
	r.get(7, 8, "/x", "one", 0, 0)
	r.ok(t, "/x")
	// once only, and not back and forth
	r = newRegistry()
	r.create(2, 3, "/x", "one", 1, nil)
	r.set(5, 6, "/x", "two", 0, 0, lost)
	r.get(7, 8, "/x", "two", 1, 0)
	r.get(9, 10, "/x", "one", 0, 0)
	r.broken(t, "/x", "get: #")
	// Once the session is answered again, the write has had its chance.
	r = newRegistry()
	r.create(2, 3, "/x", "one", 1, nil)
	r.set(5, 6, "/x", "two", 0, 0, lost)
	r.call("a", 1, 8, 9, history.CoordCall{Op: "get", Path: "/x", Value: []byte("one")})
	r.get(10, 11, "/x", "one", 0, 0)
	r.get(12, 13, "/x", "two", 1, 0)
	r.broken(t, "/x", "get: #")
}

func TestNodeOfAnEndedSession(t *testing.T) {
	story := func() registry {
		r := newRegistry()
		r.create(2, 3, "/x", "one", 10, nil)
		r.get(4, 5, "/x", "one", 0, 10)
		r.trace(20, machine.Event{Kind: machine.SessionExpired, A: 10})
		return r
	}
	r := story()
	r.get(6, 20, "/x", "one", 0, 10)
	r.absent(20, 22, "/x")
	r.create(23, 24, "/x", "two", 11, nil)
	r.ok(t, "/x")
	r = story()
	r.get(21, 22, "/x", "one", 0, 10)
	r.broken(t, "/x", "get: #")
	r = story()
	r.absent(10, 19, "/x")
	r.broken(t, "/x", "no node")
}

func TestNodeSessionEndsAreNotInventedByARestart(t *testing.T) {
	r := newRegistry()
	r.create(2, 3, "/x", "one", 10, nil)
	r.create(2, 3, "/y", "one", 1, nil)
	r.gone(10, "coord")
	r.absent(11, 12, "/x") // may have ended just before the crash
	r.get(11, 12, "/y", "one", 0, 0)
	r.ok(t, "/x")
	r = newRegistry()
	r.create(2, 3, "/y", "one", 1, nil)
	r.gone(10, "coord")
	r.absent(11, 12, "/y")
	r.broken(t, "/y", "no node")
}

func TestNodeWriteOfACrashedClient(t *testing.T) {
	r := newRegistry()
	r.gone(10, "consumer-1")
	r.trace(11, machine.Event{Kind: machine.ZnodeCreated, Subject: "/x", Detail: "claim", A: 12})
	r.get(12, 13, "/x", "claim", 0, 12)
	r.ok(t, "/x")
	r = newRegistry() // without a crash nobody can have made it
	r.trace(11, machine.Event{Kind: machine.ZnodeCreated, Subject: "/x", Detail: "claim", A: 12})
	r.get(12, 13, "/x", "claim", 0, 12)
	r.broken(t, "/x", "get: #")
}

func TestNodeChildren(t *testing.T) {
	list := func(r registry, call, ret int, names ...string) {
		r.call("b", 2, call, ret, history.CoordCall{Op: "children", Path: "/ids", Children: names})
	}
	r := newRegistry()
	r.create(0, 1, "/ids", "", 1, nil)
	r.create(2, 3, "/ids/a", "", 10, nil)
	list(r, 4, 5, "a")
	r.create(6, 7, "/ids/b", "", 11, nil)
	list(r, 6, 9, "a")
	list(r, 8, 9, "a", "b")
	r.ok(t, "/ids/b")
	r = newRegistry()
	r.create(0, 1, "/ids", "", 1, nil)
	r.create(2, 3, "/ids/a", "", 10, nil)
	list(r, 4, 5)
	r.broken(t, "/ids/a", "exists: no node")
}

func TestNodeMulti(t *testing.T) {
	multi := func(r registry, err error) {
		r.call("a", 1, 5, 6, history.CoordCall{Op: "multi", Err: err, Ops: []history.CoordCall{
			{Op: "check", Path: "/x", Version: 0}, {Op: "create", Path: "/y", Data: []byte("y")}, {Op: "set", Path: "/x", Data: []byte("two"), Version: 0}}})
	}
	r := newRegistry()
	r.create(2, 3, "/x", "one", 1, nil)
	multi(r, nil)
	r.get(7, 8, "/x", "two", 1, 0)
	r.get(7, 8, "/y", "y", 0, 0)
	r.ok(t, "/x")
	r = newRegistry()
	r.create(2, 3, "/x", "one", 1, nil)
	multi(r, &client.MultiError{Index: 0, Err: client.ErrBadVersion})
	r.broken(t, "/x", "wrong version")
	r = newRegistry() // refused as a whole, but a step is there
	r.create(2, 3, "/x", "one", 1, nil)
	r.create(2, 3, "/y", "other", 1, nil)
	multi(r, &client.MultiError{Index: 1, Err: client.ErrNodeExists})
	r.get(7, 8, "/x", "two", 1, 0)
	r.broken(t, "/x", "get: #")
}

func TestNodeSearchThatRunsOutIsNoPass(t *testing.T) {
	r := newRegistry()
	r.budget = Budget{Window: 50, Total: 50}
	r.create(2, 3, "/x", "0", 1, nil)
	for i := range 40 {
		r.set(5, 100, "/x", fmt.Sprint(i), -1, int32(40-i), nil)
	}
	require.Equal(t, Inconclusive, r.verdict("/x").Outcome)
	require.Len(t, r.Inconclusive(), 1)
	require.Contains(t, r.Inconclusive()[0], "ran out of steps")
	require.Empty(t, r.Violations())
}

func TestNodeLongHistoryIsSettledOnTheWay(t *testing.T) {
	r := newRegistry()
	r.create(0, 1, "/x", "0", 1, nil)
	for i := 1; i < 60_000; i++ {
		at := i * 100
		r.trace(at+1, machine.Event{Kind: machine.ZnodeSet, Subject: "/x", Detail: fmt.Sprint(i), A: int64(i)})
		r.set(at, at+5, "/x", fmt.Sprint(i), -1, int32(i), nil)
		r.get(at+3, at+20, "/x", fmt.Sprint(i), int32(i), 0)
	}
	require.Less(t, len(r.nodes["/x"].ops), nodeLimit)
	require.Less(t, len(r.nodes["/x"].events), nodeLimit)
	r.get(6_000_000, 6_000_001, "/x", "1", 1, 0)
	r.broken(t, "/x", "get: #")
}
