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
	"faultline/workloads/history"
	"faultline/workloads/linear"
	"faultline/workloads/oracle"
)

var (
	ensembleFirst = flag.Uint64("ensemble.first", 0, "first seed of TestEnsembleChaos")
	ensembleSeeds = flag.Uint64("ensemble.seeds", 10, "number of seeds of TestEnsembleChaos, for each kind of fault")
)

// TestEnsembleChaos is TestChaos on 3 and 5 servers, one kind of misfortune after the other and all together, with clocks that drift by up to 5%; judged by
// the same promises, by the linearizability of each znode, and by the oracle of sessions.
func TestEnsembleChaos(t *testing.T) {
	for _, kind := range ensembleFaults {
		t.Run(kind.name, func(t *testing.T) {
			seeds := *ensembleSeeds
			if raceDetector || testing.Short() {
				seeds = 2
			}
			for seed := *ensembleFirst; seed < *ensembleFirst+seeds; seed++ {
				e := newStormOfServers(t, seed, kind.strike)
				if err := e.err; err != nil {
					t.Fatalf("seed %d: %v\nto see it again: go test ./coord -run TestEnsembleChaos/%s -ensemble.first %d -ensemble.seeds 1", seed, err, kind.name, seed)
				}
			}
		})
	}
}

// TestEnsembleSameSeedSameHash: the consensus library draws from a source of its own, which the seed does not know; it decides nothing.
func TestEnsembleSameSeedSameHash(t *testing.T) {
	for seed := range uint64(4) {
		var first uint64
		for i := range 4 {
			e := newStormOfServers(t, seed, anyFault)
			if h := e.w.Hash(); i == 0 {
				first = h
			} else if h != first {
				t.Fatalf("seed %d: %x and %x", seed, first, h)
			}
		}
		t.Logf("seed %d: %x", seed, first)
	}
}

var ensembleFaults = []struct {
	name   string
	strike func(s *ensembleStorm) time.Duration
}{
	{"leader-crash", func(s *ensembleStorm) time.Duration { return s.crash(s.leader(), false) }},
	{"minority-partition", func(s *ensembleStorm) time.Duration { return s.cut(s.some(len(s.servers)/2), true, true) }},
	{"leader-one-way", func(s *ensembleStorm) time.Duration {
		out := s.rng.IntN(2) == 0
		return s.cut([]int{s.leader()}, out, !out)
	}},
	{"rolling-power-loss", func(s *ensembleStorm) time.Duration { s.turn++; return s.crash(s.turn%len(s.servers), true) }},
	{"slow-disks", func(s *ensembleStorm) time.Duration { return s.slow(s.rng.IntN(len(s.servers))) }},
	{"all", anyFault},
}

func anyFault(s *ensembleStorm) time.Duration {
	one := s.rng.IntN(len(s.servers))
	switch s.rng.IntN(10) {
	case 0:
		return s.crash(one, false)
	case 1:
		return s.crash(one, true)
	case 2:
		return s.crash(s.leader(), s.rng.IntN(2) == 0)
	case 3:
		return s.cut(s.some(len(s.servers)/2), true, true)
	case 4:
		return s.cut([]int{s.leader()}, s.rng.IntN(2) == 0, s.rng.IntN(2) == 0)
	case 5:
		return s.slow(one)
	case 6:
		s.servers[one].JumpClock(time.Duration(s.rng.IntN(20_000)-10_000) * time.Millisecond)
		return 0
	case 7:
		d := time.Duration(s.rng.IntN(3000)) * time.Millisecond
		s.servers[one].Pause()
		s.w.At(s.w.Now()+d, s.servers[one].Resume)
		return d
	case 8:
		// A quorum is gone for a while: nothing goes on, and nothing is forgotten.
		var longest time.Duration
		for i := range s.servers {
			if s.rng.IntN(3) > 0 {
				longest = max(longest, s.crash(i, s.rng.IntN(2) == 0))
			}
		}
		return longest
	default:
		ops := []disk.Ops{disk.OpWrite, disk.OpSync, disk.OpSyncDir, disk.OpCreate, disk.OpRename}[s.rng.IntN(5)]
		s.values++
		s.servers[one].Disk().Inject(disk.Fault{ID: fmt.Sprint("io", s.values), Kind: disk.Error, Ops: ops, Probability: 0.3, Count: 1})
		return 0
	}
}

// ensembleStorm is a storm over several servers, with oracles.
type ensembleStorm struct {
	*storm
	rec    *history.Recorder
	jury   []oracle.Oracle
	leads  string // who said last that it leads
	turn   int
	faults int
}

func newStormOfServers(t *testing.T, seed uint64, strike func(*ensembleStorm) time.Duration) *ensembleStorm {
	n := 3 + 2*int(seed%2)
	s := &ensembleStorm{storm: &storm{world: newWorldOf(t, sim.Config{Seed: seed, Policy: sim.Policy(seed % 3)}, n), rng: rand.New(rand.NewPCG(seed, 78)), history: map[string][]version{}, applied: map[string]bool{},
		never: map[string]bool{}, lease: map[int64]time.Duration{}, calls: map[string]int{}}}
	defer s.w.Close()
	s.cfg.SnapshotEvery = 10 + s.rng.IntN(100)
	s.rec = history.NewRecorder(s.w.Now)
	promise := &oracle.Promise{Drift: 0.05, SessionSlack: 2 * time.Second, SessionTimeout: 6 * time.Second}
	for _, c := range s.servers {
		promise.Coord = append(promise.Coord, c.Name())
	}
	l := linear.New(promise)
	s.jury = []oracle.Oracle{l, oracle.NewSessions(promise)}
	for _, o := range s.jury {
		s.rec.Attach(o)
	}
	s.c.OnEvent = func(c *virtual.Computer, e *machine.Event) {
		if e.Kind == machine.CoordLeads {
			s.leads = c.Name()
		}
		s.traced(c, e)
		s.rec.Traced(whoIs(c), *e)
	}
	s.c.OnExit = func(c *virtual.Computer, err error) {
		s.rec.MachineExited(whoIs(c), err)
		if i := s.indexOf(c.Name()); i >= 0 && errors.Is(err, machine.ErrIO) {
			s.w.At(s.w.Now()+200*time.Millisecond, func() { s.boot(i) })
		} else if err != nil {
			s.fail("%s ended: %v", c.Name(), err)
		}
	}
	for i := range s.servers {
		s.boot(i)
	}
	for i := range 4 {
		c := s.c.Add(fmt.Sprint("c", i))
		s.rec.MachineStarted(history.Who{Machine: c.Name(), Incarnation: 1})
		c.Boot(func(m machine.Machine) error {
			s.tap = &history.CoordTap{Recorder: s.rec, Who: whoIs(c), World: c.Clock().World}
			return s.client(c, m)
		})
	}
	for _, c := range s.c.Computers() {
		c.DriftClock(s.rng.Int64N(100_001) - 50_000)
	}
	s.w.At(time.Duration(s.rng.IntN(4000))*time.Millisecond, func() { s.next(strike) })
	s.run(40 * time.Second)
	s.calm = true
	for _, c := range s.servers {
		c.Disk().HealAll()
	}
	s.calmFrom = 60 * time.Second
	s.run(25 * time.Second)
	if s.err == nil {
		s.judgeEnd()
	}
	for _, o := range s.jury {
		o.Finish(oracle.End{At: s.w.Now()})
		for _, v := range o.Violations() {
			s.fail("%v", v)
		}
	}
	if u := l.Inconclusive(); len(u) > 0 {
		s.fail("undecided: %v", u)
	}
	return s
}

func whoIs(c *virtual.Computer) history.Who {
	return history.Who{Machine: c.Name(), Incarnation: c.Incarnation()}
}

func (s *ensembleStorm) indexOf(name string) int {
	for i, c := range s.servers {
		if c.Name() == name {
			return i
		}
	}
	return -1
}

// leader is who leads, as far as anybody knows.
func (s *ensembleStorm) leader() int { return max(0, s.indexOf(s.leads)) }

// some draws servers.
func (s *ensembleStorm) some(n int) []int { return s.rng.Perm(len(s.servers))[:n] }

func (s *ensembleStorm) boot(i int) {
	if !s.servers[i].Running() {
		s.rec.MachineStarted(history.Who{Machine: s.servers[i].Name(), Incarnation: s.servers[i].Incarnation() + 1})
		s.start(i)
	}
}

// next lets a fault strike, and after a pause the next one, until the calm.
func (s *ensembleStorm) next(strike func(*ensembleStorm) time.Duration) {
	if s.calm || s.w.Now() > 36*time.Second {
		return
	}
	s.faults++
	n := s.faults
	s.rec.FaultInjected(n, history.Fault{}, "fault")
	d := strike(s)
	s.w.At(s.w.Now()+d, func() { s.rec.FaultHealed(n, "fault") })
	s.w.At(s.w.Now()+d+time.Duration(500+s.rng.IntN(3000))*time.Millisecond, func() { s.next(strike) })
}

func (s *ensembleStorm) crash(i int, power bool) time.Duration {
	d := time.Duration(s.rng.IntN(3000)) * time.Millisecond
	c := s.servers[i]
	if !c.Running() {
		return 0
	}
	s.rec.MachineCrashed(whoIs(c), power, "")
	if power {
		c.PowerLoss()
	} else {
		c.Crash()
	}
	s.w.At(s.w.Now()+d, func() { s.boot(i) })
	return d
}

func (s *ensembleStorm) cut(servers []int, out, in bool) time.Duration {
	d := time.Duration(500+s.rng.IntN(3500)) * time.Millisecond
	var heals []func()
	for _, i := range servers {
		heals = append(heals, s.isolate(s.servers[i].Name(), out, in))
	}
	s.w.At(s.w.Now()+d, func() {
		for _, heal := range heals {
			heal()
		}
	})
	return d
}

func (s *ensembleStorm) slow(i int) time.Duration {
	d := time.Duration(500+s.rng.IntN(3500)) * time.Millisecond
	s.values++
	id := fmt.Sprint("slow", s.values)
	s.servers[i].Disk().Inject(disk.Fault{ID: id, Kind: disk.Slow, Ops: disk.OpSync | disk.OpWrite, Delay: time.Duration(1+s.rng.IntN(400)) * time.Millisecond})
	s.w.At(s.w.Now()+d, func() { s.servers[i].Disk().Heal(id) })
	return d
}

// client.Tap of the ensemble's clients.
var _ client.Tap = (*history.CoordTap)(nil)
