package coord

import (
	"fmt"

	"go.etcd.io/raft/v3/raftpb"

	"faultline/coord/jute"
	"faultline/coord/replica"
	"faultline/sim/machine"
)

// apply works off entries that are agreed on and durable here. Every server does, and each traces what it applies, before it tells anybody.
func (s *Server) apply(entries []*raftpb.Entry) error {
	for _, e := range entries {
		if !s.proved && !s.alone() {
			if err := s.notMine(e.GetData()); err != nil {
				return err
			}
		}
		if err := s.state.Apply(e.GetData(), s.own, s.show); err != nil {
			return fmt.Errorf("apply entry %d: %w", e.GetIndex(), err)
		}
		s.applied = e.GetIndex()
		s.ready = s.ready || s.leading && e.GetTerm() == s.hard.term
	}
	s.moved = true
	return nil
}

// ownCommand finds a command of ours that needs no decoding.
func (s *Server) ownCommand(origin, incarnation, seq uint64) *replica.Command {
	if origin == s.id && incarnation == s.incarnation {
		if r := s.outbox.At(seq); r != nil {
			return &r.command
		}
	}
	return nil
}

// outcome does what a command that was applied means on this server.
func (s *Server) outcome(o *replica.Outcome) error {
	var r *request
	if o.Origin == s.id && o.Incarnation == s.incarnation {
		r = s.outbox.At(o.Seq)
	}
	if o.Txn != nil {
		if o.Origin == 0 && len(o.Effects) > 0 {
			s.m.Mark("mark/coord/expired-with-ephemerals")
		}
		s.trace(o.Txn, o.Effects)
	}
	if !o.Fenced {
		if c := s.attached[o.Session]; c != nil && c.seat != o.Seat {
			// The session ended, or went on at another connection.
			s.detach(c)
			switch {
			case o.Seat != 0:
				s.m.Mark("mark/coord/session-moves")
			case o.Origin == 0:
				s.m.Mark("mark/coord/expired-while-connected")
			}
			if r == nil || r.from != c {
				s.end(c, closesNow)
			}
		}
	}
	s.watchOver(o)
	for i := range o.Effects {
		s.notices = s.watches.Fire(&o.Effects[i], s.notices[:0])
		s.notify()
	}
	if r != nil {
		s.answer(r, o)
		s.outbox.Through(o.Seq, s.finished)
	}
	return nil
}

// answer tells a client of this server what became of its command.
func (s *Server) answer(r *request, o *replica.Outcome) {
	c := r.from
	switch {
	case c.lost:
		return
	case r.kind == fromNew:
		s.welcome(r, o)
	case o.Fenced:
		s.end(c, closesNow) // the session is gone, or at another connection: this one has nothing to hear any more
	case o.Command.Kind == replica.Close:
		s.reply(c, r, &jute.Reply{})
		c.wrote = true
		s.end(c, closesAfter)
	case c.gone:
		return
	case r.op == jute.OpMulti:
		if o.Code != jute.OK {
			s.m.Mark("mark/coord/multi-refused")
			s.markRefusal(o.Code)
		}
		s.changedAll(r, o)
	default:
		s.markRefusal(o.Code)
		reply := jute.Reply{Code: o.Code}
		if len(o.Effects) > 0 {
			reply.Path, reply.Stat = o.Effects[0].Path, o.Effects[0].Stat
		}
		c.wrote = c.wrote || o.Txn != nil
		s.reply(c, r, &reply)
	}
	if len(c.fifo) > 0 && c.fifo[0] == r {
		c.pop()
		c.under--
	}
}

// markRefusal tells refused changes apart.
func (s *Server) markRefusal(code jute.Code) {
	switch code {
	case jute.BadVersion:
		s.m.Mark("mark/coord/bad-version")
	case jute.NodeExists:
		s.m.Mark("mark/coord/node-exists")
	}
}

// changedAll replies to a multi.
func (s *Server) changedAll(r *request, o *replica.Outcome) {
	results := s.results[:0]
	next := 0 // effect of the next step that is no check
	for i := range r.steps {
		result := jute.StepResult{Op: r.steps[i].Op}
		switch {
		case o.Code != jute.OK:
			result.Op = jute.OpError
			if i == o.Refused {
				result.Code = o.Code
			} else if i > o.Refused {
				result.Code = jute.RuntimeInconsistency
			}
		case result.Op != jute.OpCheck:
			result.Path, result.Stat = o.Effects[next].Path, o.Effects[next].Stat
			next++
		}
		results = append(results, result)
	}
	r.from.wrote = r.from.wrote || o.Txn != nil
	s.reply(r.from, r, &jute.Reply{Results: results})
	clear(results)
	s.results = results[:0]
}

// replace takes the leader's state in place of ours, which was too far behind. What happened in between is not known here, so clients connect
// anew: then they are told what changed at their watches, and their open requests are settled.
func (s *Server) replace(snap *raftpb.Snapshot) error {
	state, err := replica.Decode(snap.GetData())
	if err != nil {
		return fmt.Errorf("snapshot of the leader at entry %d: %w", snap.GetMetadata().GetIndex(), err)
	}
	s.m.Work(machine.Work{Copied: int64(len(snap.GetData()))})
	s.state, s.applied, s.moved = state, snap.GetMetadata().GetIndex(), true
	s.lock.Lock()
	for _, c := range s.conns {
		c.kill()
	}
	s.lock.Unlock()
	through := state.Seq(s.id, s.incarnation)
	s.proved = s.proved || through > 0 // or they are another life's: a snapshot does not tell
	s.outbox.Through(through, s.finished)
	return nil
}
