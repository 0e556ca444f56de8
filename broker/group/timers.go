package group

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// timer names what a group waits for.
type timer struct {
	what waitFor
	id   string // of the member, or of one to be; empty: the group's
}

type waitFor int8

const (
	forPromised  waitFor = iota // a client that was given a member id and has to come back with it (KIP-394)
	forHeartbeat                // a sign of life within the session; of a new member: its asking again
	forSync                     // every member's SyncGroup after a join
	forJoin                     // every member's JoinGroup in a rebalance
)

// timers are a group's deadlines. A member's are disarmed when it is removed: one that stayed armed would put the group through a rebalance on behalf of
// somebody who is long gone (KAFKA-7196).
type timers map[timer]time.Duration

func (t timers) disarm(what waitFor, id string) { delete(t, timer{what, id}) }

func (t timers) next() time.Duration {
	at := never
	// order: the least is the same in any order
	for _, deadline := range t {
		at = min(at, deadline)
	}
	return at
}

// due lists those whose time has come, earliest first.
func (t timers) due(now time.Duration) []timer {
	var due []timer
	// order: sorted below
	for k, at := range t {
		if at <= now {
			due = append(due, k)
		}
	}
	slices.SortFunc(due, func(a, b timer) int {
		return cmp.Or(cmp.Compare(t[a], t[b]), cmp.Compare(a.what, b.what), strings.Compare(a.id, b.id))
	})
	return due
}

func (g *group) arm(what waitFor, id string, at time.Duration) {
	g.timers[timer{what, id}] = at
	g.c.wake(at)
}

func (g *group) fire(now Time) {
	for _, k := range g.timers.due(now.Up) {
		at, armed := g.timers[k]
		if !armed || at > now.Up {
			continue // one that fired before it saw to that
		}
		delete(g.timers, k)
		switch k.what {
		case forPromised:
			g.forget(now, k.id)
		case forHeartbeat:
			g.remove(k.id, codeUnknownMember)
			g.removed(now, "member "+k.id+" was not heard of")
		case forSync:
			g.syncTimedOut(now)
		case forJoin:
			g.joinTimedOut(now)
		}
	}
}
