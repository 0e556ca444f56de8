package bench

import (
	"errors"
	"fmt"
	"time"

	"faultline/sim"
	"faultline/workloads/deploy"
	"faultline/workloads/history"
	"faultline/workloads/trial"
)

// ErrStopped says that a measurement was cut.
var ErrStopped = errors.New("stopped")

// Simulate runs a cell once on simulated hardware. stop is asked now and then; true ends it with ErrStopped.
func Simulate(c *Cell, s *System, p *Profile, seed uint64, stop func() bool) (*Result, error) {
	began := time.Duration(-1)
	var now func() time.Duration
	over := c.Load.length()
	d := &drive{
		cell: c, system: s, over: over, seed: seed,
		meter: NewMeter(c.Load.WarmUp.V().D(), over, c.Load.Step.V().D()),
		since: func() time.Duration { return now() - began },
	}
	hardware := p.Hardware()
	bands := &bands{}
	var retained *trial.Retained
	setUp := time.Hour // our own brokers come up, however long it takes
	if s.Serve == nil {
		var err error
		if retained, err = c.retained(); err != nil {
			return nil, err
		}
	} else {
		const writes = 50_000_000 // bytes per second, of what a server retains: no machine is slower
		setUp = time.Second * time.Duration(1+int64(c.Load.Retained.V())/writes)
	}
	res := trial.Run(c.Scenario, seed, trial.Options{
		Retained: retained, SetUp: setUp, Foreign: s.Serve != nil,
		Policy: sim.FIFO, Hardware: &hardware, Unjudged: true, Stop: stop, Program: d.program, Observe: []history.Observer{bands},
		Window: sim.Window{From: c.Load.WarmUp.V().D(), To: over},
		OnLoad: func(at time.Duration, clock func() time.Duration) { began, now = at, clock },
	})
	switch {
	case res.Cut:
		return nil, ErrStopped
	case res.Err != nil:
		return nil, res.Err
	case len(res.Violations) > 0:
		return nil, fmt.Errorf("%s at %s, seed %d: %s", c.Series.Name, c.Value, seed, res.Violations[0])
	}
	out, err := d.result()
	if err != nil {
		return nil, err
	}
	out.Bands = bands.list(began, over)
	out.Usage = usageOf(res.Used, out.Window)
	return out, nil
}

// Simulated is this system on simulated machines.
func Simulated() *System {
	return Faultline(func(c *Cell) deploy.Addresses { return deploy.Machines(c.Scenario.Machines(0)) })
}

// bands collects the faults of a run.
type bands struct {
	found []Band
	open  map[int]int // number of a fault -> its place
}

// Observe implements history.Observer.
func (b *bands) Observe(e *history.Event) {
	switch e.Kind {
	case history.FaultInjected:
		if b.open == nil {
			b.open = map[int]int{}
		}
		b.open[e.Number] = len(b.found)
		b.found = append(b.found, Band{Name: e.Text, From: e.At, To: -1})
	case history.FaultHealed:
		if i, ok := b.open[e.Number]; ok {
			b.found[i].To = e.At
		}
	}
}

// list counts times from the start of the load.
func (b *bands) list(began, over time.Duration) []Band {
	for i := range b.found {
		f := &b.found[i]
		f.From -= began
		if f.To < 0 {
			f.To = over
		} else {
			f.To -= began
		}
	}
	return b.found
}
