package coord

import (
	"faultline/coord/jute"
	"faultline/coord/replica"
	"faultline/sim/machine"
)

// commit is the task that executes everything; see the package comment.
func (s *Server) commit() {
	var letters []letter
	for {
		s.lock.Lock()
		for len(s.queue) == 0 && len(s.inbox) == 0 && !s.stopping {
			s.work.Wait()
		}
		if s.stopping {
			s.lock.Unlock()
			return
		}
		batch := s.queue
		s.queue, s.spare = s.spare[:0], nil
		letters, s.inbox = s.inbox, letters[:0]
		s.lock.Unlock()

		s.m.Failpoint("fault/coord/execute-slow")
		err := s.step(batch, letters)
		clear(letters)
		if err != nil {
			s.lock.Lock()
			s.stop(err)
			s.lock.Unlock()
			return
		}
	}
}

// step works off what arrived, and all that follows from it.
func (s *Server) step(batch []*request, letters []letter) error {
	s.take(batch)
	for i := range letters {
		if err := s.unfold(&letters[i]); err != nil {
			return err
		}
	}
	if err := s.proposeLate(); err != nil {
		return err
	}
	for {
		s.moved = false
		for _, c := range s.busy {
			s.pump(c)
		}
		s.submit()
		if err := s.drain(); err != nil {
			return err
		}
		if served := s.ask(); !served && !s.moved && !s.asks {
			break
		}
	}
	s.m.Failpoint("fault/coord/release-slow")
	s.release(batch)
	return s.maybeRoll()
}

// unfold works a letter off.
func (s *Server) unfold(l *letter) error {
	switch l.kind {
	case letterRaft:
		return s.receive(l.message)
	case letterForward:
		s.forwarded(l.body)
	case letterAsk:
		s.asked(l.peer, l.body)
	case letterTell:
		s.wasTold(l.body)
	case letterLink:
		s.rounds.Lost()
		if s.linkEpoch(l.peer) == 0 {
			s.raft().ReportSnapshot(l.peer, snapshotLost)
			s.raft().ReportUnreachable(l.peer)
		}
	case letterDisk:
		return s.done(l.job)
	case letterExpiry:
		s.expire(l.session)
	case letterPulse:
		return s.beat()
	}
	return nil
}

// take puts requests into the order of their connections.
func (s *Server) take(batch []*request) {
	if len(batch) == 0 {
		return
	}
	work := machine.Work{Served: len(batch), Syscalls: 1}
	for _, r := range batch {
		work.Copied += int64(r.size)
	}
	s.m.Work(work)
	for _, r := range batch {
		c := r.from
		switch {
		case r.kind == fromLost:
			s.lost(c)
			s.finished(r)
		case c.gone:
			s.finished(r)
		default:
			if r.kind == fromClient && r.confirms() {
				r.round = s.rounds.Join(c.id)
			}
			c.fifo = append(c.fifo, r)
			if !c.busy {
				c.busy = true
				s.busy = append(s.busy, c)
			}
		}
	}
}

// pump moves a connection's requests on, in their order: a write goes to the outbox behind other writes, a read waits for the writes before
// it and for its round.
func (s *Server) pump(c *conn) {
	for !c.gone && c.under < len(c.fifo) {
		r := c.fifo[c.under]
		switch {
		case r.kind == fromNew:
			if s.leader == 0 || !s.admit(r) {
				return
			}
			s.outbox.Add(r)
			c.under++
		case c.id == 0:
			return
		case r.writes():
			if s.leader == 0 {
				return
			}
			r.command = replica.Command{Kind: replica.Change, Session: c.id, Seat: c.seat, Steps: r.step[:]}
			switch r.op {
			case jute.OpCloseSession:
				r.command.Kind, r.command.Steps = replica.Close, nil
			case jute.OpMulti:
				r.command.Steps = r.steps
			}
			s.outbox.Add(r)
			c.under++
		case c.under > 0 || r.round > s.rounds.confirmed:
			return
		default:
			s.handle(r)
			if !c.gone {
				c.pop()
				s.finished(r)
			}
		}
	}
}

// finished gives a request back.
func (s *Server) finished(r *request) {
	if c := r.from; !c.lost {
		c.freed++
		c.freedBytes += r.size
		s.touch(c)
	}
	s.over = append(s.over, r)
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

// release lets the output go.
func (s *Server) release(batch []*request) {
	for _, c := range s.touched {
		switch {
		case c.wrote && s.m.Failpoint("fault/coord/drop-reply"), !c.wrote && len(c.staged) > 0 && s.m.Failpoint("fault/coord/drop-answer"):
			c.end = closesNow
		}
		c.wrote = false
	}
	kept := s.busy[:0]
	for _, c := range s.busy {
		if c.busy = len(c.fifo) > 0 && !c.gone; c.busy {
			kept = append(kept, c)
		}
	}
	clear(s.busy[len(kept):])
	s.busy = kept
	s.lock.Lock()
	defer s.lock.Unlock()
	if cap(batch) <= 4096 {
		clear(batch)
		s.spare = batch[:0]
	}
	s.reuse()
	for i, c := range s.touched {
		s.touched[i] = nil
		c.touched = false
		c.queued -= c.freed
		c.unread -= c.freedBytes
		if c.freed > 0 {
			c.room.Signal()
		}
		c.freed, c.freedBytes = 0, 0
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
			if len(c.out) > 0 || c.finishing {
				c.wake.Signal()
			}
		}
		if c.staged = c.staged[:0]; cap(c.staged) > 64<<10 {
			c.staged = nil
		}
	}
	s.touched = s.touched[:0]
}
