package coord_test

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"faultline/coord/client"
	"faultline/sim"
	"faultline/sim/disk"
	"faultline/sim/machine"
	"faultline/sim/virtual"
)

var (
	chaosFirst = flag.Uint64("chaos.first", 0, "first seed of TestChaos")
	chaosSeeds = flag.Uint64("chaos.seeds", 60, "number of seeds of TestChaos")
)

// TestChaos lets clients work on a few nodes while server, clients, network and disk fail, and holds them to the promises:
//
//   - what the server traces is a history of one tree, also over its crashes, and is what the tree has at the end;
//   - a write that was acknowledged happened, one that was refused or never sent did not, and one whose outcome is unknown is settled once the client
//     has another answer in the same session;
//   - every read shows a state that the tree had at some moment between call and answer;
//   - no session expires while its client holds a lease.
func TestChaos(t *testing.T) {
	if raceDetector {
		*chaosSeeds = min(*chaosSeeds, 5)
	}
	for seed := *chaosFirst; seed < *chaosFirst+*chaosSeeds; seed++ {
		if err := chaos(t, seed).err; err != nil {
			t.Fatalf("seed %d: %v\nto see it again: go test ./coord -run TestChaos -chaos.first %d -chaos.seeds 1", seed, err, seed)
		}
	}
}

func TestSameSeedSameHash(t *testing.T) {
	for seed := range uint64(3) {
		a, b := chaos(t, seed), chaos(t, seed)
		if a.w.Hash() != b.w.Hash() {
			t.Fatalf("seed %d: %x and %x", seed, a.w.Hash(), b.w.Hash())
		}
	}
}

// storm is a world with its faults and what is known of it.
type storm struct {
	*world
	rng  *rand.Rand
	err  error
	calm bool // the heal phase
	// calmFrom is when every call must succeed again.
	calmFrom time.Duration
	tap      client.Tap // of the next client that starts
	history  map[string][]version
	applied  map[string]bool // values that were ever written
	never    map[string]bool // values that must not be written any more
	lease    map[int64]time.Duration
	calls    map[string]int
	values   int
}

// version is what a path held from some world time on.
type version struct {
	from    time.Duration
	exists  bool
	data    string
	version int32
}

var chaosPaths = []string{"/a", "/b", "/a/x", "/b/y", "/a/z"}

func chaos(t *testing.T, seed uint64) *storm {
	s := &storm{world: newWorldOf(t, sim.Config{Seed: seed, Policy: sim.Policy(seed % 3)}, 1), rng: rand.New(rand.NewPCG(seed, 77)), history: map[string][]version{}, applied: map[string]bool{},
		never: map[string]bool{}, lease: map[int64]time.Duration{}, calls: map[string]int{}, calmFrom: 75 * time.Second}
	defer s.w.Close()
	s.cfg.SnapshotEvery = 10 + s.rng.IntN(100)
	s.c.OnEvent = func(c *virtual.Computer, e *machine.Event) { s.traced(c, e) }
	s.c.OnExit = func(c *virtual.Computer, err error) {
		if c == s.zk && errors.Is(err, machine.ErrIO) {
			s.w.At(s.w.Now()+200*time.Millisecond, s.ensureUp)
		} else if err != nil {
			s.fail("%s ended: %v", c.Name(), err)
		}
	}
	s.up()
	var clients []*virtual.Computer
	for i := range 4 {
		c := s.c.Add(fmt.Sprint("c", i))
		c.Boot(s.clientProgram(c))
		clients = append(clients, c)
	}
	for _, c := range s.c.Computers() {
		c.DriftClock(s.rng.Int64N(40_001) - 20_000)
	}
	for range 4 {
		s.plan(clients)
	}
	if s.rng.IntN(2) == 0 {
		for _, p := range []string{"fault/coord/slow-fsync", "fault/coord/drop-reply", "fault/session/slow-ping"} {
			if err := s.c.Arm(p, virtual.Misfortune{Chance: 0.05, Fail: true}); err != nil {
				s.fail("%v", err)
			}
		}
	}
	s.run(60 * time.Second)
	s.calm = true
	s.c.Disarm()
	s.zk.Disk().HealAll()
	s.run(20 * time.Second)
	if s.err == nil {
		s.judgeEnd()
	}
	return s
}

func (s *storm) fail(format string, args ...any) {
	if s.err == nil {
		s.err = fmt.Errorf("at %v: %w", s.w.Now(), fmt.Errorf(format, args...))
		s.w.Halt()
	}
}

func (s *storm) run(d time.Duration) {
	end := s.w.Now() + d
	s.w.At(end, func() {})
	if s.err != nil {
		return
	}
	if out := s.w.Run(end); s.err == nil && out.Kind != sim.Deadline && out.Kind != sim.Stuck {
		s.fail("%v", out)
	}
}

func (s *storm) ensureUp() {
	if !s.zk.Running() {
		s.up()
	}
}

// plan draws one kind of fault that comes again and again until the calm.
func (s *storm) plan(clients []*virtual.Computer) {
	kind := s.rng.IntN(9)
	pause := time.Duration(1+s.rng.IntN(10)) * time.Second
	var next func()
	next = func() {
		if s.calm || s.w.Now() > 60*time.Second {
			return
		}
		c := clients[s.rng.IntN(len(clients))]
		short := time.Duration(s.rng.IntN(3000)) * time.Millisecond
		long := time.Duration(s.rng.IntN(12000)) * time.Millisecond
		switch kind {
		case 0:
			s.zk.Crash()
			s.w.At(s.w.Now()+short, s.ensureUp)
		case 1:
			s.zk.PowerLoss()
			s.w.At(s.w.Now()+short, s.ensureUp)
		case 2:
			s.zk.Pause()
			s.w.At(s.w.Now()+long, s.zk.Resume)
		case 3:
			if c.Running() {
				if s.rng.IntN(2) == 0 {
					c.Crash()
				} else {
					c.PowerLoss()
				}
				s.w.At(s.w.Now()+short, func() { c.Boot(s.clientProgram(c)) })
			}
		case 4:
			c.Pause()
			s.w.At(s.w.Now()+long, c.Resume)
		case 5:
			heal := s.partition(c.Name())
			s.w.At(s.w.Now()+long, heal)
		case 6:
			heal := s.c.Net.Block("zk", c.Name())
			s.w.At(s.w.Now()+long, heal)
		case 7:
			s.c.Computers()[s.rng.IntN(5)].JumpClock(short*100 - long*20)
		case 8:
			ops := []disk.Ops{disk.OpWrite, disk.OpSync, disk.OpSyncDir, disk.OpCreate, disk.OpRename}[s.rng.IntN(5)]
			s.values++
			s.zk.Disk().Inject(disk.Fault{ID: fmt.Sprint("io", s.values), Kind: disk.Error, Ops: ops, Probability: 0.3, Count: 1})
		}
		s.w.At(s.w.Now()+pause/2+time.Duration(s.rng.Int64N(int64(pause))), next)
	}
	s.w.At(time.Duration(s.rng.IntN(5000))*time.Millisecond, next)
}

// traced follows the server's trace.
func (s *storm) traced(c *virtual.Computer, e *machine.Event) {
	fresh := s.follow.fresh(c, e)
	if fresh && (e.Kind == machine.ZnodeCreated || e.Kind == machine.ZnodeSet) && s.never[e.Detail] {
		s.fail("%v: this write was settled as not happened", e)
	}
	before := s.follow.nodes[e.Subject]
	_, existed := s.follow.nodes[e.Subject]
	if err := s.follow.event(c, e, s.w.Now()); err != nil {
		s.fail("%w", err)
	}
	if !fresh {
		return
	}
	switch e.Kind {
	case machine.ZnodeCreated, machine.ZnodeSet, machine.ZnodeDeleted:
		after, exists := s.follow.nodes[e.Subject]
		if exists != existed || after != before {
			s.history[e.Subject] = append(s.history[e.Subject], version{s.w.Now(), exists, after.data, int32(after.version)})
		}
		s.applied[e.Detail] = true
	case machine.SessionExpired:
		if until := s.lease[e.A]; until > s.w.Now() {
			s.fail("session %d expires %v before its client's lease ends", e.A, until-s.w.Now())
		}
	}
}

// clientProgram makes random calls, with a new session whenever the old one expired.
func (s *storm) clientProgram(comp *virtual.Computer) func(m machine.Machine) error {
	return func(m machine.Machine) error { return s.client(comp, m) }
}

func (s *storm) client(comp *virtual.Computer, m machine.Machine) error {
	rng, tap := m.Rand("test/calls"), s.tap
	for {
		c := client.Connect(m, client.Config{Servers: s.addresses(), Tap: tap, SessionTimeout: time.Duration(3+rng.IntN(4)) * time.Second,
			RequestTimeout: time.Duration(2+rng.IntN(8)) * time.Second})
		var limbo []string
		for {
			value := fmt.Sprintf("%s.%d", m.Name(), s.next())
			start := s.w.Now()
			err := s.call(m, c, rng, value)
			s.calls[fmt.Sprint(errors.Unwrap(err))]++
			if session, until := c.Session(), c.LeaseUntil(); until > 0 {
				s.lease[session] = max(s.lease[session], comp.Clock().World(until))
			}
			if client.Unknown(err) {
				limbo = append(limbo, value)
			} else if !errors.Is(err, client.ErrNotConnected) && !errors.Is(err, client.ErrSessionExpired) {
				for _, v := range limbo {
					s.never[v] = !s.applied[v]
				}
				limbo = limbo[:0]
			}
			if errors.Is(err, client.ErrSessionExpired) {
				break
			}
			if s.calm && err != nil && s.w.Now() > s.calmFrom && !refused(err) {
				s.fail("%s: call at %v, after the heal: %v", m.Name(), start, err)
			}
			m.Sleep(time.Duration(rng.Int64N(int64(400 * time.Millisecond))))
			if rng.IntN(100) == 0 {
				if err := c.Close(); err == nil && s.follow.sessions[c.Session()] != 0 && c.Session() != 0 {
					s.fail("%s closed session %d, which is still open", m.Name(), c.Session())
				}
				break
			}
		}
	}
}

func (s *storm) next() int { s.values++; return s.values }

func refused(err error) bool {
	for _, e := range []error{client.ErrNoNode, client.ErrNodeExists, client.ErrBadVersion, client.ErrNotEmpty, client.ErrNoChildrenForEphemerals} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// call makes one call and judges its answer.
func (s *storm) call(m machine.Machine, c *client.Client, rng *rand.Rand, value string) error {
	path := chaosPaths[rng.IntN(len(chaosPaths))]
	start := s.w.Now()
	written := func(err error) error {
		switch {
		case err == nil && !s.applied[value]:
			s.fail("%s: %q is acknowledged but was not traced", path, value)
		case err != nil && !client.Unknown(err) && s.applied[value]:
			s.fail("%s: %q failed (%v) but was traced", path, value, err)
		case err != nil && !client.Unknown(err):
			s.never[value] = true
		}
		return err
	}
	switch rng.IntN(8) {
	case 0:
		_, err := c.Create(path, []byte(value), client.Persistent)
		return written(err)
	case 1:
		_, err := c.Create(path, []byte(value), client.Ephemeral)
		return written(err)
	case 2:
		_, err := c.Set(path, []byte(value), client.AnyVersion)
		return written(err)
	case 3:
		return c.Delete(path, client.AnyVersion)
	case 4, 5:
		data, stat, err := c.Get(path, rng.IntN(2) == 0)
		if err == nil || errors.Is(err, client.ErrNoNode) {
			s.read(path, version{exists: err == nil, data: string(data), version: stat.Version}, start)
		}
		return err
	case 6:
		stat, found, err := c.Exists(path, rng.IntN(2) == 0)
		if err == nil && found && stat.EphemeralOwner == c.Session() && s.follow.sessions[c.Session()] == 0 && s.follow.ended[c.Session()] < start {
			s.fail("%s still belongs to session %d, which has ended", path, c.Session())
		}
		return err
	default:
		return written(c.Multi(client.SetOp("/a", []byte(value), client.AnyVersion), client.DeleteOp(path, client.AnyVersion), client.CreateOp(path, []byte(value), client.Ephemeral)))
	}
}

// read checks that the path held what was read at some moment since the call.
func (s *storm) read(path string, got version, start time.Duration) {
	versions := append([]version{{}}, s.history[path]...)
	for i, v := range versions {
		ended := i+1 < len(versions) && versions[i+1].from < start
		if !ended && v.exists == got.exists && v.data == got.data && v.version == got.version {
			return
		}
	}
	s.fail("%s was read as %+v between %v and now; it was %+v", path, got, start, versions[max(0, len(versions)-5):])
}

// judgeEnd compares the tree with the trace.
func (s *storm) judgeEnd() {
	checker := s.c.Add("checker")
	done := false
	checker.Boot(func(m machine.Machine) error {
		c := client.Connect(m, client.Config{Servers: s.addresses()})
		for _, path := range chaosPaths {
			start := s.w.Now()
			data, stat, err := c.Get(path, false)
			if err != nil && !errors.Is(err, client.ErrNoNode) {
				s.fail("%v", err)
			}
			s.read(path, version{exists: err == nil, data: string(data), version: stat.Version}, start)
		}
		done = true
		return nil
	})
	s.run(10 * time.Second)
	if !done && s.err == nil {
		s.fail("the tree cannot be read after the heal")
	}
}
