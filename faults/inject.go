package faults

import (
	"slices"
	"time"

	"faultline/faults/quantity"
)

// Phases of a fault, as the note callback is told.
const (
	Begun   = "begin"
	Ended   = "end"    // its time was over
	Healed  = "heal"   // the heal phase ended it
	Skipped = "skip"   // no machine to hit: not there, already down, a spare that nobody started
	Instant = "strike" // it happens at once and has no end
)

// Injection is a plan that is being put into effect.
//
// Faults on one machine compose. A machine is up again when the last of the faults that hold it down ended. A crash ends a pause of the
// process; what does not run cannot be paused or stopped. A power loss also hits a machine whose process is down. Cuts, slow links and disk
// faults add up; drifts add up within ±5%; CPU factors multiply; of the misfortunes at one place the latest counts; a fault that was ended or healed does not end a second time.
type Injection struct {
	clock  Clock
	target Target
	note   func(fault, phase string)
	states map[string]*state
	active []*active // in the order of their begin
	places map[string][]*misfortune
	healed bool
}

// state is what the faults hold of one machine.
type state struct {
	down    int  // faults that keep the process from running
	pauses  int  // faults that keep it paused
	life    int  // counts the times it went down: a pause of an earlier life has no end
	started bool // of a spare: its start fault came
	drift   int64
	slow    []int64 // factors of the CPU
}

type active struct {
	line string
	end  func()
}

// Schedule puts a concrete plan (see [Plan.Draw]) into effect. note is called at each phase of each fault with the fault's own line; it may be nil.
func (p Plan) Schedule(c Clock, t Target, note func(fault, phase string)) *Injection {
	in := &Injection{clock: c, target: t, note: note, states: map[string]*state{}, places: map[string][]*misfortune{}}
	if in.note == nil {
		in.note = func(string, string) {}
	}
	for _, m := range t.Machines("") {
		in.states[m] = &state{}
	}
	for _, f := range p {
		line := f.String()
		c.At(f.At.V().D(), func() { in.begin(f, line) })
	}
	return in
}

// Held tells whether a fault wants the machine's process down. Whoever restarts processes that ended by themselves leaves such a machine alone.
func (in *Injection) Held(machine string) bool {
	s := in.states[machine]
	return s != nil && (s.down > 0 || in.target.Spare(machine) && !s.started)
}

// Active are the lines of the faults that have begun and not ended, in the order of their begin.
func (in *Injection) Active() []string {
	var out []string
	for _, a := range in.active {
		out = append(out, a.line)
	}
	return out
}

// HealAll ends every fault that is active, in the order of their begin, and lets no further one begin. Wall clocks that jumped stay as they are.
func (in *Injection) HealAll() {
	in.healed = true
	for len(in.active) > 0 {
		in.end(in.active[0], Healed)
	}
}

func (in *Injection) begin(f Fault, line string) {
	if in.healed {
		return
	}
	for _, undrawn := range []interface{ Fixed() bool }{f.For, f.Latency, f.Bandwidth, f.By, f.Drift, f.Probability, f.Count, f.Factor, f.Partitions} {
		if !undrawn.Fixed() {
			panic("faults: " + line + " was not drawn")
		}
	}
	hit := machines(f.Target, in.target)
	if len(hit) == 0 && f.Target != "" {
		in.note(line, Skipped)
		return
	}
	effect := in.effects()[f.Kind]
	end, ok := effect(f, hit)
	switch {
	case !ok:
		in.note(line, Skipped)
		return
	case end == nil:
		in.note(line, Instant)
		return
	}
	in.note(line, Begun)
	a := &active{line, end}
	in.active = append(in.active, a)
	if d := in.length(f, hit); d > 0 {
		in.clock.At(f.At.V().D()+d, func() { in.end(a, Ended) })
	}
}

// length is how long the fault lasts, 0 until the heal phase.
func (in *Injection) length(f Fault, hit []string) time.Duration {
	if f.For != (quantity.Durations{}) || f.Kind != SessionExpiry {
		return f.For.V().D()
	}
	var longest time.Duration
	for _, m := range hit {
		longest = max(longest, in.target.SessionTimeout(m))
	}
	return longest + longest/2 + time.Second/2
}

func (in *Injection) end(a *active, phase string) {
	i := slices.Index(in.active, a)
	if i < 0 {
		return
	}
	in.active = slices.Delete(in.active, i, i+1)
	in.note(a.line, phase)
	a.end()
}
