package bench

import (
	"cmp"
	"slices"
	"time"

	"faultline/workloads/trial"
)

// Usage is how busy one kind of resource was, on the machines of one role, while it was measured.
type Usage struct {
	Role     string // broker, producer, consumer, coord
	Resource string // of Resources
	// Mean and Peak are shares of the time, on average over the machines and of the busiest one, which is Machine.
	Mean, Peak float64
	Machine    string
}

// Resources are what a machine has. A task computes one thing after the other: it is on a core or waits, so that it can be the limit of a machine whose cores have little to do.
var Resources = []string{"CPU", "task", "disk", "NIC out", "NIC in"}

// usageOf sums up machines.
func usageOf(machines []trial.Used, window time.Duration) []Usage {
	var out []Usage
	for _, role := range []string{"broker", "producer", "consumer", "coord"} {
		for i, resource := range Resources {
			u := Usage{Role: role, Resource: resource}
			n := 0
			for _, m := range machines {
				if m.Role != role {
					continue
				}
				busy := []time.Duration{m.CPU / time.Duration(max(m.Cores, 1)), m.Task, m.Disk, m.Sends, m.Takes}[i]
				share := busy.Seconds() / window.Seconds()
				u.Mean += share
				n++
				if share > u.Peak {
					u.Peak, u.Machine = share, m.Name
				}
			}
			if u.Peak > 0 {
				u.Mean /= float64(n)
				out = append(out, u)
			}
		}
	}
	slices.SortStableFunc(out, func(a, b Usage) int { return cmp.Compare(b.Peak, a.Peak) })
	return out
}
