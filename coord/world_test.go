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

// world is a coordination server "zk" and clients on computers of their own. What the server traces is checked and kept.
type world struct {
	t      *testing.T
	w      *sim.World
	c      *virtual.Cluster
	zk     *virtual.Computer
	cfg    coord.Config
	follow follower
}

func newWorld(t *testing.T, seed uint64) *world {
	return newWorldOf(t, sim.Config{Seed: seed})
}

func newWorldOf(t *testing.T, cfg sim.Config) *world {
	w, seed := sim.New(cfg), cfg.Seed
	x := &world{t: t, w: w, c: virtual.New(w, virtual.Config{})}
	x.follow.reset()
	x.c.OnEvent = func(c *virtual.Computer, e *machine.Event) {
		if err := x.follow.event(e, w.Now()); err != nil {
			t.Fatalf("seed %d at %v: %v", seed, w.Now(), err)
		}
	}
	x.c.OnExit = func(c *virtual.Computer, err error) {
		if err != nil {
			t.Fatalf("seed %d at %v: %s ended: %v", seed, w.Now(), c.Name(), err)
		}
	}
	x.zk = x.c.Add("zk")
	x.cfg = coord.Config{Port: 2181, TickTime: time.Second}
	t.Cleanup(func() {
		if !t.Failed() { // a test that fails inside a task leaves the world in the middle of a step
			w.Close()
		}
	})
	return x
}

// up starts the server.
func (x *world) up() {
	x.follow.told = x.follow.zxid
	x.zk.Boot(func(m machine.Machine) error { return coordRun(m, x) })
}

func coordRun(m machine.Machine, x *world) error { return coord.Run(m, x.cfg) }

// on runs a client program on a computer of that name; when it ends the computer is idle.
func (x *world) on(name string, cfg client.Config, story func(m machine.Machine, c *client.Client)) *virtual.Computer {
	cfg.Servers = []string{"zk:2181"}
	comp := x.c.Add(name)
	comp.Boot(func(m machine.Machine) error {
		story(m, client.Connect(m, cfg))
		return nil
	})
	return comp
}

// partition cuts a computer off from the server, both ways.
func (x *world) partition(name string) (heal func()) {
	to, from := x.c.Net.Block(name, "zk"), x.c.Net.Block("zk", name)
	return func() { to(); from() }
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

// follower is the state that the server's trace tells, with what must hold between events.
type follower struct {
	zxid     int64
	told     int64 // transactions up to here may be told again by the server that runs now
	nodes    map[string]node
	sessions map[int64]time.Duration // id -> time-out
	ended    map[int64]time.Duration // id -> world time of its end
	expired  int
}

type node struct {
	data    string
	owner   int64
	version int64
}

func (f *follower) reset() {
	f.nodes, f.sessions, f.ended = map[string]node{"/": {}}, map[int64]time.Duration{}, map[int64]time.Duration{}
}

func (f *follower) event(e *machine.Event, now time.Duration) error {
	zxid := e.B
	if e.C != 0 {
		zxid = e.C
	}
	if zxid <= f.told {
		return nil
	}
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
