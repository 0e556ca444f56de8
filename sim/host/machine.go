// Package host is the seam (sim/machine) on the real computer: files under a directory, TCP, the wall clock and goroutines.
//
// One [Machine] is one process of the system. Several may run in one operating-system process, as a test does that starts a cluster, each
// with its own name, root directory and, when they share ports, listen address.
package host

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"faultline/sim/machine"
)

// Options says what a machine is made of. The zero value is a machine "localhost" on 127.0.0.1 whose disk is the working directory.
type Options struct {
	// Name is the host name. Default "localhost".
	Name string
	// Root is the directory that holds the machine's files. It is made when it is missing. Default ".".
	Root string
	// Address is where Listen binds: an IP address, "" for 127.0.0.1. On Linux each machine of a
	// test may have one of its own in 127.0.0.0/8.
	Address string
	// Hosts gives the IP addresses of host names; other names are looked up as usual. nil: every name is 127.0.0.1. IP addresses and
	// localhost are dialed as they are in any case.
	Hosts map[string]string
	// OnExit is told, once, when the process has ended by itself: by Exit or because a task panicked. All its tasks are gone by then, and it
	// runs on a goroutine of its own. nil: a panic crashes the operating system's process, and Exit ends it with status 0, or 1 and the
	// reason on standard error.
	OnExit func(reason error)
	// OnTrace sees what the process traces, from many goroutines at once. nil: nobody does.
	OnTrace func(machine.Event)
}

// Machine implements machine.Machine. Its methods may be called from any goroutine; a goroutine that calls one after the machine was shut
// down ends, as runtime.Goexit does it.
type Machine struct {
	o     Options
	start time.Time
	disk  disk

	gone    atomic.Bool     // shut down: nobody may return from the seam
	dead    context.Context // is done when gone is set
	kill    context.CancelFunc
	mu      sync.Mutex // guards open, and gone against new tasks and resources
	open    map[io.Closer]struct{}
	tasks   sync.WaitGroup
	started atomic.Bool // the end has begun
}

var _ machine.Machine = (*Machine)(nil)

// New makes a machine. It fails when its root directory cannot be made.
func New(o Options) (*Machine, error) {
	if o.Name == "" {
		o.Name = "localhost"
	}
	if o.Address == "" {
		o.Address = loopback
	}
	root, err := filepath.Abs(o.Root)
	if err == nil {
		err = os.MkdirAll(root, 0o755)
	}
	if err != nil {
		return nil, fmt.Errorf("machine %s: its root directory: %w", o.Name, err)
	}
	m := &Machine{o: o, start: time.Now(), open: map[io.Closer]struct{}{}}
	m.dead, m.kill = context.WithCancel(context.Background())
	m.disk = disk{m: m, root: root}
	return m, nil
}

// Shutdown kills the process: its listeners, connections and files are closed, its tasks end at their next call to the seam or out of
// the one that they are blocked in. It returns when all of them are gone. Do not call it from a task; a task uses Exit.
func (m *Machine) Shutdown() {
	m.end()
	m.tasks.Wait()
}

// end lets no task return from the seam any more.
func (m *Machine) end() {
	m.mu.Lock()
	m.gone.Store(true)
	open := m.open
	m.open = nil
	m.mu.Unlock()
	m.kill()
	for c := range open {
		c.Close()
	}
}

// alive ends the calling goroutine when the machine is shut down. Every method of the seam begins and ends with it.
func (m *Machine) alive() {
	if m.gone.Load() {
		runtime.Goexit()
	}
}

// keep has a resource closed at the end of the machine.
func (m *Machine) keep(c io.Closer) {
	m.mu.Lock()
	if m.open == nil {
		m.mu.Unlock()
		c.Close()
		runtime.Goexit()
	}
	m.open[c] = struct{}{}
	m.mu.Unlock()
}

func (m *Machine) drop(c io.Closer) {
	m.mu.Lock()
	delete(m.open, c)
	m.mu.Unlock()
}

// Name implements machine.Machine, as do the methods below.
func (m *Machine) Name() string { return m.o.Name }

func (m *Machine) Now() time.Time {
	m.alive()
	return time.Now().Round(0) // without the monotonic reading: a wall clock that jumps is one
}

func (m *Machine) Uptime() time.Duration {
	m.alive()
	return time.Since(m.start)
}

func (m *Machine) Rand(purpose string) *rand.Rand {
	return rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
}

func (m *Machine) Disk() machine.Disk { return &m.disk }

func (m *Machine) Work(machine.Work) { m.alive() }

func (m *Machine) Trace(e machine.Event) {
	m.alive()
	if m.o.OnTrace != nil {
		m.o.OnTrace(e)
	}
}

func (m *Machine) Tracing() bool { return m.o.OnTrace != nil }

func (m *Machine) Failpoint(string) bool {
	m.alive()
	return false
}

// Mark does nothing; it does not even end the goroutines of a machine that was shut down.
func (m *Machine) Mark(string) {}

func (m *Machine) Exit(reason error) {
	m.exit(reason)
	runtime.Goexit()
}

func (m *Machine) exit(reason error) {
	if m.gone.Load() || !m.started.CompareAndSwap(false, true) {
		return
	}
	m.end()
	go func() {
		m.tasks.Wait()
		switch {
		case m.o.OnExit != nil:
			m.o.OnExit(reason)
		case reason != nil:
			fmt.Fprintf(os.Stderr, "%s: %v\n", m.o.Name, reason)
			os.Exit(1)
		default:
			os.Exit(0)
		}
	}()
}

// Panic is the reason of an exit because a task panicked.
type Panic struct {
	Task  string
	Value any
	Stack []byte // of the task
}

func (p *Panic) Error() string {
	return fmt.Sprintf("task %s panicked: %v\n%s", p.Task, p.Value, p.Stack)
}

// Unwrap is the panic's value when that is an error.
func (p *Panic) Unwrap() error {
	err, _ := p.Value.(error)
	return err
}

// enter admits a task; false when the machine is shut down.
func (m *Machine) enter() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.gone.Load() {
		return false
	}
	m.tasks.Add(1)
	return true
}

// run is the life of a task that was admitted.
func (m *Machine) run(name string, fn func()) {
	defer m.tasks.Done()
	if m.o.OnExit != nil {
		defer func() {
			if v := recover(); v != nil {
				m.exit(&Panic{Task: name, Value: v, Stack: debug.Stack()})
			}
		}()
	}
	fn()
}

func (m *Machine) Go(name string, fn func()) {
	if !m.enter() {
		runtime.Goexit()
	}
	go m.run(name, fn)
}

// Do runs fn as a task and waits for its end. It reports whether fn returned; otherwise the machine was shut down.
func (m *Machine) Do(name string, fn func()) bool {
	if !m.enter() {
		return false
	}
	returned := false
	done := make(chan struct{})
	go m.run(name, func() {
		defer close(done)
		fn()
		returned = true
	})
	<-done
	return returned
}
