package trial

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"faultline/coord/client"
	"faultline/sim/machine"
	"faultline/workloads/history"
)

// An application that uses the coordination service by its well-known recipes: a lock (recipes_lock.go), and a queue and a tally that several share (recipes_queue.go). Unlike clerks it runs on
// machines that faults hit, and connects to whichever server takes it. It does as the recipes say and no more: it relies on the names that the service numbers, on its watches and on its lease,
// never looks again just to be sure, and never asks a second time before it knows what became of the first.

const (
	recipesPath   = "/recipes"
	recipeSession = 2 * time.Second
	recipePause   = 40 * time.Millisecond // between two things, at most
	recipeIdle    = 3 * time.Second       // now and then a client does nothing for up to so long, and lives by its pings
)

// patron is one process of such an application, in one session after the other.
type patron struct {
	r     *run
	p     *running
	dice  *rand.Rand
	calls int // numbers what it makes, so that it knows it again

	lock machine.Mutex
	news machine.Cond // something was told
	c    *client.Client
	told map[string]bool // paths whose watch has told something
	lost bool            // the session has ended

	healed bool // it has had the lock since the heal
}

// useRecipes works until the load is over, and has the lock once more after that: what a fault left behind may not keep it away.
func (r *run) useRecipes(p *running) error {
	a := &patron{r: r, p: p, dice: p.Rand("recipes"), lock: p.NewMutex("patron")}
	a.news = p.NewCond("patron/news", a.lock)
	for !a.healed {
		a.session()
	}
	p.node.done = true
	return nil
}

// session connects, and works until the session has ended or the work is done.
func (a *patron) session() {
	_, tap := a.p.taps()
	a.told, a.lost = map[string]bool{}, false
	a.c = client.Connect(a.p, client.Config{Servers: a.r.addrs.Coord, SessionTimeout: recipeSession, Tap: tap, Name: "patron", OnEvent: a.hear})
	for _, path := range []string{lockPath, queuePath, tallyPath} {
		a.insist(func() error { return a.c.EnsurePath(path) })
	}
	for !a.lost && !a.healed {
		a.pause(recipePause)
		switch n := a.dice.IntN(16); {
		case a.r.phase > history.Load:
			a.takeTurn()
			a.healed = !a.lost
		case n == 0:
			a.pause(recipeIdle)
		case n < 7:
			a.takeTurn()
		case n < 11:
			a.put()
		default:
			a.take()
		}
	}
	_ = a.c.Close() // what is left of the session ends by its time-out
}

func (a *patron) pause(most time.Duration) { a.p.Sleep(time.Duration(a.dice.Int64N(int64(most)))) }

// label names something that this process makes.
func (a *patron) label() string {
	a.calls++
	return fmt.Sprintf("%s.%d.%d", a.p.Name(), a.p.who.Incarnation, a.calls)
}

// hear is told what the service has to tell.
func (a *patron) hear(e client.Event) {
	a.lock.Lock()
	defer a.lock.Unlock()
	switch {
	case e.Type != client.EventSession:
		a.told[e.Path] = true
	case e.State == client.StateExpired:
		a.lost = true
	}
	a.news.Broadcast()
}

// awaits waits until the watch at a path has told something; false: the session has ended.
func (a *patron) awaits(path string) bool {
	a.lock.Lock()
	defer a.lock.Unlock()
	for !a.told[path] && !a.lost {
		a.news.Wait()
	}
	return !a.lost
}

// insist tries until something is done or refused, or the session has ended. That a call was not answered is no reason to give up, but the caller sees to it that trying again does no harm.
func (a *patron) insist(try func() error) error {
	for {
		err := try()
		switch {
		case errors.Is(err, client.ErrSessionExpired):
			a.lock.Lock()
			a.lost = true
			a.lock.Unlock()
			return err
		case !client.Unknown(err) && !errors.Is(err, client.ErrNotConnected):
			return err
		}
		a.pause(recipePause)
	}
}
