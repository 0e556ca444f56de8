package coord

import "go.etcd.io/raft/v3/raftpb"

// A server that is alone is a quorum: what is durable here is agreed on, nobody else can lead, and there is nobody to ask. So the consensus library, whose
// bookkeeping costs more than all the rest of a commit, is left out, and nothing else: entries, log, disk task, outbox and rounds are the same.

// alone tells that there are no other servers.
func (s *Server) alone() bool { return len(s.log.voters) == 1 }

// rule begins the life of a server that is alone: it leads, and what it had written before is agreed on.
func (s *Server) rule() error {
	s.hard.term, s.hard.vote = max(s.hard.term, 1), s.id
	s.term, s.leader, s.leading, s.ready = s.hard.term, s.id, true, true
	if err := s.apply(s.log.tail(s.applied)); err != nil {
		return err
	}
	s.lock.Lock()
	defer s.lock.Unlock()
	if !s.stopping {
		s.expireFrom(s.m.Uptime())
	}
	return nil
}

// add puts an entry into the log of a server that is alone; it is applied when it is durable.
func (s *Server) add(data []byte) error {
	at := &struct {
		entry       raftpb.Entry
		term, index uint64
	}{term: s.hard.term, index: s.log.last() + 1}
	at.entry.Term, at.entry.Index, at.entry.Data = &at.term, &at.index, append([]byte(nil), data...)
	entries := []*raftpb.Entry{&at.entry}
	if err := s.log.append(entries); err != nil {
		return err
	}
	s.entries++
	s.bytes += int64(len(data))
	s.hard.commit = s.applied
	s.give(&job{write: true, hard: s.hard, applied: s.applied, entries: entries})
	return nil
}
