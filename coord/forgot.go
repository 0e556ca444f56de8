package coord

import (
	"bytes"
	"fmt"

	"go.etcd.io/raft/v3/raftpb"

	"faultline/coord/replica"
	"faultline/coord/tree"
)

// forgot tells, by what the leader counts on, or a follower has, that this server does not have what it once acknowledged: its disk was replaced, restored or decayed, and who knows what else it promised. It may not
// take part any more (and the library takes it for a bug of its own and panics): somebody must look.
func (s *Server) forgot(m *raftpb.Message) error {
	switch m.GetType() {
	case raftpb.MsgHeartbeat:
		if m.GetCommit() > s.log.last() {
			return s.lostDisk("server %d counts on entries up to %d, the last one here is %d", m.GetFrom(), m.GetCommit(), s.log.last())
		}
	case raftpb.MsgAppResp: // a leader who lost its disk was elected by others who lost theirs
		if s.leading && m.GetTerm() == s.hard.term && !m.GetReject() && m.GetIndex() > s.log.last() {
			return s.lostDisk("server %d counts on entries up to %d, the last one here is %d", m.GetFrom(), m.GetIndex(), s.log.last())
		}
	case raftpb.MsgApp:
		for _, e := range m.GetEntries() {
			if term, err := s.log.Term(e.GetIndex()); e.GetIndex() <= s.hard.commit && err == nil && term != e.GetTerm() {
				return s.lostDisk("entry %d, which is committed, is of term %d here and of term %d at server %d", e.GetIndex(), term, e.GetTerm(), m.GetFrom())
			}
		}
	}
	return nil
}

// notMine tells, by an entry of the log that has commands of this server in it, that they are of a life that it knows nothing of: it numbers its lives on its disk, so one that lost that counts anew, and would take commands of
// an earlier life for those that it is asked for now. The first commands of this life prove that it is the only one of its number.
func (s *Server) notMine(entry []byte) error {
	return replica.Batches(entry, func(b *replica.Batch) error {
		switch {
		case b.Origin != s.id || b.Incarnation < s.incarnation || s.proved:
			return nil
		case b.Incarnation == s.incarnation:
			var asked []byte
			for i := range uint64(b.Count) {
				if r := s.outbox.At(b.First + i); r != nil {
					asked = r.command.Append(asked)
				}
			}
			if s.proved = bytes.Equal(asked, b.Commands); s.proved {
				return nil
			}
		}
		return s.lostDisk("the log has commands of its life %d, in its life %d it did not send them", b.Incarnation, s.incarnation)
	})
}

func (s *Server) lostDisk(what string, args ...any) error {
	return fmt.Errorf("%w: server %d of %d does not have what it acknowledged: %s: a server that lost its disk must not rejoin under its number", tree.ErrCorrupt, s.id, len(s.cfg.Peers), fmt.Sprintf(what, args...))
}
