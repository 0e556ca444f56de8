package history

import (
	"math/bits"

	"faultline/sim/machine"
)

// Steps are those of a record's way from application to application. Their events are most of all, and most observers need few of them.
type Steps uint8

const (
	Sending    Steps = 1 << iota // Sent
	Requesting                   // KafkaCalled
	Appending                    // Traced, machine.LogAppended
	Committing                   // Traced, machine.HighWatermark
	Acking                       // Acked
	Handing                      // Traced, machine.ConsumerHanded
	Processing                   // Processed

	AllSteps = Processing<<1 - 1
)

var (
	stepOf  = [256]Steps{Sent: Sending, KafkaCalled: Requesting, Acked: Acking, Processed: Processing}
	stepOfT = [256]Steps{machine.LogAppended: Appending, machine.HighWatermark: Committing, machine.ConsumerHanded: Handing}
)

// StepOf is which step of a record an event is, 0 when it is none.
func StepOf(e *Event) Steps {
	if e.Kind == Traced {
		return stepOfT[e.Trace.Kind]
	}
	return stepOf[e.Kind]
}

// Selective is an observer that needs to be shown some steps of records only; all other events are shown to it.
type Selective interface {
	Observer
	Needs() Steps
}

// Audience are observers, sorted by the steps that they need.
type Audience[O Observer] struct {
	by [9][]O // by step, as the number of its bit; the last: all of them, for events that are no step
}

// Add puts an observer behind those that are there. One that is not [Selective] needs all steps.
func (a *Audience[O]) Add(o O, needs Steps) {
	for i := range a.by {
		if Steps(1)<<i&needs != 0 || i == len(a.by)-1 {
			a.by[i] = append(a.by[i], o)
		}
	}
}

// Of are those that an event is shown to, in the order in which they came.
func (a *Audience[O]) Of(e *Event) []O { return a.by[bits.TrailingZeros8(uint8(StepOf(e)))] }

// NeedsOf are the steps that an observer needs.
func NeedsOf(o Observer) Steps {
	if s, ok := o.(Selective); ok {
		return s.Needs()
	}
	return AllSteps
}
