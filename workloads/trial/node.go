package trial

import (
	"fmt"
	"time"

	"faultline/sim/machine"
	"faultline/sim/virtual"
	"faultline/workloads/history"
)

// Roles of machines.
const (
	roleCoord    = "coord"
	roleBroker   = "broker"
	roleProducer = "producer"
	roleConsumer = "consumer"
	roleClient   = "client"  // of the coordination service alone
	roleAdmin    = "admin"   // creates topics; faults do not hit it
	roleAuditor  = "auditor" // reads whole logs for the linearizability check; faults do not hit it
)

// node is one machine of the trial and what runs on it.
type node struct {
	name    string
	role    string
	comp    *virtual.Computer
	program program
	restart time.Duration // after the process ended by itself; 0: it is not started again
	session time.Duration // time-out of its session with the coordination service; 0: it keeps none
	spare   bool          // only a start fault starts it
	live    *running      // the process that runs, or nil
	done    bool          // its work is over: it is not started again
}

// program is the main function of a machine's process.
type program func(p *running) error

// running is one process of a node, as its program sees it.
type running struct {
	machine.Machine
	node *node
	r    *run
	who  history.Who
	stop func() // asks for a regular stop, in a task of the process; nil: there is nothing to stop yet
	quit bool   // a stop was asked for before the program could be stopped
}

// boot starts the node's process.
func (r *run) boot(n *node) {
	if n.comp.Running() || n.done || r.ended {
		return
	}
	p := &running{node: n, r: r, who: history.Who{Machine: n.name, Incarnation: n.comp.Incarnation() + 1}}
	n.live = p
	r.rec.MachineStarted(p.who)
	n.comp.Boot(func(m machine.Machine) error {
		p.Machine = m
		return n.program(p)
	})
}

// stoppable is called by a program once it can be stopped regularly.
func (p *running) stoppable(stop func()) {
	p.stop = stop
	if p.quit {
		stop()
	}
}

// ask asks the node's process for a regular stop.
func (n *node) ask() {
	p := n.live
	if p == nil || p.quit {
		return
	}
	p.quit = true
	if p.stop != nil {
		n.comp.Go("stop", p.stop)
	}
}

// exited is told when a process ended by itself.
func (r *run) exited(c *virtual.Computer, reason error) {
	n := r.byName[c.Name()]
	asked := n.live != nil && n.live.quit
	n.live = nil
	r.rec.MachineExited(history.Who{Machine: n.name, Incarnation: c.Incarnation()}, reason)
	if p, ok := reason.(*virtual.Panic); ok {
		r.trouble("panicked", p.Error())
		return
	}
	if n.restart == 0 || n.done || asked && reason == nil {
		return
	}
	r.w.At(r.w.Now()+n.restart, func() { r.revive(n) })
}

// revive starts a process again that ended by itself, unless a fault wants it down: then the end of the fault does.
func (r *run) revive(n *node) {
	if r.injection != nil && r.injection.Held(n.name) {
		return
	}
	r.boot(n)
}

// add makes a machine.
func (r *run) add(role, name string, p program) *node {
	n := &node{name: name, role: role, program: p, comp: r.c.Add(name)}
	r.nodes = append(r.nodes, n)
	r.byName[name] = n
	return n
}

// named adds the machine "role-i".
func (r *run) named(role string, i int, p program) *node {
	return r.add(role, fmt.Sprintf("%s-%d", role, i), p)
}

// of lists the nodes of a role.
func (r *run) of(role string) []*node {
	var out []*node
	for _, n := range r.nodes {
		if n.role == role {
			out = append(out, n)
		}
	}
	return out
}
