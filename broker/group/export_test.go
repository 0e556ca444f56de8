package group

import "fmt"

// Check says what is wrong with the coordinator's own bookkeeping.
func (c *Coordinator) Check() error {
	for _, g := range c.sorted() {
		if err := g.checkInvariants(); err != nil {
			return fmt.Errorf("group %s, %s: %w", g.id, g.state, err)
		}
		if at := g.timers.next(); at < c.next {
			return fmt.Errorf("group %s has a timer at %s, Tick is asked for at %s", g.id, at, c.next)
		}
	}
	return nil
}

func (g *group) checkInvariants() error {
	if len(g.members) != len(g.byID) {
		return fmt.Errorf("%d members, %d by id", len(g.members), len(g.byID))
	}
	statics := 0
	for _, m := range g.members {
		if g.byID[m.id] != m {
			return fmt.Errorf("member %s is not found by its id", m.id)
		}
		if m.instance != nil {
			statics++
			if g.static[*m.instance] != m {
				return fmt.Errorf("member %s is not found by its instance", m.id)
			}
		}
		_, armed := g.timers[timer{forHeartbeat, m.id}]
		waits := m.join != nil || m.sync != nil
		if !armed && !waits || m.isNew && !armed {
			return fmt.Errorf("nobody would notice that member %s is gone", m.id)
		}
		if armed && waits && !m.isNew {
			return fmt.Errorf("member %s waits, and its session runs", m.id)
		}
		if m.join != nil && g.state != PreparingRebalance || m.sync != nil && g.state != CompletingRebalance {
			return fmt.Errorf("member %s waits for something else than the group", m.id)
		}
	}
	if statics != len(g.static) {
		return fmt.Errorf("%d static members, %d by instance", statics, len(g.static))
	}
	if g.byID[g.leader] == nil && len(g.members) > 0 {
		return fmt.Errorf("leader %q is not a member", g.leader)
	}
	if len(g.members) == 0 && (g.state == Stable || g.state == CompletingRebalance) {
		return fmt.Errorf("no members")
	}
	if _, armed := g.timers[timer{forJoin, ""}]; armed != (g.state == PreparingRebalance) {
		return fmt.Errorf("join timer armed: %v", armed)
	}
	for _, id := range g.promised {
		if _, armed := g.timers[timer{forPromised, id}]; !armed {
			return fmt.Errorf("nobody would give up the promised id %s", id)
		}
	}
	// order: any of them is wrong
	for k := range g.timers {
		if k.what == forHeartbeat && g.byID[k.id] == nil {
			return fmt.Errorf("a timer waits for %s, who is not a member", k.id)
		}
	}
	if g.state == PreparingRebalance && g.initial == nil && len(g.promised) == 0 && g.waiting() == len(g.members) {
		return fmt.Errorf("all joined, and it waits")
	}
	return nil
}
