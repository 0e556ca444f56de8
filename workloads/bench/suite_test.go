package bench

import (
	"flag"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"faultline/sim/machine"
)

func TestShippedSuitesAreWellFormed(t *testing.T) {
	for _, name := range Suites() {
		s, err := LoadSuite(name)
		require.NoError(t, err)
		require.Equal(t, name, s.Name)
		require.NotEmpty(t, s.About)
		_, err = LoadProfile(s.Profile)
		require.NoError(t, err, name)
	}
}

// A published figure stands beside a point of its series; those of other systems, which are drawn by themselves, are named here.
func TestPublishedFiguresOfShippedSuitesStandBesideAPoint(t *testing.T) {
	others := []string{"RabbitMQ, at most", "ActiveMQ, at most", "ActiveMQ and RabbitMQ, at most"}
	for _, name := range Suites() {
		s, err := LoadSuite(name)
		require.NoError(t, err)
		for _, p := range s.Published {
			known := slices.Contains(others, p.Series) || slices.ContainsFunc(s.Series, func(c Series) bool { return c.Name == p.Series })
			require.True(t, known, "%s: %q is no series", name, p.Series)
			require.Contains(t, s.Sweep.Values, p.Value, name)
		}
	}
}

// What a world's verdict says reaches whoever measures: a run that ended early must not look like one that sent nothing.
func TestTroubleOfAMeasuredRunIsAnError(t *testing.T) {
	s, err := ParseSuite("x.yaml", []byte(small))
	require.NoError(t, err)
	c, err := s.Cell(&s.Series[0], s.Sweep.Values[0])
	require.NoError(t, err)
	p, err := LoadProfile("virtio-2026")
	require.NoError(t, err)
	spins := &System{
		Send: func(m machine.Machine, _ *Cell, _ int, _ func(error)) (Sender, error) {
			for mu := m.NewMutex("spin"); ; mu.Unlock() {
				mu.Lock()
			}
		},
		Receive: stall(0, 0).Receive,
	}
	_, err = Simulate(c, spins, p, 1, func() bool { return false })
	require.ErrorContains(t, err, "livelock")
}

func TestBufferOfAnySizeIsFilledAtOneInstant(t *testing.T) {
	r := measure(t, `
name: large
topology:
  topics: [{name: visits, partitions: 2}]
  producers: [{acks: 1, batch: 64KiB, linger: 0s, in_flight: 5, buffer: 64MiB}]
workload: {message_bytes: 100B}
load: {warm_up: 0s, measure: 50ms}
sweep: {setting: topology.brokers, values: [1]}
`, Simulated(), 1)
	require.Positive(t, r.Sent)
}

func TestSuiteSaysWhatIsWrong(t *testing.T) {
	head := "name: x\nsweep: {setting: topology.brokers, values: [1, 2]}\n"
	for file, want := range map[string]string{
		"name: x":                                "sweep",
		head + "load: {rate: fast}":              "x.yaml:3:14",
		head + "series: [{name: a, set: [one]}]": `found "one", allowed is PATH=VALUE`,
		head + "series: [{name: a, set: [topology.topics.name=1]}]":         "topics",
		head + "series: [{name: a, set: [topology.producers.4=1]}]":         "found entry 4, the list has 0 entries",
		head + "series: [{name: a, set: [\"topology.coordinators.id=1\"]}]": `series "a" at topology.brokers 1`,
		"name: x\nsweep: {setting: topology.brokers, values: [1, none]}":    "topology.brokers none",
		"name: x\nsweep: {setting: topology.brokers, values: []}":           "sweep.values: found an empty list",
		"name: x\nsweep: {setting: topology.brokers, values: [1, 2, 1]}":    `sweep.values: found "1" a second time`,
		"name: x\nsweep: {setting: \" \", values: [1]}":                     "sweep.setting: found nothing",
		"name: x\nsweep: {setting: profile, values: [paper-2011]}":          `sweep.setting: found "profile", allowed is a path that begins with one of topology`,
		"name: x\nsweep: {setting: workload.rate, values: [100/s]}":         "workload.rate: allowed is nothing in a suite",
		head + "series: [{name: a}, {name: a}]":                             `series[1].name: found "a" a second time`,
		head + "series: [{name: a, set: [sweep.scale=log]}]":                `set: found "sweep.scale"`,
		head + "load: {step: 1us, measure: 1s}":                             "load.step: found 1us of 1.05s, allowed is",
		head + "pictures: [{y: time-line}]":                                 "pictures[0]: time-line: allowed is a suite with a load.step",
		head + "pictures: [{y: recovery}]\nload: {step: 1ms}":               "pictures[0]: recovery: allowed is a suite with faults",
		head + "pictures: [{y: latency}]":                                   "pictures[0]: latency: allowed is a suite with topology.groups",
	} {
		_, err := ParseSuite("x.yaml", []byte(file))
		require.Error(t, err, file)
		require.Contains(t, err.Error(), want)
	}
}

func TestCellHasTheSettingsOfItsSeriesAndItsValue(t *testing.T) {
	s, err := ParseSuite("x.yaml", []byte(`
name: x
topology:
  producers: [{acks: 1}]
sweep:
  setting: topology.brokers topology.topics.0.replicas
  values: [3]
series:
  - name: a
    set: [topology.topics.0.name=t, "topology.producers.0.linger=7ms", load.rate=100/s]
`))
	require.NoError(t, err)
	c, err := s.Cell(&s.Series[0], "3")
	require.NoError(t, err)
	top := &c.Scenario.Topology
	require.EqualValues(t, 3, top.Brokers.Count.V())
	require.EqualValues(t, 3, top.Topics[0].Replicas.V())
	require.Equal(t, "t", top.Topics[0].Name)
	require.Equal(t, "1", top.Producers[0].Acks.V())
	require.Equal(t, 7*time.Millisecond, top.Producers[0].Linger.V().D())
	require.EqualValues(t, 100, c.Load.Rate.V())
}

// small is a suite of one cell.
const small = `
name: small
topology:
  topics: [{name: visits, partitions: 1, flush_interval: 1ms}]
  producers: [{acks: 1, linger: 1ms, partitioner: random}]
  groups: [{name: readers, consumers: 1, fetch_wait: 5ms}]
workload: {message_bytes: 100B}
load: {rate: 2000/s, warm_up: 200ms, measure: 1s, step: 100ms}
sweep: {setting: topology.brokers, values: [1]}
`

func measure(t *testing.T, text string, system *System, seed uint64) *Result {
	s, err := ParseSuite("x.yaml", []byte(text))
	require.NoError(t, err)
	c, err := s.Cell(&s.Series[0], s.Sweep.Values[0])
	require.NoError(t, err)
	p, err := LoadProfile("virtio-2026")
	require.NoError(t, err)
	r, err := Simulate(c, system, p, seed, func() bool { return false })
	require.NoError(t, err)
	return r
}

func TestOpenLoadIsSentAndReceivedAtItsRate(t *testing.T) {
	r := measure(t, small, Simulated(), 1)
	require.InDelta(t, 2000, r.Sent, 20)
	require.InDelta(t, 2000, r.Received, 20)
	require.InDelta(t, 200_000, r.SentBytes, 2000)
	require.Zero(t, r.Refused)
	require.EqualValues(t, r.Received, r.Latency.TotalCount())
	require.Len(t, r.TimeLine, 12)
	require.InDelta(t, 200, r.TimeLine[6].Received, 20)
	require.Equal(t, r, measure(t, small, Simulated(), 1), "one seed, one result")
}

// stall is a system that takes messages at once, but for one time at which it takes long, and hands them on to nobody but the receiver here.
func stall(at, long time.Duration) *System {
	var hand func([]byte)
	return &System{
		Name: "stall",
		Send: func(m machine.Machine, _ *Cell, _ int, told func(error)) (Sender, error) {
			return &stalling{m: m, told: told, hand: &hand, at: m.Uptime() + at, long: long}, nil
		},
		Receive: func(_ machine.Machine, _ *Cell, _ string, _ int, h func([]byte)) (Receiver, error) {
			hand = h
			return &stalling{}, nil
		},
	}
}

type stalling struct {
	m        machine.Machine
	told     func(error)
	hand     *func([]byte)
	at, long time.Duration
}

func (s *stalling) Send(value []byte) error {
	if s.m.Uptime() >= s.at && s.long > 0 {
		s.m.Sleep(s.long)
		s.long = 0
	}
	s.told(nil)
	if *s.hand != nil {
		(*s.hand)(value)
	}
	return nil
}

func (s *stalling) Close() error { return nil }

// What would have come while the system stood still counts from when it was due: a stall of half of the second puts the median of that half at a quarter second.
func TestStallIsChargedForAllThatWasDueMeanwhile(t *testing.T) {
	r := measure(t, small, stall(400*time.Millisecond, 500*time.Millisecond), 1)
	require.InDelta(t, 250_000, r.Latency.ValueAtQuantile(75), 10_000)
	require.InDelta(t, 500_000, r.Latency.ValueAtQuantile(100), 10_000)
	require.Less(t, r.Latency.ValueAtQuantile(45), int64(1000))
}

func TestPublishedFiguresBelongToTheSweep(t *testing.T) {
	head := "name: x\nsweep: {setting: topology.brokers, values: [1, 2]}\npublished:\n  - "
	s, err := ParseSuite("x.yaml", []byte(head+"{series: others, value: 2, figure: 821557, source: a page}"))
	require.NoError(t, err)
	require.Equal(t, []Published{{Series: "others", Value: "2", Metric: "sent", Figure: 821557, Source: "a page"}}, s.Published)
	for line, want := range map[string]string{
		"{series: others, value: 3, figure: 1, source: a page}":    `published[0].value: found "3", allowed is a value of the sweep: 1, 2`,
		"{series: others, value: 2, figure: many, source: a page}": `found "many", allowed is a number`,
		"{series: others, value: 2, figure: 1}":                    "source",
	} {
		_, err := ParseSuite("x.yaml", []byte(head+line))
		require.ErrorContains(t, err, want)
	}
}

var update = flag.Bool("update", false, "rewrite docs/bench.md and the predictions of docs/profiles.md")

func TestManualIsUpToDate(t *testing.T) {
	const path = "../../docs/bench.md"
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(Manual()), 0o644))
	}
	have, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, Manual(), string(have), "run: go test ./workloads/bench -update")
}
