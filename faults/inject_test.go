package faults

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"faultline/faults/quantity"
	"faultline/sim"
)

// bench is a Target and a Clock that keep the state of every machine and a log of what was done.
type bench struct {
	now    time.Duration
	queue  []callback
	log    []string
	env    Env
	up     map[string]bool
	paused map[string]bool
	drift  map[string]int64
	open   map[string]int // effects that were not healed, by name
}

type callback struct {
	at time.Duration
	fn func()
}

func newBench() *bench {
	b := &bench{env: world(), up: map[string]bool{}, paused: map[string]bool{}, drift: map[string]int64{}, open: map[string]int{}}
	for _, m := range b.Machines("") {
		b.up[m] = !b.Spare(m)
	}
	return b
}

func (b *bench) At(t time.Duration, fn func()) {
	i, _ := slices.BinarySearchFunc(b.queue, t, func(c callback, t time.Duration) int {
		if c.at <= t {
			return -1
		}
		return 1
	})
	b.queue = slices.Insert(b.queue, i, callback{t, fn})
}

// runTo lets the clock go to the time.
func (b *bench) runTo(t time.Duration) {
	for len(b.queue) > 0 && b.queue[0].at <= t {
		c := b.queue[0]
		b.queue = b.queue[1:]
		b.now = c.at
		c.fn()
	}
	b.now = t
}

func (b *bench) note(format string, args ...any) {
	b.log = append(b.log, fmt.Sprintf("%v ", b.now)+fmt.Sprintf(format, args...))
}

func (b *bench) effect(name string) func() {
	b.note("%s", name)
	b.open[name]++
	healed := false
	return func() {
		if !healed {
			healed = true
			b.open[name]--
			b.note("heal %s", name)
		}
	}
}

func (b *bench) Machines(role string) []string {
	var out []string
	for _, r := range Roles {
		if role == "" || role == r {
			out = append(out, b.env.Machines[r]...)
		}
	}
	return out
}
func (b *bench) Leader(topic string, p int32) string {
	return []string{"broker-1", "broker-2", "broker-3", ""}[p]
}
func (b *bench) Spare(m string) bool                     { return slices.Contains(b.env.Spare, m) }
func (b *bench) SessionTimeout(m string) time.Duration   { return 2 * time.Second }
func (b *bench) Crash(m string)                          { b.fall("crash", m) }
func (b *bench) PowerLoss(m string)                      { b.fall("power-loss", m) }
func (b *bench) StopProcess(m string)                    { b.note("stop %s", m); b.up[m] = false }
func (b *bench) ClockJump(m string, by time.Duration)    { b.note("jump %s %v", m, by) }
func (b *bench) ClockDrift(m string, ppm int64)          { b.note("drift %s %d", m, ppm); b.drift[m] = ppm }
func (b *bench) AddPartitions(topic string, total int32) { b.note("add %s %d", topic, total) }
func (b *bench) CreateTopic(topic string, partitions int32) {
	b.note("create %s %d", topic, partitions)
}
func (b *bench) Reset(x, y []string) { b.note("reset %s - %s", join(x), join(y)) }

func (b *bench) fall(how, m string) {
	if !b.up[m] {
		how += " (dead)"
	}
	b.note("%s %s", how, m)
	b.up[m] = false
}

func (b *bench) Restart(m string) {
	if !b.up[m] {
		b.note("restart %s", m)
		b.up[m] = true
	}
}

func (b *bench) Pause(m string) {
	if !b.up[m] || b.paused[m] {
		panic("paused a machine that does not run")
	}
	b.note("pause %s", m)
	b.paused[m] = true
}

func (b *bench) Resume(m string) {
	if b.paused[m] {
		b.note("resume %s", m)
		b.paused[m] = false
	}
}

func (b *bench) Partition(x, y []string, both bool) func() {
	return b.effect(fmt.Sprintf("cut %s %s %s", join(x), map[bool]string{true: "-", false: ">"}[both], join(y)))
}

func (b *bench) Link(x, y []string, r Link) func() {
	return b.effect(fmt.Sprintf("link %s > %s %v", join(x), join(y), r))
}

func (b *bench) Disk(m string, f DiskFault) func() {
	return b.effect(fmt.Sprintf("disk %s %+v", m, f))
}

func (b *bench) CPU(m string, factor int64) {
	b.note("cpu %s %d", m, factor)
	b.open["cpu "+m] = int(factor - 1)
}

func (b *bench) Misfortune(place string, ppm int64, latency time.Duration) {
	b.note("misfortune %s %d %v", place, ppm, latency)
	b.open[place] = int(ppm)
}

func join(names []string) string { return strings.Join(names, "+") }

// story runs a plan to its heal at 10 s and returns what was done.
func story(t *testing.T, lines ...string) string {
	plan := parsePlan(t, "faults:\n  - "+strings.Join(lines, "\n  - ")+"\n")
	b := newBench()
	in := plan.Draw(1, b.env).Schedule(b, b, nil)
	b.runTo(10 * time.Second)
	in.HealAll()
	b.runTo(time.Hour)
	return strings.Join(b.log, "\n")
}

func TestComposition(t *testing.T) {
	for name, c := range map[string]struct{ plan, want []string }{
		"a machine is up again when the last fault that holds it down ended": {
			[]string{"{at: 1s, fault: crash, target: broker-1, for: 2s}", "{at: 2s, fault: power-loss, target: broker-1, for: 3s}"},
			[]string{"1s crash broker-1", "2s power-loss (dead) broker-1", "5s restart broker-1"}},
		"a crash ends a pause, whose own end does nothing to the next process": {
			[]string{"{at: 1s, fault: pause, target: broker-1, for: 4s}", "{at: 2s, fault: crash, target: broker-1, for: 1s}", "{at: 4s, fault: pause, target: broker-1, for: 3s}"},
			[]string{"1s pause broker-1", "2s resume broker-1", "2s crash broker-1", "3s restart broker-1", "4s pause broker-1", "7s resume broker-1"}},
		"pauses nest": {
			[]string{"{at: 1s, fault: pause, target: broker-1, for: 4s}", "{at: 2s, fault: pause, target: broker-1, for: 1s}"},
			[]string{"1s pause broker-1", "5s resume broker-1"}},
		"what does not run is not paused": {
			[]string{"{at: 1s, fault: crash, target: broker-1, for: 4s}", "{at: 2s, fault: pause, target: broker-1, for: 1s}"},
			[]string{"1s crash broker-1", "5s restart broker-1"}},
		"what lasts until the heal is ended by it": {
			[]string{"{at: 1s, fault: crash, target: broker-1}", "{at: 2s, fault: pause, target: consumer-1}", "{at: 3s, fault: clock-drift, target: coord-1, drift: 4%}"},
			[]string{"1s crash broker-1", "2s pause consumer-1", "3s drift coord-1 40000", "10s restart broker-1", "10s resume consumer-1", "10s drift coord-1 0"}},
		"a stop that takes too long is cut short": {
			[]string{"{at: 1s, fault: stop, target: consumer-1, for: 1s}"},
			[]string{"1s stop consumer-1", "2s crash (dead) consumer-1", "2s restart consumer-1"}},
		"a spare joins, leaves, and is left alone meanwhile": {
			[]string{"{at: 1s, fault: crash, target: consumer-4, for: 1s}", "{at: 3s, fault: start, target: any consumer, for: 2s}", "{at: 6s, fault: crash, target: consumer-4, for: 1s}"},
			[]string{"3s restart consumer-4", "5s stop consumer-4"}},
		"a spare that is down when it should leave stays down": {
			[]string{"{at: 1s, fault: start, target: any consumer, for: 2s}", "{at: 2s, fault: crash, target: consumer-4, for: 2s}"},
			[]string{"1s restart consumer-4", "2s crash consumer-4"}},
		"a spare that joined stays after the heal": {
			[]string{"{at: 1s, fault: start, target: any consumer}", "{at: 2s, fault: crash, target: consumer-4}"},
			[]string{"1s restart consumer-4", "2s crash consumer-4", "10s restart consumer-4"}},
		"drifts add up to 5% at most": {
			[]string{"{at: 1s, fault: clock-drift, target: coord-1, drift: 4%, for: 3s}", "{at: 2s, fault: clock-drift, target: coord-1, drift: 3%, for: 1s}"},
			[]string{"1s drift coord-1 40000", "2s drift coord-1 50000", "3s drift coord-1 40000", "4s drift coord-1 0"}},
		"sides of a cut": {
			[]string{"{at: 1s, fault: isolate, target: \"broker-*, producer-*, coord-1\", for: 1s, way: in}", "{at: 2s, fault: partition, target: broker-1, peer: broker-*, way: out, for: 1s}",
				"{at: 4s, fault: session-expiry, target: consumer-1}"},
			[]string{"1s cut consumer-1+consumer-2+consumer-3+consumer-4 > broker-1+broker-2+broker-3+producer-1+producer-2+coord-1", "2s cut broker-1 > broker-2+broker-3",
				"2s heal cut consumer-1+consumer-2+consumer-3+consumer-4 > broker-1+broker-2+broker-3+producer-1+producer-2+coord-1", "3s heal cut broker-1 > broker-2+broker-3", "4s cut consumer-1 - coord-1", "7.5s heal cut consumer-1 - coord-1"}},
		"slow links, disks, processors": {
			[]string{"{at: 1s, fault: slow-link, target: broker-1, peer: coord-1, latency: 5ms, for: 1s}", "{at: 3s, fault: disk-full, target: leader of t/1, for: 1s}",
				"{at: 5s, fault: slow-cpu, target: coord-1, factor: 8, for: 1s}", "{at: 7s, fault: crash, target: leader of t/3}"},
			[]string{"1s link broker-1 > coord-1 {5ms 0 false}", "1s link coord-1 > broker-1 {5ms 0 false}", "2s heal link broker-1 > coord-1 {5ms 0 false}", "2s heal link coord-1 > broker-1 {5ms 0 false}",
				"3s disk broker-2 {Effect:2 Op:7 Path: PPM:1000000 Count:0 Latency:0s}", "4s heal disk broker-2 {Effect:2 Op:7 Path: PPM:1000000 Count:0 Latency:0s}", "5s cpu coord-1 8", "6s cpu coord-1 1"}},
		"a misfortune at several places, one of them twice": {
			[]string{"{at: 1s, fault: misfortune, place: 'fault/log/read-one, fault/log/open-slow', probability: 5%, for: 4s}", "{at: 2s, fault: misfortune, place: fault/log/open-slow, probability: 10%, for: 1s}"},
			[]string{"1s misfortune fault/log/read-one 50000 0s", "1s misfortune fault/log/open-slow 50000 0s", "2s misfortune fault/log/open-slow 100000 0s", "3s misfortune fault/log/open-slow 50000 0s",
				"5s misfortune fault/log/read-one 0 0s", "5s misfortune fault/log/open-slow 0 0s"}},
		"misfortunes at one place": {
			[]string{"{at: 1s, fault: misfortune, place: fault/log/read-one, probability: 5%, for: 4s}", "{at: 2s, fault: misfortune, place: fault/log/read-one, probability: 10%, latency: 3ms, for: 1s}"},
			[]string{"1s misfortune fault/log/read-one 50000 0s", "2s misfortune fault/log/read-one 100000 3ms", "3s misfortune fault/log/read-one 50000 0s", "5s misfortune fault/log/read-one 0 0s"}},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, strings.Join(c.want, "\n"), story(t, c.plan...))
		})
	}
}

func TestAfterTheHealNothingIsLeft(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		plan := Plan(rapid.SliceOfN(rapid.Custom(anyFault), 1, 20).Draw(t, "plan"))
		b := newBench()
		phases := map[string]int{}
		in := plan.Draw(rapid.Uint64().Draw(t, "seed"), b.env).Schedule(b, b, func(fault, phase string) { phases[phase]++ })
		b.runTo(time.Duration(rapid.IntRange(1, 12).Draw(t, "heal")) * time.Second)
		require.Len(t, in.Active(), phases[Begun]-phases[Ended])
		in.HealAll()
		in.HealAll()
		b.runTo(time.Hour)
		require.Empty(t, in.Active())
		require.Equal(t, phases[Begun], phases[Ended]+phases[Healed])
		for _, m := range b.Machines("") {
			require.Equal(t, !in.Held(m), b.up[m], "%s\n%s", m, strings.Join(b.log, "\n"))
			require.True(t, b.up[m] || b.Spare(m), m)
			require.False(t, b.paused[m], "%s\n%s", m, strings.Join(b.log, "\n"))
			require.Zero(t, b.drift[m])
		}
		for name, n := range b.open {
			require.Zero(t, n, name)
		}
	})
}

func TestSwarmStaysWithinWhatIsPromised(t *testing.T) {
	env := world()
	seen := map[Kind]int{}
	for seed := range uint64(300) {
		s := Swarm{Intensity: quantity.Choose("low", "normal", "high")}
		plan := s.Generate(seed, env)
		require.Equal(t, plan, s.Generate(seed, env))
		require.Empty(t, plan.Check(env), "%v", plan)
		for _, f := range plan {
			seen[f.Kind]++
			require.True(t, f.For != quantity.Durations{} || slices.Contains([]Kind{Start, Reset, SessionExpiry, ClockJump, AddPartitions, CreateTopic}, f.Kind), f.String())
		}
	}
	for _, k := range Kinds {
		require.Positive(t, seen[k.Kind], k.Kind)
	}
}

func TestADecisionOfOneFamilyNeverShiftsAnothers(t *testing.T) {
	env := world()
	for seed := range uint64(50) {
		s := Swarm{Intensity: quantity.Choose("low", "normal", "high")}
		var joined Plan
		for _, f := range Families {
			one := Swarm{Families: []string{f.Name}, Intensity: s.Intensity}
			joined = joined.With(one.Generate(seed, env))
		}
		require.ElementsMatch(t, s.Generate(seed, env), joined)
	}
}

func TestSwarmSpan(t *testing.T) {
	d := &drawer{rng: sim.NewStream(1, "span", ""), env: world()}
	buckets := map[int]int{}
	for range 4000 {
		v := d.span(100*time.Millisecond, 1600*time.Millisecond).V().D()
		require.True(t, v >= 100*time.Millisecond && v <= 1600*time.Millisecond)
		for b := 0; b < 4; b++ {
			if v < 200*time.Millisecond<<b || b == 3 {
				buckets[b]++
				break
			}
		}
	}
	for b := range 4 {
		require.InDelta(t, 1000, buckets[b], 150)
	}
}
