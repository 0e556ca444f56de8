package bench

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"faultline/faults/quantity"
	"faultline/sim"
	"faultline/workloads/history"
	"faultline/workloads/scenario"
	"faultline/workloads/trial"
)

// Suite is a sweep over one setting.
type Suite struct {
	Name    string
	About   string
	Setting string // what is swept, with its unit
	Unit    string
	Values  []int
	// scenario is the run of one value.
	scenario func(value int) *scenario.Scenario
}

// Measurement is one value of a suite: records acknowledged per second of virtual time, over the repetitions' seeds.
type Measurement struct {
	Value             int
	Median, Low, High float64
}

// Suites are those that ship.
var Suites = []Suite{{
	Name: "producer-batch", About: "One producer to one broker with one partition, 200-byte messages, acks=1: throughput against batch size.",
	Setting: "batch size", Unit: "records",
	Values: []int{1, 2, 5, 10, 20, 50, 100, 200, 500, 1000}, scenario: producerBatch,
}}

// Find looks a suite up.
func Find(name string) (*Suite, error) {
	var names []string
	for i := range Suites {
		if Suites[i].Name == name {
			return &Suites[i], nil
		}
		names = append(names, Suites[i].Name)
	}
	return nil, fmt.Errorf("no suite is named %q; these ship: %v", name, names)
}

// The part of a run that is measured, after the warm-up.
const (
	warmUp   = 50 * time.Millisecond
	measured = 150 * time.Millisecond
)

func producerBatch(records int) *scenario.Scenario {
	sc := scenario.New("producer-batch")
	t := &sc.Topology
	t.Topics[0].Partitions = quantity.Just(quantity.Count(1))
	t.Topics[0].SegmentBytes = quantity.Just(quantity.Bytes(64 << 20))
	t.Topics[0].FlushInterval = quantity.Just(quantity.Duration(50 * time.Millisecond))
	t.Topics[0].RetentionBytes = quantity.Just(quantity.Bytes(128 << 20))
	t.Producers[0].Acks = quantity.Choose("1")
	t.Producers[0].Batch = quantity.Just(quantity.Bytes(1 << 20))
	t.Producers[0].BatchRecords = quantity.Just(quantity.Count(records))
	t.Producers[0].Linger = quantity.Just(quantity.Duration(5 * time.Millisecond))
	t.Producers[0].InFlight = quantity.Just(quantity.Count(5))
	t.Groups = nil
	sc.Workload.Rate = quantity.Just(quantity.Rate(10_000_000)) // more than it can take: the producer's buffer sets the pace
	sc.Workload.Duration = quantity.Just(quantity.Duration(warmUp + measured))
	sc.Workload.MessageBytes = quantity.Just(quantity.Bytes(200))
	return sc
}

// window counts acknowledgements between two moments after the load began.
type window struct {
	began    time.Duration
	loading  bool
	from, to time.Duration
	acked    int64
}

// Observe implements history.Observer.
func (w *window) Observe(e *history.Event) {
	switch {
	case e.Kind == history.PhaseBegan && e.Phase == history.Load:
		w.began, w.loading = e.At, true
	case e.Kind == history.Acked && w.loading && e.At-w.began >= w.from && e.At-w.began < w.to:
		w.acked++
	}
}

// ErrStopped says that a measurement was cut.
var ErrStopped = errors.New("stopped")

// Measure runs one value of the suite with each seed. stop is asked now and then; true ends it with ErrStopped.
func (s *Suite) Measure(value int, p *Profile, seeds []uint64, stop func() bool) (Measurement, error) {
	var rates []float64
	hardware := p.Hardware()
	for _, seed := range seeds {
		w := &window{from: warmUp, to: warmUp + measured}
		res := trial.Run(s.scenario(value), seed, trial.Options{
			Policy: sim.FIFO, Hardware: &hardware, Unjudged: true, Stop: stop, Observe: []history.Observer{w},
		})
		if res.Cut {
			return Measurement{}, ErrStopped
		}
		if res.Err != nil {
			return Measurement{}, res.Err
		}
		if res.Verdict == trial.Fail {
			return Measurement{}, fmt.Errorf("%s with %d %s, seed %d: %s", s.Name, value, s.Unit, seed, res.Violations[0])
		}
		rates = append(rates, float64(w.acked)/measured.Seconds())
	}
	slices.Sort(rates)
	return Measurement{Value: value, Median: rates[len(rates)/2], Low: rates[0], High: rates[len(rates)-1]}, nil
}
