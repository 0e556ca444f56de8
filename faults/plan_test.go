package faults

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"faultline/faults/quantity"
	"faultline/faults/sites"
	"faultline/faults/strict"
	"faultline/sim"
)

type planFile struct {
	Faults Plan `yaml:"faults"`
}

func parsePlan(t require.TestingT, text string) Plan {
	var f planFile
	_, problems := strict.Decode("plan.yaml", []byte(text), &f)
	require.NoError(t, problems.Err(), text)
	return f.Faults
}

// world is an Env for tests: brokers 1-4 and consumers 1-4, of which 4 is spare, coord-1, producers 1-2, two racks, topic t with 4 partitions, 10 s of load.
func world() Env {
	return Env{
		Machines: map[string][]string{
			"broker": {"broker-1", "broker-2", "broker-3", "broker-4"}, "coord": {"coord-1"},
			"producer": {"producer-1", "producer-2"}, "consumer": {"consumer-1", "consumer-2", "consumer-3", "consumer-4"},
		},
		Spare: []string{"broker-4", "consumer-4"}, Racks: 2, Groups: []string{"g"}, Topics: []TopicInfo{{Name: "t", Partitions: 4}}, Load: 10 * time.Second, Session: 2 * time.Second,
	}
}

func TestFaultPrintsAsTheLineThatMakesIt(t *testing.T) {
	for _, line := range []string{
		"{at: 2s, fault: crash, target: broker-1, for: 500ms}",
		"{at: 2s..6s, fault: power-loss, target: any broker, for: 500ms..2s, every: 3s, until: 9s}",
		"{at: 0s, fault: partition, target: \"consumer-1, consumer-2\", peer: coord-1, way: out}",
		"{at: 1s, fault: slow-link, target: broker-1, for: 2s, latency: 50ms, bandwidth: 64KiB/s}",
		"{at: 1s, fault: clock-jump, target: coord-1, by: -2s}",
		"{at: 1s, fault: clock-drift, target: coord-1, drift: -3%}",
		"{at: 1s, fault: disk-error, target: leader of t/0, op: fsync, path: \"**/*.log\", probability: 5%, count: 2}",
		"{at: 1s, fault: slow-cpu, target: broker-*, factor: 10}",
		"{at: 1s, fault: add-partitions, topic: t, partitions: 8}",
		"{at: 1s, fault: renew-topic, for: 2s, topic: t}",
		"{at: 1s, fault: reassign, target: broker-1, topic: t}",
		"{at: 1s, fault: rolling-restart, target: broker-*, for: 500ms, gap: 100ms, how: power-loss}",
		"{at: 1s, fault: freeze, target: coord-1, for: 3s}",
		"{at: 1s, fault: power-loss, target: rack-2, for: 1s}",
		"{at: 1s, fault: isolate, target: any rack, for: 1s}",
		"{at: 1s, fault: slow-link, target: broker-1, latency: 1ms, spread: 500ms, shape: heavy-tail}",
		"{at: 1s, fault: swizzle-clog, target: broker-*, for: 1s, gap: 50ms}",
		"{at: 1s, fault: loss, target: broker-1, peer: consumer-*, way: out, probability: 5%}",
		"{at: 1s, fault: corruption, target: broker-1, peer: consumer-*, probability: 0.1%, after: 1KiB}",
		"{at: 1s, fault: cut-connections, target: broker-1, after: 100B..4KiB}",
		"{at: 1s, fault: bit-rot, target: broker-1, path: \"*.log\", probability: 0.05%, count: 3}",
		"{at: 1s, fault: misdirected-write, target: broker-1, for: 2s, count: 1}",
		"{at: 1s, fault: lying-disk, target: broker-1, for: 2s}",
		"{at: 1s, fault: replace-disk, target: broker-1, for: 2s}",
		"{at: 1s, fault: disk-full, target: broker-1, free: 64KiB}",
		"{at: 1s, fault: disk-stall, target: broker-1, for: 2s, op: rename, count: 1}",
		"{at: 1s, fault: start, target: any broker}",
	} {
		plan := parsePlan(t, "faults:\n  - "+line+"\n")
		require.Equal(t, line, plan[0].String())
		require.Empty(t, plan.Check(world()), line)
	}
}

// TestEveryKindRoundTripsAsItsLine takes the kinds from their table, and whatever fields they need and may have: each kind prints as the line that makes it, alone and with each of its fields.
func TestEveryKindRoundTripsAsItsLine(t *testing.T) {
	effects := (&Injection{target: newBench()}).effects()
	for _, info := range Kinds {
		t.Run(string(info.Kind), func(t *testing.T) {
			missing := map[string]bool{}
			for _, field := range slices.Concat([]string{"at", "fault", "every", "until", "if"}, info.Need, info.May) {
				missing[field] = true
			}
			rapid.Check(t, func(t *rapid.T) {
				f := faultOf(t, info)
				line := f.String()
				require.NotContains(t, line, "\n")
				plan := parsePlan(t, "faults:\n  - "+line+"\n")
				require.Equal(t, Plan{f}, plan, line)
				require.Equal(t, line, plan[0].String())
				require.Empty(t, plan.Check(world()), line)
				for _, drawn := range plan.Draw(1, world()) {
					require.Contains(t, effects, drawn.Kind, line)
				}
				for field := range missing {
					if strings.Contains(line, field+": ") {
						delete(missing, field)
					}
				}
			})
			require.Empty(t, missing, "fields that no line had")
		})
	}
}

// Every kind that the package declares stands in the table, once.
func TestKindsAreAllInTheTable(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "kinds.go", nil, 0)
	require.NoError(t, err)
	var declared, listed []string
	ast.Inspect(file, func(n ast.Node) bool {
		if v, ok := n.(*ast.ValueSpec); ok {
			if name, ok := v.Type.(*ast.Ident); ok && name.Name == "Kind" {
				text, err := strconv.Unquote(v.Values[0].(*ast.BasicLit).Value)
				require.NoError(t, err)
				declared = append(declared, text)
			}
		}
		return true
	})
	for _, info := range Kinds {
		listed = append(listed, string(info.Kind))
	}
	require.ElementsMatch(t, declared, listed)
}

// anyFault draws a fault of any kind that passes Check in world().
func anyFault(t *rapid.T) Fault { return faultOf(t, rapid.SampledFrom(Kinds).Draw(t, "kind")) }

func faultOf(t *rapid.T, info KindInfo) Fault {
	f := Fault{Kind: info.Kind, At: durations(t, "at", 0, 9*time.Second)}
	fields := slices.Clone(info.Need)
	for _, m := range append(slices.Clone(info.May), "every", "if") {
		if rapid.Bool().Draw(t, m) || info.Kind == SlowLink && m == "latency" {
			fields = append(fields, m)
		}
	}
	if slices.Contains(fields, "shape") && !slices.Contains(fields, "spread") {
		fields = append(fields, "spread")
	}
	targets := []string{"broker-1", "broker-*", "any broker", "any consumer", "leader of t/3", "coordinator of g", "broker-1, consumer-2", "any coord, producer-*", "producer-2", "rack-2", "any rack, coord-1"}
	if info.Kind == Start {
		targets = []string{"consumer-4", "any consumer", "broker-4", "any broker"}
	}
	for _, name := range fields {
		switch name {
		case "target":
			f.Target = rapid.SampledFrom(targets).Draw(t, "target")
		case "peer":
			f.Peer = rapid.SampledFrom(targets).Filter(func(peer string) bool { return peer != f.Target || strings.ContainsAny(peer, "*, ") }).Draw(t, "peer")
		case "if":
			f.If = Survivable
		case "way":
			f.Way = rapid.SampledFrom([]string{"both", "out", "in"}).Draw(t, "way")
		case "for":
			f.For = durations(t, "for", time.Millisecond, 5*time.Second)
		case "every":
			f.Every, f.Until = durations(t, "every", 100*time.Millisecond, time.Second), durations(t, "until", 9*time.Second, 10*time.Second)
		case "latency":
			f.Latency = durations(t, "latency", time.Millisecond, time.Second)
		case "bandwidth":
			f.Bandwidth = quantity.Just(quantity.Bandwidth(rapid.Int64Range(1, 1<<40).Draw(t, "bandwidth")))
		case "by":
			f.By = durations(t, "by", time.Nanosecond, time.Hour)
			if rapid.Bool().Draw(t, "back") {
				f.By = quantity.Between(-f.By.Max, -f.By.Min)
			}
		case "drift":
			f.Drift = quantity.Just(quantity.Percent(rapid.Int64Range(-50_000, -1).Draw(t, "drift")))
		case "op":
			ops := []string{"data", "read", "write"}
			if info.Kind != ShortDisk {
				ops = append(ops, "all", "fsync", "truncate", "open", "create", "mkdir", "remove", "rename", "readdir", "stat", "syncdir")
			}
			f.Op = rapid.SampledFrom(ops).Draw(t, "op")
		case "gap":
			f.Gap = durations(t, "gap", time.Millisecond, time.Second)
		case "how":
			f.How = rapid.SampledFrom([]string{"stop", "crash", "power-loss"}).Draw(t, "how")
		case "spread":
			f.Spread = durations(t, "spread", time.Microsecond, time.Minute)
		case "shape":
			f.Shape = rapid.SampledFrom([]string{"uniform", "heavy-tail"}).Draw(t, "shape")
		case "free":
			f.Free = quantity.Between(quantity.Bytes(1), quantity.Bytes(rapid.Int64Range(1, 1<<30).Draw(t, "free")))
		case "after":
			f.After = quantity.Just(quantity.Bytes(rapid.Int64Range(1, 1<<30).Draw(t, "after")))
		case "place":
			f.Place = strings.Join(rapid.SliceOfNDistinct(rapid.SampledFrom(Places), 1, 3, rapid.ID).Draw(t, "place"), ", ")
		case "path":
			f.Path = rapid.SampledFrom([]string{"*.log", "**/00*", "a b", "x:y"}).Draw(t, "path")
		case "probability":
			f.Probability = quantity.Just(quantity.Percent(rapid.Int64Range(1, 1_000_000).Draw(t, "probability")))
		case "count":
			f.Count = quantity.Between(quantity.Count(1), quantity.Count(rapid.Int64Range(1, 50).Draw(t, "count")))
		case "factor":
			f.Factor = quantity.Just(quantity.Count(rapid.Int64Range(2, 1000).Draw(t, "factor")))
		case "topic":
			f.Topic = map[Kind]string{AddPartitions: "t", RenewTopic: "t", Reassign: "t", CreateTopic: "new"}[info.Kind]
		case "partitions":
			f.Partitions = quantity.Just(quantity.Count(rapid.Int64Range(1, 64).Draw(t, "partitions")))
		default:
			panic("no draw for " + name)
		}
	}
	if info.Kind == Reassign {
		f.Target = "any broker"
	}
	if info.Kind == Start && strings.Contains(f.Target, "broker") {
		f.For = quantity.Durations{}
	}
	return f
}

func durations(t *rapid.T, name string, min, max time.Duration) quantity.Durations {
	a := rapid.Int64Range(int64(min), int64(max)).Draw(t, name)
	b := rapid.Int64Range(a, int64(max)).Draw(t, name+" max")
	return quantity.Between(quantity.Duration(a), quantity.Duration(b))
}

func TestEveryPlanRoundTripsAndDrawsToAConcreteOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		plan := Plan(rapid.SliceOfN(rapid.Custom(anyFault), 1, 6).Draw(t, "plan"))
		text := string(strict.Encode(planFile{plan}))
		require.Equal(t, plan, parsePlan(t, text), text)
		require.Empty(t, plan.Check(world()), text)

		seed := rapid.Uint64().Draw(t, "seed")
		drawn := plan.Draw(seed, world())
		require.Equal(t, drawn, plan.Draw(seed, world()))
		require.Equal(t, drawn, drawn.Draw(seed+1, world()), "drawing a concrete plan changes nothing")
		require.Empty(t, drawn.Check(Env{Machines: world().Machines, Spare: world().Spare, Racks: world().Racks, Groups: world().Groups, Topics: world().Topics}))
		if len(drawn) > 0 {
			require.Equal(t, drawn, parsePlan(t, string(strict.Encode(planFile{drawn}))))
		}
		require.True(t, slices.IsSortedFunc(drawn, func(a, b Fault) int { return int(a.At.V() - b.At.V()) }))
		for _, f := range drawn {
			require.NotContains(t, f.Target+f.Peer, "any ")
		}
	})
}

func TestAFaultOfAMachineThatThisWorldDoesNotHaveIsLeftOut(t *testing.T) {
	plan := parsePlan(t, "faults:\n  - {at: 1s, fault: crash, target: broker-3}\n  - {at: 1s, fault: crash, target: \"broker-3, broker-1\"}\n")
	small := world()
	small.Machines["broker"] = []string{"broker-1"}
	drawn := plan.Draw(1, small)
	require.Len(t, drawn, 1)
	require.Equal(t, "broker-1", drawn[0].Target)
}

func TestAFaultThatIsDrawnAsNothingIsLeftOut(t *testing.T) {
	plan := parsePlan(t, "faults:\n  - {at: 1s, fault: clock-jump, target: broker-1, by: -1ns..1ns, every: 10ms, until: 2s}\n")
	require.Empty(t, plan.Check(world()))
	drawn := plan.Draw(1, world())
	require.Empty(t, drawn.Check(world()))
	require.Greater(t, len(drawn), 30)
	require.Less(t, len(drawn), 90)
}

func TestAFaultBetweenAMachineAndItselfIsLeftOut(t *testing.T) {
	plan := parsePlan(t, "faults:\n  - {at: 1s..2s, fault: partition, target: any broker, peer: any broker, every: 1ms..5ms}\n")
	require.Empty(t, plan.Check(world()))
	drawn := plan.Draw(1, world())
	require.Empty(t, drawn.Check(world()))
	require.Greater(t, len(drawn), 100)
	require.GreaterOrEqual(t, plan.Most(world()), int64(len(drawn)))
}

func TestCheckSaysWhatIsAllowed(t *testing.T) {
	for _, c := range []struct{ line, want string }{
		{"{at: 1s, fault: crash}", `the field "target" is missing: crash needs target`},
		{"{at: 1s, fault: crash, target: broker-9}", `target: found "broker-9", allowed is broker-1 to broker-4`},
		{"{at: 1s, fault: crash, target: brokr-1}", `target: found "brokr-1", allowed are machines of the roles broker, coord, producer, consumer, client; did you mean "broker-1"?`},
		{"{at: 1s, fault: crash, target: any brokr}", `target: found "any brokr", allowed after any is broker, coord, producer, consumer, client, rack`},
		{"{at: 1s, fault: crash, target: leader of t/4}", `target: found partition 4 of t, allowed is 0 to 3`},
		{"{at: 1s, fault: crash, target: leader of u/0}", `target: found the topic "u", allowed is t`},
		{"{at: 1s, fault: crash, target: somebody}", `target: found "somebody", allowed is ` + targetForms},
		{"{at: 11s, fault: crash, target: broker-1}", `at: found 11s, allowed is a time before the end of the load (10s)`},
		{"{at: 1s, fault: crash, target: broker-1, factor: 3}", `factor: a crash takes no factor, allowed is at, fault, every, until, if, target, for`},
		{"{at: 1s, fault: slow-link, target: broker-1}", `a slow-link needs latency, spread or bandwidth`},
		{"{at: 1s, fault: slow-link, target: broker-1, latency: 1ms, shape: uniform}", `shape: found without spread, allowed is both or spread alone`},
		{"{at: 1s, fault: start, target: consumer-1}", `target: found "consumer-1", allowed are spare machines: consumer-4`},
		{"{at: 1s, fault: start, target: any producer}", `target: found "any producer", allowed are spare brokers and consumers`},
		{"{at: 1s, fault: start, target: rack-1}", `target: found "rack-1", allowed are spare brokers and consumers`},
		{"{at: 1s, fault: start, target: any broker, for: 1s}", `for: found 1s, allowed is none for a spare broker: it stays, for partitions may be placed on it`},
		{"{at: 1s, fault: power-loss, target: rack-3}", `target: found "rack-3", allowed is rack-1 to rack-2`},
		{"{at: 1s, fault: rolling-restart, target: broker-*}", `the field "for" is missing: rolling-restart needs target, for`},
		{"{at: 1s, fault: swizzle-clog, target: broker-*, for: 1s}", `the field "gap" is missing: swizzle-clog needs target, for, gap`},
		{"{at: 1s, fault: loss, target: broker-*}", `the field "probability" is missing: loss needs target, probability`},
		{"{at: 1s, fault: disk-short, target: broker-*, op: rename}", `op: found "rename", allowed for a disk-short is data, read or write`},
		{"{at: 1s, fault: freeze, target: broker-1, gap: 1s}", `gap: a freeze takes no gap, allowed is at, fault, every, until, if, target, for`},
		{"{at: 1s, fault: add-partitions, topic: x, partitions: 2}", `topic: found "x", allowed is t`},
		{"{at: 1s, fault: create-topic, topic: t, partitions: 2}", `topic: found "t", which exists from the beginning, allowed is a new name`},
		{"{at: 1s, fault: disk-full, target: broker-1, op: write}", `op: a disk-full takes no op, allowed is at, fault, every, until, if, target, for, free`},
		{"{at: 1s, fault: misfortune, place: fault/consumer/fetch, probability: 1%}", `place: found "fault/consumer/fetch", allowed are the failpoints that the programs have, one or several with commas between; did you mean "fault/consumer/fetched"?`},
		{"{at: 1s, fault: misfortune, place: 'fault/log/read-one, fault/log/read-one', probability: 1%}", `place: found "fault/log/read-one" a second time, allowed is once`},
		{"{at: 3s, fault: crash, target: broker-1, until: 5s}", `until: found without every, allowed is both or none`},
		{"{at: 3s, fault: crash, target: broker-1, every: 1s, until: 2s}", `until: found 2s, allowed is a time after the fault begins (3s)`},
		{"{at: 1s, fault: partition, target: broker-1, peer: broker-1}", `peer: found "broker-1", which is the target itself, allowed is another machine`},
		{"{at: 0s, fault: reset-connections, target: broker-1, every: 1ms, until: 20s}", `every: found 1ms, which makes 20000 faults, allowed are 10000`},
	} {
		wrong := parsePlan(t, "faults:\n  - "+c.line+"\n").Check(world())
		require.NotEmpty(t, wrong, c.line)
		text := wrong[0].Text
		if wrong[0].Field != "" {
			text = wrong[0].Field + ": " + text
		}
		require.Equal(t, c.want, text, c.line)
	}
}

func TestPlacesAreThoseInTheSources(t *testing.T) {
	found, err := sites.Scan("..")
	require.NoError(t, err)
	require.Equal(t, slices.DeleteFunc(sites.Names(found), func(name string) bool { return !strings.HasPrefix(name, "fault/") }), Places)
}

func TestMisfortunesStrikeAtManyPlacesOfOneRoomOrOfAll(t *testing.T) {
	struck, single, alone := map[string]int{}, 0, 0
	const draws = 500
	for seed := range uint64(draws) {
		d := &drawer{rng: sim.NewStream(seed, "test", ""), env: world()}
		f := drawMisfortune(d)
		require.Empty(t, Plan{f}.Check(world()))
		list := PlacesOf(f.Place)
		in := map[string]bool{}
		for _, place := range list {
			struck[place]++
			in[roomOf(place)] = true
		}
		if len(in) == 1 {
			single++
		}
		if len(list) == 1 {
			alone++
		}
	}
	for _, place := range Places {
		require.Greater(t, struck[place], draws/40, place)
	}
	require.InDelta(t, draws*2/3, single, draws/6)
	require.Less(t, alone, draws/4)
}

func TestMatchPath(t *testing.T) {
	for _, c := range []struct {
		pattern, path string
		want          bool
	}{
		{"", "a/b.log", true}, {"*.log", "data/t-0/000.log", true}, {"*.log", "data/000.index", false},
		{"data/*.log", "data/t-0/0.log", false}, {"data/**.log", "data/t-0/0.log", true}, {"**/0?.log", "data/t/01.log", true},
		{"**", "", true}, {"*", "x", true}, {"?", "/", false}, {"a*b*c", "aXbYc", true}, {"a*b*c", "aXbY", false},
	} {
		require.Equal(t, c.want, MatchPath(c.pattern, c.path), "%s against %s", c.pattern, c.path)
	}
}

func FuzzMatchPath(f *testing.F) {
	f.Add("**/*.log", "a/b/c.log")
	f.Fuzz(func(t *testing.T, pattern, path string) {
		if len(pattern) < 12 && len(path) < 30 {
			MatchPath(pattern, path)
			require.True(t, MatchPath("**", path))
		}
	})
}
