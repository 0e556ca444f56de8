package coord_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"faultline/coord"
	"faultline/coord/client"
	"faultline/sim"
	"faultline/sim/machine"
	"faultline/sim/virtual"
)

// world is a coordination server "zk", or an ensemble "zk-1", "zk-2", ..., and clients on computers of their own. What the servers trace is checked
// and kept.
type world struct {
	t       *testing.T
	w       *sim.World
	c       *virtual.Cluster
	servers []*virtual.Computer
	zk      *virtual.Computer // the first or only one
	cfg     coord.Config
	follow  follower
}

func newWorld(t *testing.T, seed uint64) *world {
	return newWorldOf(t, sim.Config{Seed: seed}, 1)
}

func newWorldOf(t *testing.T, cfg sim.Config, servers int) *world {
	w, seed := sim.New(cfg), cfg.Seed
	x := &world{t: t, w: w, c: virtual.New(w, virtual.Config{})}
	x.follow.reset()
	x.c.OnEvent = func(c *virtual.Computer, e *machine.Event) {
		if err := x.follow.event(c, e, w.Now()); err != nil {
			t.Fatalf("seed %d at %v: %v", seed, w.Now(), err)
		}
	}
	x.c.OnExit = func(c *virtual.Computer, err error) {
		if err != nil {
			t.Fatalf("seed %d at %v: %s ended: %v", seed, w.Now(), c.Name(), err)
		}
	}
	for i := range servers {
		name := "zk"
		if servers > 1 {
			name = fmt.Sprint("zk-", i+1)
			x.cfg.Peers = append(x.cfg.Peers, name+":2888")
		}
		x.servers = append(x.servers, x.c.Add(name))
	}
	x.zk = x.servers[0]
	peers := x.cfg.Peers
	x.cfg = coord.Config{Port: 2181, TickTime: time.Second, Peers: peers}
	if servers > 1 {
		x.cfg.TickTime = 200 * time.Millisecond
	}
	t.Cleanup(func() {
		if !t.Failed() { // a test that fails inside a task leaves the world in the middle of a step
			w.Close()
		}
	})
	return x
}

// up starts the servers that are down.
func (x *world) up() {
	for i := range x.servers {
		x.start(i)
	}
}

// start starts a server if it is down.
func (x *world) start(i int) {
	if x.servers[i].Running() {
		return
	}
	cfg := x.cfg
	cfg.ID = i + 1
	x.servers[i].Boot(func(m machine.Machine) error { return coord.Run(m, cfg) })
}

func coordRun(m machine.Machine, x *world) error { return coord.Run(m, x.cfg) }

// addresses are where clients find the servers.
func (x *world) addresses() []string {
	var out []string
	for _, c := range x.servers {
		out = append(out, c.Name()+":2181")
	}
	return out
}

// on runs a client program on a computer of that name; when it ends the computer is idle.
func (x *world) on(name string, cfg client.Config, story func(m machine.Machine, c *client.Client)) *virtual.Computer {
	cfg.Servers = x.addresses()
	comp := x.c.Add(name)
	comp.Boot(func(m machine.Machine) error {
		story(m, client.Connect(m, cfg))
		return nil
	})
	return comp
}

// partition cuts a computer off from the servers, both ways.
func (x *world) partition(name string) (heal func()) {
	out, in := x.isolate(name, true, false), x.isolate(name, false, true)
	return func() { out(); in() }
}

// isolate cuts a computer off from all servers but itself: what it sends, what it gets, or both.
func (x *world) isolate(name string, out, in bool) (heal func()) {
	var heals []func()
	for _, s := range x.servers {
		if s.Name() == name {
			continue
		}
		if out {
			heals = append(heals, x.c.Net.Block(name, s.Name()))
		}
		if in {
			heals = append(heals, x.c.Net.Block(s.Name(), name))
		}
	}
	return func() {
		for _, h := range heals {
			h()
		}
	}
}

// run lets the world live for d.
func (x *world) run(d time.Duration) {
	x.t.Helper()
	end := x.w.Now() + d
	x.w.At(end, func() {}) // a server without clients has nothing to do, which is no verdict
	if out := x.w.Run(end); out.Kind != sim.Deadline && out.Kind != sim.Done && (out.Kind != sim.Stuck || out.At < end) {
		x.t.Fatal(out)
	}
}

// follower is the state that the servers' traces tell, with what must hold between events. Of a transaction that is traced several times the first counts, and
// the others must be the same.
type follower struct {
	zxid     int64
	tracer   string // who traced zxid first
	nodes    map[string]node
	sessions map[int64]time.Duration // id -> time-out
	ended    map[int64]time.Duration // id -> world time of its end
	expired  int
	told     map[int64][]machine.Event
	at       map[string]int64 // tracer -> zxid
	place    map[string]int   // tracer -> event of it
}

type node struct {
	data    string
	owner   int64
	version int64
}

func (f *follower) reset() {
	f.nodes, f.sessions, f.ended = map[string]node{"/": {}}, map[int64]time.Duration{}, map[int64]time.Duration{}
	f.told, f.at, f.place = map[int64][]machine.Event{}, map[string]int64{}, map[string]int{}
}

func zxidOf(e *machine.Event) int64 {
	switch e.Kind {
	case machine.ZnodeCreated, machine.ZnodeSet, machine.ZnodeDeleted:
		return e.B
	case machine.SessionOpened, machine.SessionClosed, machine.SessionExpired:
		return e.C
	}
	return 0
}

// fresh tells that an event of a transaction was not traced before.
func (f *follower) fresh(c *virtual.Computer, e *machine.Event) bool {
	zxid := zxidOf(e)
	return zxid > f.zxid || zxid == f.zxid && f.tracer == tracerOf(c)
}

func tracerOf(c *virtual.Computer) string { return fmt.Sprint(c.Name(), "#", c.Incarnation()) }

func (f *follower) event(c *virtual.Computer, e *machine.Event, now time.Duration) error {
	zxid := zxidOf(e)
	if zxid == 0 {
		return nil
	}
	who := tracerOf(c)
	if f.at[who] != zxid {
		if f.at[who] > zxid {
			return fmt.Errorf("%s traced %v after transaction %d", who, e, f.at[who])
		}
		f.at[who], f.place[who] = zxid, 0
	}
	if !f.fresh(c, e) {
		if told := f.told[zxid]; f.place[who] >= len(told) || told[f.place[who]] != *e {
			return fmt.Errorf("%s traced %v as event %d of transaction %d, which was %v before", who, e, f.place[who], zxid, told)
		}
		f.place[who]++
		return nil
	}
	f.tracer = who
	f.told[zxid] = append(f.told[zxid], *e)
	if zxid < f.zxid || zxid > f.zxid+1 {
		return fmt.Errorf("%v does not follow transaction %d", e, f.zxid)
	}
	n, exists := f.nodes[e.Subject]
	switch e.Kind {
	case machine.ZnodeCreated:
		if exists {
			return fmt.Errorf("%v created twice", e)
		}
		if e.A != 0 && f.sessions[e.A] == 0 {
			return fmt.Errorf("%v for a session that is not open", e)
		}
		f.nodes[e.Subject] = node{data: e.Detail, owner: e.A}
	case machine.ZnodeSet:
		if !exists || n.version+1 != e.A {
			return fmt.Errorf("%v does not follow version %d", e, n.version)
		}
		n.data, n.version = e.Detail, e.A
		f.nodes[e.Subject] = n
	case machine.ZnodeDeleted:
		if !exists || n.owner != e.A {
			return fmt.Errorf("%v of %v", e, n)
		}
		delete(f.nodes, e.Subject)
	case machine.SessionOpened:
		f.sessions[e.A] = time.Duration(e.B)
	case machine.SessionClosed, machine.SessionExpired:
		if f.sessions[e.A] == 0 {
			return fmt.Errorf("%v is not open", e)
		}
		for _, path := range slices.Sorted(maps.Keys(f.nodes)) {
			if f.nodes[path].owner == e.A {
				return fmt.Errorf("%v leaves %s behind", e, path)
			}
		}
		delete(f.sessions, e.A)
		f.ended[e.A] = now
		if e.Kind == machine.SessionExpired {
			f.expired++
		}
	}
	f.zxid = zxid
	return nil
}

// events records what a client is told.
type events struct{ seen []string }

func (e *events) on(ev client.Event) {
	if ev.Type == client.EventSession {
		e.seen = append(e.seen, [...]string{"disconnected", "connected", "expired"}[ev.State])
		return
	}
	e.seen = append(e.seen, [...]string{"", "created ", "deleted ", "data ", "children "}[ev.Type]+ev.Path)
}

func (e *events) take() []string {
	seen := e.seen
	e.seen = nil
	return seen
}
