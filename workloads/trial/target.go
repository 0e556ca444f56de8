package trial

import (
	"fmt"
	"strings"
	"time"

	"faultline/faults"
	"faultline/sim/disk"
	"faultline/sim/net"
	"faultline/sim/virtual"
	"faultline/workloads/history"
)

// target lets faults hit the machines of a run. It implements faults.Target.
type target struct{ r *run }

func (t target) node(machine string) *node {
	n := t.r.byName[machine]
	if n == nil {
		panic("trial: no machine is named " + machine)
	}
	return n
}

// Machines implements faults.Target. Machines that only serve the judge are out of reach.
func (t target) Machines(role string) []string {
	var out []string
	for _, n := range t.r.nodes {
		if n.role != roleAdmin && n.role != roleAuditor && (role == "" || n.role == role) {
			out = append(out, n.name)
		}
	}
	return out
}

func (t target) Spare(machine string) bool { return t.node(machine).spare }

func (t target) Leader(topic string, partition int32) string {
	return t.r.registry.leader(topic, partition)
}

func (t target) SessionTimeout(machine string) time.Duration { return t.node(machine).session }

func (t target) Crash(machine string) {
	n := t.node(machine)
	if n.comp.Running() {
		t.r.rec.MachineCrashed(n.who(), false, "crash")
		n.live = nil
		n.comp.Crash()
	}
}

func (t target) PowerLoss(machine string) {
	n := t.node(machine)
	t.r.rec.MachineCrashed(n.who(), true, "power loss")
	n.live = nil
	n.comp.PowerLoss()
}

func (n *node) who() history.Who {
	return history.Who{Machine: n.name, Incarnation: n.comp.Incarnation()}
}

func (t target) Restart(machine string)      { t.r.boot(t.node(machine)) }
func (t target) StopProcess(machine string)  { t.node(machine).ask() }
func (t target) StartProcess(machine string) { t.r.boot(t.node(machine)) }

func (t target) Pause(machine string) {
	n := t.node(machine)
	if n.comp.Running() {
		t.r.rec.MachinePaused(n.who())
		n.comp.Pause()
	}
}

func (t target) Resume(machine string) {
	n := t.node(machine)
	if n.comp.Running() {
		t.r.rec.MachineResumed(n.who())
		n.comp.Resume()
	}
}

// each calls fn for every directed pair of different machines and joins the heals.
func each(from, to []string, fn func(a, b string) func()) (heal func()) {
	var heals []func()
	for _, a := range from {
		for _, b := range to {
			if a != b {
				heals = append(heals, fn(a, b))
			}
		}
	}
	return func() {
		for _, h := range heals {
			h()
		}
	}
}

func (t target) Partition(from, to []string, bothWays bool) (heal func()) {
	out := each(from, to, t.r.c.Net.Block)
	if !bothWays {
		return out
	}
	back := each(to, from, t.r.c.Net.Block)
	return func() { out(); back() }
}

func (t target) Link(from, to []string, l faults.Link) (heal func()) {
	if l.Clog {
		return each(from, to, t.r.c.Net.Clog)
	}
	return each(from, to, func(a, b string) func() {
		return t.r.c.Net.Slow(a, b, net.Rule{Latency: net.Distribution{Kind: net.Constant, Min: l.Latency}, Bandwidth: l.Bandwidth})
	})
}

func (t target) Reset(a, b []string) {
	each(a, b, func(x, y string) func() { t.r.c.Net.Reset(x, y); return func() {} })
}

func (t target) ClockJump(machine string, by time.Duration) { t.node(machine).comp.JumpClock(by) }
func (t target) ClockDrift(machine string, ppm int64)       { t.node(machine).comp.DriftClock(ppm) }

func (t target) Disk(machine string, f faults.DiskFault) (heal func()) {
	d := t.node(machine).comp.Disk()
	t.r.diskFaults++
	fault := diskFault(f)
	fault.ID = fmt.Sprintf("%s/%d", machine, t.r.diskFaults)
	if err := d.Inject(fault); err != nil {
		panic(fmt.Sprintf("trial: %v", err)) // the plan was checked
	}
	return func() { d.Heal(fault.ID) }
}

// diskFault says in the disk's words what the plan says in its own.
func diskFault(f faults.DiskFault) disk.Fault {
	out := disk.Fault{Count: int(f.Count), Delay: f.Latency, Path: f.Path}
	if f.Path != "" && !strings.Contains(f.Path, "/") {
		out.Path = "**/" + f.Path
	}
	if f.PPM < 1_000_000 {
		out.Probability = float64(f.PPM) / 1e6
	}
	switch f.Effect {
	case faults.DiskError:
		out.Kind = disk.Error
	case faults.DiskFull:
		out.Kind = disk.Full
		out.Probability, out.Count = 0, 0
		return out
	case faults.DiskShort:
		out.Kind = disk.Short
	case faults.DiskSlow:
		out.Kind = disk.Slow
	case faults.DiskStall:
		out.Kind = disk.Stall
	}
	for _, op := range []struct {
		plan faults.DiskOps
		disk disk.Ops
	}{{faults.OpRead, disk.OpRead}, {faults.OpWrite, disk.OpWrite | disk.OpTruncate}, {faults.OpSync, disk.OpSync | disk.OpSyncDir}} {
		if f.Op&op.plan != 0 {
			out.Ops |= op.disk
		}
	}
	if out.Kind == disk.Short {
		out.Ops &= disk.OpRead | disk.OpWrite
	}
	return out
}

func (t target) CPU(machine string, factor int64) { t.node(machine).comp.SlowCPU(float64(factor)) }

func (t target) Misfortune(place string, ppm int64, latency time.Duration) {
	if err := t.r.c.Arm(place, virtual.Misfortune{Chance: float64(ppm) / 1e6, Fail: true, Delay: latency}); err != nil {
		panic(fmt.Sprintf("trial: %v", err)) // the plan was checked
	}
}

func (t target) AddPartitions(topic string, total int32)    { t.r.admin.addPartitions(topic, total) }
func (t target) CreateTopic(topic string, partitions int32) { t.r.admin.createTopic(topic, partitions) }
