package bench

import (
	"encoding/binary"
	"fmt"
	"time"

	"faultline/sim"
	"faultline/sim/machine"
	"faultline/workloads/load"
	"faultline/workloads/scenario"
)

// drive is one run of a cell: its clients, wherever they run.
type drive struct {
	cell   *Cell
	system *System
	meter  *Meter
	// since is how long ago the load began.
	since func() time.Duration
	over  time.Duration // the load ends then
	seed  uint64
}

// result is what was measured.
func (d *drive) result() (*Result, error) {
	r := d.meter.Result()
	if d.meter.early() {
		return nil, fmt.Errorf("%s at %s: what was there before the load, %v, was received while it warmed up; load.retained: more of it, or a shorter warm-up", d.cell.Series.Name, d.cell.Value, d.cell.Load.Retained)
	}
	return r, nil
}

// program is what a client's machine runs; nil for a server that keeps the scenario's program.
func (d *drive) program(m scenario.Machine) func(machine.Machine) error {
	switch m.Role {
	case "producer":
		return func(pm machine.Machine) error { return d.send(pm, m.Index) }
	case "consumer":
		return func(pm machine.Machine) error { return d.receive(pm, m.Group.Name, m.Index) }
	}
	if d.system.Serve == nil {
		return nil
	}
	return d.system.Serve(d.cell, m.Role, m.Index)
}

// A message begins with the moment at which it was due, so that whoever receives it knows its age.
const stampBytes = 8

// values are messages to send over and over: as large and as compressible as visits are.
func (d *drive) values(index int) [][]byte {
	w := &d.cell.Scenario.Workload
	visits := load.NewVisits(sim.NewStream(d.seed, "bench/values", string(rune(index))), load.VisitsConfig{
		Count: -1, Visitors: int(w.Visitors.V()), MinBytes: int(w.MessageBytes.Min), MaxBytes: int(w.MessageBytes.Max), Now: func() time.Time { return sim.Epoch },
	})
	out := make([][]byte, 512)
	for i := range out {
		_, v, _ := visits.Next()
		out[i] = append([]byte(nil), v...)
	}
	return out
}

// send is the program of a client that sends. With a rate it sends each message when it is due, late ones at once, and stamps it with that moment: a system that stalls is charged for all that
// would have come meanwhile (coordinated omission).
func (d *drive) send(m machine.Machine, index int) error {
	values := d.values(index)
	bytes := 0 // of a message, on average
	for _, v := range values {
		bytes += len(v)
	}
	bytes /= len(values)
	s, err := d.system.Send(m, d.cell, index, func(err error) {
		if err != nil {
			d.meter.refused()
			return
		}
		d.meter.sent(d.since(), bytes)
	})
	if err != nil {
		return err
	}
	var every time.Duration
	if rate := int64(d.cell.Load.Rate.V()); rate > 0 {
		every = time.Duration(int64(time.Second) * d.producers() / rate)
	}
	due := d.since()
	for i := 0; ; i++ {
		now := d.since()
		if every == 0 {
			due = now
		} else if ahead := due - now; ahead > 0 {
			m.Sleep(ahead)
		}
		if max(due, now) >= d.over {
			return s.Close()
		}
		v := values[i%len(values)]
		binary.BigEndian.PutUint64(v[:stampBytes], uint64(due))
		if err := s.Send(v); err != nil {
			d.meter.refused()
		}
		due += every
	}
}

func (d *drive) producers() int64 {
	n := int64(0)
	for i := range d.cell.Scenario.Topology.Producers {
		n += int64(d.cell.Scenario.Topology.Producers[i].Count.V())
	}
	return n
}

// receive is the program of a client that receives.
func (d *drive) receive(m machine.Machine, group string, index int) error {
	r, err := d.system.Receive(m, d.cell, group, index, func(value []byte) {
		due := time.Duration(-1)
		if len(value) >= stampBytes {
			due = time.Duration(binary.BigEndian.Uint64(value))
		}
		d.meter.received(d.since(), due, len(value))
	})
	if err != nil {
		return err
	}
	m.Sleep(d.over - d.since())
	_ = r.Close() // a group that cannot be told anymore changes nothing about what was received
	return nil
}
