package coord

import (
	"encoding/binary"
	"fmt"

	"faultline/coord/tree"
	"faultline/sim/machine"
)

// Every applied transaction is traced once it is durable and before anybody is told. A crash can fall between the two, so a record of the
// log says up to which transaction the server had traced when it was written, and a restarted server traces what is beyond that: at most the
// last batch, some of it perhaps for the second time. Whoever follows the trace over restarts skips transactions that it has seen.
//
// The zxid is B of znode events and C of session events.

// appendTrace appends the events of a transaction: its effects, then the session's.
func appendTrace(events []machine.Event, txn *tree.Txn, effects []tree.Effect) []machine.Event {
	for i := range effects {
		e := &effects[i]
		ev := machine.Event{Subject: e.Path, Detail: e.Data, A: e.Owner, B: txn.Zxid}
		switch e.Kind {
		case tree.Create:
			ev.Kind = machine.ZnodeCreated
		case tree.Set:
			ev.Kind, ev.A = machine.ZnodeSet, int64(e.Stat.Version)
		case tree.Delete:
			ev.Kind = machine.ZnodeDeleted
		}
		events = append(events, ev)
	}
	switch txn.Kind {
	case tree.TxnOpen:
		events = append(events, machine.Event{Kind: machine.SessionOpened, A: txn.Session, B: txn.Timeout * 1e6, C: txn.Zxid})
	case tree.TxnClose:
		events = append(events, machine.Event{Kind: machine.SessionClosed, A: txn.Session, C: txn.Zxid})
	case tree.TxnExpire:
		events = append(events, machine.Event{Kind: machine.SessionExpired, A: txn.Session, C: txn.Zxid})
	}
	return events
}

// dropTraced removes the events of transactions up to the zxid.
func dropTraced(events []machine.Event, zxid int64) []machine.Event {
	n := 0
	for n < len(events) && zxidOf(&events[n]) <= zxid {
		n++
	}
	return events[n:]
}

func zxidOf(e *machine.Event) int64 {
	if e.C != 0 {
		return e.C
	}
	return e.B
}

var tracedKinds = [...]string{machine.ZnodeCreated, machine.ZnodeSet, machine.ZnodeDeleted, machine.SessionOpened, machine.SessionClosed, machine.SessionExpired}

// appendEvents encodes events that are not traced yet, for a snapshot.
func appendEvents(b []byte, events []machine.Event) []byte {
	b = binary.AppendUvarint(b, uint64(len(events)))
	for i := range events {
		e := &events[i]
		for k, kind := range tracedKinds {
			if kind == e.Kind {
				b = append(b, byte(k))
			}
		}
		for _, s := range [...]string{e.Subject, e.Detail} {
			b = binary.AppendUvarint(b, uint64(len(s)))
			b = append(b, s...)
		}
		for _, v := range [...]int64{e.A, e.B, e.C} {
			b = binary.AppendVarint(b, v)
		}
	}
	return b
}

// decodeEvents reads what appendEvents wrote and returns the rest of b.
func decodeEvents(b []byte) (events []machine.Event, rest []byte, err error) {
	bad := fmt.Errorf("%w: events of a snapshot", tree.ErrCorrupt)
	count, n := binary.Uvarint(b)
	if n <= 0 || count > uint64(len(b)) {
		return nil, nil, bad
	}
	b = b[n:]
	for range count {
		if len(b) < 1 || int(b[0]) >= len(tracedKinds) {
			return nil, nil, bad
		}
		e := machine.Event{Kind: tracedKinds[b[0]]}
		b = b[1:]
		for _, s := range [...]*string{&e.Subject, &e.Detail} {
			size, n := binary.Uvarint(b)
			if n <= 0 || size > uint64(len(b)-n) {
				return nil, nil, bad
			}
			*s, b = string(b[n:n+int(size)]), b[n+int(size):]
		}
		for _, v := range [...]*int64{&e.A, &e.B, &e.C} {
			x, n := binary.Varint(b)
			if n <= 0 {
				return nil, nil, bad
			}
			*v, b = x, b[n:]
		}
		events = append(events, e)
	}
	return events, b, nil
}
