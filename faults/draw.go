package faults

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"faultline/faults/quantity"
	"faultline/sim"
)

// Env is what a plan must know of a world before it exists.
type Env struct {
	Machines map[string][]string // by role, in order, spares included
	Spare    []string            // machines that only a start fault starts
	Racks    int                 // over how many racks the machines are spread, see [Rack]; 0: one
	Topics   []TopicInfo
	Groups   []string      // consumer groups that a broker coordinates
	Load     time.Duration // how long the load lasts; 0: not known
	Session  time.Duration // the longest session time-out
}

// TopicInfo is a topic that exists from the beginning.
type TopicInfo struct {
	Name       string
	Partitions int
	Replicas   int // of each, at most; 0 counts as 1
}

// maxRepeats bounds how many faults one line can make; a misprint must not fill the memory.
const maxRepeats = 10_000

// Draw makes the plan concrete: every range is replaced by a value, "any role" by a machine, a repeated fault by its repetitions, and one that
// visits machine after machine by one for each. Each fault draws from a stream of its own. Faults for machines that this world does not have, those
// between a machine and itself, and those after the end of its load, are left out. The result is ordered by begin.
func (p Plan) Draw(seed uint64, env Env) Plan {
	var out Plan
	for i, f := range p {
		at, every, until := f.At, f.Every, f.Until
		f.Every, f.Until = quantity.Durations{}, quantity.Durations{}
		entity := strconv.Itoa(i)
		begin := at.Draw(sim.NewStream(seed, "faults/at", entity))
		last := until.Draw(sim.NewStream(seed, "faults/until", entity))
		if last == 0 {
			last = quantity.Duration(env.Load)
		}
		for n := range maxRepeats {
			one := f
			one.At = quantity.Just(begin)
			if env.Load > 0 && begin.D() >= env.Load {
				break // in this world the load ends before
			}
			if one.fix(seed, fmt.Sprintf("%d/%d", i, n), env) {
				out = append(out, one.visits(sim.NewStream(seed, "faults/visits", fmt.Sprintf("%d/%d", i, n)), env)...)
			}
			if every == (quantity.Durations{}) {
				break
			}
			begin += every.Draw(sim.NewStream(seed, "faults/every", fmt.Sprintf("%d/%d", i, n)))
			if begin > last {
				break
			}
		}
	}
	out.sort()
	return out
}

// fix draws the fields of one fault and reports whether there is a target for it, and something to do: a jump by 0 is none.
func (f *Fault) fix(seed uint64, entity string, env Env) bool {
	rng := func(field string) *rand.Rand { return sim.NewStream(seed, "faults/"+field, entity) }
	info, _ := f.Kind.Info()
	for _, r := range f.ranges() {
		if !r.value.Fixed() {
			r.value.Fix(rng(r.name))
		}
		if !r.value.Given() && slices.Contains(info.Need, r.name) {
			return false
		}
	}
	if f.Target != "" {
		if f.Target = drawTarget(f.Target, env, f.Kind == Start, rng("target")); f.Target == "" {
			return false
		}
	}
	if f.Peer != "" {
		if f.Peer = drawTarget(f.Peer, env, false, rng("peer")); f.Peer == "" {
			return false
		}
	}
	return !f.alone()
}

// quantities is a field of a fault that may be a range.
type quantities struct {
	name  string
	value interface {
		Fixed() bool
		Fix(*rand.Rand)
		Given() bool
	}
}

// ranges lists the fields that are drawn for each fault; when it begins and comes again is drawn apart from them.
func (f *Fault) ranges() []quantities {
	return []quantities{
		{"for", &f.For}, {"gap", &f.Gap}, {"latency", &f.Latency}, {"spread", &f.Spread}, {"bandwidth", &f.Bandwidth}, {"by", &f.By}, {"drift", &f.Drift},
		{"probability", &f.Probability}, {"count", &f.Count}, {"free", &f.Free}, {"after", &f.After}, {"factor", &f.Factor},
		{"partitions", &f.Partitions},
	}
}

// fixed tells whether every field has one value.
func (f *Fault) fixed() bool {
	return !slices.ContainsFunc(f.ranges(), func(q quantities) bool { return !q.value.Fixed() })
}

func (p Plan) sort() {
	slices.SortStableFunc(p, func(a, b Fault) int { return int(min(1, max(-1, a.At.Min-b.At.Min))) })
}

// With is the plan together with another, ordered by begin.
func (p Plan) With(q Plan) Plan {
	out := slices.Concat(p, q)
	out.sort()
	return out
}
