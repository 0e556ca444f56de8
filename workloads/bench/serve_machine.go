package bench

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"faultline/broker"
	"faultline/coord"
	"faultline/sim/host"
	"faultline/sim/machine"
	"faultline/workloads/deploy"
	"faultline/workloads/scenario"
)

// job is what a server's process is told.
type job struct {
	File    string // of the suite
	Source  []byte
	Series  int
	Value   string
	Machine string
	Dir     string
	Hosts   map[string]string // machine -> IP address
	Counted bool              // whether it counts its work, see [countMark]
}

// ServeMachine is a server's process: it runs the machine that the input names until the input ends.
func ServeMachine(in io.Reader, out io.Writer, systems Systems) error {
	var j job
	decoder := json.NewDecoder(in)
	if err := decoder.Decode(&j); err != nil {
		return fmt.Errorf("server of a bench: its job: %w", err)
	}
	in = io.MultiReader(decoder.Buffered(), in)
	s, err := ParseSuite(j.File, j.Source)
	if err != nil {
		return err
	}
	c, err := s.Cell(&s.Series[j.Series], j.Value)
	if err != nil {
		return err
	}
	system, err := systems(c)
	if err != nil {
		return err
	}
	all := c.Scenario.Machines(0)
	i := slices.IndexFunc(all, func(m scenario.Machine) bool { return m.Name == j.Machine })
	if i < 0 {
		return fmt.Errorf("server of a bench: the suite has no machine %s", j.Machine)
	}
	var program func(machine.Machine) error
	if system.Serve != nil {
		program = system.Serve(c, all[i].Role, all[i].Index)
	}
	if program == nil {
		program = server(c, all[i])
	}
	m, err := host.New(host.Options{Name: j.Machine, Root: j.Dir, Address: j.Hosts[j.Machine], Hosts: j.Hosts})
	if err != nil {
		return err
	}
	var seam machine.Machine = m
	u := &usage{}
	if j.Counted {
		seam = &counting{m, u}
	}
	m.Go("main", func() { m.Exit(program(seam)) })
	for mark := make([]byte, 1); err == nil; {
		switch _, err = io.ReadFull(in, mark); {
		case err != nil:
		case mark[0] == countMark:
			u.begin()
		case mark[0] == tellMark:
			err = json.NewEncoder(out).Encode(u.spent())
		}
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	m.Shutdown()
	return err
}

// server is what a machine runs that keeps the scenario's program.
func server(c *Cell, sm scenario.Machine) func(machine.Machine) error {
	addrs := deploy.Machines(c.Scenario.Machines(0))
	return func(m machine.Machine) error {
		if sm.Role == "coord" {
			return coord.Run(m, deploy.Coord(c.Scenario, addrs, sm.Index))
		}
		return broker.Run(m, deploy.Broker(c.Scenario, addrs, int32(sm.Index)))
	}
}
