package coord

import (
	"encoding/binary"
	"time"

	"faultline/coord/jute"
	"faultline/coord/replica"
	"faultline/coord/tree"
)

// admit turns a connection's first packet into a command: a new session, or one that goes on here. false: it is refused.
func (s *Server) admit(r *request) bool {
	c, ask := r.from, &r.connect
	switch {
	case s.m.Failpoint("fault/coord/connect"):
		s.end(c, closesNow)
		return false
	case ask.SessionID != 0 && r.hasPassword:
		r.command = replica.Command{Kind: replica.Attach, Session: ask.SessionID, Password: r.password}
	case ask.SessionID != 0:
		s.refuse(c, ask)
		return false
	case ask.LastZxid > s.state.Tree.Zxid():
		s.end(c, closesNow) // see welcome
		return false
	default:
		timeout := min(max(time.Duration(ask.Timeout)*time.Millisecond, s.cfg.minTimeout()), s.cfg.maxTimeout())
		r.command = replica.Command{Kind: replica.Open, Timeout: timeout.Milliseconds()}
		binary.BigEndian.PutUint64(r.command.Password[:], s.passwords.Uint64())
		binary.BigEndian.PutUint64(r.command.Password[8:], s.passwords.Uint64())
	}
	return true
}

// welcome answers a connection's first packet.
func (s *Server) welcome(r *request, o *replica.Outcome) {
	c, ask := r.from, &r.connect
	switch {
	case c.gone:
	case o.Fenced:
		s.refuse(c, ask)
	case ask.LastZxid > s.state.Tree.Zxid():
		s.m.Mark("mark/coord/client-saw-more")
		// The client has seen a later state, so this one is not the one to show it. It may try another server.
		s.end(c, closesNow)
	default:
		if o.Command.Kind == replica.Attach {
			s.m.Mark("mark/coord/session-goes-on")
		}
		c.id, c.seat = o.Session, o.Seat
		s.attached[o.Session] = c
		s.lock.Lock()
		c.session = o.Session
		s.lock.Unlock()
		c.wrote = true
		s.greetClient(c, &jute.ConnectReply{HasReadOnly: ask.HasReadOnly, Timeout: int32(o.Timeout.Milliseconds()), SessionID: o.Session, Password: o.Command.Password[:]})
	}
}

// refuse tells a client that its session is gone.
func (s *Server) refuse(c *conn, ask *jute.ConnectRequest) {
	s.m.Mark("mark/coord/session-unknown")
	s.greetClient(c, &jute.ConnectReply{HasReadOnly: ask.HasReadOnly, Password: make([]byte, jute.PasswordLen)})
	s.end(c, closesAfter)
}

func (s *Server) greetClient(c *conn, answer *jute.ConnectReply) {
	s.touch(c)
	var mark int
	c.staged, mark = jute.BeginPacket(c.staged)
	c.staged = jute.EndPacket(answer.Append(c.staged), mark)
}

// detach takes the session from its connection, with the watches that it left through it. Nothing more of the connection is executed, but for what
// is in the outbox.
func (s *Server) detach(c *conn) {
	c.gone = true
	if s.attached[c.id] == c {
		delete(s.attached, c.id)
		s.watches.Drop(c.id)
	}
	for _, r := range c.fifo[c.under:] {
		s.finished(r)
	}
	c.fifo, c.under = nil, 0
}

// end says what becomes of a connection now; nothing more of it is executed.
func (s *Server) end(c *conn, how ending) {
	s.detach(c)
	c.end = max(c.end, how)
	s.touch(c)
}

// lost handles the end of a connection by the other side. The session lives on for its time-out.
func (s *Server) lost(c *conn) {
	s.detach(c)
	c.lost = true
}

// hearOf notes at the leader that sessions were heard of, wherever their clients are connected.
func (s *Server) hearOf(sessions []int64) {
	s.lock.Lock()
	defer s.lock.Unlock()
	if s.expiry == nil {
		return
	}
	now := s.m.Uptime()
	for _, id := range sessions {
		s.expiry.Touch(id, now)
	}
}

// expireFrom begins to decide who is late: this server leads from now on. Every session's time-out begins anew. Under lock.
func (s *Server) expireFrom(now time.Duration) {
	s.expiry = tree.NewExpiry(s.cfg.TickTime / 10)
	for _, id := range s.state.Tree.Sessions() {
		s.m.Mark("mark/coord/recovered-session")
		timeout, _, _ := s.state.Tree.Session(id)
		s.expiry.Add(id, timeout, now)
	}
	s.arm()
}

// expireNobody ends that. Under lock.
func (s *Server) expireNobody() {
	s.expiry = nil
	if s.timer != nil {
		s.timer.Stop()
		s.timer = nil
	}
}

// watchOver keeps the leader's list of sessions.
func (s *Server) watchOver(o *replica.Outcome) {
	if !s.leading || o.Txn == nil || o.Txn.Kind == tree.TxnChange {
		return
	}
	s.lock.Lock()
	defer s.lock.Unlock()
	if s.expiry == nil {
		return
	}
	if o.Txn.Kind == tree.TxnOpen {
		s.expiry.Add(o.Session, o.Timeout, s.m.Uptime())
		s.arm()
	} else {
		s.expiry.Remove(o.Session)
	}
}

// expire takes a session that is late, unless it was heard of in the meantime. Who speaks for it from now on comes too late; see rounds.
func (s *Server) expire(session int64) {
	s.lock.Lock()
	late := s.expiry != nil && s.expiry.Condemned(session)
	if late {
		s.expiry.Remove(session)
	}
	s.lock.Unlock()
	if !late {
		s.m.Mark("mark/coord/expiry-called-off")
		return
	}
	s.late = append(s.late, session)
}

// proposeLate proposes the end of sessions that are late.
func (s *Server) proposeLate() error {
	if len(s.late) == 0 {
		return nil
	}
	if !s.leading {
		s.late = s.late[:0] // whoever leads decides
		return nil
	}
	s.propose(replica.ExpireEntry(s.m.Now().UnixMilli(), s.late))
	s.late = s.late[:0]
	if err := s.drain(); err != nil {
		return err
	}
	if s.leading {
		s.expireUpTo = s.log.last()
	}
	return nil
}

// arm sets the timer to the next deadline. Under lock.
func (s *Server) arm() {
	if s.expiry == nil || s.stopping {
		return
	}
	at, ok := s.expiry.Next()
	if !ok || s.timer != nil && s.timerAt <= at {
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
	if s.stopping || s.expiry == nil {
		return
	}
	s.timer = nil
	for _, id := range s.expiry.Check(s.m.Uptime()) {
		s.post(letter{kind: letterExpiry, session: id})
	}
	s.arm()
}
