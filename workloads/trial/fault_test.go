package trial_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"faultline/sim/machine"
	"faultline/workloads/history"
	"faultline/workloads/scenario"
	"faultline/workloads/trial"
)

// The rows of the fault table that need a cluster, one test each: a small scenario whose history shows what the fault does, and whose oracles find nothing
// wrong with what the system makes of it.

// recorded keeps the events of a run that are not the flow of records.
type recorded []history.Event

func (r *recorded) Observe(e *history.Event) {
	switch e.Kind {
	case history.Sent, history.Acked, history.KafkaCalled, history.CoordCalled, history.CoordAsked, history.CoordHeard:
	default:
		*r = append(*r, *e)
	}
}

// find returns the events of a kind on machines with the prefix.
func (r recorded) find(kind history.Kind, machine string) []history.Event {
	var out []history.Event
	for _, e := range r {
		if e.Kind == kind && strings.HasPrefix(e.Machine, machine) {
			out = append(out, e)
		}
	}
	return out
}

func (r recorded) traced(kind machine.Kind, subject string) []history.Event {
	var out []history.Event
	for _, e := range r {
		if e.Kind == history.Traced && e.Trace.Kind == kind && strings.HasPrefix(e.Trace.Subject, subject) {
			out = append(out, e)
		}
	}
	return out
}

// play runs a scenario over some seeds, requires that nothing is wrong, and shows each history.
func play(t *testing.T, text string, look func(r recorded, res *trial.Result)) {
	t.Helper()
	sc, err := scenario.Parse("test.yaml", []byte("name: test\nworkload: {rate: 100/s, duration: 5s}\n"+text))
	require.NoError(t, err)
	for seed := range uint64(3) {
		var r recorded
		res := trial.Run(sc, seed, trial.Options{Observe: []history.Observer{&r}})
		require.Equal(t, trial.Pass, res.Verdict, "seed %d: %v %v", seed, res.Violations, res.Unjudged)
		look(r, res)
	}
}

func TestFaultFreezeOutlivesTheSession(t *testing.T) {
	play(t, `
topology: {groups: [{name: readers, consumers: 2, session_timeout: 1s}]}
faults:
  - {at: 1s, fault: freeze, target: consumer-1, for: 3s}
`, func(r recorded, _ *trial.Result) {
		from, to := r.find(history.MachinePaused, "consumer-1")[0].At, r.find(history.MachineResumed, "consumer-1")[0].At
		require.Equal(t, 3*time.Second, to-from)
		for _, e := range r.traced(machine.ConsumerHanded, "") {
			require.False(t, e.Machine == "consumer-1" && e.At > from && e.At < to, "a frozen machine is handed nothing")
		}
		expired, back := false, false
		for _, e := range r.traced(machine.SessionExpired, "") {
			expired = expired || e.At > from && e.At < to
		}
		for _, e := range r.traced(machine.ConsumerJoined, "readers") {
			back = back || e.Machine == "consumer-1" && e.At > to && e.Incarnation == 1
		}
		require.True(t, expired, "its session ran out meanwhile")
		require.True(t, back, "the same process joins again")
	})
}

func TestFaultRollingRestartTakesOneMachineAtATime(t *testing.T) {
	play(t, `
topology: {brokers: 3}
faults:
  - {at: 500ms, fault: rolling-restart, target: broker-*, for: 400ms, gap: 200ms, how: crash}
`, func(r recorded, _ *trial.Result) {
		crashes := r.find(history.MachineCrashed, "broker-")
		require.Len(t, crashes, 3)
		for i, c := range crashes {
			require.Equal(t, []string{"broker-1", "broker-2", "broker-3"}[i], c.Machine)
			if i > 0 {
				require.Equal(t, 600*time.Millisecond, c.At-crashes[i-1].At)
			}
		}
		require.Len(t, r.find(history.MachineStarted, "broker-"), 6)
	})
}

func TestFaultReplacedDiskBeginsAnew(t *testing.T) {
	play(t, `
topology: {brokers: 2, topics: [{name: visits, partitions: 2}]}
faults:
  - {at: 2s, fault: replace-disk, target: leader of visits/0, for: 500ms}
`, func(r recorded, _ *trial.Result) {
		wiped := r.find(history.MachineWiped, "broker-")
		require.Len(t, wiped, 1)
		anew := false
		for _, e := range r.traced(machine.LogOpened, "visits/") {
			if e.At > wiped[0].At {
				require.Equal(t, wiped[0].Machine, e.Machine)
				require.Zero(t, e.Trace.B, "the log is empty")
				anew = anew || e.Trace.Subject == "visits/0"
			}
		}
		require.True(t, anew)
		for _, e := range r.find(history.Processed, "consumer-") {
			if e.At > wiped[0].At && e.Offset == 0 {
				return // the group found its way back to the beginning
			}
		}
		t.Error("nobody reads the new log")
	})
}

func TestFaultRackPowerLossTakesTheWholeRackAtOnce(t *testing.T) {
	play(t, `
topology: {racks: 2, brokers: 4, producers: [2], groups: [{name: readers, consumers: 2}]}
faults:
  - {at: 1s, fault: power-loss, target: rack-2, for: 1s}
`, func(r recorded, _ *trial.Result) {
		var down []string
		for _, e := range r.find(history.MachineCrashed, "") {
			require.True(t, e.Power)
			require.Equal(t, r.find(history.MachineCrashed, "")[0].At, e.At)
			down = append(down, e.Machine)
		}
		require.ElementsMatch(t, []string{"broker-2", "broker-4", "producer-2", "consumer-2"}, down)
	})
}

func TestFaultCorrelatedFailureTakesSeveralMachinesAtOnce(t *testing.T) {
	for _, c := range []struct {
		line  string
		kind  history.Kind
		power bool
	}{
		{"{at: 1s, fault: crash, target: 'broker-1, broker-3, coord-1, consumer-*', for: 700ms}", history.MachineCrashed, false},
		{"{at: 1s, fault: power-loss, target: 'broker-1, broker-3, coord-1, consumer-*', for: 700ms}", history.MachineCrashed, true},
		{"{at: 1s, fault: freeze, target: 'broker-1, broker-3, coord-1, consumer-*', for: 700ms}", history.MachinePaused, false},
	} {
		play(t, "topology: {brokers: 3, coordinators: 3, groups: [{name: readers, consumers: 2}]}\nfaults: ["+c.line+"]\n", func(r recorded, _ *trial.Result) {
			var hit []string
			for _, e := range r.find(c.kind, "") {
				require.Equal(t, r.find(c.kind, "")[0].At, e.At, c.line)
				require.Equal(t, c.power, e.Power)
				hit = append(hit, e.Machine)
			}
			require.ElementsMatch(t, []string{"broker-1", "broker-3", "coord-1", "consumer-1", "consumer-2"}, hit, c.line)
			read := r.find(history.Processed, "consumer-")
			require.Greater(t, read[len(read)-1].At, r.find(c.kind, "")[0].At+700*time.Millisecond, "it goes on afterwards")
		})
	}
}

func TestFaultAddedBrokersLeadWhatIsNew(t *testing.T) {
	play(t, `
topology: {brokers: {count: 1, spare: 1}, topics: [{name: visits, partitions: 2}]}
faults:
  - {at: 500ms, fault: start, target: any broker}
  - {at: 1500ms, fault: add-partitions, topic: visits, partitions: 6}
`, func(r recorded, _ *trial.Result) {
		led := map[string]bool{}
		for _, e := range r.traced(machine.LogOpened, "visits/") {
			led[e.Machine+" "+e.Trace.Subject] = true
		}
		require.Len(t, led, 6)
		require.True(t, led["broker-2 visits/3"] || led["broker-2 visits/2"], "%v", led)
		read := map[string]bool{}
		for _, e := range r.find(history.Processed, "consumer-") {
			read[e.Topic+string(rune('0'+e.Partition))] = true
		}
		require.Len(t, read, 6)
	})
}

func TestFaultClockOffsetIsDrawnPerMachine(t *testing.T) {
	sc, err := scenario.Parse("test.yaml", []byte("name: test\ntopology: {brokers: {count: 3, clock_offset: -2s..2s}, coordinators: {clock_offset: 1s}}\n"))
	require.NoError(t, err)
	seen := map[time.Duration]bool{}
	for _, m := range sc.Draw(1).Machines(1) {
		switch m.Role {
		case "broker":
			require.LessOrEqual(t, m.Offset.Abs(), 2*time.Second)
			seen[m.Offset] = true
		case "coord":
			require.Equal(t, time.Second, m.Offset)
		default:
			require.Zero(t, m.Offset)
		}
	}
	require.Len(t, seen, 3)
	play(t, "topology: {brokers: {count: 2, clock_offset: -1h..1h}, coordinators: {clock_offset: -1h..1h}, producers: [{clock_offset: -1h..1h}], groups: [{name: readers, clock_offset: -1h..1h}]}\n",
		func(recorded, *trial.Result) {})
}

// A disk that lies shows nothing of it until the power fails.
func TestFaultLyingDiskTakesNothingWithoutAPowerLoss(t *testing.T) {
	for fault, loses := range map[string]bool{"crash": false, "power-loss": true} {
		shorter := 0
		play(t, `
topology: {topics: [{name: visits, partitions: 4}], producers: [{delivery_timeout: 3s}]}
faults:
  - {at: 500ms, fault: lying-disk, target: broker-1}
  - {at: 3s, fault: `+fault+`, target: broker-1, for: 300ms}
`, func(r recorded, _ *trial.Result) {
			end := map[string]int64{}
			for _, e := range r {
				switch {
				case e.Kind == history.Traced && e.Trace.Kind == machine.LogVisible:
					end[e.Trace.Subject] = e.Trace.A
				case e.Kind == history.Traced && e.Trace.Kind == machine.LogOpened && e.Trace.B < end[e.Trace.Subject]:
					shorter++
				}
			}
			require.NotEmpty(t, r.find(history.MachineRuined, "broker-1"))
		})
		require.Equal(t, loses, shorter > 0, fault)
	}
}

// What is left out changes nothing before it would have begun, and nothing that the others draw.
func TestAReplayWithoutAFaultIsTheSameUpToThere(t *testing.T) {
	sc, err := scenario.Parse("test.yaml", []byte(`
name: test
topology: {brokers: 2}
workload: {rate: 100/s, duration: 4s}
faults:
  - {at: 500ms, fault: disk-slow, target: broker-*, latency: 1ms..5ms, probability: 30%}
  - {at: 1s, fault: loss, target: broker-*, probability: 5%}
  - {at: 2s, fault: crash, target: broker-2, for: 300ms}
`))
	require.NoError(t, err)
	run := func(without ...int) (text []string, begins map[int]time.Duration, ends map[int]string) {
		var r recorded
		trial.Run(sc, 1, trial.Options{Observe: []history.Observer{&r}, Without: without})
		begins, ends = map[int]time.Duration{}, map[int]string{}
		for i := range r {
			switch e := &r[i]; e.Kind {
			case history.FaultInjected:
				begins[e.Number] = e.At
			case history.FaultHealed:
				ends[e.Number] = e.Text
			default:
				text = append(text, e.String())
			}
		}
		return text, begins, ends
	}
	whole, begins, ends := run()
	require.Contains(t, ends[1], "disk operations hit")
	require.Contains(t, ends[2], "messages lost")
	for n, at := range begins {
		less, others, _ := run(n)
		require.Len(t, others, 2)
		require.NotContains(t, others, n)
		for i, line := range whole {
			if i < len(less) && line == less[i] {
				continue
			}
			var seconds float64
			_, err := fmt.Sscanf(strings.TrimSpace(line), "%fs", &seconds)
			require.NoError(t, err)
			require.GreaterOrEqual(t, time.Duration(seconds*1e9)+time.Microsecond, at, "without %d: %s", n, line)
			break
		}
		for other := range others {
			require.Equal(t, begins[other], others[other])
		}
	}
}
