package consumer

import (
	"slices"
	"time"

	broker "faultline/broker/client"
	"faultline/consumer/assign"
	"faultline/consumer/member"
	"faultline/sim/machine"
)

// take makes claims of the partitions that the group gave to this member: from the committed offsets on their records are fetched and handed over.
func (p *party) take(partitions []assign.Partition) {
	g := p.g
	offsets := map[assign.Partition]committedAt{}
	wanted := len(partitions)
	if wanted > 0 {
		var ok bool
		if offsets, ok = p.committedOffsets(partitions); !ok {
			return
		}
		partitions = slices.DeleteFunc(slices.Clone(partitions), func(part assign.Partition) bool { _, there := offsets[part]; return !there })
	}
	g.m.Failpoint("fault/consumer/begin")
	if !p.awaitLease() {
		g.m.Mark("mark/consumer/ended-before-begin")
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closing || !p.m.Taking() || !p.holds() {
		return
	}
	var claims []*claim
	for _, part := range partitions {
		c := g.newPartyClaim(p, part)
		if c == nil {
			continue // its leader gave it a topic that it does not read
		}
		c.id, c.committed = offsets[part].topic, offsets[part].offset
		c.position = c.committed
		c.cursor = newCursor(c, c.committed)
		g.m.Trace(machine.Event{Kind: machine.ConsumerClaimed, Subject: c.subject, Detail: g.id, A: c.committed, B: int64(p.m.Generation()), C: c.id.short()})
		c.notBefore = member.Never
		claims = append(claims, c)
	}
	g.claims = append(slices.Clone(g.claims), claims...)
	slices.SortFunc(g.claims, func(a, b *claim) int { return a.place().Compare(b.place()) })
	p.m.Took(partitions)
	if len(partitions) < wanted {
		g.m.Mark("mark/consumer/taken-without-topic")
		p.m.Missing(g.m.Uptime())
	}
	if p.m.Leads() {
		p.grown.Signal() // the plan may be older than this process
	}
	p.changed()
	if f := g.cfg.Listener.Assigned; f != nil && len(partitions) > 0 {
		g.mu.Unlock()
		f(partitions)
		g.mu.Lock()
	}
	for _, c := range claims {
		c.notBefore = 0 // its records may be fetched now that the application knows
	}
	p.lost.Signal()
}

func (c *claim) place() assign.Partition {
	return assign.Partition{Topic: c.topic, Partition: c.partition}
}

func (g *Group) newPartyClaim(p *party, part assign.Partition) *claim {
	streams := g.byTopic[part.Topic]
	if len(streams) == 0 {
		return nil
	}
	return &claim{
		topic: part.Topic, partition: part.Partition, subject: g.subject(part.Topic, part.Partition), bond: p,
		stream: streams[int(part.Partition)%len(streams)], position: -1, outOfRange: -1, end: -1, committed: -1, version: -1, epoch: -1,
	}
}

// awaitLease waits until this is surely a member. False: what was to be taken is not any more, or the coordinator has to be found anew before, for nobody else does that.
func (p *party) awaitLease() bool {
	g := p.g
	g.mu.Lock()
	defer g.mu.Unlock()
	for p.m.Taking() && p.m.Coordinator() != "" && !g.closing {
		if p.holds() {
			return true
		}
		g.m.Mark("mark/consumer/lease-over-before-begin")
		g.wake.WaitTimeout(g.cfg.HeartbeatInterval)
	}
	return false
}

// giveUp ends the claims on the partitions: no record of them is handed over from now on, then what was processed is committed, unless others may own them already. It never waits for the
// application. The error says what could not be committed.
func (p *party) giveUp(partitions []assign.Partition, lost bool) (err error) {
	g := p.g
	g.mu.Lock()
	var claims []*claim
	var conns []*broker.Conn
	for _, part := range partitions {
		c := g.find(part.Topic, part.Partition)
		if c == nil {
			continue
		}
		claims = append(claims, c)
		g.revoke(c)
		if conn := g.abandon(c); conn != nil {
			conns = append(conns, conn)
		}
		c.until = g.m.Uptime() + min(g.cfg.RebalanceTimeout/2, g.cfg.SessionTimeout)
	}
	g.claims = slices.DeleteFunc(slices.Clone(g.claims), func(c *claim) bool { return c.gone })
	if !lost {
		g.parting = claims
	}
	g.mu.Unlock()
	closeConns(conns)
	g.m.Failpoint("fault/consumer/revoked-slow")
	if len(claims) > 0 {
		err = p.part(claims, partitions, lost)
	}
	g.mu.Lock()
	g.parting = nil
	p.m.GaveUp(partitions)
	p.changed()
	g.mu.Unlock()
	return err
}

// part lets the application know, and commits for the last time.
func (p *party) part(claims []*claim, partitions []assign.Partition, lost bool) (err error) {
	g := p.g
	if lost {
		g.m.Mark("mark/consumer/claims-lost")
		if f := g.cfg.Listener.Lost; f != nil {
			f(partitions)
		}
		return nil
	}
	p.interrupt()
	for _, c := range claims {
		c.last = true
	}
	if g.autoCommits() && !g.m.Failpoint("fault/consumer/release-commit") {
		err = p.commit(g.processedOf(claims))
	}
	g.committing.Unlock()
	if f := g.cfg.Listener.Revoked; f != nil {
		f(partitions)
	}
	p.interrupt() // a commit of somebody else ends before others may own them
	for _, c := range claims {
		c.last = false
	}
	g.committing.Unlock()
	return err
}

// interrupt takes the lock of committing; a commit under way is not tried again.
func (p *party) interrupt() {
	g := p.g
	g.mu.Lock()
	p.parted = true
	g.wake.Broadcast()
	g.mu.Unlock()
	g.committing.Lock()
	g.mu.Lock()
	p.parted = false
	g.mu.Unlock()
}

// abandon takes a claim from who reads it. A reader without claims ends; the caller closes the connection that is returned, when it has let the lock go. Called with the lock
// held.
func (g *Group) abandon(c *claim) *broker.Conn {
	f := c.fetcher
	if f == nil {
		return nil
	}
	c.fetcher = nil
	f.claims = slices.DeleteFunc(slices.Clone(f.claims), func(o *claim) bool { return o == c })
	if len(f.claims) > 0 {
		return nil
	}
	f.stopped = true
	f.cond.Broadcast()
	g.fetchers = slices.DeleteFunc(slices.Clone(g.fetchers), func(o *fetcher) bool { return o == f })
	return f.conn
}

// astray says that the broker that was asked does not lead the partition, or cannot be reached: who does is looked up, after a pause. Called with the lock held.
func (p *party) astray(c *claim) {
	g := p.g
	c.notBefore = g.m.Uptime() + g.pause(c.failures)
	c.failures++
	c.fetcher = nil
	p.lost.Signal()
}

// fled gives up a reader whose broker cannot be reached. Called with the lock held.
func (p *party) fled(f *fetcher) {
	for _, c := range f.claims {
		p.astray(c)
	}
	f.claims, f.stopped = nil, true
	g := p.g
	g.fetchers = slices.DeleteFunc(slices.Clone(g.fetchers), func(o *fetcher) bool { return o == f })
}

// locate finds out who leads the partitions that nobody reads, and has them read there.
func (p *party) locate() {
	g := p.g
	g.mu.Lock()
	defer g.mu.Unlock()
	for !p.ended {
		c, wait := p.homeless()
		if c == nil {
			if wait < 0 {
				p.lost.Wait()
			} else {
				p.lost.WaitTimeout(wait)
			}
			continue
		}
		g.mu.Unlock()
		if c.failures > 0 {
			p.cluster.Invalidate(c.topic)
		}
		at, err := p.cluster.Where(c.topic, c.partition)
		g.mu.Lock()
		switch {
		case c.gone || c.fetcher != nil:
		case c.id != topicID{} && at.Topic != topicID{} && c.id != at.Topic:
			p.replaced(c)
		case err != nil:
			p.astray(c)
		default:
			c.epoch = at.Epoch
			if conn := p.readAt(c, at.Addr); conn != nil {
				g.mu.Unlock()
				conn.Close()
				g.mu.Lock()
			}
		}
	}
}

// replaced ends a claim whose topic was deleted and has let another one have its name. The member takes the partition anew, from where the group is in that one. Called with the lock held.
func (p *party) replaced(c *claim) {
	g := p.g
	g.m.Mark("mark/consumer/topic-replaced")
	g.revoke(c)
	g.claims = slices.DeleteFunc(slices.Clone(g.claims), func(o *claim) bool { return o == c })
	p.m.Anew([]assign.Partition{c.place()})
	p.changed()
}

// homeless is a claim that nobody reads and that may be looked up now, or how long to wait for one; below 0: there is none. Called with the lock held.
func (p *party) homeless() (*claim, time.Duration) {
	g := p.g
	now := g.m.Uptime()
	wait := time.Duration(-1)
	for _, c := range g.claims {
		switch {
		case c.fetcher != nil:
		case c.notBefore == member.Never:
		case c.notBefore <= now:
			return c, 0
		case wait < 0 || c.notBefore-now < wait:
			wait = c.notBefore - now
		}
	}
	return nil, wait
}

// readAt has the claim read at the broker. The caller closes the connection that is returned, on which a long poll may wait for the others only. Called with the lock held.
func (p *party) readAt(c *claim, addr string) *broker.Conn {
	g := p.g
	for _, f := range g.fetchers {
		if f.broker.addr == addr && !f.stopped {
			f.claims = append(slices.Clone(f.claims), c)
			c.fetcher = f
			return g.refetch(c)
		}
	}
	f := &fetcher{g: g, broker: brokerState{addr: addr}, claims: []*claim{c}, cond: g.m.NewCond("consumer/fetcher", g.mu)}
	c.fetcher = f
	g.fetchers = append(slices.Clone(g.fetchers), f)
	g.m.Go("consumer/fetcher", f.run)
	return nil
}
