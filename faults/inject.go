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
	LeftOut = "out"    // it would begin now, but was left out
	Held    = "held"   // it would leave what the system survives, and waits for a moment at which it does not
	Dropped = "drop"   // no such moment came
)

// Note tells of a phase of a fault.
type Note struct {
	Number int    // of the fault in its plan, from 1
	Line   string // the fault as its plan writes it
	Phase  string
	Fault  Fault
	Hit    []string // machines that the fault hits
	Peers  []string // of a fault between machines: those on the other side
	Toll   Toll     // at the end: what it did
	Short  []string // partitions that it leaves, or would leave, with fewer good copies than the system needs; see [Copies]
}

// Injection is a plan that is being put into effect.
//
// Faults on one machine compose. A machine is up again when the last of the faults that hold it down ended. A crash ends a pause of the
// process and lets a frozen machine go on; what does not run cannot be paused, frozen or stopped; a frozen machine whose freeze ends may still be paused. A power
// loss also hits a machine whose process is down. Cuts, bad links and disk
// faults add up; drifts add up within ±5%; CPU factors multiply; of the misfortunes at one place the latest counts; a fault that was ended or healed does not end a second time.
type Injection struct {
	clock  Clock
	target Target
	note   func(Note)
	states map[string]*state
	active []*active // in the order of their begin
	places map[string][]*misfortune
	healed bool
}

// state is what the faults hold of one machine.
type state struct {
	down    int  // faults that keep the process from running
	pauses  int  // faults that keep it paused, also those that freeze the machine
	freezes int  // faults that freeze the machine
	life    int  // counts the times it went down: a pause of an earlier life has no end
	started bool // of a spare: its start fault came
	drift   int64
	slow    []int64 // factors of the CPU
}

type active struct {
	Note
	end Heal
}

// Schedule puts a concrete plan (see [Plan.Draw]) into effect. note is called at each phase of each fault; it may be nil. Faults with the
// given numbers (from 1, in the order of the plan) are left out, which changes no decision about the others.
func (p Plan) Schedule(c Clock, t Target, note func(Note), without ...int) *Injection {
	in := &Injection{clock: c, target: t, note: note, states: map[string]*state{}, places: map[string][]*misfortune{}}
	if in.note == nil {
		in.note = func(Note) {}
	}
	for _, m := range t.Machines("") {
		in.states[m] = &state{}
	}
	for i, f := range p {
		n := Note{Number: i + 1, Line: f.String(), Fault: f}
		out := slices.Contains(without, n.Number)
		c.At(f.At.V().D(), func() {
			if out {
				in.tell(n, LeftOut)
				return
			}
			in.begin(f, n, f.At.V().D())
		})
	}
	return in
}

func (in *Injection) tell(n Note, phase string) {
	if in.healed && phase != Healed {
		return
	}
	n.Phase = phase
	in.note(n)
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
		out = append(out, a.Line)
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

// A fault that strikes only where it is survived looks so often, and so long, for its moment. Then it strikes at once, so a plan is at its hardest when it has to wait.
const (
	heldLook     = 50 * time.Millisecond
	heldPatience = 3 * time.Second
)

// begin lets a fault strike at the time, which is its own or, when it was held back, a later one.
func (in *Injection) begin(f Fault, n Note, at time.Duration) {
	if in.healed {
		return
	}
	if !f.fixed() {
		panic("faults: " + n.Line + " was not drawn")
	}
	hit := machines(f.Target, in.target)
	if len(hit) == 0 && f.Target != "" {
		in.tell(n, Skipped)
		return
	}
	n.Hit = hit
	if info, _ := f.Kind.Info(); slices.Contains(info.Need, "peer") || slices.Contains(info.May, "peer") {
		_, n.Peers = in.sides(f, hit)
	}
	harm, brokers := f.Harm(), in.brokers(hit)
	copies := in.target.Copies()
	if n.Short = copies.Short(harm, brokers); len(n.Short) > 0 && f.If == Survivable {
		waited := at - f.At.V().D()
		if waited == 0 {
			in.tell(n, Held)
		}
		if waited >= heldPatience {
			in.tell(n, Dropped)
		} else {
			in.clock.At(at+heldLook, func() { in.begin(f, n, at+heldLook) })
		}
		return
	}
	effect := in.effects()[f.Kind]
	end, ok := effect(f, n.Number, hit)
	switch {
	case !ok:
		in.tell(n, Skipped)
		return
	case end == nil:
		in.tell(n, Instant)
		return
	}
	in.tell(n, Begun)
	if f.lasts() {
		end = in.harming(end, harm, brokers)
	}
	a := &active{n, end}
	in.active = append(in.active, a)
	if d := in.length(f, hit); d > 0 {
		in.clock.At(at+d, func() { in.end(a, Ended) })
	}
}

// brokers are those of the machines that may hold copies.
func (in *Injection) brokers(hit []string) []string {
	return slices.DeleteFunc(in.living(hit), func(m string) bool { return RoleOf(m) != "broker" })
}

// harming keeps the account of copies while a fault may do harm at any moment.
func (in *Injection) harming(end Heal, harm Harm, brokers []string) Heal {
	under := func(begins bool) {
		for _, b := range brokers {
			in.target.Copies().Under(b, harm, begins)
		}
	}
	under(true)
	return func() Toll {
		under(false)
		return end()
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
	a.Toll = a.end()
	in.tell(a.Note, phase)
}
