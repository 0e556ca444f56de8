package consumer

import (
	"errors"
	"fmt"
	"slices"

	coord "faultline/coord/client"
	"faultline/sim/machine"
)

// readOffset reads the committed offset of a claim. None is no error.
func (g *Group) readOffset(s *session, c *claim) error {
	data, stat, err := s.client.Get(c.offsetPath, false)
	if err == nil && g.m.Failpoint("fault/consumer/read-offset") {
		err = errMisfortune
	}
	if errors.Is(err, coord.ErrNoNode) {
		c.committed, c.version = -1, -1
		return nil
	}
	if err != nil {
		return err
	}
	offset, err := decodeOffset(data)
	if err != nil {
		return fmt.Errorf("%s: %w", c.offsetPath, err)
	}
	c.committed, c.version = offset, stat.Version
	return nil
}

// target is an offset that is to be committed: the next one to read.
type target struct {
	c    *claim
	cur  *cursor
	next int64
	// epoch is the leader epoch in which it was read, or a later one; -1: not known, and of no use in a registry group.
	epoch int32
}

// due tells whether the registry does not know the target yet. Below what is committed it goes only when the application went back.
func (t target) due() bool {
	return t.next > t.c.committed || t.cur.rewind.Load() && t.next >= 0 && t.next != t.c.committed
}

// processedOf lists what the application has processed of the claims. Only this is ever committed with AtLeastOnce: not what was fetched, queued or
// handed over.
func (g *Group) processedOf(claims []*claim) []target {
	g.mu.Lock()
	defer g.mu.Unlock()
	targets := make([]target, 0, len(claims))
	for _, c := range claims {
		targets = append(targets, target{c, c.cursor, c.cursor.processed.Load(), c.epoch})
	}
	return targets
}

// commitStanding commits what was processed of the claims that stand now.
func (g *Group) commitStanding() error {
	g.committing.Lock()
	defer g.committing.Unlock()
	g.mu.Lock()
	claims := slices.Concat(g.claims, g.parting)
	g.mu.Unlock()
	if len(claims) == 0 {
		return nil
	}
	return claims[0].bond.commit(g.processedOf(claims))
}

// maxTargets bounds one transaction.
const maxTargets = 64

// commit writes the targets. Each write is one transaction with the check that the owner node is still there: the session being alive, it is ours
// then, so no offset is written by somebody who lost the partition; and with the check that the topic was not deleted since the claim, for an offset in it means nothing in the next one of its name. The version of the offset's node is checked too: a write of
// unknown outcome cannot take effect after a later one.
//
// The version of an owner node tells nothing: every one begins at 0. So a member must not write once it has deleted its node, for another may stand there; release
// and commit exclude each other by the lock, and a claim that is being given up gets its last commit from release alone.
//
// It goes on until every target is written, or its claim is gone, or the session is over. Called with committing held. ErrNotCommitted.
func (g *Group) commit(s *session, targets []target) error {
	var failed error
	for {
		var gone error
		if targets, gone = g.dueOf(targets); gone != nil {
			failed = gone
		}
		if len(targets) == 0 {
			return failed
		}
		batch := targets[:min(len(targets), maxTargets)]
		const each = 3 // operations for a target
		ops := make([]coord.Op, 0, each*len(batch))
		for _, t := range batch {
			ops = append(ops, coord.CheckOp(t.c.owner, 0), coord.CheckOp(t.c.topicNode, 0))
			if t.c.version < 0 {
				ops = append(ops, coord.CreateOp(t.c.offsetPath, encodeOffset(t.next), coord.Persistent))
			} else {
				ops = append(ops, coord.SetOp(t.c.offsetPath, encodeOffset(t.next), t.c.version))
			}
		}
		g.m.Failpoint("fault/consumer/commit-slow")
		err := s.client.Multi(ops...)
		if err == nil && g.m.Failpoint("fault/consumer/commit-lost") {
			err = coord.ErrConnectionLoss
		}
		if err == nil {
			for _, t := range batch {
				t.c.version++
				g.committed(t)
			}
			continue
		}
		var refused *coord.MultiError
		if errors.As(err, &refused) && refused.Index >= 0 && refused.Index < len(ops) {
			i := refused.Index / each
			switch t := batch[i]; refused.Index % each {
			case 0:
				g.m.Mark("mark/consumer/commit-without-claim")
				g.lost(t.c)
				failed = fmt.Errorf("%s: %w: the partition was lost", t.c.subject, ErrNotCommitted)
				targets = append(targets[:i], targets[i+1:]...)
				continue
			case 1:
				g.m.Mark("mark/consumer/commit-to-deleted-topic")
				g.claimAnew()
				failed = fmt.Errorf("%s: %w: the topic was deleted", t.c.subject, ErrNotCommitted)
				targets = append(targets[:i], targets[i+1:]...)
				continue
			}
			g.m.Mark("mark/consumer/commit-of-old-version")
		}
		if coord.Unknown(err) {
			g.m.Mark("mark/consumer/commit-unknown")
		}
		// Refused because the node is not as we knew it, or nobody knows what happened: look, then write what is still due.
		for {
			if !g.goOn(s, err) {
				g.m.Mark("mark/consumer/commit-given-up")
				return fmt.Errorf("%s and %d more: %w: %w", batch[0].c.subject, len(targets)-1, ErrNotCommitted, err)
			}
			if err = g.lookAgain(s, batch); err == nil {
				g.m.Failpoint("fault/consumer/commit-again")
				break
			}
		}
	}
}

// dueOf keeps those of the targets that are still to be written. The error tells of one that must not be any more.
func (g *Group) dueOf(targets []target) (due []target, failed error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	due = targets[:0]
	for _, t := range targets {
		switch {
		case !t.due():
		case t.c.gone && !t.c.last:
			g.m.Mark("mark/consumer/commit-while-released")
			failed = fmt.Errorf("%s: %w: the partition is being given up", t.c.subject, ErrNotCommitted)
		default:
			due = append(due, t)
		}
	}
	return due, failed
}

// lookAgain reads the committed offsets of the targets and notes those that turn out to be written.
func (g *Group) lookAgain(s *session, targets []target) error {
	for _, t := range targets {
		known := t.c.version
		if err := g.readOffset(s, t.c); err != nil {
			return err
		}
		if t.c.version < 0 {
			if err := s.client.EnsurePath(g.paths.home(t.c.topic)); err != nil {
				return err
			}
		}
		if t.c.committed == t.next && t.c.version == known+1 {
			g.m.Mark("mark/consumer/commit-found-done")
			g.committed(t)
		}
	}
	return nil
}

// claimAnew lets the next rebalance give up all claims, whatever the registries say, and claim them again.
func (g *Group) claimAnew() {
	g.mu.Lock()
	g.last, g.stale = nil, true
	g.wake.Broadcast()
	g.mu.Unlock()
}

func (g *Group) committed(t target) {
	t.c.committed = t.next
	g.traceClaim(machine.ConsumerCommitted, t.c, t.next)
}
