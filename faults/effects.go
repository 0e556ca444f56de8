package faults

import (
	"slices"

	"faultline/faults/quantity"
)

// effect puts one fault into effect on the machines that it hits. It returns what ends it (nil: it is over at once), and false when it hit nothing.
type effect func(f Fault, number int, hit []string) (end Heal, ok bool)

func (in *Injection) effects() map[Kind]effect {
	return map[Kind]effect{
		Crash:         in.down(in.target.Crash),
		PowerLoss:     in.down(in.target.PowerLoss),
		Stop:          in.stop,
		Start:         in.start,
		ReplaceDisk:   in.down(in.replace),
		Pause:         in.pause,
		Freeze:        in.freeze,
		Partition:     in.cut,
		Isolate:       in.cut,
		SessionExpiry: in.cut,
		SlowLink:      in.link,
		Clog:          in.link,
		Loss:          in.link,
		Corruption:    in.link,
		Reset:         in.reset,
		Cut:           in.reset,
		ClockJump:     in.jump,
		ClockDrift:    in.drift,
		DiskErrors:    in.disk(DiskError),
		FullDisk:      in.disk(DiskFull),
		ShortDisk:     in.disk(DiskShort),
		SlowDisk:      in.disk(DiskSlow),
		StalledDisk:   in.disk(DiskStall),
		BitRot:        in.disk(DiskRot),
		Misdirected:   in.disk(DiskMisdirect),
		LyingDisk:     in.disk(DiskLie),
		SlowCPU:       in.cpu,
		AddPartitions: in.administer,
		CreateTopic:   in.administer,
		RenewTopic:    in.administer,
		Reassign:      in.administer,
		Misfortune:    in.misfortune,
	}
}

// down holds machines down by the given blow. It also strikes one that is down already: a regular stop may be under way, a page cache may be left to lose.
func (in *Injection) down(blow func(machine string)) effect {
	return func(_ Fault, _ int, hit []string) (Heal, bool) {
		hit = in.living(hit)
		for _, m := range hit {
			in.hold(m)
			blow(m)
		}
		return untold(in.release(hit)), len(hit) > 0
	}
}

// replace is the blow that leaves an empty disk behind.
func (in *Injection) replace(machine string) {
	in.target.PowerLoss(machine)
	in.target.WipeDisk(machine)
}

// untold makes an end of which there is nothing to tell.
func untold(end func()) Heal {
	return func() Toll { end(); return Toll{} }
}

// stop ends processes regularly. A paused process would not hear of it, a dead one neither.
func (in *Injection) stop(_ Fault, _ int, hit []string) (Heal, bool) {
	hit = slices.DeleteFunc(in.living(hit), func(m string) bool { return in.states[m].down > 0 || in.states[m].pauses > 0 })
	for _, m := range hit {
		in.hold(m)
		in.target.StopProcess(m)
	}
	up := in.release(hit)
	return untold(func() {
		for _, m := range hit {
			if in.states[m].down == 1 {
				in.target.Crash(m) // the patience of a service manager is over: a stop that is still under way is cut short
			}
		}
		up()
	}), len(hit) > 0
}

// hold notes one more fault that wants the machine down.
func (in *Injection) hold(machine string) {
	in.wake(machine)
	in.states[machine].down++
}

// wake ends the machine's pauses and freezes, because its process does not live on.
func (in *Injection) wake(machine string) {
	s := in.states[machine]
	if s.freezes > 0 {
		s.freezes = 0
		in.target.Thaw(machine)
	}
	if s.pauses > 0 {
		s.pauses = 0
		in.target.Resume(machine)
	}
	s.life++
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

func (in *Injection) start(_ Fault, _ int, hit []string) (Heal, bool) {
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
	return untold(func() {
		if in.healed {
			return // who joined may stay
		}
		for _, m := range hit {
			in.states[m].started = false
			in.wake(m)
			if in.states[m].down == 0 {
				in.target.StopProcess(m)
			}
		}
	}), len(hit) > 0
}

// pause holds processes. A frozen machine's process is paused for both.
func (in *Injection) pause(_ Fault, _ int, hit []string) (Heal, bool) {
	return in.still(hit, false)
}

func (in *Injection) freeze(_ Fault, _ int, hit []string) (Heal, bool) {
	return in.still(hit, true)
}

func (in *Injection) still(hit []string, whole bool) (Heal, bool) {
	hit = slices.DeleteFunc(in.living(hit), func(m string) bool { return in.states[m].down > 0 })
	lives := make([]int, len(hit))
	for i, m := range hit {
		s := in.states[m]
		lives[i] = s.life
		if s.pauses++; s.pauses == 1 {
			in.target.Pause(m)
		}
		if whole {
			if s.freezes++; s.freezes == 1 {
				in.target.Freeze(m)
			}
		}
	}
	return untold(func() {
		for i, m := range hit {
			s := in.states[m]
			if s.life != lives[i] {
				continue
			}
			if whole {
				if s.freezes--; s.freezes == 0 {
					in.target.Thaw(m)
				}
			}
			if s.pauses--; s.pauses == 0 {
				in.target.Resume(m)
			}
		}
	}), len(hit) > 0
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

func (in *Injection) cut(f Fault, _ int, hit []string) (Heal, bool) {
	a, b := in.sides(f, hit)
	if len(b) == 0 {
		return nil, false
	}
	if f.Way == "in" {
		return in.target.Partition(b, a, false), true
	}
	return in.target.Partition(a, b, f.Way != "out"), true
}

func (in *Injection) link(f Fault, number int, hit []string) (Heal, bool) {
	a, b := in.sides(f, hit)
	if len(b) == 0 {
		return nil, false
	}
	rule := Link{
		Latency: f.Latency.V().D(), Spread: f.Spread.V().D(), HeavyTail: f.Shape == "heavy-tail", Bandwidth: int64(f.Bandwidth.V()),
		After: int64(f.After.V()), Clog: f.Kind == Clog,
	}
	switch f.Kind {
	case Loss:
		rule.Loss = f.Probability.V().PPM()
	case Corruption:
		rule.Corrupt = f.Probability.V().PPM()
	}
	if rule.Bandwidth == quantity.Endless {
		rule.Bandwidth = 0
	}
	var heals []Heal
	if f.Way != "in" {
		heals = append(heals, in.target.Link(a, b, number, rule))
	}
	if f.Way != "out" {
		heals = append(heals, in.target.Link(b, a, number, rule))
	}
	return Heals(heals...), true
}

func (in *Injection) reset(f Fault, _ int, hit []string) (Heal, bool) {
	a, b := in.sides(f, hit)
	if f.Kind == Cut {
		in.target.Cut(a, b, int64(f.After.V()))
	} else {
		in.target.Reset(a, b)
	}
	return nil, len(b) > 0
}

func (in *Injection) jump(f Fault, _ int, hit []string) (Heal, bool) {
	for _, m := range hit {
		in.target.ClockJump(m, f.By.V().D())
	}
	return nil, true
}

func (in *Injection) drift(f Fault, _ int, hit []string) (Heal, bool) {
	add := func(ppm int64) {
		for _, m := range hit {
			s := in.states[m]
			s.drift += ppm
			in.target.ClockDrift(m, min(50_000, max(-50_000, s.drift)))
		}
	}
	add(f.Drift.V().PPM())
	return untold(func() { add(-f.Drift.V().PPM()) }), true
}

func (in *Injection) disk(what DiskEffect) effect {
	return func(f Fault, number int, hit []string) (Heal, bool) {
		d := DiskFault{
			Effect: what, Op: diskOps[f.Op], Path: f.Path, PPM: f.Probability.V().PPM(), Count: int64(f.Count.V()), Latency: f.Latency.V().D(),
			Free: int64(f.Free.V()),
		}
		if d.PPM == 0 {
			d.PPM = 1_000_000
		}
		var heals []Heal
		for _, m := range hit {
			heals = append(heals, in.target.Disk(m, number, d))
		}
		return Heals(heals...), true
	}
}

// maxSlow bounds the product of overlapping CPU factors.
const maxSlow = 1_000_000

func (in *Injection) cpu(f Fault, _ int, hit []string) (Heal, bool) {
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
	return untold(func() {
		for _, m := range hit {
			s := in.states[m]
			i := slices.Index(s.slow, factor)
			s.slow = slices.Delete(s.slow, i, i+1)
			set(m)
		}
	}), true
}

func (in *Injection) administer(f Fault, _ int, hit []string) (Heal, bool) {
	switch f.Kind {
	case AddPartitions:
		in.target.AddPartitions(f.Topic, int32(f.Partitions.V()))
	case CreateTopic:
		in.target.CreateTopic(f.Topic, int32(f.Partitions.V()))
	case RenewTopic:
		in.target.DeleteTopic(f.Topic)
		return untold(func() { in.target.RestoreTopic(f.Topic) }), true
	case Reassign:
		for _, m := range hit {
			in.target.Reassign(f.Topic, m)
		}
	}
	return nil, true
}

// Heals ends several effects and adds up what they did.
func Heals(heals ...Heal) Heal {
	return func() Toll {
		var sum Toll
		for _, heal := range heals {
			sum = sum.Add(heal())
		}
		return sum
	}
}
