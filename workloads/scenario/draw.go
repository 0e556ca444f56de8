package scenario

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"time"

	"faultline/faults"
	"faultline/sim"
)

// Draw makes the scenario concrete for a seed: ranges and choices become single values (but those drawn per machine, message or
// operation), and the faults of the list and of the swarm become one concrete plan. Every value comes from a stream of its own, keyed by
// its field, so that a change of one field shifts no other. Drawing a concrete scenario changes nothing.
func (s *Scenario) Draw(seed uint64) *Scenario {
	d := s.Clone()
	fix(reflect.ValueOf(&d.Topology).Elem(), "topology", seed)
	fix(reflect.ValueOf(&d.Workload).Elem(), "workload", seed)
	fix(reflect.ValueOf(&d.Network).Elem(), "network", seed)
	fix(reflect.ValueOf(&d.Disk).Elem(), "disk", seed)
	fix(reflect.ValueOf(&d.Promise).Elem(), "promise", seed)
	for i := range d.Topology.Topics {
		if t := &d.Topology.Topics[i]; t.MinISR.V() > t.Replicas.V() {
			t.MinISR = t.Replicas
		}
	}
	for i := range d.Topology.Groups {
		d.Topology.Groups[i].forgetIdle()
	}
	env := d.env()
	d.Faults = d.Faults.Draw(seed, env)
	if d.Swarm != nil {
		d.Faults = d.Faults.With(d.Swarm.Generate(seed, env))
		d.Swarm = nil
	}
	return d
}

func fix(v reflect.Value, path string, seed uint64) {
	switch v.Kind() {
	case reflect.Slice:
		for i := range v.Len() {
			fix(v.Index(i), fmt.Sprintf("%s[%d]", path, i), seed)
		}
	case reflect.Struct:
		drawn, ok := v.Addr().Interface().(interface {
			Fixed() bool
			Fix(*rand.Rand)
		})
		if ok {
			if !drawn.Fixed() {
				drawn.Fix(sim.NewStream(seed, "scenario/"+path, ""))
			}
			return
		}
		for i := range v.NumField() {
			if tags := v.Type().Field(i).Tag; tags.Get("yaml") != "" && tags.Get("each") == "" {
				fix(v.Field(i), path+"."+tags.Get("yaml"), seed)
			}
		}
	}
}

// most is the largest number of servers that may be drawn.
func (c *Coordinators) most() int64 {
	most := int64(1)
	for _, word := range c.Count.Options {
		if n, err := strconv.ParseInt(word, 10, 8); err == nil {
			most = max(most, n)
		}
	}
	return most
}

// env is what the fault plan must know; of a scenario that is not drawn yet, the largest world that it can become.
func (s *Scenario) env() faults.Env {
	t := &s.Topology
	env := faults.Env{Machines: map[string][]string{}, Racks: int(max(1, t.Racks.Max))}
	add := func(role string, n int64, spare bool) {
		for range min(n, 1000) { // a count may be out of bounds: that is reported for itself
			name := fmt.Sprintf("%s-%d", role, len(env.Machines[role])+1)
			env.Machines[role] = append(env.Machines[role], name)
			if spare {
				env.Spare = append(env.Spare, name)
			}
		}
	}
	add("coord", t.Coordinators.most(), false)
	add("broker", max(1, int64(t.Brokers.Count.Max)), false)
	add("broker", int64(t.Brokers.Spare.Max), true)
	add("client", int64(t.Coordinators.Recipes.Max), false)
	for i := range t.Producers {
		add("producer", int64(t.Producers[i].Count.Max), false)
	}
	env.Session = t.Brokers.SessionTimeout.Max.D()
	for i := range t.Groups {
		add("consumer", int64(t.Groups[i].Consumers.Max), false)
		add("consumer", int64(t.Groups[i].Spare.Max), true)
		env.Session = max(env.Session, t.Groups[i].SessionTimeout.Max.D())
		if slices.Contains(t.Groups[i].Protocol.Options, "coordinator") {
			env.Groups = append(env.Groups, t.Groups[i].Name)
		}
	}
	for i := range t.Topics {
		env.Topics = append(env.Topics, faults.TopicInfo{Name: t.Topics[i].Name, Partitions: int(t.Topics[i].Partitions.Max), Replicas: int(t.Topics[i].Replicas.Max)})
	}
	if s.Workload.Kind != "lines" {
		env.Load = time.Duration(s.Workload.Duration.Max)
	}
	return env
}
