// Package virtual is the simulated computer: machine.Machine on the kernel (sim), the virtual disk
// (sim/disk) and the virtual network (sim/net), with the misfortunes that befall a whole machine or process.
//
// A [Cluster] is the computers of one world on one network. A [Computer] has a disk, a network stack, a clock and cores, which
// outlive the processes that run on it one after the other; each process is one sim.Group of tasks.
package virtual

import (
	"fmt"

	"github.com/pingcap/failpoint"

	"faultline/sim"
	"faultline/sim/disk"
	"faultline/sim/machine"
	"faultline/sim/net"
)

// Config describes the computers of a cluster. The zero value is a fast machine whose CPU work is free.
type Config struct {
	Net  net.Config
	Disk disk.Config
	CPU  CPU
}

// Cluster is the computers of one world.
type Cluster struct {
	World *sim.World
	Net   *net.Network

	// OnEvent, if set, sees every event that a process traces, live.
	OnEvent func(*Computer, *machine.Event)
	// OnExit, if set, is told when a process ended by itself: regularly (nil), by Exit, or by a panic (*Panic).
	OnExit func(*Computer, error)

	cfg       Config
	computers []*Computer
	points    failpoint.Failpoints // this world's own; see Arm
	armed     map[string]*site     // every failpoint that was armed once
	active    int                  // of these, how many are armed now
	passages  Passages             // nil: not counted
	event     machine.Event        // the one that OnEvent sees
}

// New makes a cluster without computers.
func New(w *sim.World, cfg Config) *Cluster {
	c := &Cluster{World: w, Net: net.New(w, cfg.Net), cfg: cfg, armed: map[string]*site{}}
	w.OnPanic = c.panicked
	return c
}

// Panic is why a process ended whose task panicked.
type Panic struct{ Err error } // the panic's value and the task's own stack

func (p *Panic) Error() string { return p.Err.Error() }
func (p *Panic) Unwrap() error { return p.Err }

func (c *Cluster) panicked(t *sim.Task, err error) {
	for _, comp := range c.computers {
		if comp.proc != nil && comp.proc.group == t.Group() {
			comp.ended(&Panic{err})
			return
		}
	}
	panic(fmt.Sprintf("virtual: a task outside any computer panicked: %v", err))
}

// Add puts a computer on the network, with power and without a process.
func (c *Cluster) Add(name string) *Computer {
	m := &Computer{cluster: c, name: name, disk: disk.New(name, c.cfg.Disk), cores: newCores(&c.cfg.CPU, c.World.Stream("virtual/interrupts", name))}
	m.host = c.Net.AddHost(name, &m.clock)
	c.computers = append(c.computers, m)
	return m
}

// Computers lists the computers in the order in which they were added.
func (c *Cluster) Computers() []*Computer { return c.computers }
