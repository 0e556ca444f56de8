package coord

import (
	"faultline/coord/tree"
	"faultline/sim/machine"
)

// Every server traces every transaction that it applies, before it tells anybody. The servers do so one after the other, and one that starts anew
// traces again what it is not sure to have traced (what it has applied since it last wrote to its log); one that got the leader's state in
// place of its own leaves out what lies before. So whoever follows the trace takes each transaction where it is traced for the first
// time, by its zxid: these come in order and without a gap.
//
// The zxid is B of znode events and C of session events.

// trace reports a transaction that was applied: its effects, then the session's event.
func (s *Server) trace(txn *tree.Txn, effects []tree.Effect) {
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
		s.m.Trace(ev)
	}
	switch txn.Kind {
	case tree.TxnOpen:
		s.m.Trace(machine.Event{Kind: machine.SessionOpened, A: txn.Session, B: txn.Timeout * 1e6, C: txn.Zxid})
	case tree.TxnClose:
		s.m.Trace(machine.Event{Kind: machine.SessionClosed, A: txn.Session, C: txn.Zxid})
	case tree.TxnExpire:
		s.m.Trace(machine.Event{Kind: machine.SessionExpired, A: txn.Session, C: txn.Zxid})
	}
}
