package oracle

import (
	"hash/maphash"

	"faultline/sim/machine"
	"faultline/workloads/history"
)

// applied follows the transactions that the coordination service traces. A server that restarts may trace its last transactions for a second
// time; those are told from new ones by their zxid, by how many events of it came before, and by being the same. A transaction that comes again
// with another content is new: the service lost the first one and all after it.
type applied struct {
	machine     string
	incarnation int
	recent      []txEvent // the last events, in order
	again       int       // index in recent of the next event that may come again; len(recent): none
	// lost is the first transaction that was lost, 0 when none ever was. Whoever reports it sets it back.
	lost int64
}

// txEvent identifies an event of a transaction.
type txEvent struct {
	zxid int64
	sum  uint64
}

// recentKept is how many events a restarted server may trace again at most; it traces its last batch.
const recentKept = 4096

var txSeed = maphash.MakeSeed()

func sumOf(t *machine.Event) uint64 {
	return maphash.Comparable(txSeed, [4]any{t.Kind, t.Subject, t.Detail, t.A})
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
	if len(a.recent) > 0 && zxid < a.recent[0].zxid {
		return false // older than what is kept
	}
	this := txEvent{zxid, sumOf(&e.Trace)}
	for a.again < len(a.recent) && a.recent[a.again].zxid < zxid {
		a.again++
	}
	if a.again < len(a.recent) {
		if a.recent[a.again] == this {
			a.again++
			return false
		}
		a.lost = zxid
		a.recent = a.recent[:a.again]
	}
	if len(a.recent) >= 2*recentKept {
		n := copy(a.recent, a.recent[recentKept:])
		a.recent = a.recent[:n]
	}
	a.recent = append(a.recent, this)
	a.again = len(a.recent)
	return true
}
