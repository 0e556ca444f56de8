package coord

import (
	"encoding/binary"
	"time"

	"faultline/coord/jute"
	"faultline/coord/packed"
)

// A read must see all that was acknowledged to anybody before it arrived, and so must a ping, since it extends what its client may rely on.
//
// What arrives at a server joins the open round. When no round is under way the open one is closed and the leader is asked, with the sessions
// that were heard of. The leader notes these, makes sure that it still leads (a quorum answers its heartbeat, by the library's ReadIndex), and tells
// the entry up to which everything is acknowledged. The round's requests are served when that is applied here. So an answered ping says that the
// true leader has heard of the session, and its time-out, on this leader or a later one, began anew no earlier than the ping was sent.
//
// A leader that has proposed the end of a silent session tells no entry before that one: who still hopes for the session waits for the outcome.

// rounds are those of one server. It is plain data.
type rounds struct {
	open     uint64  // number of the round that requests join
	joined   bool    // some did
	sessions []int64 // of these

	asked     uint64  // number of the round under way, 0: none
	heard     []int64 // its sessions
	since     time.Duration
	sent      bool // to the leader that is known
	sentAt    time.Duration
	index     uint64 // entry that was told, 0: none yet
	confirmed uint64 // requests of rounds up to here may be served
}

// Join makes a request of a session part of the open round.
func (r *rounds) Join(session int64) uint64 {
	r.joined = true
	if n := len(r.sessions); n == 0 || r.sessions[n-1] != session {
		r.sessions = append(r.sessions, session)
	}
	return r.open
}

// Close closes the open round if it can be the next one under way. It tells whether one is.
func (r *rounds) Close(now time.Duration) bool {
	if r.asked == 0 && r.joined {
		r.asked, r.since, r.sent, r.index = r.open, now, false, 0
		r.heard, r.sessions = r.sessions, r.heard[:0]
		r.open, r.joined = r.open+1, false
	}
	return r.asked != 0
}

// Lost says that the leader, or the way to it, is another one now.
func (r *rounds) Lost() { r.sent = false }

// Unanswered tells that a round waits for its answer, since it was sent, for longer than the patience.
func (r *rounds) Unanswered(now, patience time.Duration) bool {
	return r.asked != 0 && r.index == 0 && r.sent && now > r.sentAt+patience
}

// Overdue tells that a round waits for its answer, sent or not, for longer than the patience.
func (r *rounds) Overdue(now, patience time.Duration) bool {
	return r.asked != 0 && r.index == 0 && now > r.since+patience
}

// Told takes the leader's answer.
func (r *rounds) Told(round, index uint64) {
	if round == r.asked && round != 0 && r.index == 0 {
		r.index = max(index, 1)
	}
}

// Settle ends the round under way when all that it must see is applied.
func (r *rounds) Settle(applied uint64) bool {
	if r.asked == 0 || r.index == 0 || applied < r.index {
		return false
	}
	r.confirmed, r.asked = r.asked, 0
	return true
}

// queries are a leader's: the rounds of all servers that it has to answer. It is plain data.
type queries struct {
	waiting []question
	under   []question // of the query under way
	busy    bool
	number  uint64 // of the query under way or the last one
}

// question is a round of a server.
type question struct{ server, round uint64 }

// Ask takes a question.
func (q *queries) Ask(x question) { q.waiting = append(q.waiting, x) }

// Begin puts all that waits into one query, if none is under way. ctx names it.
func (q *queries) Begin() (ctx []byte, ok bool) {
	if q.busy || len(q.waiting) == 0 {
		return nil, false
	}
	q.busy = true
	q.number++
	q.under, q.waiting = q.waiting, q.under[:0]
	return binary.BigEndian.AppendUint64(nil, q.number), true
}

// Answer ends the query under way and returns its questions, until the next call of Begin.
func (q *queries) Answer(ctx []byte) []question {
	if !q.busy || len(ctx) != 8 || binary.BigEndian.Uint64(ctx) != q.number {
		return nil
	}
	q.busy = false
	return q.under
}

// Reset forgets everything: the server leads no more, or anew.
func (q *queries) Reset() { q.waiting, q.under, q.busy = nil, nil, false }

// ask moves the rounds on. It tells whether requests may be served that might not before.
func (s *Server) ask() bool {
	r := &s.rounds
	now := s.m.Uptime()
	served := false
	for r.Close(now) {
		switch {
		case s.alone() && s.ready:
			r.Told(r.asked, max(s.applied, s.expireUpTo)) // a quorum of one need not be asked
		case !r.sent && s.leading:
			s.queries.Ask(question{s.id, r.asked})
			r.sent, r.sentAt = true, now
		case !r.sent && s.leader != 0:
			r.sent, r.sentAt = s.frame(s.leader, frameAsk, func(b []byte) []byte {
				return appendSessions(binary.AppendUvarint(b, r.asked), r.heard)
			}), now
		}
		if !r.Settle(s.applied) {
			break
		}
		served = true
	}
	if s.leading {
		if ctx, ok := s.queries.Begin(); ok {
			s.raft().ReadIndex(ctx)
		}
	}
	return served
}

// tell answers the questions of a query: everything acknowledged lies up to the entry.
func (s *Server) tell(ctx []byte, index uint64) {
	for _, q := range s.queries.Answer(ctx) {
		if q.server == s.id {
			s.rounds.Told(q.round, index)
			continue
		}
		s.frame(q.server, frameTell, func(b []byte) []byte {
			return binary.AppendUvarint(binary.AppendUvarint(b, q.round), index)
		})
	}
}

// asked takes the question of another server.
func (s *Server) asked(from uint64, body []byte) {
	d := packed.Reader{Rest: body, Wrap: jute.ErrMalformed}
	round := d.Uint()
	sessions := readSessions(&d)
	if d.Err == nil && s.leading {
		s.hearOf(sessions)
		s.queries.Ask(question{from, round})
	}
}

// wasTold takes the answer of the leader.
func (s *Server) wasTold(body []byte) {
	d := packed.Reader{Rest: body, Wrap: jute.ErrMalformed}
	round, index := d.Uint(), d.Uint()
	if d.Err == nil {
		s.rounds.Told(round, index)
	}
}

func appendSessions(b []byte, sessions []int64) []byte {
	b = binary.AppendUvarint(b, uint64(len(sessions)))
	for _, id := range sessions {
		b = binary.AppendVarint(b, id)
	}
	return b
}

// readSessions reads what appendSessions wrote.
func readSessions(d *packed.Reader) []int64 {
	var ids []int64
	for count := d.Count(1); count > 0; count-- {
		ids = append(ids, d.Int())
	}
	return ids
}
