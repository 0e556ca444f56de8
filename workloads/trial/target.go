package trial

import (
	"fmt"
	"strconv"
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

func (t target) Racks() int { return int(t.r.sc.Topology.Racks.V()) }

func (t target) Copies() *faults.Copies { return t.r.copies }

func (t target) Spare(machine string) bool { return t.node(machine).spare }

func (t target) Leader(topic string, partition int32) string {
	return t.r.registry.leader(topic, partition)
}

func (t target) Coordinator(group string) string { return t.r.registry.coordinator(group) }

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

func (t target) Restart(machine string)     { t.r.boot(t.node(machine)) }
func (t target) StopProcess(machine string) { t.node(machine).ask() }

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

// Freeze and Thaw concern the network stack; the process is paused for itself.
func (t target) Freeze(machine string) { t.node(machine).comp.Freeze() }
func (t target) Thaw(machine string)   { t.node(machine).comp.Thaw() }

func (t target) WipeDisk(machine string) {
	n := t.node(machine)
	n.comp.ReplaceDisk()
	t.r.rec.MachineWiped(n.who())
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

// counted ends what lasts on the links from each of from to each of to and says what became of their messages meanwhile.
func (t target) counted(from, to []string, heal func()) faults.Heal {
	sum := func() (c net.Counts) {
		each(from, to, func(a, b string) func() { c = c.Plus(t.r.c.Net.Counts(a, b)); return nil })
		return c
	}
	before, over := sum(), false
	return func() faults.Toll {
		if over {
			return faults.Toll{}
		}
		over = true
		after := sum()
		heal()
		return faults.Toll{Held: after.Held - before.Held, Lost: after.Lost - before.Lost, Corrupted: after.Corrupted - before.Corrupted}
	}
}

func (t target) Partition(from, to []string, bothWays bool) faults.Heal {
	out := t.counted(from, to, each(from, to, t.r.c.Net.Block))
	if !bothWays {
		return out
	}
	return faults.Heals(out, t.counted(to, from, each(to, from, t.r.c.Net.Block)))
}

func (t target) Link(from, to []string, number int, l faults.Link) faults.Heal {
	if l.Clog {
		return t.counted(from, to, each(from, to, t.r.c.Net.Clog))
	}
	rule := net.Rule{
		Key:       strconv.Itoa(number),
		Latency:   net.Distribution{Kind: net.Constant, Min: l.Latency, Max: l.Latency + l.Spread},
		Bandwidth: l.Bandwidth, Loss: int(l.Loss), Corrupt: int(l.Corrupt), CorruptFrom: int(l.After),
	}
	switch {
	case l.Spread > 0 && l.HeavyTail:
		rule.Latency.Kind = net.HeavyTail
	case l.Spread > 0:
		rule.Latency.Kind = net.Uniform
	}
	return t.counted(from, to, each(from, to, func(a, b string) func() { return t.r.c.Net.Slow(a, b, rule) }))
}

func (t target) Reset(a, b []string) {
	each(a, b, func(x, y string) func() { t.r.c.Net.Reset(x, y); return nil })
}

func (t target) Cut(a, b []string, after int64) {
	each(a, b, func(x, y string) func() { t.r.c.Net.Cut(x, y, int(after)); return nil })
}

func (t target) ClockJump(machine string, by time.Duration) { t.node(machine).comp.JumpClock(by) }
func (t target) ClockDrift(machine string, ppm int64)       { t.node(machine).comp.DriftClock(ppm) }

func (t target) Disk(machine string, number int, f faults.DiskFault) faults.Heal {
	d := t.node(machine).comp.Disk()
	fault := diskFault(f)
	fault.ID = fmt.Sprintf("%s/%d", machine, number)
	if err := d.Inject(fault); err != nil {
		panic(fmt.Sprintf("trial: %v", err)) // the plan was checked
	}
	return func() (did faults.Toll) {
		for _, a := range d.Faults() {
			if a.ID == fault.ID {
				did.Operations = int64(a.Hits)
			}
		}
		d.Heal(fault.ID)
		return did
	}
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
		return disk.Fault{Kind: disk.Full, Bytes: f.Free}
	case faults.DiskShort:
		out.Kind, f.Op = disk.Short, f.Op&(faults.OpRead|faults.OpWrite)
	case faults.DiskSlow:
		out.Kind = disk.Slow
	case faults.DiskStall:
		out.Kind = disk.Stall
	case faults.DiskRot:
		out.Kind = disk.Rot
		return out
	case faults.DiskMisdirect:
		out.Kind = disk.Misdirect
		return out
	case faults.DiskLie:
		return disk.Fault{Kind: disk.Lie}
	}
	for _, op := range []struct {
		plan faults.DiskOps
		disk disk.Ops
	}{
		{faults.OpRead, disk.OpRead}, {faults.OpWrite, disk.OpWrite}, {faults.OpSync, disk.OpSync}, {faults.OpTruncate, disk.OpTruncate}, {faults.OpOpen, disk.OpOpen},
		{faults.OpCreate, disk.OpCreate}, {faults.OpMkdir, disk.OpMkdir}, {faults.OpRemove, disk.OpRemove}, {faults.OpRename, disk.OpRename},
		{faults.OpReadDir, disk.OpReadDir}, {faults.OpStat, disk.OpStat}, {faults.OpSyncDir, disk.OpSyncDir},
	} {
		if f.Op&op.plan != 0 {
			out.Ops |= op.disk
		}
	}
	return out
}

func (t target) CPU(machine string, factor int64) { t.node(machine).comp.SlowCPU(float64(factor)) }

func (t target) Misfortune(place string, ppm int64, latency time.Duration) {
	if err := t.r.c.Arm(place, virtual.Misfortune{Chance: float64(ppm) / 1e6, Fail: true, Delay: latency}); err != nil {
		panic(fmt.Sprintf("trial: %v", err)) // the plan was checked
	}
}

func (t target) DeleteTopic(topic string)                   { t.r.admin.deleteTopic(topic) }
func (t target) RestoreTopic(topic string)                  { t.r.admin.restoreTopic(topic) }
func (t target) Reassign(topic, from string)                { t.r.admin.reassign(topic, from) }
func (t target) AddPartitions(topic string, total int32)    { t.r.admin.addPartitions(topic, total) }
func (t target) CreateTopic(topic string, partitions int32) { t.r.admin.createTopic(topic, partitions) }
