package sim

import "slices"

// Policy decides which runnable task goes next.
type Policy uint8

const (
	// Random picks among the runnable tasks, and at each scheduling point whether the running task goes on. For checking.
	Random Policy = iota
	// FIFO runs tasks in the order in which they became runnable and never preempts. For benchmarks.
	FIFO
	// PCT is probabilistic concurrency testing (Burckhardt et al., ASPLOS 2010): the runnable task of the highest random priority
	// runs, and at d-1 random scheduling points the running task falls to the lowest. It finds a bug of depth d with a stated probability.
	PCT
)

func (p Policy) String() string { return [...]string{"random", "fifo", "pct"}[p] }

// pick takes the next task off the run queue, which is not empty.
func (w *World) pick() *Task {
	i := 0
	switch w.cfg.Policy {
	case Random:
		switch {
		case w.next > 0:
			i, w.next = w.next-1, 0
		case len(w.runq) > 1:
			i = w.rng.intn(len(w.runq))
		}
		t := w.runq[i]
		last := len(w.runq) - 1
		w.runq[i] = w.runq[last]
		w.runq[last] = nil
		w.runq = w.runq[:last]
		return t
	case PCT:
		for k, t := range w.runq {
			if t.priority > w.runq[i].priority {
				i = k
			}
		}
	}
	t := w.runq[i]
	copy(w.runq[i:], w.runq[i+1:])
	w.runq[len(w.runq)-1] = nil
	w.runq = w.runq[:len(w.runq)-1]
	return t
}

// preempt decides at a scheduling point whether the running task must let another go first.
func (w *World) preempt(t *Task) bool {
	if w.halt != nil || len(w.later) > 0 {
		return true
	}
	switch w.cfg.Policy {
	case Random:
		return w.rng.intn(len(w.runq)+1) != 0
	case PCT:
		w.pct.point(t)
		for _, q := range w.runq {
			if q.priority > t.priority {
				return true
			}
		}
	}
	return false
}

// pct holds the priority change points still to come.
type pct struct {
	rng    splitmix
	steps  int
	change []int  // ascending step numbers
	low    uint64 // next priority below all others
}

func (p *pct) init(w *World) {
	if w.cfg.Policy != PCT {
		return
	}
	p.rng = splitmix(keyedSeed(w.cfg.Seed, "sim/pct", ""))
	p.low = uint64(w.cfg.Depth)
	for range w.cfg.Depth - 1 {
		p.change = append(p.change, p.rng.intn(w.cfg.Steps))
	}
	slices.Sort(p.change)
}

func (p *pct) admit(w *World, t *Task) {
	if w.cfg.Policy == PCT {
		t.priority = p.rng.next() | 1<<32 // above every change point's priority
	}
}

func (p *pct) point(t *Task) {
	p.steps++
	for len(p.change) > 0 && p.steps >= p.change[0] {
		p.change = p.change[1:]
		p.low--
		t.priority = p.low
	}
}

func sortTasks(ts []*Task) {
	slices.SortFunc(ts, func(a, b *Task) int { return int(a.id) - int(b.id) })
}
