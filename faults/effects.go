package faults

import (
	"slices"

	"faultline/faults/quantity"
)

// effect puts one fault into effect on the machines that it hits. It returns what ends it (nil: it is over at once), and false when it hit nothing.
type effect func(f Fault, hit []string) (end func(), ok bool)

func (in *Injection) effects() map[Kind]effect {
	return map[Kind]effect{
		Crash:         in.down(in.target.Crash),
		PowerLoss:     in.down(in.target.PowerLoss),
		Stop:          in.stop,
		Start:         in.start,
		Pause:         in.pause,
		Partition:     in.cut,
		Isolate:       in.cut,
		SessionExpiry: in.cut,
		SlowLink:      in.link,
		Clog:          in.link,
		Reset:         in.reset,
		ClockJump:     in.jump,
		ClockDrift:    in.drift,
		DiskErrors:    in.disk(DiskError),
		FullDisk:      in.disk(DiskFull),
		ShortDisk:     in.disk(DiskShort),
		SlowDisk:      in.disk(DiskSlow),
		StalledDisk:   in.disk(DiskStall),
		SlowCPU:       in.cpu,
		AddPartitions: in.administer,
		CreateTopic:   in.administer,
		Misfortune:    in.misfortune,
	}
}

// down holds machines down by the given blow. It also strikes one that is down already: a regular stop may be under way, a page cache may be left to lose.
func (in *Injection) down(blow func(machine string)) effect {
	return func(_ Fault, hit []string) (func(), bool) {
		hit = in.living(hit)
		for _, m := range hit {
			in.hold(m)
			blow(m)
		}
		return in.release(hit), len(hit) > 0
	}
}

// stop ends processes regularly. A paused process would not hear of it, a dead one neither.
func (in *Injection) stop(_ Fault, hit []string) (func(), bool) {
	hit = slices.DeleteFunc(in.living(hit), func(m string) bool { return in.states[m].down > 0 || in.states[m].pauses > 0 })
	for _, m := range hit {
		in.hold(m)
		in.target.StopProcess(m)
	}
	up := in.release(hit)
	return func() {
		for _, m := range hit {
			if in.states[m].down == 1 {
				in.target.Crash(m) // the patience of a service manager is over: a stop that is still under way is cut short
			}
		}
		up()
	}, len(hit) > 0
}

// hold notes one more fault that wants the machine down. The pauses of this life are over.
func (in *Injection) hold(machine string) {
	s := in.states[machine]
	if s.pauses > 0 {
		s.pauses = 0
		in.target.Resume(machine)
	}
	s.life++
	s.down++
}

func (in *Injection) release(hit []string) func() {
	return func() {
		for _, m := range hit {
			if s := in.states[m]; s.down > 0 {
				if s.down--; !in.Held(m) {
					in.target.Restart(m)
				}
			}
		}
	}
}

// living leaves out the spares that were not started.
func (in *Injection) living(hit []string) []string {
	return slices.DeleteFunc(slices.Clone(hit), func(m string) bool { return in.target.Spare(m) && !in.states[m].started })
}

func (in *Injection) start(f Fault, hit []string) (func(), bool) {
	hit = slices.DeleteFunc(slices.Clone(hit), func(m string) bool { return !in.target.Spare(m) || in.states[m].started })
	for _, m := range hit {
		s := in.states[m]
		s.started = true
		if s.down > 0 {
			continue // what holds it down restarts it
		}
		if s.life > 0 {
			in.target.Crash(m) // its regular stop may still be under way
		}
		in.target.Restart(m)
	}
	return func() {
		if in.healed {
			return // who joined may stay
		}
		for _, m := range hit {
			s := in.states[m]
			s.started = false
			if s.pauses > 0 {
				s.pauses = 0
				in.target.Resume(m)
			}
			s.life++
			if s.down == 0 {
				in.target.StopProcess(m)
			}
		}
	}, len(hit) > 0
}

func (in *Injection) pause(_ Fault, hit []string) (func(), bool) {
	hit = slices.DeleteFunc(in.living(hit), func(m string) bool { return in.states[m].down > 0 })
	lives := make([]int, len(hit))
	for i, m := range hit {
		s := in.states[m]
		lives[i] = s.life
		if s.pauses++; s.pauses == 1 {
			in.target.Pause(m)
		}
	}
	return func() {
		for i, m := range hit {
			s := in.states[m]
			if s.life != lives[i] {
				continue
			}
			if s.pauses--; s.pauses == 0 {
				in.target.Resume(m)
			}
		}
	}, len(hit) > 0
}

// sides are the machines on both sides of a network fault. Nobody is on both.
func (in *Injection) sides(f Fault, hit []string) (a, b []string) {
	switch {
	case f.Kind == SessionExpiry:
		b = in.target.Machines("coord")
	case f.Peer != "":
		b = machines(f.Peer, in.target)
	default:
		b = in.target.Machines("")
	}
	return hit, slices.DeleteFunc(slices.Clone(b), func(m string) bool { return slices.Contains(hit, m) })
}

func (in *Injection) cut(f Fault, hit []string) (func(), bool) {
	a, b := in.sides(f, hit)
	if len(b) == 0 {
		return nil, false
	}
	if f.Way == "in" {
		return in.target.Partition(b, a, false), true
	}
	return in.target.Partition(a, b, f.Way != "out"), true
}

func (in *Injection) link(f Fault, hit []string) (func(), bool) {
	a, b := in.sides(f, hit)
	if len(b) == 0 {
		return nil, false
	}
	rule := Link{Latency: f.Latency.V().D(), Bandwidth: int64(f.Bandwidth.V()), Clog: f.Kind == Clog}
	if rule.Bandwidth == quantity.Endless {
		rule.Bandwidth = 0
	}
	var heals []func()
	if f.Way != "in" {
		heals = append(heals, in.target.Link(a, b, rule))
	}
	if f.Way != "out" {
		heals = append(heals, in.target.Link(b, a, rule))
	}
	return all(heals), true
}

func (in *Injection) reset(f Fault, hit []string) (func(), bool) {
	a, b := in.sides(f, hit)
	in.target.Reset(a, b)
	return nil, len(b) > 0
}

func (in *Injection) jump(f Fault, hit []string) (func(), bool) {
	for _, m := range hit {
		in.target.ClockJump(m, f.By.V().D())
	}
	return nil, true
}

func (in *Injection) drift(f Fault, hit []string) (func(), bool) {
	add := func(ppm int64) {
		for _, m := range hit {
			s := in.states[m]
			s.drift += ppm
			in.target.ClockDrift(m, min(50_000, max(-50_000, s.drift)))
		}
	}
	add(f.Drift.V().PPM())
	return func() { add(-f.Drift.V().PPM()) }, true
}

func (in *Injection) disk(what DiskEffect) effect {
	return func(f Fault, hit []string) (func(), bool) {
		d := DiskFault{Effect: what, Path: f.Path, PPM: f.Probability.V().PPM(), Count: int64(f.Count.V()), Latency: f.Latency.V().D()}
		switch f.Op {
		case "read":
			d.Op = OpRead
		case "write":
			d.Op = OpWrite
		case "fsync":
			d.Op = OpSync
		default:
			d.Op = OpAll
		}
		if d.PPM == 0 {
			d.PPM = 1_000_000
		}
		var heals []func()
		for _, m := range hit {
			heals = append(heals, in.target.Disk(m, d))
		}
		return all(heals), true
	}
}

// maxSlow bounds the product of overlapping CPU factors.
const maxSlow = 1_000_000

func (in *Injection) cpu(f Fault, hit []string) (func(), bool) {
	factor := int64(f.Factor.V())
	set := func(m string) {
		product := int64(1)
		for _, x := range in.states[m].slow {
			product = min(maxSlow, product*x)
		}
		in.target.CPU(m, product)
	}
	for _, m := range hit {
		in.states[m].slow = append(in.states[m].slow, factor)
		set(m)
	}
	return func() {
		for _, m := range hit {
			s := in.states[m]
			i := slices.Index(s.slow, factor)
			s.slow = slices.Delete(s.slow, i, i+1)
			set(m)
		}
	}, true
}

func (in *Injection) administer(f Fault, _ []string) (func(), bool) {
	if f.Kind == AddPartitions {
		in.target.AddPartitions(f.Topic, int32(f.Partitions.V()))
	} else {
		in.target.CreateTopic(f.Topic, int32(f.Partitions.V()))
	}
	return nil, true
}

// all ends several effects, each once.
func all(heals []func()) func() {
	return func() {
		for _, heal := range heals {
			heal()
		}
	}
}
