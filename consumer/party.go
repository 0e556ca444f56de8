package consumer

import (
	"errors"
	"slices"
	"sync/atomic"
	"time"

	broker "faultline/broker/client"
	"faultline/consumer/assign"
	"faultline/consumer/member"
	"faultline/sim/machine"

	"github.com/twmb/franz-go/pkg/kmsg"
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

// errRefused is an answer that is no answer.
var errRefused = errors.New("the answer does not fit the question")

// find asks any broker who coordinates the group.
func (p *party) find() {
	g := p.g
	req := kmsg.NewPtrFindCoordinatorRequest()
	req.CoordinatorKey, req.CoordinatorKeys = g.cfg.Group, []string{g.cfg.Group}
	addr, err := "", error(nil)
	conn, err := p.cluster.Any()
	if err == nil {
		var resp kmsg.Response
		if resp, err = conn.Request(req); err == nil {
			addr, err = coordinatorOf(resp)
		}
	}
	if err == nil && g.m.Failpoint("fault/consumer/find") {
		err = errMisfortune
	}
	g.mu.Lock()
	p.m.Found(g.m.Uptime(), addr, err)
	g.mu.Unlock()
}

// dial returns a connection to the coordinator, kept in where, or makes it.
func (p *party) dial(where **broker.Conn, timeout time.Duration) (*broker.Conn, error) {
	g := p.g
	g.mu.Lock()
	addr, conn := p.m.Coordinator(), *where
	g.mu.Unlock()
	switch {
	case conn != nil && conn.Broker() == addr && conn.Err() == nil:
		return conn, nil
	case conn != nil:
		conn.Close()
	}
	if addr == "" {
		return nil, broker.ErrNotSent
	}
	how := broker.Config{ClientID: g.id, DialTimeout: g.cfg.RequestTimeout, RequestTimeout: timeout, Tap: g.cfg.Tap}
	if g.cfg.Old {
		how.AtMost = map[int16]int16{kmsg.JoinGroup.Int16(): 0}
	}
	conn, err := broker.Dial(g.m, addr, how)
	if err != nil {
		return nil, err
	}
	g.mu.Lock()
	*where = conn
	over := g.closing && where == &p.control
	g.mu.Unlock()
	if over {
		conn.Close()
		return nil, broker.ErrClosed
	}
	return conn, nil
}

// coordinator is dial for who goes on only with a connection: when there is none the coordinator is looked for anew.
func (p *party) coordinator(where **broker.Conn, timeout time.Duration) *broker.Conn {
	g := p.g
	g.mu.Lock()
	addr := p.m.Coordinator()
	g.mu.Unlock()
	conn, err := p.dial(where, timeout)
	if err == nil {
		return conn
	}
	g.mu.Lock()
	p.m.Disconnected(g.m.Uptime(), addr)
	p.changed()
	g.mu.Unlock()
	return nil
}

// joining is how long a join or a sync may take.
func (p *party) joining() time.Duration { return p.g.cfg.RebalanceTimeout + p.g.cfg.RequestTimeout }

func (p *party) join() {
	g := p.g
	conn := p.coordinator(&p.control, p.joining())
	if conn == nil {
		return
	}
	g.m.Failpoint("fault/consumer/join-slow")
	g.mu.Lock()
	req := p.m.JoinRequest(g.m.Uptime())
	attempt := p.m.Attempts()
	p.beating.Broadcast()
	g.mu.Unlock()
	g.trace(machine.ConsumerRebalance, g.cfg.Group, int64(attempt))
	var got *kmsg.JoinGroupResponse
	resp, err := conn.Request(req)
	if err == nil {
		got = resp.(*kmsg.JoinGroupResponse)
	}
	if err == nil && g.m.Failpoint("fault/consumer/joined") {
		err = errMisfortune
	}
	g.mu.Lock()
	p.m.Joined(g.m.Uptime(), got, err)
	p.changed()
	g.mu.Unlock()
}

// plan divides the partitions, as leader.
func (p *party) plan() {
	g := p.g
	g.mu.Lock()
	members, how := p.m.Members()
	g.mu.Unlock()
	counts := map[string]int32{}
	for _, t := range assign.Topics(members) {
		n, err := p.partitions(t)
		if err != nil {
			g.m.Mark("mark/consumer/planned-without-topic") // a later look finds it, and the group rebalances
		}
		counts[t] = n
	}
	plan := how.Assign(members, counts)
	missing := int32(0)
	for _, t := range assign.Topics(members) {
		missing += counts[t]
	}
	for _, share := range plan {
		missing -= int32(len(share.Partitions))
	}
	g.mu.Lock()
	p.m.Planned(plan, counts, missing == 0)
	g.mu.Unlock()
}

// partitions is how many a topic has, 0 with the error when it is not there or nobody could tell.
func (p *party) partitions(topic string) (int32, error) {
	t, err := p.cluster.Topic(topic)
	if err != nil {
		return 0, err
	}
	return int32(len(t.Partitions)), nil
}

func (p *party) sync() {
	g := p.g
	conn := p.coordinator(&p.control, p.joining())
	if conn == nil {
		return
	}
	g.m.Failpoint("fault/consumer/sync-slow")
	g.mu.Lock()
	req := p.m.SyncRequest(g.m.Uptime())
	g.mu.Unlock()
	if first := p.asked != req.Generation; first && g.m.Failpoint("fault/consumer/sync-lost") {
		p.awaitNews()
		return
	}
	p.asked = req.Generation
	var got *kmsg.SyncGroupResponse
	resp, err := conn.Request(req)
	if err == nil {
		got = resp.(*kmsg.SyncGroupResponse)
	}
	if err == nil && g.m.Failpoint("fault/consumer/synced") {
		err = errMisfortune
	}
	g.mu.Lock()
	if p.m.Synced(g.m.Uptime(), got, err) {
		g.m.Trace(machine.Event{Kind: machine.ConsumerSynced, Subject: g.cfg.Group, Detail: p.m.ID(), A: int64(p.m.Generation())})
	}
	p.changed()
	g.mu.Unlock()
}

// awaitNews waits for the answer to a sync that was lost without the connection's ending. There is none, but heartbeats go on, and one of them tells when the group has gone on without this
// member: the coordinator waits for a member's first sync in a generation, and for no other.
func (p *party) awaitNews() {
	g := p.g
	g.m.Mark("mark/consumer/sync-lost")
	g.mu.Lock()
	for p.m.Syncing() && !g.closing {
		g.wake.WaitTimeout(g.cfg.HeartbeatInterval)
	}
	g.mu.Unlock()
}

// beat sends heartbeats when they are due, whatever the other tasks wait for, and the application too.
func (p *party) beat() {
	g := p.g
	g.mu.Lock()
	defer g.mu.Unlock()
	for !p.ended {
		now := g.m.Uptime()
		poll := p.lookAtApplication(now)
		due := p.m.HeartbeatDue()
		if due > now {
			if wait := min(due, poll); wait == member.Never {
				p.beating.Wait()
			} else {
				p.beating.WaitTimeout(wait - now)
			}
			continue
		}
		g.mu.Unlock()
		conn := p.coordinator(&p.steady, g.cfg.RequestTimeout)
		g.mu.Lock()
		if conn == nil {
			p.cutOff()
			continue
		}
		req, ticket := p.m.HeartbeatRequest(g.m.Uptime())
		g.mu.Unlock()
		var got *kmsg.HeartbeatResponse
		resp, err := conn.Request(req)
		if err == nil {
			got = resp.(*kmsg.HeartbeatResponse)
		}
		if err == nil && g.m.Failpoint("fault/consumer/heartbeat") {
			err = errMisfortune
		}
		g.mu.Lock()
		p.m.Heartbeaten(g.m.Uptime(), ticket, got, err)
		p.changed()
		p.cutOff()
	}
}

// cutOff ends the wait for an answer to a join or a sync that will not come, since the coordinator is gone. Called with the lock held, which it lets go meanwhile.
func (p *party) cutOff() {
	conn := p.control
	if conn == nil || p.m.Coordinator() != "" {
		return
	}
	p.control = nil
	p.g.mu.Unlock()
	conn.Close()
	p.g.mu.Lock()
}

// lookAtApplication has the member leave when the application works on one record for too long, and come back when it asks for the next one. It returns
// when to look again. Called with the lock held.
func (p *party) lookAtApplication(now time.Duration) (next time.Duration) {
	g := p.g
	next = member.Never
	away := false
	for _, st := range g.streams {
		if since := time.Duration(st.working.Load()); since > 0 {
			at := since + g.cfg.MaxPollInterval
			away = away || at <= now
			next = min(next, max(at, now+time.Millisecond))
		}
	}
	if away {
		next = now + g.cfg.HeartbeatInterval
	} else if len(g.claims) > 0 {
		next = min(next, now+g.cfg.MaxPollInterval) // one that is handed over from now on is not overdue before
	}
	if p.m.Away(away) {
		p.changed()
	}
	return next
}

// watch has the leader join again when a topic's number of partitions is not what it planned for: they would have no owner.
func (p *party) watch() {
	g := p.g
	g.mu.Lock()
	defer g.mu.Unlock()
	for !p.ended {
		p.grown.WaitTimeout(g.cfg.MetadataMaxAge)
		if !p.m.Leads() || p.ended {
			continue
		}
		counts := p.m.Divided()
		for _, t := range sortedTopics(counts) {
			g.mu.Unlock()
			n, err := p.partitions(t)
			g.mu.Lock()
			if err == nil && n > counts[t] && p.m.Leads() {
				g.m.Mark("mark/consumer/topic-grew")
				p.m.Rejoin()
				p.changed()
				break
			}
		}
	}
}

// tellLeave tells the coordinator that the member leaves. When it cannot be told, the session does.
func (p *party) tellLeave() error {
	g := p.g
	g.mu.Lock()
	req := p.m.LeaveRequest()
	g.mu.Unlock()
	conn, err := p.dial(&p.steady, g.cfg.RequestTimeout)
	if err == nil {
		_, err = conn.Request(req)
	}
	g.mu.Lock()
	p.m.Left()
	p.changed()
	g.mu.Unlock()
	return err
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
