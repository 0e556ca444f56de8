package scenario

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"faultline/faults"
	"faultline/faults/quantity"
	"faultline/faults/strict"
	"faultline/sim"
)

// Load reads a scenario file. The error of a file that cannot be read is that of the operating system; everything that is wrong
// inside is one [strict.Problems], a line for each problem. The path of an input file is taken to be relative to the scenario's.
func Load(path string) (*Scenario, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("scenario: %w", err)
	}
	s, err := Parse(path, data)
	if err != nil {
		return nil, err
	}
	if in := &s.Workload.Input; *in != "" && !filepath.IsAbs(*in) {
		*in = filepath.Join(filepath.Dir(path), *in)
	}
	return s, nil
}

// Parse reads a scenario. The file name is only for messages.
func Parse(file string, data []byte) (*Scenario, error) {
	s := &Scenario{}
	doc, problems := strict.Decode(file, data, s)
	s.complete()
	problems = append(problems, s.check(doc)...)
	if err := problems.Err(); err != nil {
		return nil, err
	}
	return s, nil
}

// New is the scenario of the name with all defaults.
func New(name string) *Scenario {
	s := &Scenario{}
	strict.Defaults(s)
	s.Name = name
	s.complete()
	return s
}

// complete gives the lists that a file leaves out their one default entry.
func (s *Scenario) complete() {
	s.About = strings.Join(strings.Fields(s.About), " ")
	t := &s.Topology
	if len(t.Topics) == 0 {
		t.Topics = make([]Topic, 1)
		strict.Defaults(&t.Topics[0])
		t.Topics[0].Name = "visits"
	}
	if len(t.Producers) == 0 {
		t.Producers = make([]Producer, 1)
		strict.Defaults(&t.Producers[0])
	}
	if len(t.Groups) == 0 {
		t.Groups = make([]Group, 1)
		strict.Defaults(&t.Groups[0])
		t.Groups[0].Name = "readers"
	}
}

// Check says what is wrong with a scenario that was made or changed by a program, as [Parse] does for a file.
func (s *Scenario) Check() error { return s.check(nil).Err() }

// Marshal writes the scenario as a file that [Parse] reads back to an equal one. Fields with their default are left out.
func (s *Scenario) Marshal() []byte { return strict.Encode(s) }

// MarshalDrawn writes a drawn scenario as [Scenario.Marshal] does, with the number of each fault behind it: by these the run's timeline names them, and a
// replay can leave them out. It also tells which of them are beyond the atlas of what the system survives.
func (s *Scenario) MarshalDrawn() []byte {
	beyond := s.Faults.Beyond(s.env())
	var out []byte
	n, inside := 0, false
	for line := range strings.Lines(string(s.Marshal())) {
		if !strings.HasPrefix(line, " ") {
			inside = line == "faults:\n"
		} else if inside {
			n++
			note := fmt.Sprintf(" # %d", n)
			if slices.Contains(beyond, n) {
				note += ", beyond the atlas"
			}
			line = strings.TrimSuffix(line, "\n") + note + "\n"
		}
		out = append(out, line...)
	}
	return out
}

// Clone is a deep copy.
func (s *Scenario) Clone() *Scenario {
	c := *s
	c.Topology.Topics = append([]Topic(nil), s.Topology.Topics...)
	c.Topology.Producers = append([]Producer(nil), s.Topology.Producers...)
	c.Topology.Groups = append([]Group(nil), s.Topology.Groups...)
	c.Faults = append(faults.Plan(nil), s.Faults...)
	if s.Swarm != nil {
		swarm := *s.Swarm
		c.Swarm = &swarm
	}
	return &c
}

// Machine is one machine of a drawn scenario.
type Machine struct {
	Name  string // role-number
	Role  string // broker, coord, client, producer, consumer
	Index int    // its number, from 1; a broker's id
	// Start is when the process starts: counted from the start of the world for brokers and coordinators, of the load for clients.
	Start time.Duration
	// Spare machines run nothing until a start fault.
	Spare bool
	// Offset is how far the wall clock is off at the start.
	Offset   time.Duration
	Producer *Producer // of a producer
	Group    *Group    // of a consumer
	// SessionExtra and MaxPollExtra are how much longer than those of its group a consumer's time-outs are.
	SessionExtra, MaxPollExtra time.Duration
	Restart                    time.Duration
}

// Machines lists the machines of a drawn scenario in a fixed order: coordinators, brokers, clients of the coordination service, producers, consumers. The start of each is drawn
// from a stream of its own, so that it does not shift when others are left out.
func (s *Scenario) Machines(seed uint64) []Machine {
	var out []Machine
	add := func(role string, index int, m Machine, start, offset quantity.Durations) {
		m.Name, m.Role, m.Index = fmt.Sprintf("%s-%d", role, index), role, index
		m.Start = start.Draw(sim.NewStream(seed, "scenario/start", m.Name)).D()
		m.Offset = offset.Draw(sim.NewStream(seed, "scenario/clock-offset", m.Name)).D()
		out = append(out, m)
	}
	t := &s.Topology
	for i := range int(t.Coordinators.most()) {
		add("coord", i+1, Machine{Restart: t.Coordinators.Restart.V().D()}, t.Coordinators.Start, t.Coordinators.ClockOffset)
	}
	for i := range int(t.Brokers.Count.V() + t.Brokers.Spare.V()) {
		add("broker", i+1, Machine{Restart: t.Brokers.Restart.V().D(), Spare: i >= int(t.Brokers.Count.V())}, t.Brokers.Start, t.Brokers.ClockOffset)
	}
	for i := range int(t.Coordinators.Recipes.V()) {
		add("client", i+1, Machine{Restart: t.Coordinators.Restart.V().D()}, quantity.Durations{}, quantity.Durations{})
	}
	n := 0
	for i := range t.Producers {
		p := &t.Producers[i]
		for range int(p.Count.V()) {
			n++
			add("producer", n, Machine{Producer: p, Restart: p.Restart.V().D()}, p.Start, p.ClockOffset)
		}
	}
	n = 0
	for i := range t.Groups {
		g := &t.Groups[i]
		for j := range int(g.Consumers.V() + g.Spare.V()) {
			n++
			m := Machine{Group: g, Spare: j >= int(g.Consumers.V()), Restart: g.Restart.V().D()}
			m.SessionExtra = g.SessionExtra.Draw(sim.NewStream(seed, "scenario/session-extra", fmt.Sprintf("consumer-%d", n))).D()
			m.MaxPollExtra = g.MaxPollExtra.Draw(sim.NewStream(seed, "scenario/max-poll-extra", fmt.Sprintf("consumer-%d", n))).D()
			add("consumer", n, m, g.Start, g.ClockOffset)
		}
	}
	return out
}

// TopicsOf are the topics that a group reads from the beginning.
func (s *Scenario) TopicsOf(g *Group) []string {
	if len(g.Topics) > 0 {
		return g.Topics
	}
	names := make([]string, len(s.Topology.Topics))
	for i := range s.Topology.Topics {
		names[i] = s.Topology.Topics[i].Name
	}
	return names
}
