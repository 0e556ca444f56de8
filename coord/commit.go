package coord

import (
	"faultline/coord/jute"
	"faultline/coord/tree"
	"faultline/sim/machine"
)

// commit is the task that executes everything; see the package comment.
func (s *Server) commit() {
	for {
		s.lock.Lock()
		for len(s.queue) == 0 && !s.stopping {
			s.work.Wait()
		}
		if s.stopping {
			s.lock.Unlock()
			return
		}
		batch := s.queue
		s.queue, s.spare = s.spare[:0], nil
		s.lock.Unlock()

		s.m.Failpoint("fault/coord/execute-slow")
		err := s.execute(batch)
		if err == nil && s.store.pending() > 0 {
			err = s.makeDurable()
		}
		if err != nil {
			s.lock.Lock()
			s.stop(err)
			s.lock.Unlock()
			return
		}
		s.m.Failpoint("fault/coord/release-slow")
		s.release(batch)
		if err := s.maybeRoll(); err != nil {
			s.lock.Lock()
			s.stop(err)
			s.lock.Unlock()
			return
		}
	}
}

// execute applies a batch in memory and stages its output.
func (s *Server) execute(batch []request) error {
	work := machine.Work{Requests: len(batch), Syscalls: 1}
	for i := range batch {
		work.Copied += int64(batch[i].size)
	}
	s.m.Work(work)
	for i := range batch {
		if err := s.handle(&batch[i]); err != nil {
			return err
		}
	}
	return nil
}

// apply applies a decided transaction, appends it to the log and fires watches. An error is a bug or a damaged memory: what decide made does not fit.
func (s *Server) apply(txn *tree.Txn) error {
	effects, err := s.tree.Apply(txn, s.effects[:0])
	s.effects = effects
	if err != nil {
		return err
	}
	s.store.append(txn)
	s.traces = appendTrace(s.traces, txn, effects)
	for i := range effects {
		s.notices = s.watches.Fire(&effects[i], s.notices[:0])
		s.notify()
	}
	return nil
}

// notify stages the events of s.notices.
func (s *Server) notify() {
	for _, n := range s.notices {
		if c := s.attached[n.Session]; c != nil {
			s.m.Mark("mark/coord/watch-fired")
			var mark int
			s.touch(c)
			c.staged, mark = jute.BeginPacket(c.staged)
			ev := jute.Event{Type: n.Type, Path: n.Path}
			c.staged = jute.EndPacket(ev.Append(c.staged), mark)
		}
	}
}

// touch makes release look at the connection.
func (s *Server) touch(c *conn) {
	if !c.touched {
		c.touched = true
		s.touched = append(s.touched, c)
	}
}

// makeDurable syncs the batch's transactions; from here on they have happened.
func (s *Server) makeDurable() error {
	if s.m.Failpoint("fault/coord/slow-fsync") {
		s.m.Sleep(s.cfg.TickTime / 4)
	}
	if s.store.unsynced > 1 {
		s.m.Mark("mark/coord/group-commit")
	}
	s.m.Work(machine.Work{Summed: int64(s.store.pending()), Syscalls: 2})
	if err := s.store.commit(); err != nil {
		s.m.Mark("mark/coord/log-failed")
		return err
	}
	s.trace()
	return nil
}

// trace reports the transactions that became durable.
func (s *Server) trace() {
	for i := range s.traces {
		s.m.Trace(s.traces[i])
	}
	clear(s.traces)
	s.traces = s.traces[:0]
	s.store.traced = s.tree.Zxid()
}

// release lets the batch's output go.
func (s *Server) release(batch []request) {
	for _, c := range s.touched {
		switch {
		case c.wrote && s.m.Failpoint("fault/coord/drop-reply"), !c.wrote && s.m.Failpoint("fault/coord/drop-answer"):
			c.end = closesNow
		}
		c.wrote = false
	}
	s.lock.Lock()
	defer s.lock.Unlock()
	for i := range batch {
		if c := batch[i].from; c != nil {
			c.queued--
			c.unread -= batch[i].size
			c.room.Signal()
		}
	}
	clear(batch)
	if cap(batch) <= 4096 {
		s.spare = batch[:0]
	}
	for i, c := range s.touched {
		s.touched[i] = nil
		c.touched = false
		switch {
		case c.end == closesNow:
			c.kill()
		case c.dead:
		default:
			if len(c.staged) > 0 {
				if len(c.out) == 0 {
					c.out, c.staged = c.staged, c.out
				} else {
					c.out = append(c.out, c.staged...)
				}
			}
			if c.end == closesAfter && !c.finishing {
				// The client may be gone; then nothing else would ever end the write.
				c.finishing = true
				_ = c.net.SetWriteDeadline(s.m.Now().Add(s.cfg.maxTimeout()))
			}
			c.wake.Signal()
		}
		if c.staged = c.staged[:0]; cap(c.staged) > 64<<10 {
			c.staged = nil
		}
	}
	s.touched = s.touched[:0]
}

// maybeRoll begins a new log when the open one is long, and saves the snapshot before it in a task of its own: requests need not wait for it.
func (s *Server) maybeRoll() error {
	full := s.store.records >= s.cfg.SnapshotEvery || s.store.size >= maxLogBytes
	switch {
	case full && s.m.Failpoint("fault/coord/roll-late"):
		return nil
	case !full && (s.store.records == 0 || !s.m.Failpoint("fault/coord/roll-early")):
		return nil
	}
	s.lock.Lock()
	busy := s.snapshotting
	s.lock.Unlock()
	if busy {
		s.m.Mark("mark/coord/roll-while-saving")
		return nil
	}
	number := s.store.number + 1
	if err := s.store.begin(number, s.tree.Zxid()); err != nil {
		return err
	}
	content := encodeSnapshot(s.tree, nil, number)
	s.m.Work(machine.Work{Copied: int64(len(content)), Summed: int64(len(content))})
	s.lock.Lock()
	defer s.lock.Unlock()
	if s.stopping {
		return nil
	}
	s.snapshotting = true
	if len(s.attached) > 0 {
		s.m.Mark("mark/coord/snapshot-with-sessions")
	}
	s.spawn("coord/snapshot", func() {
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
	})
	return nil
}
