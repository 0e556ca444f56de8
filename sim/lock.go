package sim

import "time"

// Mutex is a lock between tasks of one world. Every Lock and Unlock is a scheduling point. It is not fair: on
// Unlock all waiters compete with whoever comes next, and the scheduler decides.
type Mutex struct {
	w       *World
	name    string
	owner   *Task
	waiters []*Task
}

// NewMutex makes an unlocked lock; the name appears in stuck verdicts.
func (w *World) NewMutex(name string) *Mutex { return &Mutex{w: w, name: name} }

func (m *Mutex) Lock() {
	m.w.Yield()
	m.lock()
}

// lock is Lock of a task that has only just been picked to run: nothing would be gained by picking once more.
func (m *Mutex) lock() {
	t := m.w.Current()
	for m.owner != nil {
		if m.owner == t {
			panic("sim: task " + t.String() + " locks " + m.name + " twice")
		}
		m.waiters = append(m.waiters, t)
		m.w.Park("lock", m.name)
	}
	m.owner = t
}

func (m *Mutex) Unlock() {
	if t := m.w.Current(); m.owner != t {
		panic("sim: task " + t.String() + " unlocks " + m.name + " without holding it")
	}
	m.release()
	m.w.Yield()
}

func (m *Mutex) release() {
	m.owner = nil
	for i, t := range m.waiters {
		t.Wake()
		m.waiters[i] = nil
	}
	m.waiters = m.waiters[:0]
}

// Cond is a condition on a Mutex.
type Cond struct {
	m       *Mutex
	name    string
	waiters []*Task
	rng     splitmix
}

// NewCond makes a condition; the name appears in stuck verdicts.
func (w *World) NewCond(name string, m *Mutex) *Cond {
	w.seq++
	return &Cond{m: m, name: name, rng: splitmix(keyedSeed(w.cfg.Seed, "sim/cond", name) + w.seq)}
}

func (c *Cond) Wait() {
	c.waiters = append(c.waiters, c.m.w.Current())
	c.m.release()
	c.m.w.Park("condition", c.name)
	c.m.lock()
}

// wake wakes a waiter. While somebody holds the lock it could do nothing but wait for that, so it does so without running first.
func (c *Cond) wake(t *Task) {
	if c.m.owner == nil || t.state != parked {
		t.Wake()
		return
	}
	c.m.w.timers.remove(&t.timer)
	t.waitsOn, t.waitsFor = "lock", c.m.name
	c.m.waiters = append(c.m.waiters, t)
}

// WaitUntil waits until the given world time at most, and reports whether it was woken.
func (c *Cond) WaitUntil(until time.Duration) bool {
	t := c.m.w.Current()
	c.waiters = append(c.waiters, t)
	c.m.release()
	woken := c.m.w.ParkUntil("condition", c.name, until)
	if !woken {
		for i, o := range c.waiters {
			if o == t {
				c.waiters = append(c.waiters[:i], c.waiters[i+1:]...)
				break
			}
		}
	}
	c.m.lock()
	return woken
}

// Signal wakes one waiter, chosen by the seed.
func (c *Cond) Signal() {
	c.m.w.Current()
	if n := len(c.waiters); n > 0 {
		i := 0
		if n > 1 && c.m.w.cfg.Policy != FIFO {
			i = c.rng.intn(n)
		}
		t := c.waiters[i]
		c.waiters = append(c.waiters[:i], c.waiters[i+1:]...)
		c.wake(t)
	}
	c.m.w.Yield()
}

func (c *Cond) Broadcast() {
	c.m.w.Current()
	for i, t := range c.waiters {
		c.wake(t)
		c.waiters[i] = nil
	}
	c.waiters = c.waiters[:0]
	c.m.w.Yield()
}
