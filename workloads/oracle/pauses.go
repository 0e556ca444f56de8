package oracle

import (
	"faultline/sim/machine"
	"faultline/workloads/history"
)

// Pauses judges partitions that an application pauses (DELIVER).
//
// Verified: from when the application asks to pause a partition until it asks to resume it, nothing of it is handed over to that application, as long as its claim stands: also while other partitions come and go in a
// rebalance that leaves it the partition.
//
// A claim that ends takes the pause with it, as in Kafka: the application that gets the partition anew, be it the same one, has not paused it.
//
// Not verified: that it goes on where it was (Delivery judges each hand-over against the one before), that it goes on at all (Liveness), that the partition is kept meanwhile (Reasons, Members).
type Pauses struct {
	Findings
	paused map[string]claimedBy // by "g/t/p"
	claims map[string]claimedBy // the latest that stands
}

// NewPauses makes the oracle.
func NewPauses() *Pauses {
	return &Pauses{paused: map[string]claimedBy{}, claims: map[string]claimedBy{}}
}

// Invariants implements [Oracle].
func (o *Pauses) Invariants() []string { return []string{Deliver} }

// Needs implements [history.Selective].
func (*Pauses) Needs() history.Steps { return history.Handing }

// Observe implements [Oracle].
func (o *Pauses) Observe(e *history.Event) {
	switch e.Kind {
	case history.Suspended, history.Continued:
		at := seat{e.Group, place{e.Topic, e.Partition}}.String()
		who := claimedBy{e.Consumer, e.Machine, e.Incarnation}
		switch {
		case e.Kind == history.Continued:
			delete(o.paused, at)
		case o.claims[at] == who:
			o.paused[at] = who
		}
	case history.MachineCrashed, history.MachineExited:
		for at, who := range o.claims { // order: each on its own
			if who.machine == e.Machine {
				o.end(at)
			}
		}
	case history.Traced:
		t := &e.Trace
		who := claimedBy{t.Detail, e.Machine, e.Incarnation}
		switch t.Kind {
		case machine.ConsumerClaimed:
			delete(o.paused, t.Subject)
			o.claims[t.Subject] = who
		case machine.ConsumerReleased:
			if o.claims[t.Subject] == who {
				o.end(t.Subject)
			}
		case machine.ConsumerHanded:
			if len(o.paused) > 0 && o.paused[t.Subject] == who {
				o.Violate(e.At, Deliver, "%s on %s is handed offset %d of %s, which it has paused", who.consumer, who.machine, t.A, t.Subject)
				delete(o.paused, t.Subject) // told once
			}
		}
	}
}

func (o *Pauses) end(at string) {
	delete(o.paused, at)
	delete(o.claims, at)
}

// Finish has nothing to judge: all is judged when it happens.
func (o *Pauses) Finish(End) {}
