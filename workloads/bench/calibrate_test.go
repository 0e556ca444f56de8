package bench

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"faultline/sim/machine"
	"faultline/sim/virtual"
)

// What a request costs is told apart from what a record costs only where the two producers differ in their batches.
func TestCalibrationRunsSmallAndLargeBatches(t *testing.T) {
	s, err := ParseSuite("calibrate.yaml", []byte(pathSuite))
	require.NoError(t, err)
	var batches []int64
	for i := range s.Series[:2] {
		c, err := s.Cell(&s.Series[i], "1")
		require.NoError(t, err)
		batches = append(batches, int64(c.Scenario.Topology.Producers[0].BatchRecords.V()))
	}
	require.Equal(t, []int64{1, 500}, batches)
}

// What clients and servers cost is found again in runs that are made of it, whatever batches, copies, checksums and system calls were in it.
func TestPathCostsAreSolvedFor(t *testing.T) {
	k := &Calibration{spent: map[string]float64{"cpu.syscall": 2000, "cpu.copy": 10e9, "cpu.move": 20e9, "cpu.store": 2e9, "cpu.flush": 4e9, "cpu.sum": 8e9, "cpu.batch": 80, "cpu.record": 20}}
	run := func(w machine.Work) *usage {
		ns := 3000*w.Requests + 9000*w.Served + 300*w.Sent + 20*w.Records + 250*w.Received + 2000*w.Syscalls + int(w.Copied)/10 + int(w.Moved)/20 + int(w.Stored)/2 + int(w.Flushed)/4 + int(w.Summed)/8 + 80*w.Batches
		return &usage{work: w, cpu: time.Duration(ns)}
	}
	request, send := k.producerCosts(
		run(machine.Work{Requests: 30_000, Sent: 10_000, Syscalls: 20_000, Copied: 2_000_000, Moved: 3_000_000, Summed: 2_400_000}),
		run(machine.Work{Requests: 6_000, Sent: 1_000_000, Syscalls: 4_000, Copied: 400_000_000, Summed: 200_000_000}))
	receive := k.consumerCost(request, run(machine.Work{Requests: 800, Received: 1_000_000, Batches: 2_000, Syscalls: 800, Copied: 400_000_000, Summed: 200_000_000}))
	serve := k.serverCost(run(machine.Work{Served: 10_000, Records: 10_000, Syscalls: 25_000, Moved: 3_000_000, Stored: 2_400_000, Flushed: 2_000_000, Summed: 2_400_000}))
	require.InDelta(t, 9000, serve, 0.1)
	require.InDelta(t, 3000, request, 0.1)
	require.InDelta(t, 300, send, 0.1)
	require.InDelta(t, 250, receive, 0.1)
}

// A profile has the median over the rounds; a round in which nothing was done does not count, and of too few rounds there is none.
func TestCalibrationTakesTheMedianOfRounds(t *testing.T) {
	said := map[string]string{}
	k := &Calibration{spent: map[string]float64{}, Said: func(name, value, spread string) { said[name] = value + " " + spread }}
	k.set("cpu.cores", "1", "all")
	for _, ns := range []float64{900, math.Inf(1), 700, 5000, math.NaN()} {
		k.note("cpu.syscall", "a call", nanoseconds, ns)
		k.note("cpu.queue.frame", "a frame", nanoseconds, 2*ns)
		k.note("network.latency", "a trip", nanoseconds, 3*ns)
	}
	text, err := k.profile("mine")
	require.NoError(t, err)
	require.Equal(t, map[string]string{
		"cpu.cores": "1 all", "cpu.syscall": "900ns 700ns to 5000ns of 3: a call", "cpu.queue.frame": "1800ns 1400ns to 10000ns of 3: a frame", "network.latency": "2700ns 2100ns to 15000ns of 3: a trip",
	}, said)
	_, lines, _ := strings.Cut(string(text), "highest.\n")
	require.Equal(t, `cpu:
  cores: 1 # all
  syscall: 900ns # 700ns to 5000ns of 3: a call
  queue:
    frame: 1800ns # 1400ns to 10000ns of 3: a frame
network:
  latency: 2700ns # 2100ns to 15000ns of 3: a trip
`, lines)
	k.note("cpu.record", "a look", nanoseconds, 15)
	_, err = k.profile("mine")
	require.ErrorContains(t, err, "cpu.record: clients had the processor in 1 rounds, it takes 3")
}

// The gauges do what a server and a consumer do.
func TestGaugesFindTheirRecords(t *testing.T) {
	if _, ok := cpuClock(); !ok {
		t.Skip("no CPU clock")
	}
	g, err := newGauges()
	require.NoError(t, err)
	defer g.close()
	for _, once := range []func() error{g.pass, g.copy, g.checksum, g.check, func() error { return g.walk(g.single) }, func() error { return g.walk(g.whole) }} {
		require.NoError(t, once())
	}
	require.Error(t, g.walk(g.single[:len(g.single)-1]))
}

// Each run is told the speed; what costs nothing by the profile tells nothing of it.
func TestSpeedIsAShareOfWhatTheProfileSays(t *testing.T) {
	if _, ok := cpuClock(); !ok {
		t.Skip("no CPU clock")
	}
	p, err := LoadProfile("virtio-2026")
	require.NoError(t, err)
	s, err := NewSpeedometer(p, false)
	require.NoError(t, err)
	defer s.Close()
	arm := s.Beside(func(*Cell, uint64, func() bool) (*Result, error) { return &Result{}, nil })
	r, err := arm(nil, 1, nil)
	require.NoError(t, err)
	require.Positive(t, r.Speed)
	for i := range s.gauged {
		s.gauged[i] = gauged{func() error { time.Sleep(time.Microsecond); return nil }, 0}
	}
	free, err := s.speed()
	require.NoError(t, err)
	require.Equal(t, 1.0, free, "where nothing costs anything")
}

// The costs of the queue are found again in runs that are made of them; a step that seems to give time back costs next to nothing.
func TestQueueCostsAreSolvedFor(t *testing.T) {
	cost := map[string]float64{"frame": 4000, "answer": 9000, "arrive": 2500, "send": 300, "receive": 250, "serve": 3000, "tell": 8000, "push": 2000, "take": 700, "pass": 150}
	of := []machine.QueueWork{
		{Frames: 1000, Sent: 1000, Served: 990, Taken: 1980},
		{Frames: 20, Sent: 10_000, Served: 20, Taken: 20_000},
		{Frames: 500, Sent: 500, Answers: 495, Served: 500, Taken: 1000, Told: 480},
		{Arrived: 1410, Received: 700, Served: 700, Pushed: 720, Passed: 2100},
		{Arrived: 45, Received: 9000, Served: 20, Pushed: 25, Passed: 27_000},
	}
	var client, server [5]shares
	for i, w := range of {
		client[i] = shares{cost["frame"]*float64(w.Frames) + cost["answer"]*float64(w.Answers) + cost["arrive"]*float64(w.Arrived) + cost["send"]*float64(w.Sent) + cost["receive"]*float64(w.Received), w}
		server[i] = shares{cost["serve"]*float64(w.Served) + cost["tell"]*float64(w.Told) + cost["push"]*float64(w.Pushed) + cost["take"]*float64(w.Taken) + cost["pass"]*float64(w.Passed), w}
	}
	for name, got := range queueCosts(client, server) {
		require.InDelta(t, cost[name], got, 1e-6, name)
	}
	client[2].rest = 0
	require.Equal(t, 1.0, queueCosts(client, server)["answer"])
}

func TestQueueSuiteIsWellFormed(t *testing.T) {
	s, err := ParseSuite("calibrate-queue.yaml", []byte(queueSuite))
	require.NoError(t, err)
	require.Len(t, s.Series, 5)
}

// A profile with the queue's own costs predicts the queue by them.
func TestProfileWithCostsOfTheQueue(t *testing.T) {
	p, err := LoadProfile("virtio-2026")
	require.NoError(t, err)
	text := strings.Replace(string(p.Source()), "cpu:\n", "cpu:\n  queue: {frame: 1us, answer: 2us, arrive: 3us, send: 4us, receive: 5us, serve: 6us, tell: 7us, push: 8us, take: 9us, pass: 10us}\n", 1)
	own, err := ParseProfile("own.yaml", []byte(text))
	require.NoError(t, err)
	us := time.Microsecond
	require.Equal(t, virtual.QueueCosts{Frame: us, Answer: 2 * us, Arrive: 3 * us, Send: 4 * us, Receive: 5 * us, Serve: 6 * us, Tell: 7 * us, Push: 8 * us, Take: 9 * us, Pass: 10 * us}, own.Hardware().CPU.Queue)
	require.Equal(t, p.CPU.Record.V().D(), p.Hardware().CPU.Queue.Take)
	_, err = ParseProfile("own.yaml", []byte(strings.Replace(text, "take: 9us", "take: 1us..2us", 1)))
	require.ErrorContains(t, err, "cpu.queue.take")
}
