package trial

import (
	"fmt"

	"faultline/sim/machine"
	"faultline/workloads/history"
)

// served knows which replicas their brokers have opened and which of them lead.
type served struct{ at map[replicaOf]int }

// replicaOf is a partition, t/p, on a machine, in one of the two roles.
type replicaOf struct {
	machine, partition string
	leads              bool
}

// Observe implements history.Observer.
func (s *served) Observe(e *history.Event) {
	if e.Kind != history.Traced {
		return
	}
	switch e.Trace.Kind {
	case machine.LogOpened:
		s.at[replicaOf{e.Machine, e.Trace.Subject, false}] = e.Incarnation
	case machine.LeaderBegan:
		s.at[replicaOf{e.Machine, e.Trace.Subject, true}] = e.Incarnation
	}
}

// ready tells whether every partition's replicas are open and its leader leads: a measurement that begins earlier measures how brokers make their logs, on slow disks for seconds.
func (r *run) ready() bool {
	for i := range r.sc.Topology.Topics {
		t := &r.sc.Topology.Topics[i]
		for p := range int32(t.Partitions.V()) {
			replicas := r.registry.topics[t.Name][p]
			for _, id := range replicas {
				if !r.serves(id, t.Name, p, false) {
					return false
				}
			}
			switch leaders := r.registry.leaders[t.Name]; {
			case len(replicas) == 0:
				return false
			case t.Replicas.V() > 1 && (int(p) >= len(leaders) || !r.serves(leaders[p], t.Name, p, true)):
				return false
			}
		}
	}
	return true
}

// serves tells whether the broker's present process has the replica open, or leads it.
func (r *run) serves(broker int32, topic string, partition int32, leads bool) bool {
	if !r.registry.brokers[broker] {
		return false
	}
	name := fmt.Sprintf("%s-%d", roleBroker, broker)
	n := r.byName[name]
	return n != nil && n.comp.Incarnation() == r.served.at[replicaOf{name, fmt.Sprintf("%s/%d", topic, partition), leads}]
}
