package sim

import (
	"fmt"
	"iter"
	"runtime/debug"
	"time"
)

// Group is a set of tasks that live and die together: a process. Its fields name it in traces and verdicts.
type Group struct {
	Name   string
	paused bool
	dead   bool
	held   []*Task // became runnable while paused
}

type taskState uint8

const (
	fresh taskState = iota // never run
	running
	parked
	runnable
	dead
)

// Task is a coroutine. It runs until it parks, and only one runs at a time.
type Task struct {
	w     *World
	id    uint32
	slot  int
	name  string
	group *Group
	state taskState

	Worked time.Duration // how long it occupied a core, as far as its computer counts that

	next  func() (struct{}, bool)
	stop  func()
	yield func(struct{}) bool

	killing  bool
	timedOut bool
	timer    Timer
	priority uint64 // PCT

	waitsOn   string // what it is parked on, and the object's own name
	waitsFor  string
	since     int64
	wantStack bool
	stack     []byte
	err       error
}

// killed unwinds a task that its world has ended.
type killed struct{}

// Name is what the task was started as; Group its process (nil: the world itself).
func (t *Task) Name() string  { return t.name }
func (t *Task) Group() *Group { return t.group }

func (t *Task) String() string {
	if t.group == nil {
		return t.name
	}
	return t.group.Name + "/" + t.name
}

// Go starts a task in the group. It first runs when the scheduler picks it, and never when the group is dead.
func (w *World) Go(g *Group, name string, fn func()) *Task {
	w.nextID++
	if g != nil && g.dead {
		return &Task{w: w, id: w.nextID, name: name, group: g, state: dead}
	}
	t := &Task{w: w, id: w.nextID, name: name, group: g, slot: len(w.tasks)}
	t.timer.task = t
	t.timer.at = -1
	t.next, t.stop = iter.Pull(iter.Seq[struct{}](func(yield func(struct{}) bool) {
		t.yield = yield
		defer t.recovered()
		fn()
	}))
	w.tasks = append(w.tasks, t)
	w.pct.admit(w, t)
	w.record(KindStart, t, textHash(name), 0)
	w.ready(t)
	return t
}

func (t *Task) recovered() {
	r := recover()
	if r == nil {
		return
	}
	if _, ok := r.(killed); ok {
		return
	}
	t.err = fmt.Errorf("task %s panicked at %v: %v\n%s", t, t.w.Now(), r, debug.Stack())
}

// ended takes a finished task off the books and reports its panic.
func (w *World) ended(t *Task) {
	t.state = dead
	w.timers.remove(&t.timer)
	last := w.tasks[len(w.tasks)-1]
	w.tasks[t.slot] = last
	last.slot = t.slot
	w.tasks[len(w.tasks)-1] = nil
	w.tasks = w.tasks[:len(w.tasks)-1]
	w.record(KindEnd, t, 0, 0)
	if t.err == nil {
		return
	}
	if w.OnPanic != nil {
		w.OnPanic(t, t.err)
		return
	}
	w.halt = &Outcome{Kind: Panicked, Err: t.err}
}

// Current is the running task. It unwinds a task that was killed, so whatever a dead task defers
// cannot touch the world: every operation of the world starts here.
func (w *World) Current() *Task {
	t := w.cur
	if t == nil {
		panic("sim: called from outside a task")
	}
	if t.killing {
		panic(killed{})
	}
	return t
}

// InTask tells whether a task (not the loop) is running.
func (w *World) InTask() bool { return w.cur != nil }

// ready makes a parked or fresh task runnable.
func (w *World) ready(t *Task) {
	if t.state == dead || t.state == runnable || t.state == running {
		return
	}
	w.timers.remove(&t.timer)
	t.state = runnable
	if t.group != nil && t.group.paused {
		t.group.held = append(t.group.held, t)
		return
	}
	w.runq = append(w.runq, t)
}

// Wake makes a parked task runnable; anything else is left as it is.
func (t *Task) Wake() {
	if t.state == parked {
		t.w.record(KindWake, t, 0, 0)
		t.w.ready(t)
	}
}

// Park suspends the current task until somebody wakes it. what and name say for people what it waits for; they must be kept strings.
func (w *World) Park(what, name string) {
	t := w.Current()
	t.timedOut = false
	t.state = parked
	t.park(what, name)
}

// ParkUntil is Park with a limit in world time. It reports whether the task was woken (false: the time came).
func (w *World) ParkUntil(what, name string, until time.Duration) bool {
	t := w.Current()
	t.timedOut = false
	t.state = parked
	w.timers.add(w, &t.timer, max(int64(until), w.now))
	t.park(what, name)
	return !t.timedOut
}

func (t *Task) park(what, name string) {
	t.waitsOn, t.waitsFor, t.since = what, name, t.w.now
	for {
		if !t.yield(struct{}{}) {
			t.killing = true
			panic(killed{})
		}
		if !t.wantStack {
			return
		}
		t.stack = debug.Stack()
		t.wantStack = false
	}
}

// Yield is a scheduling point: another runnable task may run first. Under Policy FIFO it does nothing.
func (w *World) Yield() {
	t := w.Current()
	w.instant++
	if w.instant > w.cfg.MaxInstant {
		w.livelock(t)
	}
	if len(w.runq) == 0 && w.halt == nil && len(w.later) == 0 || !w.preempt(t) {
		return
	}
	if w.halt == nil && len(w.later) == 0 && w.cfg.Policy == Random {
		// What pick would draw, drawn here: if it is this task again nothing need be switched.
		i := w.rng.intn(len(w.runq) + 1)
		if i == len(w.runq) {
			return
		}
		w.next = i + 1
	}
	t.state = parked
	w.ready(t)
	t.park("its turn", "")
}

// GiveWay lets every other runnable task have a chance before this one goes on.
func (w *World) GiveWay() {
	t := w.Current()
	w.instant++
	if w.instant > w.cfg.MaxInstant {
		w.livelock(t)
	}
	t.state = parked
	w.ready(t)
	t.park("its turn", "")
}

// Kill unwinds a task at once: its deferred functions run, and nothing that they do reaches the world.
// A task cannot kill itself; use Later.
func (w *World) Kill(t *Task) {
	if t.state == dead {
		return
	}
	if t == w.cur {
		panic("sim: a task kills itself")
	}
	prev := w.cur
	w.cur = t
	t.killing = true
	t.stop()
	w.cur = prev
	if t.state == runnable {
		w.unqueue(t)
	}
	t.err = nil
	w.ended(t)
}

func (w *World) unqueue(t *Task) {
	for i, q := range w.runq {
		if q == t {
			w.runq = append(w.runq[:i], w.runq[i+1:]...)
			return
		}
	}
	if t.group != nil {
		for i, q := range t.group.held {
			if q == t {
				t.group.held = append(t.group.held[:i], t.group.held[i+1:]...)
				return
			}
		}
	}
}

// KillGroup unwinds all tasks of a group, in the order in which they started. New tasks of it never run.
func (w *World) KillGroup(g *Group) {
	g.dead = true
	g.paused = false
	var victims []*Task
	for _, t := range w.tasks {
		if t.group == g {
			victims = append(victims, t)
		}
	}
	sortTasks(victims)
	for _, t := range victims {
		w.Kill(t)
	}
	g.held = nil
}

// Pause freezes a group: its tasks do not run until Resume, while its timers go on and fire into the pause.
func (w *World) Pause(g *Group) {
	if g.paused || g.dead {
		return
	}
	g.paused = true
	keep := w.runq[:0]
	for _, t := range w.runq {
		if t.group == g {
			g.held = append(g.held, t)
		} else {
			keep = append(keep, t)
		}
	}
	w.runq = keep
}

// Resume ends a Pause.
func (w *World) Resume(g *Group) {
	if !g.paused {
		return
	}
	g.paused = false
	w.runq = append(w.runq, g.held...)
	g.held = g.held[:0]
}
