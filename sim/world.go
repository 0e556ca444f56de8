// Package sim is the deterministic world: a single-threaded scheduler of coroutine tasks, a
// virtual clock, keyed random streams, and a rolling hash over everything that happens.
//
// One [World] is one seed. Nothing in it reads the real clock, starts a goroutine or draws from a
// shared random source, so the same seed and the same program give the same [World.Hash] in any process, at any GOMAXPROCS, with or without
// the race detector. Worlds share nothing but memory that closed ones left: run as many at once as there are cores.
//
// The models of disk and network (sim/disk, sim/net) and the simulated computer (sim/virtual)
// stand on this package; programs under test see sim/machine only.
package sim

import (
	"fmt"
	"time"
)

// Config fixes a world. The zero value is a world of seed 0 with random scheduling.
type Config struct {
	Seed   uint64
	Policy Policy
	// Depth is the bug depth d of the PCT policy: d-1 priority change points. Default 3.
	Depth int
	// Steps is the PCT policy's estimate of the scheduling points in a run. Default 100,000.
	Steps int
	// Trace, if set, sees every event at the moment when it is folded into the hash. The entry is reused.
	Trace func(*Entry)
	// MaxInstant is how many events at one virtual instant make a livelock. Default 1,000,000.
	MaxInstant int
}

// World is one simulated run. It is not safe for concurrent use: everything happens in the goroutine that calls Run.
type World struct {
	cfg    Config
	now    int64 // ns since the start of the world
	seq    uint64
	rng    splitmix
	hash   uint64
	events uint64

	cur     *Task
	runq    []*Task
	next    int // place in runq, from 1, of the task that is drawn already; 0: none is
	timers  timerHeap
	tasks   []*Task // live tasks, unordered; Task.slot is the index
	nextID  uint32
	pct     pct
	later   []func() // to do in the loop before the next task runs
	shown   Entry    // what the trace sees
	halt    *Outcome
	instant int // events at the current instant
	closed  bool

	// OnPanic, if set, is told of a task's panic (with the task's own stack) instead of ending the run.
	OnPanic func(*Task, error)
}

// New makes a world at time zero.
func New(cfg Config) *World {
	if cfg.Depth == 0 {
		cfg.Depth = 3
	}
	if cfg.Steps == 0 {
		cfg.Steps = 100_000
	}
	if cfg.MaxInstant == 0 {
		cfg.MaxInstant = 1_000_000
	}
	w := &World{cfg: cfg, hash: cfg.Seed}
	w.rng = splitmix(keyedSeed(cfg.Seed, "sim/scheduler", ""))
	w.pct.init(w)
	return w
}

// Seed is the world's seed.
func (w *World) Seed() uint64 { return w.cfg.Seed }

// Now is the world's time since its start.
func (w *World) Now() time.Duration { return time.Duration(w.now) }

// Events counts what was folded into the hash.
func (w *World) Events() uint64 { return w.events }

// Hash identifies the run so far: every event in order.
func (w *World) Hash() uint64 { return finish(w.hash) }

// Later runs fn in the loop, outside any task, before the next task runs.
func (w *World) Later(fn func()) { w.later = append(w.later, fn) }

// Halt ends Run after the current task's next scheduling point.
func (w *World) Halt() {
	if w.halt == nil {
		w.halt = &Outcome{Kind: Halted}
	}
}

// Run lets the world live until the given time, until nothing is left to do, or until something is wrong.
// It can be called again to go on after Deadline and Halted.
func (w *World) Run(until time.Duration) Outcome {
	if w.closed {
		panic("sim: Run of a closed world")
	}
	w.halt = nil
	for {
		for w.halt == nil {
			for len(w.later) > 0 {
				fn := w.later[0]
				w.later = w.later[1:]
				fn()
			}
			if len(w.runq) == 0 {
				break
			}
			w.step(w.pick())
		}
		if w.halt != nil {
			o := *w.halt
			o.At = w.Now()
			return o
		}
		if len(w.later) > 0 {
			continue
		}
		if w.timers.len() == 0 {
			if len(w.tasks) == 0 {
				return Outcome{Kind: Done, At: w.Now()}
			}
			return Outcome{Kind: Stuck, At: w.Now(), Waiting: w.Waiting()}
		}
		when := w.timers.next()
		if when > int64(until) {
			w.now = max(w.now, int64(until))
			return Outcome{Kind: Deadline, At: w.Now()}
		}
		if when > w.now {
			w.now = when
			w.instant = 0
		}
		for w.timers.len() > 0 && w.timers.next() == when {
			w.fire(w.timers.pop())
		}
	}
}

// step lets a task run until it parks or ends.
func (w *World) step(t *Task) {
	w.record(KindRun, t, 0, 0)
	t.state = running
	w.cur = t
	_, alive := t.next()
	w.cur = nil
	if !alive {
		w.ended(t)
	}
}

func (w *World) fire(t *Timer) {
	if t.task != nil {
		w.record(KindTimer, t.task, t.arg, 0)
		t.task.timedOut = true
		w.ready(t.task)
		return
	}
	w.record(KindTimer, nil, t.arg, 0)
	t.ev.Fire(t.arg)
}

// Close ends every task. The world's hash and events stay readable.
func (w *World) Close() {
	if w.closed {
		return
	}
	for len(w.tasks) > 0 {
		w.Kill(w.tasks[len(w.tasks)-1])
	}
	w.closed = true
}

func (w *World) String() string {
	return fmt.Sprintf("world seed=%d now=%v events=%d hash=%016x", w.cfg.Seed, w.Now(), w.events, w.Hash())
}
