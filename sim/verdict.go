package sim

import (
	"fmt"
	"strings"
	"time"
)

// OutcomeKind says why Run returned.
type OutcomeKind uint8

const (
	Done     OutcomeKind = iota // every task ended
	Deadline                    // the time given to Run is up
	Halted                      // Halt was called
	Stuck                       // tasks wait and nothing can ever wake them
	Livelock                    // too many events at one virtual instant
	Panicked                    // a task panicked
)

func (k OutcomeKind) String() string {
	return [...]string{"done", "deadline", "halted", "stuck", "livelock", "panicked"}[k]
}

// Outcome is how a Run ended.
type Outcome struct {
	Kind    OutcomeKind
	At      time.Duration
	Waiting []Waiting // Stuck: every task; Livelock: the tasks that kept running
	Err     error     // Panicked: the panic with the task's own stack
}

// Waiting describes a task that waits.
type Waiting struct {
	Task  string // group and name
	On    string // what it waits for
	Since time.Duration
	Stack string
}

func (o Outcome) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s at %v", o.Kind, o.At)
	if o.Err != nil {
		fmt.Fprintf(&b, ": %v", o.Err)
	}
	for _, t := range o.Waiting {
		fmt.Fprintf(&b, "\n  %s waits for %s since %v", t.Task, t.On, t.Since)
	}
	return b.String()
}

// Waiting lists the tasks that are parked, in the order in which they started, each with its stack.
func (w *World) Waiting() []Waiting {
	ts := make([]*Task, 0, len(w.tasks))
	for _, t := range w.tasks {
		if t.state == parked {
			ts = append(ts, t)
		}
	}
	sortTasks(ts)
	out := make([]Waiting, 0, len(ts))
	for _, t := range ts {
		out = append(out, t.describe())
	}
	return out
}

// describe lets a parked task print its own stack, which only the task itself can.
func (t *Task) describe() Waiting {
	on := t.waitsOn
	if t.waitsFor != "" {
		on += " " + t.waitsFor
	}
	d := Waiting{Task: t.String(), On: on, Since: time.Duration(t.since)}
	if t.state == parked && t.yield != nil && t != t.w.cur {
		t.wantStack = true
		t.next()
		d.Stack = string(t.stack)
		t.stack = nil
	}
	return d
}

// livelock halts the world: time stands still while events go on.
func (w *World) livelock(cur *Task) {
	if w.halt != nil {
		return
	}
	o := &Outcome{Kind: Livelock}
	if cur != nil {
		o.Waiting = append(o.Waiting, Waiting{Task: cur.String(), On: "nothing: it is running", Since: w.Now()})
	}
	for _, t := range w.runq {
		o.Waiting = append(o.Waiting, Waiting{Task: t.String(), On: "its turn", Since: time.Duration(t.since)})
	}
	w.halt = o
}
