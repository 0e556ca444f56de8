// Package conformance holds an implementation of the seam (sim/machine) to what the seam says. The same suite runs on the simulated
// computer and on the real one, so that a program tested on one meets nothing new on the other.
//
// Verified: tasks, locks, conditions, timers, the end of a process, what files and TCP streams do to a program, and that disks
// outlive processes. Not verified: what a power loss leaves (sim/disk's own tests), clocks that are wrong, and anything about speed.
package conformance

import (
	"errors"
	"testing"

	"faultline/sim/machine"
)

// Arm is a kind of computer to test: two machines, named differently, that reach each other by name and whose disks are empty at first.
type Arm interface {
	// Run starts a new process on each machine, with body as the first task on alpha and nothing to do on beta. It returns when
	// alpha's process has ended, and ends beta's too: all their tasks are gone. The result is the reason of alpha's end: nil when body
	// returned, what was passed to Exit, or an error that shows the value of the panic that crashed it.
	Run(body func(alpha, beta machine.Machine)) error
}

// T reports from inside a task. It fits testify's require. Its FailNow ends alpha's process, since a task must not end by itself in a way that
// the arm does not know.
type T struct {
	testing.TB
	alpha machine.Machine
	arm   Arm
}

var errFailed = errors.New("the test failed")

// FailNow gives up the test.
func (t *T) FailNow() {
	t.TB.Fail()
	t.alpha.Exit(errFailed)
}

// test is one requirement. Most have a body only; run is for those about the ends of processes.
type test struct {
	name string
	body func(t *T, alpha, beta machine.Machine)
	run  func(t testing.TB, arm Arm)
}

// Run tests an arm. newArm makes a fresh pair of machines for each requirement; it may use t.Cleanup.
func Run(t *testing.T, newArm func(t testing.TB) Arm) {
	for room, tests := range map[string][]test{"time": timeTests, "tasks": taskTests, "locks": lockTests, "exit": exitTests,
		"disk": diskTests, "files": fileTests, "net": netTests, "streams": streamTests, "sendfile": sendFileTests} {
		t.Run(room, func(t *testing.T) {
			for _, c := range tests {
				t.Run(c.name, func(t *testing.T) {
					arm := newArm(t)
					if c.run != nil {
						c.run(t, arm)
						return
					}
					if err := run(t, arm, c.body); err != nil {
						t.Errorf("the process ended with: %v", err)
					}
				})
			}
		})
	}
}

// run runs one body. errFailed has been reported already.
func run(t testing.TB, arm Arm, body func(t *T, alpha, beta machine.Machine)) error {
	err := arm.Run(func(alpha, beta machine.Machine) {
		body(&T{TB: t, alpha: alpha, arm: arm}, alpha, beta)
	})
	if errors.Is(err, errFailed) {
		return nil
	}
	return err
}

// crew is a set of tasks of one machine that are waited for.
type crew struct {
	m       machine.Machine
	mu      machine.Mutex
	done    machine.Cond
	working int
}

func newCrew(m machine.Machine) *crew {
	mu := m.NewMutex("crew")
	return &crew{m: m, mu: mu, done: m.NewCond("crew done", mu)}
}

// Go starts a task.
func (c *crew) Go(name string, fn func()) {
	c.mu.Lock()
	c.working++
	c.mu.Unlock()
	c.m.Go(name, func() {
		fn()
		c.mu.Lock()
		c.working--
		c.done.Broadcast()
		c.mu.Unlock()
	})
}

// Wait waits until all tasks have returned.
func (c *crew) Wait() {
	c.mu.Lock()
	for c.working > 0 {
		c.done.Wait()
	}
	c.mu.Unlock()
}
