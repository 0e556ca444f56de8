package virtual

import (
	"fmt"
	"math/rand/v2"
	"time"

	"faultline/sim"
	"faultline/sim/disk"
	"faultline/sim/machine"
	"faultline/sim/net"
)

// Computer is one simulated machine.
type Computer struct {
	cluster *Cluster
	name    string
	clock   sim.Clock
	disk    *disk.Model
	host    *net.Host
	cores   cores
	off     bool
	proc    *process // running, or nil
	boots   int      // processes started so far
}

// Name is the host name.
func (c *Computer) Name() string { return c.name }

// Disk is the disk's model, for faults and oracles.
func (c *Computer) Disk() *disk.Model { return c.disk }

// Clock is the computer's view of time.
func (c *Computer) Clock() *sim.Clock { return &c.clock }

// Running tells whether a process runs (paused or not); Incarnation counts the processes started.
func (c *Computer) Running() bool    { return c.proc != nil }
func (c *Computer) Incarnation() int { return c.boots }

// Boot starts a process, switching the computer on if need be. main is its first task; when it returns, the process ends.
func (c *Computer) Boot(main func(m machine.Machine) error) {
	if c.proc != nil {
		panic(fmt.Sprintf("virtual: %s already runs a process", c.name))
	}
	if c.off {
		c.off = false
		c.host.PowerOn()
	}
	c.boots++
	p := &process{comp: c, w: c.cluster.World, group: &sim.Group{Name: c.name}, key: fmt.Sprintf("%s#%d", c.name, c.boots)}
	p.disk = c.disk.Attach(&diskPort{p}, p.Now)
	c.proc = p
	c.record("boot", uint64(c.boots))
	p.w.Go(p.group, "main", func() { p.Exit(main(p)) })
}

// Go runs fn as a task of the running process; without one it does nothing.
func (c *Computer) Go(name string, fn func()) {
	if c.proc != nil {
		c.cluster.World.Go(c.proc.group, name, fn)
	}
}

// Crash kills the process: its memory is gone, its connections are reset, the page cache survives.
func (c *Computer) Crash() {
	if c.proc == nil {
		return
	}
	c.record("crash", uint64(c.boots))
	c.kill()
	c.host.Crash()
	c.disk.ProcessCrash()
}

// PowerLoss stops the whole machine in silence; unsynced pages and directory entries survive or not, each by itself.
// The next Boot switches it on again.
func (c *Computer) PowerLoss() {
	if c.off {
		return
	}
	c.record("power loss", uint64(c.boots))
	c.kill()
	c.host.PowerOff()
	c.off = true
	c.disk.PowerLoss(c.cluster.World.Stream)
}

func (c *Computer) kill() {
	if c.proc == nil {
		return
	}
	g := c.proc.group
	c.proc = nil
	c.cluster.World.KillGroup(g)
}

// ended is the end of a process by its own doing.
func (c *Computer) ended(reason error) {
	c.record("exit", uint64(c.boots))
	c.kill()
	c.host.Crash()
	c.disk.ProcessCrash()
	if c.cluster.OnExit != nil {
		c.cluster.OnExit(c, reason)
	}
}

// Pause freezes the process, as a long garbage collection or a stalled virtual machine does; clocks and network go on.
func (c *Computer) Pause() {
	if c.proc != nil {
		c.record("pause", 0)
		c.cluster.World.Pause(c.proc.group)
	}
}

// Resume ends a Pause.
func (c *Computer) Resume() {
	if c.proc != nil {
		c.record("resume", 0)
		c.cluster.World.Resume(c.proc.group)
	}
}

// Freeze holds the network stack: nothing is sent, acknowledged or accepted until Thaw, Crash or PowerLoss. With the process paused too the
// whole machine stands still, as a stalled virtual machine does; clocks go on.
func (c *Computer) Freeze() { c.host.Freeze() }

// Thaw ends a Freeze.
func (c *Computer) Thaw() { c.host.Thaw() }

// ReplaceDisk puts an empty disk in the place of the computer's, which must run no process.
func (c *Computer) ReplaceDisk() {
	if c.proc != nil {
		panic(fmt.Sprintf("virtual: %s runs a process, which has its disk open", c.name))
	}
	c.record("replace disk", uint64(c.boots))
	c.disk.Wipe()
}

// JumpClock moves the wall clock, back when negative.
func (c *Computer) JumpClock(by time.Duration) {
	c.record("clock jump", uint64(by))
	c.clock.Jump(by)
}

// DriftClock makes both clocks run fast by ppm parts per million from now on; slow when negative.
func (c *Computer) DriftClock(ppm int64) {
	c.record("clock drift", uint64(ppm))
	c.clock.Drift(c.cluster.World.Now(), ppm)
}

// SlowCPU makes all work take factor times as long, until the next call. 1 is normal.
func (c *Computer) SlowCPU(factor float64) {
	c.record("slow cpu", uint64(factor*1000))
	c.cores.slow = factor
}

func (c *Computer) record(what string, a uint64) {
	c.cluster.World.Record(sim.KindFault, c.name, what, "", a, 0)
}

// diskPort is what the disk asks of the world on behalf of one process.
type diskPort struct{ p *process }

// Now unwinds a task that was killed: the disk asks it before every operation, so that what dead tasks defer changes no file. Faults ask it outside any task.
func (d *diskPort) Now() time.Duration {
	if d.p.w.InTask() {
		d.p.w.Current()
	}
	return d.p.w.Now()
}

func (d *diskPort) Wait(until time.Duration) {
	if until <= d.p.w.Now() {
		d.p.w.Yield()
		return
	}
	d.p.w.ParkUntil("disk of", d.p.comp.name, until)
}

func (d *diskPort) Waker() func() { return d.p.w.Current().Wake }

func (d *diskPort) Park() { d.p.w.Park("stalled disk of", d.p.comp.name) }

func (d *diskPort) Record(op, file string, a, b int64) {
	d.p.w.Record(sim.KindDisk, d.p.comp.name, op, file, uint64(a), uint64(b))
}

func (d *diskPort) Stream(purpose, entity string) *rand.Rand {
	return d.p.w.Stream(purpose, entity)
}
