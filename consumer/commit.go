package consumer

// Commit writes the offsets of everything that was processed so far: of every record after which its stream was asked for another one. It
// returns when the coordination service has acknowledged it. ErrNotCommitted: some partition was lost meanwhile, or the service is away.
// With AtMostOnce there is nothing to do.
func (g *Group) Commit() error {
	if g.isClosing() {
		return ErrClosed
	}
	if g.cfg.Delivery == AtMostOnce {
		return nil
	}
	return g.commitStanding()
}

// commitLoop commits by itself. It sleeps as long as no record was handed over.
func (g *Group) commitLoop() {
	for {
		g.mu.Lock()
		for !g.dirty && !g.closing {
			g.commitDue.Wait()
		}
		g.mu.Unlock()
		hasty := g.m.Failpoint("fault/consumer/commit-early")
		g.mu.Lock()
		until := g.m.Uptime() + g.cfg.CommitInterval
		for !g.closing && !hasty {
			left := until - g.m.Uptime()
			if left <= 0 {
				break
			}
			g.commitDue.WaitTimeout(left)
		}
		if g.closing {
			g.mu.Unlock()
			return
		}
		g.dirty = false
		for _, st := range g.streams {
			g.dirty = g.dirty || st.busy // more will be processed without anybody telling
		}
		g.mu.Unlock()
		if g.m.Failpoint("fault/consumer/commit") || g.commitStanding() != nil {
			g.mu.Lock()
			g.dirty = true
			g.mu.Unlock()
		}
	}
}

// touch says that there may be something to commit. Called with the lock held.
func (g *Group) touch() {
	if !g.dirty {
		g.dirty = true
		g.commitDue.Signal()
	}
}

// commitAhead commits records that are about to be handed over (AtMostOnce). It reports whether they may be.
func (g *Group) commitAhead(cur *cursor, next int64) bool {
	g.committing.Lock()
	defer g.committing.Unlock()
	g.m.Failpoint("fault/consumer/commit-ahead-slow")
	if !cur.live.Load() {
		g.m.Mark("mark/consumer/commit-ahead-too-late")
		return false
	}
	c := cur.claim
	g.mu.Lock()
	epoch := c.epoch
	g.mu.Unlock()
	if c.bond.commit([]target{{c, cur, next, epoch}}) != nil {
		return false
	}
	if c.committed != next {
		g.lost(c) // somebody else wrote there, and may have handed these records over: begin again from what is committed
	}
	return cur.live.Load()
}
