package coord

import (
	"fmt"
	"time"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"

	"faultline/coord/replica"
	"faultline/coord/tree"
	"faultline/sim/machine"
)

// replication is what the commit task knows of the ensemble and of the log.
type replication struct {
	node    *raft.RawNode // nil: alone
	log     *raftLog
	state   *replica.State
	applied uint64 // last entry that is applied
	hard    hardState
	elector *elector
	jobs    int    // given to the disk task and not done
	number  uint64 // of the newest log, begun or about to be
	rolling bool   // a roll is given and not done
	entries int    // given since the last roll
	bytes   int64  // of these

	leader     uint64 // 0: none is known
	leading    bool
	term       uint64        // of leader and leading
	since      time.Duration // when leader changed
	ready      bool          // leading: the log is applied up to an entry of this term
	late       []int64       // leading: sessions whose end is to be proposed
	expireUpTo uint64        // leading: entry of the latest such end
	outbox     outbox
	proved     bool // commands of this life are applied: no other life has its number
	rounds     rounds
	queries    queries // leading
	commands   []byte  // reused
	entry      []byte  // leading: batches to propose
	asks       bool    // the library may ask for something
	moved      bool    // requests may go on that could not before

	over  []*request      // done, for reuse
	fresh []*raftpb.Entry // alone: not durable yet

	own  func(origin, incarnation, seq uint64) *replica.Command
	show func(*replica.Outcome) error
}

// replicate sets the commit task up with what the disk had.
func (s *Server) replicate(r *recovered) error {
	s.state, s.applied, s.hard, s.number = r.state, r.index, r.hard, s.store.number
	s.log = &r.log
	s.log.hard = r.hard
	for i := range s.cfg.Peers {
		s.log.voters = append(s.log.voters, uint64(i+1))
	}
	s.log.snapshot = s.snapshot
	now := s.m.Uptime()
	s.since = now
	s.elector = newElector(2*s.cfg.TickTime, s.m.Rand("coord/elect").Int64N, now)
	s.outbox.first = 1
	s.rounds.open = s.incarnation<<32 + 1 // so that no answer to an earlier life is taken for one to this
	s.own, s.show = s.ownCommand, s.outcome
	if s.alone() {
		return nil
	}
	if s.hard.commit > s.log.last() {
		return fmt.Errorf("%w: entries up to %d are committed, the last one here is %d", tree.ErrCorrupt, s.hard.commit, s.log.last())
	}
	var err error
	s.node, err = newNode(s.id, s.log, s.applied)
	return err
}

const snapshotLost = raft.SnapshotFailure

// pulse is how often a server looks at the clock, and a leader lets hear of itself.
func (s *Server) pulse() time.Duration { return s.cfg.TickTime / 4 }

// propose puts an entry into the log, if this server leads.
func (s *Server) propose(entry []byte) {
	if s.alone() {
		s.add(entry)
		return
	}
	// The library copies the entry (appendEntry clones it), so its memory can be used again. An error says that this server leads no more.
	_ = s.raft().Propose(entry)
}

// beat does what the clock asks for. A server that is alone has no use for it but to begin.
func (s *Server) beat() error {
	if s.alone() {
		return s.rule()
	}
	now := s.m.Uptime()
	campaign, check := s.elector.Due(now)
	switch {
	case campaign:
		_ = s.raft().Campaign()
	case check:
		_ = s.raft().Step(local(raftpb.MsgCheckQuorum))
	}
	if s.leading {
		_ = s.raft().Step(local(raftpb.MsgBeat))
	}
	if s.rounds.Unanswered(now, s.pulse()) {
		s.rounds.Lost()
	}
	s.lock.Lock()
	defer s.lock.Unlock()
	s.watchLinks(now)
	if s.deserted(now) {
		for _, c := range s.conns {
			c.kill()
		}
	}
	if !s.stopping {
		wait := max(min(s.pulse(), s.elector.Next()-now), s.pulse()/8)
		s.m.After(wait, "coord/pulse", func() {
			s.lock.Lock()
			s.post(letter{kind: letterPulse})
			s.lock.Unlock()
		})
	}
	return nil
}

// deserted tells that clients had better go to another server: this one knows no leader, or the leader does not answer.
func (s *Server) deserted(now time.Duration) bool {
	return s.leader == 0 && now > s.since+2*s.cfg.TickTime || s.rounds.Overdue(now, 4*s.cfg.TickTime)
}

// receive takes a consensus message of another server. An error says that this one must not go on, see forgot.
func (s *Server) receive(m *raftpb.Message) error {
	now := s.m.Uptime()
	switch m.GetType() {
	case raftpb.MsgVote, raftpb.MsgPreVote:
		if s.elector.Leased(now) {
			return nil
		}
	case raftpb.MsgApp, raftpb.MsgHeartbeat, raftpb.MsgSnap:
		if m.GetTerm() >= s.hard.term {
			s.elector.Heard(now)
			if err := s.forgot(m); err != nil {
				return err
			}
		}
	case raftpb.MsgAppResp:
		if err := s.forgot(m); err != nil {
			return err
		}
	}
	// An error says that the message is of no use here: it is lost, as messages may be.
	_ = s.raft().Step(m)
	return nil
}

// raft is the library's state machine, for a call that may make it ask for something.
func (s *Server) raft() *raft.RawNode {
	s.asks = true
	return s.node
}

// drain does what the library asks for until it asks for nothing.
func (s *Server) drain() error {
	if s.alone() {
		return s.commitAlone()
	}
	for s.asks {
		s.asks = false
		rd := s.node.Ready()
		var lost []*raftpb.Message
		for _, m := range rd.Messages {
			switch m.GetType() {
			case raftpb.MsgStorageAppend:
				if err := s.persist(m); err != nil {
					return err
				}
			case raftpb.MsgStorageApply:
				// After the roles are known, below.
			default:
				if ok := s.send(m); !ok || m.GetType() == raftpb.MsgSnap {
					lost = append(lost, m)
				}
			}
		}
		s.role(rd.SoftState)
		for _, m := range rd.Messages {
			if m.GetType() != raftpb.MsgStorageApply {
				continue
			}
			if err := s.apply(m.GetEntries()); err != nil {
				return err
			}
			for _, done := range m.GetResponses() {
				_ = s.node.Step(done) // only moves a mark: the library asks for nothing after it
			}
		}
		for _, x := range rd.ReadStates {
			s.tell(x.RequestCtx, max(x.Index, s.expireUpTo))
		}
		for _, m := range lost {
			s.unsent(m)
		}
	}
	return nil
}

// unsent tells the library what became of a message that it would wait for.
func (s *Server) unsent(m *raftpb.Message) {
	if m.GetType() == raftpb.MsgSnap {
		// Whether it arrives shows with the next message: the link keeps the order.
		status := raft.SnapshotFinish
		if s.linkEpoch(m.GetTo()) == 0 {
			status = raft.SnapshotFailure
		}
		s.raft().ReportSnapshot(m.GetTo(), status)
		return
	}
	s.raft().ReportUnreachable(m.GetTo())
}

// role takes note of who leads.
func (s *Server) role(ss *raft.SoftState) {
	leader, leading := s.leader, s.leading
	if ss != nil {
		leader, leading = ss.Lead, ss.RaftState == raft.StateLeader
	}
	if leader == s.leader && leading == s.leading && s.term == s.hard.term {
		return
	}
	now := s.m.Uptime()
	if leading != s.leading || leading && s.term != s.hard.term {
		s.elector.Leads(leading, now)
		s.queries.Reset()
		s.ready, s.expireUpTo, s.late, s.entry = false, 0, s.late[:0], s.entry[:0]
		s.lock.Lock()
		s.expireNobody()
		if leading && !s.stopping {
			s.expireFrom(now)
		}
		s.lock.Unlock()
		if leading {
			s.m.Trace(machine.Event{Kind: machine.CoordLeads, A: int64(s.hard.term)})
		}
	}
	if leader != s.leader {
		s.since = now
	}
	s.leader, s.leading, s.term, s.moved = leader, leading, s.hard.term, true
	s.rounds.Lost()
}

// linkEpoch tells the connections to a peer apart; 0: there is none.
func (s *Server) linkEpoch(id uint64) uint64 {
	s.lock.Lock()
	defer s.lock.Unlock()
	for _, p := range s.peers {
		if p.id == id && p.nc != nil {
			return p.epoch
		}
	}
	return 0
}

// respond hands out messages that waited for the disk or for what was applied.
func (s *Server) respond(messages []*raftpb.Message) {
	for _, m := range messages {
		if m.GetTo() == s.id {
			_ = s.raft().Step(m)
			continue
		}
		if m.GetType() == raftpb.MsgVoteResp && !m.GetReject() {
			s.elector.Voted(s.m.Uptime())
		}
		s.send(m)
	}
}

// persist hands what must be durable to the disk task. What the agreed index alone changes need not be: it rides with the next record.
func (s *Server) persist(m *raftpb.Message) error {
	j := &job{responses: m.GetResponses()}
	if m.Term != nil {
		hard := hardState{m.GetTerm(), m.GetVote(), m.GetCommit()}
		j.write = hard.term != s.hard.term || hard.vote != s.hard.vote
		s.hard = hard
	}
	snap := m.GetSnapshot()
	if snap != nil {
		s.log.reset(snap.GetMetadata().GetIndex(), snap.GetMetadata().GetTerm())
	}
	if err := s.log.append(m.GetEntries()); err != nil {
		return err
	}
	s.entries += len(m.GetEntries())
	for _, e := range m.GetEntries() {
		s.bytes += int64(len(e.GetData()))
	}
	switch {
	case snap != nil:
		s.number++
		x := s.image()
		x.index, x.term = snap.GetMetadata().GetIndex(), snap.GetMetadata().GetTerm()
		x.state, x.tail = snap.GetData(), m.GetEntries()
		j.install, j.number, j.content = snap, s.number, x.encode(s.number)
	case len(m.GetEntries()) > 0 || j.write:
		j.write, j.hard, j.applied, j.entries = true, s.hard, s.applied, m.GetEntries()
	case s.jobs == 0:
		s.respond(j.responses) // there is nothing to write and nothing that they may not overtake
		return nil
	case len(j.responses) == 0:
		return nil
	}
	s.give(j)
	return nil
}

// done takes a job that the disk task has finished.
func (s *Server) done(j *job) error {
	s.jobs--
	if j.install != nil {
		if err := s.replace(j.install); err != nil {
			return err
		}
	} else if j.number != 0 {
		s.rolling = false
	}
	s.respond(j.responses)
	return nil
}
