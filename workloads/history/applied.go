package history

import (
	"hash/maphash"

	"faultline/sim/machine"
)

// Applied follows the transactions that the servers of the coordination service trace. Each server traces what it applies: one may be behind another, and one that
// starts anew may trace its last transactions a second time. The first trace of a transaction counts. What was traced before is told from what is new by
// zxid, by how many events of that transaction came before, and by being the same. A transaction that comes again with another content
// is new: the service lost the first one and all after it.
type Applied struct {
	// Lost is the first transaction that was lost, 0 when none ever was. Whoever reports it sets it back.
	Lost int64

	recent []txEvent // the last events, in order
	base   int       // events before these
	places []tracePlace
}

// tracePlace is how far a server has come in what was traced.
type tracePlace struct {
	machine     string
	incarnation int
	next        int // place of the next event that may come again, counted from the first of all
}

// txEvent identifies an event of a transaction.
type txEvent struct {
	zxid int64
	sum  uint64
}

// recentKept is how many events a server may be behind, at least, and still be followed event by event.
const recentKept = 4096

var txSeed = maphash.MakeSeed()

func sumOf(t *machine.Event) uint64 {
	return maphash.Comparable(txSeed, machine.Event{Kind: t.Kind, Subject: t.Subject, Detail: t.Detail, A: t.A})
}

// zxidOf is the transaction that an event belongs to, 0: it is no event of the coordination service, or does not say.
func zxidOf(t *machine.Event) int64 {
	switch t.Kind {
	case machine.ZnodeCreated, machine.ZnodeSet, machine.ZnodeDeleted:
		return t.B
	case machine.SessionOpened, machine.SessionClosed, machine.SessionExpired:
		return t.C
	}
	return 0
}

// place finds where a server stands.
func (a *Applied) place(who Who) *tracePlace {
	for i := range a.places {
		if p := &a.places[i]; p.machine == who.Machine {
			if p.incarnation != who.Incarnation {
				p.incarnation, p.next = who.Incarnation, 0
			}
			return p
		}
	}
	a.places = append(a.places, tracePlace{machine: who.Machine, incarnation: who.Incarnation})
	return &a.places[len(a.places)-1]
}

// Fresh reports whether what a server traced is seen for the first time. Events without zxid always are.
func (a *Applied) Fresh(who Who, t *machine.Event) bool {
	zxid := zxidOf(t)
	if zxid == 0 {
		return true
	}
	if len(a.recent) > 0 && zxid < a.recent[0].zxid {
		return false // older than what is kept
	}
	this := txEvent{zxid, sumOf(t)}
	p := a.place(who)
	at := max(p.next-a.base, 0)
	for at < len(a.recent) && a.recent[at].zxid < zxid {
		at++
	}
	if at < len(a.recent) {
		if a.recent[at] == this {
			p.next = a.base + at + 1
			return false
		}
		a.Lost = zxid
		a.recent = a.recent[:at]
	}
	if len(a.recent) >= 2*recentKept {
		n := copy(a.recent, a.recent[recentKept:])
		a.recent = a.recent[:n]
		a.base += recentKept
	}
	a.recent = append(a.recent, this)
	p.next = a.base + len(a.recent)
	return true
}
