package oracle

import (
	"slices"
	"strings"
	"time"

	"faultline/workloads/history"
)

// quiet tells since when nothing disturbs a run but members of groups, and producers, that come and go: no other fault is active, and every broker and coordination server is up. What a member owes when it parts in order it owes
// then, though others come and go at the same time.
type quiet struct {
	*calm
	brokers []string
	away    map[string]bool // brokers that are down
	last    time.Duration   // when the last one came or went
}

func newQuiet(p *Promise) *quiet {
	return &quiet{calm: newCalm(p), brokers: p.Brokers, away: map[string]bool{}}
}

func (q *quiet) observe(e *history.Event) {
	switch e.Kind {
	case history.FaultInjected, history.FaultHealed:
		if comesOrGoes(e.Text) {
			return // whom it hits shows by himself
		}
	case history.MachineStarted, history.MachineExited, history.MachineCrashed:
		broker := slices.Contains(q.brokers, e.Machine)
		if broker {
			q.last = e.At
			if e.Kind == history.MachineStarted {
				delete(q.away, e.Machine)
			} else {
				q.away[e.Machine] = true
			}
		}
		if !broker && !q.calm.coord[e.Machine] {
			return
		}
	case history.PhaseBegan:
		return
	}
	q.calm.observe(e)
}

// comesOrGoes tells a fault, as its plan writes it, that stops machines in order, or starts them.
func comesOrGoes(text string) bool {
	return strings.Contains(text, "fault: stop,") || strings.Contains(text, "fault: start,")
}

// sinceBefore reports whether it is quiet, and has been since a time.
func (q *quiet) sinceBefore(at time.Duration) bool {
	return q.calm.now() && len(q.away) == 0 && q.calm.since <= at && q.last <= at
}
