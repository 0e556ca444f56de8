package coord

import (
	"go.etcd.io/raft/v3/raftpb"

	"faultline/sim/machine"
)

// job is something for the disk task: it alone writes the log, so that a slow disk holds up what relies on it, and not the heartbeats, votes
// and reads of this server. Jobs are done in order; what waits meanwhile shares the next fsync.
type job struct {
	write     bool // hard, applied and entries become a record
	hard      hardState
	applied   uint64
	entries   []*raftpb.Entry
	responses []*raftpb.Message // may leave when the job is done

	// A snapshot: with number, a new log begins.
	number  uint64
	content []byte
	install *raftpb.Snapshot // it came from the leader, and must be durable by the end of the job; nil: it is our own, and may take its time
}

// give hands a job to the disk task.
func (s *Server) give(j *job) {
	s.jobs++
	s.lock.Lock()
	if !s.stopping {
		s.diskQueue = append(s.diskQueue, j)
		s.diskWork.Signal()
	}
	s.lock.Unlock()
}

// write is the disk task.
func (s *Server) writeDisk() {
	var jobs []*job
	for {
		s.lock.Lock()
		for _, j := range jobs {
			s.post(letter{kind: letterDisk, job: j})
		}
		for len(s.diskQueue) == 0 && !s.stopping {
			s.diskWork.Wait()
		}
		if s.stopping {
			s.lock.Unlock()
			return
		}
		clear(jobs)
		jobs, s.diskQueue = s.diskQueue, jobs[:0]
		s.lock.Unlock()
		if err := s.doJobs(jobs); err != nil {
			s.lock.Lock()
			s.stop(err)
			s.lock.Unlock()
			return
		}
	}
}

func (s *Server) doJobs(jobs []*job) error {
	for _, j := range jobs {
		if j.write {
			s.store.append(j.hard, j.applied, j.entries)
		}
		if j.number == 0 {
			continue
		}
		if err := s.makeDurable(); err != nil {
			return err
		}
		s.m.Work(machine.Work{Stored: int64(len(j.content)), Flushed: int64(len(j.content)), Summed: int64(len(j.content))})
		if j.install != nil {
			if err := saveSnapshot(s.m, s.cfg.DataDir, j.number, j.content); err != nil {
				return err
			}
		}
		if err := s.store.begin(j.number); err != nil {
			return err
		}
		if j.install != nil {
			removeBelow(s.m, s.cfg.DataDir, j.number)
			continue
		}
		s.lock.Lock()
		if !s.stopping {
			s.snapshotting = true
			s.spawn("coord/snapshot", func() { s.saveOwn(j.number, j.content) })
		}
		s.lock.Unlock()
	}
	return s.makeDurable()
}

// makeDurable syncs the records; what they promise may be told from here on.
func (s *Server) makeDurable() error {
	if s.store.pending() == 0 {
		return nil
	}
	if s.m.Failpoint("fault/coord/slow-fsync") {
		s.m.Sleep(s.cfg.TickTime / 4)
	}
	if s.store.unsynced > 1 {
		s.m.Mark("mark/coord/group-commit")
	}
	bytes := int64(s.store.pending())
	s.m.Work(machine.Work{Stored: bytes, Flushed: bytes, Summed: bytes, Syscalls: 2})
	err := s.store.commit()
	if err != nil {
		s.m.Mark("mark/coord/log-failed")
	}
	return err
}

// saveOwn saves a snapshot of our own beside the running log.
func (s *Server) saveOwn(number uint64, content []byte) {
	// Without the snapshot the logs stay and grow; the next roll tries again.
	switch {
	case s.m.Failpoint("fault/coord/snapshot-unsaved"):
	case saveSnapshot(s.m, s.cfg.DataDir, number, content) != nil:
		s.m.Mark("mark/coord/snapshot-failed")
	case !s.m.Failpoint("fault/coord/logs-kept"):
		removeBelow(s.m, s.cfg.DataDir, number)
	}
	s.lock.Lock()
	s.snapshotting = false
	s.lock.Unlock()
}
