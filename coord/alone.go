package coord

import "go.etcd.io/raft/v3/raftpb"

// A server that is alone is a quorum: what is durable here is agreed on, nobody else can lead, and there is nobody to ask. So the consensus library, whose
// bookkeeping costs more than all the rest of a commit, is left out, and so is the disk task: there are no heartbeats that a slow disk could hold up.
// Entries, log, snapshots, outbox and rounds are the same.

// alone tells that there are no other servers.
func (s *Server) alone() bool { return len(s.log.voters) == 1 }

// rule begins the life of a server that is alone: it leads, and what it had written before is agreed on.
func (s *Server) rule() error {
	s.hard.term, s.hard.vote = max(s.hard.term, 1), s.id
	s.term, s.leader, s.leading, s.ready = s.hard.term, s.id, true, true
	if s.log.last() > s.applied {
		s.m.Mark("mark/coord/recovered-untraced")
	}
	if err := s.apply(s.log.tail(s.applied)); err != nil {
		return err
	}
	if s.applied > s.log.index {
		s.log.compact(s.applied)
	}
	s.lock.Lock()
	defer s.lock.Unlock()
	if !s.stopping {
		s.expireFrom(s.m.Uptime())
	}
	return nil
}

// add makes an entry of a server that is alone. Nobody lags behind it, so none is kept once it is applied.
func (s *Server) add(data []byte) {
	n := len(s.fresh)
	if n == cap(s.fresh) {
		s.fresh = append(s.fresh, &raftpb.Entry{Term: new(uint64), Index: new(uint64)})
	} else if s.fresh = s.fresh[:n+1]; s.fresh[n] == nil {
		s.fresh[n] = &raftpb.Entry{Term: new(uint64), Index: new(uint64)}
	}
	e := s.fresh[n]
	*e.Term, *e.Index, e.Data = s.hard.term, s.applied+uint64(n)+1, append(e.Data[:0], data...)
	s.entries++
	s.bytes += int64(len(data))
}

// commitAlone makes the entries that were added durable, and applies them.
func (s *Server) commitAlone() error {
	if len(s.fresh) == 0 {
		return nil
	}
	s.hard.commit = s.applied
	s.store.append(s.hard, s.applied, s.fresh)
	if err := s.makeDurable(); err != nil {
		return err
	}
	err := s.apply(s.fresh)
	s.log.reset(s.applied, s.hard.term)
	s.fresh = s.fresh[:0]
	if s.bytes > maxEntryBytes {
		s.fresh = nil // their memory may be large
	}
	return err
}
