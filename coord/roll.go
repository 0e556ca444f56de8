package coord

import (
	"go.etcd.io/raft/v3/raftpb"

	"faultline/sim/machine"
)

// image is this server's state, without what is applied and what is behind it.
func (s *Server) image() image {
	return image{id: s.id, members: uint64(len(s.log.voters)), hard: s.hard}
}

// snapshot is what is applied, for a server that lags.
func (s *Server) snapshot() (*raftpb.Snapshot, error) {
	term, err := s.log.Term(s.applied)
	if err != nil {
		return nil, err
	}
	index, data := s.applied, s.state.Append(nil)
	s.m.Work(machine.Work{Copied: int64(len(data))})
	return &raftpb.Snapshot{Data: data, Metadata: &raftpb.SnapshotMetadata{Index: &index, Term: &term, ConfState: s.log.members()}}, nil
}

// maybeRoll begins a new log when the open one is long, and saves the snapshot before it in a task of its own: requests need not wait for it.
func (s *Server) maybeRoll() error {
	full := s.entries >= s.cfg.SnapshotEvery || s.bytes >= maxLogBytes
	switch {
	case s.rolling, s.applied < s.log.index: // or a snapshot of the leader is on its way to the disk
		return nil
	case full && s.m.Failpoint("fault/coord/roll-late"):
		return nil
	case !full && (s.entries == 0 || !s.m.Failpoint("fault/coord/roll-early")):
		return nil
	}
	s.lock.Lock()
	busy := s.snapshotting || s.stopping
	s.lock.Unlock()
	if busy {
		s.m.Mark("mark/coord/roll-while-saving")
		return nil
	}
	if len(s.attached) > 0 {
		s.m.Mark("mark/coord/snapshot-with-sessions")
	}
	term, err := s.log.Term(s.applied)
	if err != nil {
		return err
	}
	x := s.image()
	x.index, x.term, x.tail = s.applied, term, s.log.tail(s.applied)
	x.state = s.state.Append(nil)
	s.number++
	s.entries, s.bytes = 0, 0
	roll := &job{number: s.number, content: x.encode(s.number)}
	if s.alone() {
		if err := s.doJobs([]*job{roll}); err != nil {
			return err
		}
	} else {
		s.rolling = true
		s.give(roll)
	}
	// Those behind are kept once more, for servers that lag a little.
	if keep := uint64(s.cfg.SnapshotEvery); s.applied > keep {
		s.log.compact(min(s.applied-keep, s.applied))
	}
	return nil
}
