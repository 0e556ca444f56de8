package coord

import (
	"encoding/binary"
	"time"

	"faultline/coord/jute"
	"faultline/coord/tree"
)

// connect handles a connection's first packet: a new session, or one that goes on here.
func (s *Server) connect(r *request) error {
	c, ask := r.from, &r.connect
	if c.gone {
		return nil
	}
	if ask.LastZxid > s.tree.Zxid() {
		s.m.Mark("mark/coord/client-saw-more")
		// The client has seen a later state, so this one is not the one to show it. It may try another server.
		s.end(c, closesNow)
		return nil
	}
	if s.m.Failpoint("fault/coord/connect") {
		s.end(c, closesNow)
		return nil
	}
	answer := jute.ConnectReply{HasReadOnly: ask.HasReadOnly}
	if ask.SessionID == 0 {
		timeout := min(max(time.Duration(ask.Timeout)*time.Millisecond, s.cfg.minTimeout()), s.cfg.maxTimeout())
		var password [jute.PasswordLen]byte
		binary.BigEndian.PutUint64(password[:], s.passwords.Uint64())
		binary.BigEndian.PutUint64(password[8:], s.passwords.Uint64())
		txn := s.tree.DecideOpen(s.m.Now(), timeout, password)
		if err := s.apply(&txn); err != nil {
			return err
		}
		s.attach(c, txn.Session, timeout, true)
		answer.Timeout, answer.SessionID, answer.Password = int32(timeout.Milliseconds()), txn.Session, password[:]
		c.wrote = true
	} else if timeout, password, ok := s.tree.Session(ask.SessionID); ok && r.hasPassword && password == r.password {
		s.m.Mark("mark/coord/session-goes-on")
		if old := s.attached[ask.SessionID]; old != nil {
			s.m.Mark("mark/coord/session-moves")
			s.detach(old)
			s.end(old, closesNow)
		}
		s.attach(c, ask.SessionID, timeout, false)
		answer.Timeout, answer.SessionID, answer.Password = int32(timeout.Milliseconds()), ask.SessionID, password[:]
	} else {
		s.m.Mark("mark/coord/session-unknown")
		answer.Password = make([]byte, jute.PasswordLen)
		s.end(c, closesAfter)
	}
	s.touch(c)
	var mark int
	c.staged, mark = jute.BeginPacket(c.staged)
	c.staged = jute.EndPacket(answer.Append(c.staged), mark)
	return nil
}

// attach makes c the session's connection.
func (s *Server) attach(c *conn, session int64, timeout time.Duration, opened bool) {
	c.id = session
	s.attached[session] = c
	s.lock.Lock()
	defer s.lock.Unlock()
	c.session = session
	if opened {
		s.expiry.Add(session, timeout, s.m.Uptime())
		s.arm()
	} else {
		s.expiry.Touch(session, s.m.Uptime())
	}
}

// detach takes the session from its connection, with the watches that it left through it. Nothing more of the connection is executed.
func (s *Server) detach(c *conn) {
	c.gone = true
	if s.attached[c.id] == c {
		delete(s.attached, c.id)
		s.watches.Drop(c.id)
	}
}

// end says what becomes of a connection after the batch; nothing more of it is executed.
func (s *Server) end(c *conn, how ending) {
	c.gone = true
	c.end = max(c.end, how)
	s.touch(c)
}

// lost handles the end of a connection by the other side. The session lives on for its time-out.
func (s *Server) lost(c *conn) { s.detach(c) }

// closeSession ends a session for its client.
func (s *Server) closeSession(r *request) error {
	c := r.from
	txn, ok := s.tree.DecideClose(s.m.Now(), c.id, tree.TxnClose)
	if ok {
		s.detach(c)
		if err := s.endSession(&txn); err != nil {
			return err
		}
		c.wrote = true
	}
	s.reply(c, r, &jute.Reply{})
	s.end(c, closesAfter)
	return nil
}

// expire ends a session that is late, unless it was heard of in the meantime.
func (s *Server) expire(session int64) error {
	s.lock.Lock()
	late := s.expiry.Condemned(session)
	s.lock.Unlock()
	if !late {
		s.m.Mark("mark/coord/expiry-called-off")
		return nil
	}
	txn, ok := s.tree.DecideClose(s.m.Now(), session, tree.TxnExpire)
	if !ok {
		return nil
	}
	if c := s.attached[session]; c != nil {
		s.m.Mark("mark/coord/expired-while-connected")
		s.detach(c)
		s.end(c, closesNow)
	}
	err := s.endSession(&txn)
	if len(s.effects) > 0 {
		s.m.Mark("mark/coord/expired-with-ephemerals")
	}
	return err
}

func (s *Server) endSession(txn *tree.Txn) error {
	s.lock.Lock()
	s.expiry.Remove(txn.Session)
	s.lock.Unlock()
	return s.apply(txn)
}

// arm sets the timer to the next deadline. Under lock.
func (s *Server) arm() {
	at, ok := s.expiry.Next()
	if !ok || s.stopping || s.timer != nil && s.timerAt <= at {
		return
	}
	if s.timer != nil {
		s.timer.Stop()
	}
	s.timerAt = at
	s.timer = s.m.After(at-s.m.Uptime(), "coord/expire", s.checkDeadlines)
}

// checkDeadlines is what the timer does. A timer that fires early (its session was heard of) costs a look and is set anew.
func (s *Server) checkDeadlines() {
	s.m.Failpoint("fault/coord/expiry-late")
	s.lock.Lock()
	defer s.lock.Unlock()
	if s.stopping {
		return
	}
	s.timer = nil
	for _, id := range s.expiry.Check(s.m.Uptime()) {
		s.enqueue(request{kind: fromTimer, session: id})
	}
	s.arm()
}
