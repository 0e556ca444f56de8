package consumer

import (
	"errors"

	coord "faultline/coord/client"
	"faultline/sim/machine"
)

// run is the rebalance task: it alone claims and gives up partitions. Whatever changes meanwhile is noted in one flag, so at most
// one more look follows a rebalance.
func (g *Group) run() {
	for {
		g.mu.Lock()
		if g.stale && g.last != nil {
			g.m.Mark("mark/consumer/changed-while-rebalancing")
		}
		for !g.stale && !g.closing {
			g.wake.Wait()
		}
		g.stale = false
		g.mu.Unlock()
		s := g.enter()
		if s == nil {
			break
		}
		g.round(s)
	}
	g.leave()
}

// round tries until the division is in force, or the session dies or the group closes.
func (g *Group) round(s *session) {
	for attempt := 1; ; attempt++ {
		err := g.attempt(s, attempt)
		if err == nil {
			return
		}
		if errors.Is(err, coord.ErrSessionExpired) {
			g.expired(s)
		}
		if s.dead.Load() || g.isClosing() {
			return
		}
		if errors.Is(err, errTaken) {
			g.m.Mark("mark/consumer/claim-refused")
		}
		if g.cfg.RebalanceRetries > 0 && attempt > g.cfg.RebalanceRetries {
			g.m.Mark("mark/consumer/attempts-used-up")
			g.giveUp(s)
			return
		}
		if !s.registered {
			g.m.Mark("mark/consumer/registration-gone")
			// Somebody deleted our node. Without it the others do not count us, so nothing can be owned.
			if g.enter() != s {
				return
			}
			continue
		}
		g.m.Failpoint("fault/consumer/retry")
		g.rest(s, g.backoff(attempt-1))
	}
}

// attempt is one rebalance: read the registries; if anything changed since the last one that succeeded, give up everything, claim this
// member's part of the new division, read its offsets, begin.
func (g *Group) attempt(s *session, number int) error {
	if g.m.Failpoint("fault/consumer/rebalance") {
		return errMisfortune
	}
	now, err := g.readMembership(s)
	if err != nil {
		return err
	}
	if g.standsFor(now) {
		return nil
	}
	g.trace(machine.ConsumerRebalance, g.cfg.Group, int64(number))
	_ = g.release(s) // what is not committed comes again
	if !now.has(g.id) {
		s.registered = false
		return errors.New("this member is not registered")
	}
	if len(now.brokers) == 0 {
		g.m.Mark("mark/consumer/no-broker")
	}
	claims, err := g.takeAll(s, now.divide(g.id))
	if err != nil {
		return err
	}
	if err := g.begin(s, claims, now); err != nil {
		g.giveBackAll(s, claims)
		return err
	}
	return nil
}

// standsFor tells whether the claims are those of this division already. It remembers successes only: after a failed attempt, or a claim lost, nothing
// stands.
func (g *Group) standsFor(now *membership) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	stands := g.last.equal(now)
	if stands {
		g.m.Mark("mark/consumer/nothing-changed")
	}
	return stands
}

// release gives up all partitions: no record is handed over from now on, then what was processed is committed, then the registry is told. It never
// waits for the application. The error says what could not be committed; nothing stands in any case.
func (g *Group) release(s *session) (err error) {
	g.mu.Lock()
	claims, conns := g.revokeAll()
	g.mu.Unlock()
	closeConns(conns)
	if len(claims) == 0 {
		return nil
	}
	g.m.Failpoint("fault/consumer/revoked-slow")
	// A commit that is under way ends first. It may have waited long for its answer; written again when somebody else has claimed the
	// partition, it would be a commit of the last owner.
	g.committing.Lock()
	for _, c := range claims {
		c.last = true
	}
	if g.autoCommits() && !g.m.Failpoint("fault/consumer/release-commit") {
		err = g.commit(s, g.processedOf(claims))
	}
	g.committing.Unlock()
	g.giveBackAll(s, claims)
	return err
}

// giveUp rests after a round of attempts that all failed: until something changes in the registries, or for a session time-out.
func (g *Group) giveUp(s *session) {
	g.mu.Lock()
	defer g.mu.Unlock()
	until := g.m.Uptime() + g.spread(g.cfg.SessionTimeout)
	for !g.stale && !g.closing && !s.dead.Load() {
		left := until - g.m.Uptime()
		if left <= 0 {
			break
		}
		g.wake.WaitTimeout(left)
	}
	g.stale = true
}

// leave is the end of the rebalance task: everything is given up, then the session ends.
func (g *Group) leave() {
	g.mu.Lock()
	s := g.session
	g.mu.Unlock()
	var err error
	if s != nil {
		err = g.release(s)
		g.m.Failpoint("fault/consumer/leave-slow")
		g.trace(machine.ConsumerLeft, g.cfg.Group, 0)
		if ended := s.client.Close(); !s.dead.Load() {
			err = errors.Join(err, ended)
		}
	}
	g.mu.Lock()
	g.closed, g.closeErr = true, err
	g.wake.Broadcast()
	for _, st := range g.streams {
		st.more.Broadcast()
	}
	g.mu.Unlock()
}
