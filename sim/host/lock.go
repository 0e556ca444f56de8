package host

import (
	"runtime"
	"slices"
	"sync"
	"time"

	"faultline/sim/machine"
)

// mutex is a lock whose waiters end with the machine: a sync.Mutex would hold them for ever.
type mutex struct {
	m    *Machine
	name string
	held chan struct{} // full while somebody has the lock
}

func (m *Machine) NewMutex(name string) machine.Mutex {
	return &mutex{m: m, name: name, held: make(chan struct{}, 1)}
}

func (l *mutex) Lock() {
	l.m.alive()
	select {
	case l.held <- struct{}{}:
		return
	default:
	}
	select {
	case l.held <- struct{}{}:
		l.m.alive()
	case <-l.m.dead.Done():
		runtime.Goexit()
	}
}

func (l *mutex) Unlock() {
	l.m.alive()
	select {
	case <-l.held:
	default:
		panic("unlock of mutex " + l.name + ", which is not locked")
	}
}

// cond is a condition whose waiters end with the machine and may have a time-out.
type cond struct {
	m       *Machine
	l       machine.Mutex
	mu      sync.Mutex
	waiting []*waiter // in the order in which they came
}

// waiter is one task in a Wait. woken has room for one, so that waking never blocks.
type waiter struct {
	woken chan struct{}
	timer *time.Timer
}

var waiters = sync.Pool{New: func() any {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return &waiter{woken: make(chan struct{}, 1), timer: t}
}}

func (m *Machine) NewCond(name string, l machine.Mutex) machine.Cond {
	return &cond{m: m, l: l}
}

func (c *cond) Wait() { c.wait(-1) }

func (c *cond) WaitTimeout(d time.Duration) bool { return c.wait(max(d, 0)) }

// wait waits for d; negative: for ever. It reports whether it was woken.
func (c *cond) wait(d time.Duration) bool {
	c.m.alive()
	w := waiters.Get().(*waiter)
	c.mu.Lock()
	c.waiting = append(c.waiting, w)
	c.mu.Unlock()
	c.l.Unlock()
	var timeout <-chan time.Time
	if d >= 0 {
		w.timer.Reset(d)
		timeout = w.timer.C
	}
	woken := true
	select {
	case <-w.woken:
	case <-c.m.dead.Done():
		runtime.Goexit()
	case <-timeout:
		c.mu.Lock()
		if i := slices.Index(c.waiting, w); i >= 0 {
			c.waiting = slices.Delete(c.waiting, i, i+1)
			woken = false
		} else {
			<-w.woken // a signal has chosen this waiter meanwhile and must not be lost
		}
		c.mu.Unlock()
	}
	if d >= 0 {
		w.timer.Stop() // since Go 1.23 nothing stale is left in the channel
	}
	waiters.Put(w)
	c.l.Lock()
	return woken
}

func (c *cond) Signal() {
	c.m.alive()
	c.mu.Lock()
	if len(c.waiting) > 0 {
		c.waiting[0].woken <- struct{}{}
		c.waiting = slices.Delete(c.waiting, 0, 1)
	}
	c.mu.Unlock()
}

func (c *cond) Broadcast() {
	c.m.alive()
	c.mu.Lock()
	for _, w := range c.waiting {
		w.woken <- struct{}{}
	}
	clear(c.waiting)
	c.waiting = c.waiting[:0]
	c.mu.Unlock()
}
