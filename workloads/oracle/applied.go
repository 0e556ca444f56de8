package oracle

import (
	"faultline/sim/machine"
	"faultline/workloads/history"
)

// applied follows the transactions that the coordination service traces. A server that restarts may trace its last transactions for a second
// time; those are told from new ones by their zxid and by how many events of it came before.
type applied struct {
	machine     string
	incarnation int
	zxid        int64 // largest so far
	events      int   // of that transaction
	again       int   // of those, seen once more since the restart
}

// fresh reports whether an event of the coordination service is seen for the first time. Events without zxid always are.
func (a *applied) fresh(e *history.Event) bool {
	zxid := e.Trace.B
	switch e.Trace.Kind {
	case machine.SessionOpened, machine.SessionClosed, machine.SessionExpired:
		zxid = e.Trace.C
	}
	if zxid == 0 {
		return true
	}
	if e.Machine != a.machine || e.Incarnation != a.incarnation {
		a.machine, a.incarnation, a.again = e.Machine, e.Incarnation, 0
	}
	switch {
	case zxid < a.zxid:
		return false
	case zxid > a.zxid:
		a.zxid, a.events, a.again = zxid, 1, 1
		return true
	case a.again < a.events:
		a.again++
		return false
	}
	a.events++
	a.again++
	return true
}
