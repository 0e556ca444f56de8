package tree

import (
	"cmp"
	"slices"
	"time"
)

// Expiry knows when each session was last heard of. All times are one server's Uptime.
//
// A session is given up no earlier than its time-out after it was last heard of, and only by a server that was running meanwhile: while a
// server is frozen, what its clients send waits unread in its sockets. So
//
//   - a deadline that is noticed late by more than the grace says that the server was held up: every session starts its time-out anew;
//   - one noticed in time is confirmed after the grace, in which what waits is read.
type Expiry struct {
	grace    time.Duration
	sessions map[int64]*due

	suspected bool
	suspect   time.Duration // deadlines up to here are suspected
	confirm   time.Duration // when they are confirmed
}

type due struct {
	timeout   time.Duration
	deadline  time.Duration
	condemned bool
}

// NewExpiry watches no session.
func NewExpiry(grace time.Duration) *Expiry {
	return &Expiry{grace: grace, sessions: map[int64]*due{}}
}

// Add starts to watch a session.
func (e *Expiry) Add(id int64, timeout, now time.Duration) {
	e.sessions[id] = &due{timeout: timeout, deadline: now + timeout}
}

// Touch says that the session was heard of. A condemned one is reprieved.
func (e *Expiry) Touch(id int64, now time.Duration) {
	if d := e.sessions[id]; d != nil {
		d.deadline, d.condemned = now+d.timeout, false
	}
}

// Remove forgets a session that ended.
func (e *Expiry) Remove(id int64) { delete(e.sessions, id) }

// Condemned tells whether Check named the session and nobody heard of it since: it may be expired.
func (e *Expiry) Condemned(id int64) bool {
	d := e.sessions[id]
	return d != nil && d.condemned
}

// Next is when Check must be called; ok is false when there is nothing to wait for.
func (e *Expiry) Next() (at time.Duration, ok bool) {
	if e.suspected {
		return e.confirm, true
	}
	// order: the least deadline is the same in any order
	for _, d := range e.sessions {
		if !d.condemned && (!ok || d.deadline < at) {
			at, ok = d.deadline, true
		}
	}
	return at, ok
}

// Check condemns the sessions whose time has come and returns their ids in the order of their deadlines. Whoever removes them asks Condemned right before.
func (e *Expiry) Check(now time.Duration) []int64 {
	at, ok := e.Next()
	if !ok || now < at {
		return nil
	}
	if now-at > e.grace {
		e.suspected = false
		// order: each is set by itself
		for _, d := range e.sessions {
			if !d.condemned {
				d.deadline = now + d.timeout
			}
		}
		return nil
	}
	if !e.suspected {
		e.suspected, e.suspect, e.confirm = true, now, now+e.grace
		return nil
	}
	e.suspected = false
	var ids []int64
	// order: sorted below
	for id, d := range e.sessions {
		if !d.condemned && d.deadline <= e.suspect {
			d.condemned = true
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, func(a, b int64) int {
		return cmp.Or(cmp.Compare(e.sessions[a].deadline, e.sessions[b].deadline), cmp.Compare(a, b))
	})
	return ids
}
