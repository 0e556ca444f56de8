// Package linear judges whether what clients saw can be explained by a system that does one thing at a time: whether the run is
// linearizable. Three kinds of object are judged, each against a model of constant size, by porcupine
// (github.com/anishathalye/porcupine):
//
//   - the visible log of each partition (log.go),
//   - each znode (node.go),
//   - each committed offset, which is a znode too (offsets.go).
//
// [Oracle] gathers the operations of a run from its history; a [Log] may be fed by hand.
//
// The search is bounded by a number of steps, never by the wall clock, so that the same run always gets the same verdict. A
// search that is cut off is [Inconclusive], never a pass.
package linear

import (
	"fmt"
	"time"
)

// Invariants that this package reports, besides those of package oracle.
const (
	Linear  = "LIN" // no order of the operations explains what the clients saw
	Durable = "DUR" // a record acked with acks=all is not where the acknowledgement said
)

// Outcome of judging one object.
type Outcome uint8

const (
	OK           Outcome = iota // an order exists
	Violated                    // none exists
	Inconclusive                // not known; Verdict.Message says why
)

func (o Outcome) String() string {
	return [...]string{"ok", "violated", "inconclusive"}[o]
}

// Verdict is what is known of one object.
type Verdict struct {
	Object     string // "topic/partition", or the path of a znode
	Outcome    Outcome
	Invariant  string // with Violated
	Message    string
	At         time.Duration // with Violated: world time when it showed
	Checked    int           // operations that the verdict rests on
	Unverified string        // what could not be checked; empty: nothing
	Window     *Window       // with Violated: the operations that have no order, if there are few enough to show
}

func (v Verdict) String() string {
	s := fmt.Sprintf("%s: %s", v.Object, v.Outcome)
	if v.Outcome == Violated {
		s += fmt.Sprintf(" (%s at %v)", v.Invariant, v.At)
	}
	if v.Message != "" {
		s += ": " + v.Message
	}
	if v.Unverified != "" {
		s += " [not verified: " + v.Unverified + "]"
	}
	return s
}
