package group

import (
	"slices"
	"time"
)

// delay is the first rebalance of an empty group: it takes in who comes within some time, so that ten consumers that start together make one generation and not ten (KIP-134).
type delay struct {
	left time.Duration // by how much it may still be drawn out
	grew bool          // since the last look
}

// prepareRebalance asks all members to join again.
func (g *group) prepareRebalance(now Time, reason string) {
	for _, m := range g.members {
		m.unsynced = false
		if m.sync != nil {
			m.answerSync(g.c, codeRebalancing)
			g.alive(now, m)
		}
	}
	g.storing = false
	g.timers.disarm(forSync, "")
	timeout := g.rebalanceTimeout() + max(g.c.sure-now.Up, 0)
	if first := g.c.cfg.InitialDelay; g.state == Empty && first > 0 {
		g.initial = &delay{left: max(timeout-first, 0)}
		timeout = first
	}
	g.arm(forJoin, "", now.Up+timeout)
	g.become(now, PreparingRebalance, reason)
	g.tryCompleteJoin(now)
}

// tryCompleteJoin ends the wait for joins when nobody is missing. Whatever may have been the last thing to wait for must ask: a join, but also that a member left or timed
// out, or that a promised member id was given up (kop 380).
func (g *group) tryCompleteJoin(now Time) {
	if g.state == PreparingRebalance && g.initial == nil && len(g.promised) == 0 && g.waiting() == len(g.members) {
		g.completeJoin(now)
	}
}

func (g *group) joinTimedOut(now Time) {
	if g.initial != nil && g.initial.grew && g.initial.left > 0 {
		more := min(g.c.cfg.InitialDelay, g.initial.left)
		g.initial.left -= more
		g.initial.grew = false
		g.arm(forJoin, "", now.Up+more)
		return
	}
	g.completeJoin(now)
}

// completeJoin makes a generation of those who joined.
func (g *group) completeJoin(now Time) {
	g.initial = nil
	g.timers.disarm(forJoin, "")
	for _, m := range slices.Clone(g.members) {
		if m.join == nil && m.instance == nil { // a static member has its whole session to come back (KIP-345)
			g.remove(m.id, codeUnknownMember)
		}
	}
	if len(g.members) > 0 && g.waiting() == 0 {
		g.arm(forJoin, "", now.Up+g.rebalanceTimeout()) // none to lead: the static members are given more time
		return
	}
	g.generation++
	if len(g.members) == 0 {
		g.protocol, g.leader = "", ""
		g.become(now, Empty, "no members")
		g.c.append([]Record{g.record(now.Wall, nil)}, nil, nil)
		return
	}
	if leader := g.byID[g.leader]; leader == nil || leader.join == nil {
		g.leader = g.members[slices.IndexFunc(g.members, func(m *member) bool { return m.join != nil })].id
	}
	g.protocol = g.vote()
	g.become(now, CompletingRebalance, "joined")
	for _, m := range g.members {
		if w := m.join; w != nil {
			m.join, m.isNew, m.unsynced = nil, false, true
			g.c.reply(w.ref, g.joined(w, m, g.leader))
			g.alive(now, m)
		}
	}
	g.arm(forSync, "", now.Up+g.rebalanceTimeout())
}

// vote chooses the protocol of a generation: among those that all members support each votes for the one it likes best. Of two with as many votes it is the one that the
// member who is in the group longest likes better.
func (g *group) vote() string {
	var common []string
	for _, p := range g.members[0].protocols {
		if !slices.ContainsFunc(g.members, func(m *member) bool { return !m.supports(p.Name) }) {
			common = append(common, p.Name)
		}
	}
	votes := make([]int, len(common))
	for _, m := range g.members {
		for _, p := range m.protocols {
			if i := slices.Index(common, p.Name); i >= 0 {
				votes[i]++
				break
			}
		}
	}
	best := 0
	for i := range votes {
		if votes[i] > votes[best] {
			best = i
		}
	}
	if len(common) == 0 {
		return "" // none: only a group that was loaded so
	}
	return common[best]
}
