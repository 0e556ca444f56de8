package oracle

import (
	"slices"
	"strings"

	"faultline/broker/group"
	"faultline/sim/machine"
	"faultline/workloads/history"
)

// offsetsTopic keeps what coordinator groups commit, and who their members are. The leader of a group's partition of it coordinates the group.
const offsetsTopic = "__consumer_offsets"

// coordinators tells the present coordinator of a group from one that has been deposed and has not heard of it. The zero value knows none.
type coordinators struct {
	epochs     map[int32]int64    // partition of the offsets topic -> leader epoch of its latest coordinator
	homes      map[int32][]string // partition of the offsets topic -> machines that coordinated it
	partitions int32
}

// observe takes an event of a group coordinator, and reports whether it comes from the present one.
func (c *coordinators) observe(e *history.Event) bool {
	t := &e.Trace
	if c.epochs == nil {
		c.epochs, c.homes = map[int32]int64{}, map[int32][]string{}
	}
	p := int32(0)
	if t.Kind == machine.GroupsLoaded {
		at, ok := parsePlace(t.Subject)
		if !ok {
			return false
		}
		p, c.partitions = at.partition, int32(t.A)
		if !slices.Contains(c.homes[p], e.Machine) {
			c.homes[p] = append(c.homes[p], e.Machine)
		}
	} else if c.partitions > 0 {
		name, _, _ := strings.Cut(t.Subject, "/")
		p = group.PartitionOf(name, c.partitions)
	}
	if was, known := c.epochs[p]; known && t.C < was {
		return false
	}
	c.epochs[p] = t.C
	return true
}

// loaded takes the event that a broker has loaded groups (machine.GroupsLoaded), and gives those that it coordinates from now on to fn.
func loaded[T any](c *coordinators, e *history.Event, groups map[string]T, fn func(T)) {
	if !c.observe(e) {
		return
	}
	at, _ := parsePlace(e.Trace.Subject)
	for name, g := range groups { // order: each on its own
		if c.of(at.partition, name) {
			fn(g)
		}
	}
}

// of reports whether the partition of the offsets topic keeps the group.
func (c *coordinators) of(partition int32, name string) bool {
	return c.partitions > 0 && group.PartitionOf(name, c.partitions) == partition
}

// freed tells whether nothing is promised any more of what the coordinator of a group knows ([Ruins]): the offsets topic is a log like others. With one replica it is freed with the disk of a broker that coordinated the
// group.
func (c *coordinators) freed(p *Promise, name string) bool {
	if c.partitions == 0 {
		return p.Ruins.Any()
	}
	at := group.PartitionOf(name, c.partitions)
	if p.Replicated(offsetsTopic) {
		return p.Ruins.Partition(offsetsTopic, at)
	}
	return p.Ruins.Records() || slices.ContainsFunc(c.homes[at], p.Ruins.Touched)
}
