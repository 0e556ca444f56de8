package consumer

import (
	"errors"
	"slices"
	"sync/atomic"
	"time"

	broker "faultline/broker/client"
	"faultline/consumer/member"
	"faultline/sim/machine"
)

// party is the membership in a coordinator group: what package member says is to be done is done here. There are four tasks: run joins, syncs, takes and
// gives up partitions; beat sends heartbeats, and sees whether the application works on one record for too long; locate looks up who leads the partitions that
// nobody reads; watch sees whether a topic has got more of them.
//
// The coordinator answers a connection's requests one after the other, and a join or sync waits for the others: so these have a connection of their own.
type party struct {
	g       *Group
	cluster *broker.Cluster
	lease   atomic.Int64 // Uptime until which this is surely a member
	asked   int32        // generation of the last sync that was sent; only run looks

	// Group.mu guards these.
	m       *member.Member
	beating machine.Cond // a heartbeat may be due
	lost    machine.Cond // a claim has nobody who reads it
	grown   machine.Cond // the end
	control *broker.Conn // joins, syncs
	steady  *broker.Conn // heartbeats, offsets, the rest
	ended   bool
	// parted waits for the end of a commit under way. That must not go on trying: only who waits here looks for the coordinator.
	parted bool
}

const (
	findBackoff    = 50 * time.Millisecond
	findBackoffMax = time.Second
)

func (g *Group) newParty() *party {
	c := &g.cfg
	return &party{
		g:       g,
		cluster: broker.NewCluster(g.m, c.Brokers, broker.Config{ClientID: g.id, RequestTimeout: c.RequestTimeout, DialTimeout: c.RequestTimeout, MetadataMaxAge: c.MetadataMaxAge}),
		m: member.New(member.Config{
			Group: c.Group, Instance: c.Instance, Topics: g.topics, Assignors: c.Assignors,
			Session: c.SessionTimeout, Rebalance: c.RebalanceTimeout, Heartbeat: c.HeartbeatInterval, Backoff: findBackoff, BackoffMax: findBackoffMax,
		}),
		beating: g.m.NewCond("consumer/heartbeat", g.mu),
		lost:    g.m.NewCond("consumer/locate", g.mu),
		grown:   g.m.NewCond("consumer/watch", g.mu),
		asked:   -1,
	}
}

func (p *party) start() {
	p.g.m.Go("consumer/member", p.run)
	p.g.m.Go("consumer/heartbeat", p.beat)
	p.g.m.Go("consumer/locate", p.locate)
	p.g.m.Go("consumer/watch", p.watch)
}

func (p *party) holds() bool { return time.Duration(p.lease.Load()) > p.g.m.Uptime() }

// renew has nothing to ask: every answer moves the lease as it comes.
func (p *party) renew() bool { return p.holds() }

// changed lets what an answer said have its effect. Called with the lock held.
func (p *party) changed() {
	p.lease.Store(int64(p.m.Lease()))
	p.g.wake.Broadcast()
	p.beating.Broadcast()
	for _, st := range p.g.streams {
		st.more.Broadcast() // one may wait for the lease
	}
}

// run does what the membership asks for, one step at a time, until the group closes.
func (p *party) run() {
	g := p.g
	g.mu.Lock()
	for !g.closing {
		now := g.m.Uptime()
		switch s := p.m.Next(now); s.Kind {
		case member.Wait:
			if s.Until == member.Never {
				g.wake.Wait()
			} else {
				g.wake.WaitTimeout(s.Until - now)
			}
		case member.Fail:
			g.failed = p.m.Err()
			p.changed()
			g.wake.Wait()
		default:
			g.mu.Unlock()
			p.do(s)
			g.mu.Lock()
			p.changed()
		}
	}
	g.mu.Unlock()
	p.leave()
}

// do takes one step.
func (p *party) do(s member.Step) {
	g := p.g
	switch s.Kind {
	case member.Find:
		p.find()
	case member.GiveUp:
		_ = p.giveUp(s.Partitions, s.Lost) // what is not committed comes again
	case member.Join:
		p.join()
	case member.Plan:
		p.plan()
	case member.Sync:
		p.sync()
	case member.Take:
		p.take(s.Partitions)
	case member.Leave:
		g.m.Mark("mark/consumer/left-for-slowness")
		p.tellLeave()
	}
}

// leave is the end: everything is given up, and the coordinator is told, unless the member is a static one, which may come back.
func (p *party) leave() {
	g := p.g
	g.mu.Lock()
	owned := slices.Clone(p.m.Owned())
	g.mu.Unlock()
	err := p.giveUp(owned, !p.holds())
	g.m.Failpoint("fault/consumer/leave-slow")
	g.trace(machine.ConsumerLeft, g.cfg.Group, 0)
	g.mu.Lock()
	tell := g.cfg.Instance == "" && p.m.ID() != "" && p.m.Coordinator() != ""
	g.mu.Unlock()
	if tell {
		err = errors.Join(err, p.tellLeave())
	}
	g.mu.Lock()
	p.ended = true
	conns := []*broker.Conn{p.control, p.steady}
	p.beating.Broadcast()
	p.lost.Broadcast()
	p.grown.Broadcast()
	g.mu.Unlock()
	for _, c := range conns {
		if c != nil {
			c.Close()
		}
	}
	p.cluster.Close()
	g.mu.Lock()
	g.closed, g.closeErr = true, err
	g.wake.Broadcast()
	for _, st := range g.streams {
		st.more.Broadcast()
	}
	g.mu.Unlock()
}
