package replica

import (
	"slices"
	"time"
)

// Leader is what a leader knows of its partition.
type Leader struct {
	self   int32
	state  State // as the registry has it
	least  int   // in-sync replicas that acks=all needs
	begin  int64 // log end when the epoch began: who joins the ISR must have got so far (KAFKA-7128)
	end    int64 // log end offset
	hw     int64
	others []follower // replicas but the leader, in the order of the assignment

	proposed *State // sent to the registry, outcome not known
}

// follower is what the leader knows of another replica.
type follower struct {
	id    int32
	epoch int64 // of its broker; -1: it has not fetched from this leader
	end   int64 // it has everything below; -1: not known
	// caughtUp is the last moment at which it had what the leader had then. A follower that asks for the end of an idle log is caught up.
	caughtUp time.Duration
	asked    time.Duration // when it fetched last
	endThen  int64         // log end at that moment
	// goal is the log end at an earlier fetch, at goalAt, that it has not got to yet: it stays until then, however many fetches that takes. Who is always some fetches behind an end that moves on, as one is whose fetches are
	// small, lags by no more than these. -1: there is none.
	goal   int64
	goalAt time.Duration
}

// Lead begins to lead in the state that the registry has, with a log that ends at end and is known to be committed below hw.
// Members of the ISR count as caught up now: they get as long as anybody to show that they are.
func Lead(self int32, replicas []int32, s State, least int, end, hw int64, now time.Duration) *Leader {
	l := &Leader{self: self, state: s.Clone(), least: least, begin: end, end: end, hw: min(hw, end)}
	for _, id := range replicas {
		if id != self {
			l.others = append(l.others, follower{id: id, epoch: -1, end: -1, goal: -1, caughtUp: now})
		}
	}
	l.advance()
	return l
}

// HW is the high watermark.
func (l *Leader) HW() int64 { return l.hw }

// Settled tells whether the HW has got as far as anything that an earlier leader can have told.
func (l *Leader) Settled() bool { return l.hw >= l.begin }

// State is the registry's entry as the leader knows it.
func (l *Leader) State() *State { return &l.state }

// Enough tells whether acks=all may be asked for now.
func (l *Leader) Enough() bool { return len(l.state.ISR) >= l.least }

// Follower tells how far a replica has got, -1: it is not known, or is none.
func (l *Leader) Follower(id int32) int64 {
	if f := l.follower(id); f != nil {
		return f.end
	}
	return -1
}

// Appended notes the log's new end and reports whether the HW moved.
func (l *Leader) Appended(end int64) bool {
	l.end = end
	return l.advance()
}

// Fetched notes that a follower asked for offset: it has everything below, in a log that does not diverge. It reports whether the HW moved. A fetch of an older
// incarnation of its broker is ignored.
func (l *Leader) Fetched(id int32, epoch, offset int64, now time.Duration) (moved bool) {
	f := l.follower(id)
	if f == nil || epoch < f.epoch {
		return false
	}
	switch {
	case offset >= l.end:
		f.caughtUp = max(f.caughtUp, now)
	case f.end >= 0 && offset >= f.endThen:
		f.caughtUp = max(f.caughtUp, f.asked)
	case f.goal >= 0 && offset >= f.goal:
		f.caughtUp = max(f.caughtUp, f.goalAt)
	}
	if offset >= f.goal {
		f.goal, f.goalAt = l.end, now
	}
	f.epoch, f.end, f.asked, f.endThen = epoch, offset, now, l.end
	return l.advance()
}

func (l *Leader) follower(id int32) *follower {
	i := slices.IndexFunc(l.others, func(f follower) bool { return f.id == id })
	if i < 0 {
		return nil
	}
	return &l.others[i]
}

// Replicas takes another assignment.
func (l *Leader) Replicas(ids []int32, now time.Duration) {
	var others []follower
	for _, id := range ids {
		if id == l.self {
			continue
		}
		f := l.follower(id)
		if f == nil {
			f = &follower{id: id, epoch: -1, end: -1, goal: -1, caughtUp: now}
		}
		others = append(others, *f)
	}
	l.others = others
}

// advance moves the HW to where every member of the ISR, and of a proposed one, has got. It never goes back, and stands still while the ISR is too small (KIP-966).
func (l *Leader) advance() bool {
	if len(l.state.ISR) < min(l.least, 1+len(l.others)) {
		return false
	}
	to := l.end
	count := func(members []Member) {
		for _, m := range members {
			if m.ID == l.self {
				continue
			}
			if f := l.follower(m.ID); f != nil {
				to = min(to, f.end)
			} else {
				to = -1 // not a replica any more; the registry will say so
			}
		}
	}
	count(l.state.ISR)
	if l.proposed != nil {
		count(l.proposed.ISR)
	}
	if to <= l.hw || to < l.begin {
		return false // the leader before may have told more than this one's first steps: all that it can have told is below begin
	}
	l.hw = to
	return true
}

// Knocks tells whether a replica that is not in sync may join: it has all that is committed and all from before this epoch. Propose at once. What it said of itself
// holds for the moment at which it asked: it may have lost all of that in the next, and whoever joins counts.
func (l *Leader) Knocks(id int32, lag, now time.Duration) bool {
	f := l.follower(id)
	return f != nil && Find(l.state.ISR, id) < 0 && l.mayJoin(f, lag, now)
}

func (l *Leader) mayJoin(f *follower, lag, now time.Duration) bool {
	return f.epoch >= 0 && f.end >= l.hw && f.end >= l.begin && now-f.caughtUp <= lag
}

// Propose says which entry the leader wants in the registry, if another one than there is: members that did not catch up within lag leave, others that knock, and have fetched since a
// moment not long ago, join. Nobody joins whose registration is not the one with which it fetches: the controller would take it out again (KIP-841).
// Only one proposal is open at a time: end it by Confirm or Refused.
func (l *Leader) Propose(lag, since, now time.Duration, registered func(Member) bool) (State, bool) {
	if l.proposed != nil {
		return State{}, false
	}
	isr := slices.DeleteFunc(slices.Clone(l.state.ISR), func(m Member) bool {
		f := l.follower(m.ID)
		return m.ID != l.self && (f == nil || now-f.caughtUp > lag)
	})
	for i := range l.others {
		f := &l.others[i]
		joins := Find(isr, f.id) < 0 && f.asked >= since && l.mayJoin(f, lag, now)
		if m := (Member{f.id, f.epoch}); joins && registered(m) {
			isr = append(isr, m)
		}
	}
	if slices.Equal(isr, l.state.ISR) {
		return State{}, false
	}
	next := l.state.Clone()
	next.Resize(isr, min(l.least, 1+len(l.others)))
	l.proposed = &next
	return next.Clone(), true
}

// Confirm takes the entry that the registry has, of the same leader epoch, and reports whether the HW moved: a smaller ISR may have what a larger one was waiting for (KAFKA-13091).
// It ends a proposal.
func (l *Leader) Confirm(s State) (moved bool) {
	l.state, l.proposed = s.Clone(), nil
	return l.advance()
}

// Refused ends a proposal that surely had no effect.
func (l *Leader) Refused() { l.proposed = nil }

// Deadline is when the first member of the ISR will have been behind for lag, if nothing changes; false: never.
func (l *Leader) Deadline(lag time.Duration) (time.Duration, bool) {
	var first time.Duration
	found := false
	for _, m := range l.state.ISR {
		if f := l.follower(m.ID); m.ID != l.self && f != nil && (!found || f.caughtUp+lag < first) {
			first, found = f.caughtUp+lag, true
		}
	}
	return first, found
}
