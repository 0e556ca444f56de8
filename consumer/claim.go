package consumer

import (
	"slices"
	"sync/atomic"
	"time"

	broker "faultline/broker/client"
	"faultline/sim/machine"
)

// claim is one partition that this member owns or is about to own, from the claim to its end. When the member owns the partition again later,
// that is another claim.
type claim struct {
	topic      string
	partition  int32
	subject    string // "group/topic/partition"
	bond       bond
	owner      string // registry group: path of the owner node
	offsetPath string // registry group: path of the committed offset
	id         topicID
	topicNode  string // registry group: path of a node that is there as long as the topic is
	stream     *Stream
	broker     brokerState   // registry group: who leads it, as long as the claim stands
	gone       bool          // given up or lost. Group.mu
	fetcher    *fetcher      // who reads it; nil: nobody does yet. Group.mu
	paused     atomic.Bool   // the application wants nothing of it now
	aside      []*chunk      // what waits meanwhile, in order. Group.mu
	cursor     *cursor       // Group.mu
	position   int64         // next offset to fetch; -1: to be looked up. Group.mu
	outOfRange int64         // with position -1: the position that proved out of range, -1 when there was none. Group.mu
	end        int64         // first offset that was not visible at the last fetch; -1: not known. Group.mu
	epoch      int32         // leader epoch of who reads it, -1: not known. Group.mu
	failures   int           // fetches that failed in a row. Group.mu
	notBefore  time.Duration // no fetch until this Uptime. Group.mu
	committed  int64         // the registry's offset as last known, -1: none. Group.committing
	version    int32         // of its node, -1: none. Group.committing
	last       bool          // it is given up: its commits from now on are the last. Group.committing
	until      time.Duration // coordinator group: Uptime up to which these are tried. Group.committing
}

// bond is what a claim stands on: a session with the coordination service, or the membership in a coordinator group.
type bond interface {
	// holds tells whether the claim's owner may surely act as such right now. It takes no lock and is no scheduling point.
	holds() bool
	// renew looks whether it may. It may be a scheduling point: what was checked before must be checked again.
	renew() bool
	// commit writes what is due of the targets, and goes on until it is written or cannot be any more. Called with committing held. ErrNotCommitted.
	commit(targets []target) error
}

// cursor is an unbroken run through a claimed partition: a Seek begins another one. Chunks carry the cursor that they were fetched for, and
// nothing of a chunk whose cursor is not live is handed over or counted.
type cursor struct {
	claim *claim
	// live ends with the claim, or with a Seek. It is checked for each record without a lock.
	live atomic.Bool
	// processed is the offset after the last record that the application is done with, -1 when the start is not known yet.
	processed atomic.Int64
	// rewind allows a commit below the last one: the application went back, or the log lost its end.
	rewind atomic.Bool
	// cleared: with AtMostOnce, records below are committed. Only the stream's task looks.
	cleared int64

	// With OutOfOrder, guarded by Group.mu: offsets of the records that were handed over and are not done, in order, and the offset after the last one.
	open  []int64
	after int64
}

func newCursor(c *claim, at int64) *cursor {
	cur := &cursor{claim: c, cleared: -1}
	cur.processed.Store(at)
	cur.live.Store(true)
	return cur
}

func (g *Group) newClaim(s *session, t task) *claim {
	return &claim{
		topic:      t.topic,
		partition:  t.partition,
		subject:    g.subject(t.topic, t.partition),
		bond:       s,
		owner:      g.paths.owner(t.topic, t.partition),
		offsetPath: g.paths.offset(t.topic, t.partition),
		id:         decodeTopicID(t.id),
		topicNode:  topicNode(t.topic, t.id),
		stream:     g.byTopic[t.topic][t.stream],
		broker:     t.broker,
		position:   -1,
		outOfRange: -1,
		end:        -1,
		epoch:      -1,
		committed:  -1,
		version:    -1,
	}
}

// take claims the partition in the registry and then, and only then, reads the committed offset: before, the last owner may still
// move it.
func (g *Group) take(s *session, c *claim) error {
	if err := s.own(c.owner, []byte(g.id)); err != nil {
		return err
	}
	if g.m.Failpoint("fault/consumer/claimed") {
		return errMisfortune
	}
	if err := s.client.EnsurePath(g.paths.home(c.topic)); err != nil {
		return err
	}
	return g.readOffset(s, c)
}

// takeAll claims the partitions, all or nothing: when one claim fails, all are given back, those of unknown outcome too.
func (g *Group) takeAll(s *session, tasks []task) ([]*claim, error) {
	var claims []*claim
	var err error
	for _, t := range tasks {
		if g.m.Failpoint("fault/consumer/claim") {
			err = errMisfortune
			break
		}
		c := g.newClaim(s, t)
		claims = append(claims, c)
		if err = g.take(s, c); err != nil {
			break
		}
		if g.isClosing() {
			err = errClosing
			break
		}
	}
	if err != nil {
		g.giveBackAll(s, claims)
		return nil, err
	}
	return claims, nil
}

func (g *Group) giveBackAll(s *session, claims []*claim) {
	for _, c := range claims {
		g.m.Failpoint("fault/consumer/release")
		if s.giveBack(c.owner) != nil {
			return // the session is over, and with it all its nodes, or will be soon
		}
	}
}

// begin makes the claims active: from now on their records are fetched and handed over. It fails when the session died or is not
// surely alive, or the group began to close; then the claims must be given back.
func (g *Group) begin(s *session, claims []*claim, as *membership) error {
	g.m.Failpoint("fault/consumer/begin")
	s.renew()
	g.mu.Lock()
	if s.dead.Load() || g.closing {
		g.mu.Unlock()
		g.m.Mark("mark/consumer/ended-before-begin")
		return errClosing
	}
	if !s.holds() {
		g.m.Mark("mark/consumer/lease-over-before-begin")
		// The process may have stood still since it claimed, for so long that somebody else owns the partitions by now.
		g.mu.Unlock()
		return errLapsed
	}
	for _, c := range claims {
		c.position = c.committed
		c.cursor = newCursor(c, c.committed)
		g.traceClaim(machine.ConsumerClaimed, c, c.committed)
	}
	g.claims = claims
	g.fetchers = g.newFetchers(claims)
	g.last = as
	fetchers := g.fetchers
	g.mu.Unlock()
	for _, f := range fetchers {
		g.m.Go("consumer/fetcher", f.run)
	}
	return nil
}

// revokeAll ends all claims: no record of theirs is handed over from now on, and what is queued of them is dropped. The registry does not know yet. Called
// with the lock held; the caller closes the connections after it let the lock go.
func (g *Group) revokeAll() ([]*claim, []*broker.Conn) {
	claims, fetchers := g.claims, g.fetchers
	g.claims, g.fetchers, g.last = nil, nil, nil
	for _, c := range claims {
		g.revoke(c)
	}
	var conns []*broker.Conn
	for _, f := range fetchers {
		f.stopped = true
		if f.conn != nil {
			conns = append(conns, f.conn)
		}
		f.cond.Broadcast()
	}
	return claims, conns
}

func (g *Group) revoke(c *claim) {
	c.gone = true
	c.cursor.live.Store(false)
	g.traceClaim(machine.ConsumerReleased, c, 0)
	c.aside = nil
	c.stream.purge()
}

// lost ends one claim that the registry no longer knows, and asks for a rebalance.
func (g *Group) lost(c *claim) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if c.gone {
		return
	}
	g.m.Mark("mark/consumer/claim-lost")
	g.revoke(c)
	g.claims = slices.DeleteFunc(slices.Clone(g.claims), func(o *claim) bool { return o == c })
	g.last = nil
	g.stale = true
	g.wake.Broadcast()
}

// find returns the standing claim on a partition, or nil. Called with the lock held.
func (g *Group) find(topic string, partition int32) *claim {
	for _, c := range g.claims {
		if c.partition == partition && c.topic == topic {
			return c
		}
	}
	return nil
}

func closeConns(conns []*broker.Conn) {
	for _, c := range conns {
		c.Close()
	}
}
