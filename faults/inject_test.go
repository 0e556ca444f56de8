package faults

import (
	"fmt"
	"reflect"
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
	copies *Copies
	up     map[string]bool
	paused map[string]bool
	frozen map[string]bool
	drift  map[string]int64
	open   map[string]int // effects that were not healed, by name

	last      string       // how a machine went down
	onFall    func(string) // told when a machine went down; may be nil
	onRestart func(string)
}

type callback struct {
	at time.Duration
	fn func()
}

func newBench() *bench {
	b := &bench{env: world(), copies: NewCopies(), up: map[string]bool{}, paused: map[string]bool{}, frozen: map[string]bool{}, drift: map[string]int64{}, open: map[string]int{}}
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

func (b *bench) effect(name string, did Toll) Heal {
	b.note("%s", name)
	b.open[name]++
	healed := false
	return func() Toll {
		if healed {
			return Toll{}
		}
		healed = true
		b.open[name]--
		b.note("heal %s", name)
		return did
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
func (b *bench) Coordinator(group string) string {
	if group != "g" {
		return ""
	}
	return "broker-2"
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
func (b *bench) DeleteTopic(topic string)                { b.note("delete %s", topic) }
func (b *bench) RestoreTopic(topic string)               { b.note("restore %s", topic) }
func (b *bench) Reassign(topic, from string)             { b.note("reassign %s from %s", topic, from) }
func (b *bench) AddPartitions(topic string, total int32) { b.note("add %s %d", topic, total) }
func (b *bench) CreateTopic(topic string, partitions int32) {
	b.note("create %s %d", topic, partitions)
}
func (b *bench) Reset(x, y []string) { b.note("reset %s - %s", join(x), join(y)) }
func (b *bench) Cut(x, y []string, after int64) {
	b.note("cut %s - %s after %d", join(x), join(y), after)
}
func (b *bench) Racks() int      { return b.env.Racks }
func (b *bench) Copies() *Copies { return b.copies }

func (b *bench) WipeDisk(m string) {
	if b.up[m] {
		panic("wiped the disk of a machine that runs")
	}
	b.note("wipe %s", m)
}

func (b *bench) Freeze(m string) {
	if !b.paused[m] || b.frozen[m] {
		panic("froze a machine whose process is not paused, or twice")
	}
	b.note("freeze %s", m)
	b.frozen[m] = true
}

func (b *bench) Thaw(m string) {
	b.note("thaw %s", m)
	b.frozen[m] = false
}

func (b *bench) fall(how, m string) {
	if !b.up[m] {
		how += " (dead)"
	}
	b.note("%s %s", how, m)
	b.up[m] = false
	if b.last = how; b.onFall != nil {
		b.onFall(m)
	}
}

func (b *bench) Restart(m string) {
	if !b.up[m] {
		b.note("restart %s", m)
		b.up[m] = true
		if b.onRestart != nil {
			b.onRestart(m)
		}
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

func (b *bench) Partition(x, y []string, both bool) Heal {
	return b.effect(fmt.Sprintf("cut %s %s %s", join(x), map[bool]string{true: "-", false: ">"}[both], join(y)), Toll{Held: 1})
}

func (b *bench) Link(x, y []string, number int, r Link) Heal {
	return b.effect(fmt.Sprintf("link %s > %s%s /%d", join(x), join(y), given(r), number), Toll{Lost: r.Loss / 10_000, Corrupted: r.Corrupt / 10_000})
}

func (b *bench) Disk(m string, number int, f DiskFault) Heal {
	return b.effect(fmt.Sprintf("disk %s/%d%s", m, number, given(f)), Toll{Operations: 2})
}

// given writes the fields of a struct that are not zero.
func given(v any) string {
	out := ""
	for i := range reflect.TypeOf(v).NumField() {
		if x := reflect.ValueOf(v).Field(i); !x.IsZero() {
			out += fmt.Sprintf(" %s=%v", reflect.TypeOf(v).Field(i).Name, x)
		}
	}
	return out
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
			[]string{"1s cut consumer-1+consumer-2+consumer-3+consumer-4 > broker-1+broker-2+broker-3+broker-4+producer-1+producer-2+coord-1", "2s cut broker-1 > broker-2+broker-3+broker-4",
				"2s heal cut consumer-1+consumer-2+consumer-3+consumer-4 > broker-1+broker-2+broker-3+broker-4+producer-1+producer-2+coord-1", "3s heal cut broker-1 > broker-2+broker-3+broker-4", "4s cut consumer-1 - coord-1", "7.5s heal cut consumer-1 - coord-1"}},
		"slow links, disks, processors": {
			[]string{"{at: 1s, fault: slow-link, target: broker-1, peer: coord-1, latency: 5ms, for: 1s}", "{at: 3s, fault: disk-full, target: leader of t/1, for: 1s}",
				"{at: 5s, fault: slow-cpu, target: coord-1, factor: 8, for: 1s}", "{at: 7s, fault: crash, target: leader of t/3}"},
			[]string{"1s link broker-1 > coord-1 Latency=5ms /1", "1s link coord-1 > broker-1 Latency=5ms /1", "2s heal link broker-1 > coord-1 Latency=5ms /1", "2s heal link coord-1 > broker-1 Latency=5ms /1",
				"3s disk broker-2/2 Effect=2 Op=2063 PPM=1000000", "4s heal disk broker-2/2 Effect=2 Op=2063 PPM=1000000", "5s cpu coord-1 8", "6s cpu coord-1 1"}},
		"a frozen machine stands still with its network": {
			[]string{"{at: 1s, fault: freeze, target: broker-1, for: 2s}", "{at: 2s, fault: pause, target: broker-1, for: 2s}"},
			[]string{"1s pause broker-1", "1s freeze broker-1", "3s thaw broker-1", "4s resume broker-1"}},
		"freezes nest": {
			[]string{"{at: 1s, fault: freeze, target: broker-1, for: 4s}", "{at: 2s, fault: freeze, target: broker-1, for: 1s}"},
			[]string{"1s pause broker-1", "1s freeze broker-1", "5s thaw broker-1", "5s resume broker-1"}},
		"a power loss ends a freeze": {
			[]string{"{at: 1s, fault: freeze, target: broker-1, for: 4s}", "{at: 2s, fault: power-loss, target: broker-1, for: 1s}"},
			[]string{"1s pause broker-1", "1s freeze broker-1", "2s thaw broker-1", "2s resume broker-1", "2s power-loss broker-1", "3s restart broker-1"}},
		"a replaced disk": {
			[]string{"{at: 1s, fault: crash, target: broker-1, for: 2s}", "{at: 2s, fault: replace-disk, target: broker-1, for: 2s}"},
			[]string{"1s crash broker-1", "2s power-loss (dead) broker-1", "2s wipe broker-1", "4s restart broker-1"}},
		"a rolling restart": {
			[]string{"{at: 1s, fault: rolling-restart, target: broker-*, for: 1s, gap: 500ms, how: crash}"},
			[]string{"1s crash broker-1", "2s restart broker-1", "2.5s crash broker-2", "3.5s restart broker-2", "4s crash broker-3", "5s restart broker-3"}},
		"a rack loses power": {
			[]string{"{at: 1s, fault: power-loss, target: rack-2, for: 1s}"},
			[]string{"1s power-loss broker-2", "1s power-loss producer-2", "1s power-loss consumer-2", "2s restart broker-2", "2s restart producer-2", "2s restart consumer-2"}},
		"bad links": {
			[]string{"{at: 1s, fault: slow-link, target: broker-1, peer: coord-1, way: out, latency: 5ms, spread: 1s, shape: heavy-tail, for: 1s}", "{at: 2s, fault: loss, target: broker-1, peer: coord-1, way: in, probability: 3%, for: 1s}",
				"{at: 4s, fault: corruption, target: broker-1, peer: coord-1, way: in, probability: 3%, after: 1KiB, for: 1s}", "{at: 6s, fault: cut-connections, target: broker-1, peer: coord-1, after: 100B}"},
			[]string{"1s link broker-1 > coord-1 Latency=5ms Spread=1s HeavyTail=true /1", "2s link coord-1 > broker-1 Loss=30000 /2", "2s heal link broker-1 > coord-1 Latency=5ms Spread=1s HeavyTail=true /1",
				"3s heal link coord-1 > broker-1 Loss=30000 /2", "4s link coord-1 > broker-1 Corrupt=30000 After=1024 /3", "5s heal link coord-1 > broker-1 Corrupt=30000 After=1024 /3", "6s cut broker-1 - coord-1 after 100"}},
		"disks that decay": {
			[]string{"{at: 1s, fault: bit-rot, target: broker-1, probability: 1%, path: \"*.log\", for: 1s}", "{at: 3s, fault: misdirected-write, target: broker-1, count: 1, for: 1s}",
				"{at: 5s, fault: lying-disk, target: broker-1, for: 1s}", "{at: 7s, fault: disk-full, target: broker-1, free: 64KiB, for: 1s}"},
			[]string{"1s disk broker-1/1 Effect=6 Op=2063 Path=*.log PPM=10000", "2s heal disk broker-1/1 Effect=6 Op=2063 Path=*.log PPM=10000", "3s disk broker-1/2 Effect=7 Op=2063 PPM=1000000 Count=1",
				"4s heal disk broker-1/2 Effect=7 Op=2063 PPM=1000000 Count=1", "5s disk broker-1/3 Effect=8 Op=2063 PPM=1000000", "6s heal disk broker-1/3 Effect=8 Op=2063 PPM=1000000",
				"7s disk broker-1/4 Effect=2 Op=2063 PPM=1000000 Free=65536", "8s heal disk broker-1/4 Effect=2 Op=2063 PPM=1000000 Free=65536"}},
		"entry operations and single stalls": {
			[]string{"{at: 1s, fault: disk-error, target: broker-1, op: rename, for: 1s}", "{at: 3s, fault: disk-stall, target: broker-1, op: all, count: 1, for: 1s}"},
			[]string{"1s disk broker-1/1 Effect=1 Op=256 PPM=1000000", "2s heal disk broker-1/1 Effect=1 Op=256 PPM=1000000",
				"3s disk broker-1/2 Effect=5 Op=4095 PPM=1000000 Count=1", "4s heal disk broker-1/2 Effect=5 Op=4095 PPM=1000000 Count=1"}},
		"a link flaps": {
			[]string{"{at: 1s, fault: partition, target: broker-1, peer: coord-1, for: 100ms, every: 1s, until: 3s}"},
			[]string{"1s cut broker-1 - coord-1", "1.1s heal cut broker-1 - coord-1", "2s cut broker-1 - coord-1", "2.1s heal cut broker-1 - coord-1", "3s cut broker-1 - coord-1", "3.1s heal cut broker-1 - coord-1"}},
		"a spare broker joins and stays": {
			[]string{"{at: 1s, fault: start, target: any broker}", "{at: 2s, fault: crash, target: broker-4, for: 1s}"},
			[]string{"1s restart broker-4", "2s crash broker-4", "3s restart broker-4"}},
		"an administrator changes topics": {
			[]string{"{at: 1s, fault: add-partitions, topic: t, partitions: 8}", "{at: 2s, fault: create-topic, topic: new, partitions: 3}",
				"{at: 3s, fault: renew-topic, topic: t, for: 500ms}", "{at: 4s, fault: reassign, topic: t, target: broker-2}", "{at: 5s, fault: renew-topic, topic: t, for: 1h}"},
			[]string{"1s add t 8", "2s create new 3", "3s delete t", "3.5s restore t", "4s reassign t from broker-2", "5s delete t", "10s restore t"}},
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
		in := plan.Draw(rapid.Uint64().Draw(t, "seed"), b.env).Schedule(b, b, func(n Note) { phases[n.Phase]++ })
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
			require.False(t, b.paused[m] || b.frozen[m], "%s\n%s", m, strings.Join(b.log, "\n"))
			require.Zero(t, b.drift[m])
		}
		for name, n := range b.open {
			require.Zero(t, n, name)
		}
	})
}

func TestSwarmStaysWithinTheAtlas(t *testing.T) {
	env := world()
	seen := map[Kind]int{}
	for seed := range uint64(300) {
		s := Swarm{Mode: quantity.Choose("checked"), Intensity: quantity.Choose("low", "normal", "high")}
		plan := s.Generate(seed, env)
		require.Equal(t, plan, s.Generate(seed, env))
		require.Empty(t, plan.Check(env), "%v", plan)
		require.Empty(t, plan.Beyond(env), "%v", plan)
		require.LessOrEqual(t, int64(len(plan)), s.Most(env))
		for _, f := range plan {
			seen[f.Kind]++
			require.True(t, f.For.Given() || slices.Contains([]Kind{Start, Reset, Cut, SessionExpiry, ClockJump, AddPartitions, CreateTopic, RenewTopic, Reassign}, f.Kind), f.String())
		}
		s.Mode = quantity.Choose("overload")
		more := s.Generate(seed, env)
		require.Empty(t, more.Check(env), "%v", more)
		for _, f := range more {
			seen[f.Kind]++
		}
		for _, n := range more.Beyond(env) {
			require.NotEqual(t, "coord", RoleOf(more[n-1].Target), more[n-1].String())
		}
		for _, f := range plan { // what is drawn beyond the atlas shifts nothing inside it
			require.Contains(t, more, f)
		}
	}
	for _, k := range Kinds {
		// They stand for others; what an administrator does to replicas and topics as a whole is for plans that are made for it.
		if !slices.Contains([]Kind{RollingRestart, SwizzleClog, RenewTopic, Reassign}, k.Kind) {
			require.Positive(t, seen[k.Kind], k.Kind)
		}
	}
}

func TestASwarmThatStaysInsideTakesNoFamilyBeyond(t *testing.T) {
	s := Swarm{Mode: quantity.Choose("checked"), Families: []string{"crash", "rot"}}
	require.Equal(t, []Wrong{{Field: "families[1]", Text: `found "rot", which the system does not survive, allowed only with mode: overload`}}, s.Check(world()))
	s.Mode = quantity.Choose("checked", "overload")
	require.Empty(t, s.Check(world()))
	for seed := range uint64(20) {
		for _, f := range s.Generate(seed, world()) {
			require.Contains(t, []Kind{Crash, BitRot}, f.Kind)
		}
	}
}

func TestEveryFamilyIsDrawn(t *testing.T) {
	for _, family := range Families {
		n := 0
		for seed := range uint64(20) {
			s := Swarm{Families: []string{family.Name}, Mode: quantity.Choose("overload"), Intensity: quantity.Choose("high")}
			plan := s.Generate(seed, world())
			n += len(plan)
			if family.Beyond {
				for i, f := range plan {
					require.True(t, f.Kind == PowerLoss || slices.Contains(plan.Beyond(world()), i+1), f.String())
				}
			}
		}
		require.Positive(t, n, family.Name)
	}
}

// Each family is in about half the seeds, whatever the others are.
func TestSwarmFlipsACoinForEachFamily(t *testing.T) {
	const seeds = 200
	in := map[string]map[int]bool{}
	for i, family := range Families {
		in[family.Name] = map[int]bool{}
		for seed := range seeds {
			s := Swarm{Families: []string{family.Name}, Mode: quantity.Choose("overload"), Intensity: quantity.Choose("low")}
			in[family.Name][seed] = len(s.Generate(uint64(seed), world())) > 0
		}
		n, agree := 0, 0
		for seed := range seeds {
			if in[family.Name][seed] {
				n++
			}
			if i > 0 && in[family.Name][seed] == in[Families[i-1].Name][seed] {
				agree++
			}
		}
		require.InDelta(t, seeds/2, n, seeds/8, family.Name)
		if i > 0 {
			require.InDelta(t, seeds/2, agree, seeds/8, "%s and %s", family.Name, Families[i-1].Name)
		}
	}
}

func TestADecisionOfOneFamilyNeverShiftsAnothers(t *testing.T) {
	env := world()
	for seed := range uint64(50) {
		s := Swarm{Mode: quantity.Choose("overload"), Intensity: quantity.Choose("low", "normal", "high")}
		var joined Plan
		for _, f := range Families {
			one := Swarm{Families: []string{f.Name}, Mode: s.Mode, Intensity: s.Intensity}
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

func TestASwizzleClogsAllAndReleasesThemInAnotherOrder(t *testing.T) {
	plan := parsePlan(t, "faults:\n  - {at: 1s, fault: swizzle-clog, target: \"broker-*, consumer-*\", for: 2s, gap: 100ms}\n")
	orders := map[string]bool{}
	for seed := range uint64(20) {
		drawn := plan.Draw(seed, world())
		require.Len(t, drawn, 6, "spares do not take part")
		var begins, ends []string
		last, first := time.Duration(0), time.Hour
		for _, f := range drawn {
			require.Equal(t, Clog, f.Kind)
			begins = append(begins, f.Target)
			last, first = max(last, f.At.V().D()), min(first, f.At.V().D()+f.For.V().D())
		}
		slices.SortFunc(drawn, func(a, b Fault) int { return int(a.At.V() + a.For.V() - b.At.V() - b.For.V()) })
		for _, f := range drawn {
			ends = append(ends, f.Target)
		}
		require.Equal(t, 2*time.Second, first-last, "all are clogged for as long as the fault says")
		orders[join(begins)], orders[join(ends)] = true, true
	}
	require.Greater(t, len(orders), 20)
}

func TestWhenAFaultEndsItSaysWhatItDid(t *testing.T) {
	plan := parsePlan(t, `faults:
  - {at: 1s, fault: disk-error, target: "broker-1, broker-2", for: 1s}
  - {at: 2s, fault: loss, target: broker-1, peer: coord-1, probability: 7%, for: 1s}
  - {at: 3s, fault: partition, target: broker-1, peer: coord-1}
  - {at: 4s, fault: crash, target: broker-1, for: 1s}
`)
	b := newBench()
	var ends []string
	in := plan.Draw(1, b.env).Schedule(b, b, func(n Note) {
		if n.Phase == Ended || n.Phase == Healed {
			ends = append(ends, fmt.Sprintf("%d %s", n.Number, n.Toll))
		}
	})
	b.runTo(8 * time.Second)
	in.HealAll()
	require.Equal(t, []string{"1 4 disk operations hit", "2 14 messages lost", "4 ", "3 1 message held"}, ends)
	require.Equal(t, "1 disk operation hit, 2 messages held, 1 message lost, 3 messages corrupted", Toll{1, 2, 1, 3}.String())
}

func TestWhatIsLeftOutShiftsNoDecisionAboutTheOthers(t *testing.T) {
	plan := parsePlan(t, `faults:
  - {at: 1s..2s, fault: disk-error, target: any broker, probability: 1%..50%, for: 1s..2s, every: 500ms..1s}
  - {at: 1s..2s, fault: disk-slow, target: any broker, latency: 1ms..9ms, for: 1s..2s, every: 500ms..1s}
  - {at: 1s..5s, fault: loss, target: any broker, peer: any consumer, probability: 1%..9%, for: 1s..2s}
`)
	for seed := range uint64(20) {
		run := func(without ...int) (log []string, notes []Note) {
			b := newBench()
			in := plan.Draw(seed, b.env).Schedule(b, b, func(n Note) { notes = append(notes, n) }, without...)
			b.runTo(10 * time.Second)
			in.HealAll()
			return b.log, notes
		}
		log, notes := run()
		for _, n := range notes {
			if n.Phase != Begun {
				continue
			}
			less, told := run(n.Number)
			require.Less(t, len(less), len(log))
			require.Subset(t, log, less, "the others do what they did: what they draw is keyed by their own number")
			for _, o := range told {
				require.Equal(t, o.Number == n.Number, o.Phase == LeftOut, o)
			}
		}
	}
}

func TestAtlas(t *testing.T) {
	for _, c := range []struct {
		line string
		want bool
	}{
		{"{at: 1s, fault: bit-rot, target: broker-1, probability: 1%}", true},
		{"{at: 1s, fault: bit-rot, target: leader of t/0, probability: 1%}", true},
		{"{at: 1s, fault: lying-disk, target: rack-1}", true},
		{"{at: 1s, fault: lying-disk, target: consumer-1}", false},
		{"{at: 1s, fault: replace-disk, target: any coord}", true},
		{"{at: 1s, fault: replace-disk, target: producer-*}", false},
		{"{at: 1s, fault: misdirected-write, target: broker-*}", true},
		{"{at: 1s, fault: corruption, target: consumer-1, probability: 1%}", true},
		{"{at: 1s, fault: power-loss, target: rack-1}", false},
		{"{at: 1s, fault: disk-full, target: broker-1}", false},
	} {
		plan := parsePlan(t, "faults:\n  - "+c.line+"\n")
		require.Empty(t, plan.Check(world()))
		require.Equal(t, c.want, len(plan.Beyond(world())) > 0, c.line)
	}
}
