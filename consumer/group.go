package consumer

import (
	"fmt"
	"math/rand/v2"
	"time"

	"faultline/broker/wire"
	"faultline/sim/machine"
)

// Group is one member of a registry group. Its methods may be called by many tasks; each [Stream] belongs to one at a time.
type Group struct {
	m            machine.Machine
	cfg          Config
	id           string
	paths        registry
	topics       []string // subscribed, sorted
	subscription []byte
	byTopic      map[string][]*Stream
	streams      []*Stream
	frames       wire.Spare // memory of answers to fetches, for all connections

	// mu guards what follows, and what says so. It is never held across I/O, nor while the application works: a slow
	// application or a slow network stops no rebalance.
	mu        machine.Mutex
	wake      machine.Cond // the rebalance task: something changed; Close: it ended
	session   *session
	stale     bool          // something that the division depends on may have changed
	blocker   string        // the node that was in the way of the last claim
	unblocked bool          // it is gone
	last      *membership   // that the claims were made for; nil: whatever is read, a rebalance is due
	claims    []*claim      // standing, by topic and partition
	parting   []*claim      // coordinator group: being given up, and still ours to commit
	fetchers  []*fetcher    // of the claims
	rng       *rand.Rand    // back-off
	closing   bool          // Close was called
	closeBy   time.Duration // Uptime at which Close no longer tries
	closed    bool
	closeErr  error
	failed    error  // why this member can be none; nil: it can
	party     *party // of a coordinator group

	dirty     bool // records were handed over since the last look at what there is to commit
	commitDue machine.Cond

	// committing is held by whoever writes offsets, with I/O: one at a time. It comes before mu.
	committing machine.Mutex
}

// Join starts a member and returns at once: it keeps trying until the coordination service, brokers and topics are there. The error is a Config that
// makes no sense.
func Join(m machine.Machine, cfg Config) (*Group, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	g := &Group{
		m: m, cfg: cfg, id: cfg.ID,
		paths:        newRegistry(cfg.Group),
		topics:       sortedTopics(cfg.Topics),
		subscription: encodeSubscription(cfg.Topics),
		byTopic:      map[string][]*Stream{},
		stale:        true,
		mu:           m.NewMutex("consumer/group"),
		committing:   m.NewMutex("consumer/committing"),
	}
	if g.id == "" {
		g.id = fmt.Sprintf("%s-%08x", m.Name(), m.Rand("consumer/id/"+cfg.Group).Uint32())
	}
	g.rng = m.Rand("consumer/backoff/" + cfg.Group + "/" + g.id)
	g.wake = m.NewCond("consumer/rebalance", g.mu)
	g.commitDue = m.NewCond("consumer/commit", g.mu)
	for _, t := range g.topics {
		for range cfg.Topics[t] {
			st := &Stream{g: g, topic: t, more: m.NewCond("consumer/stream", g.mu)}
			g.byTopic[t] = append(g.byTopic[t], st)
			g.streams = append(g.streams, st)
		}
	}
	if cfg.Protocol == Coordinator {
		g.party = g.newParty()
		g.party.start()
	} else {
		m.Go("consumer/rebalance", g.run)
	}
	if g.autoCommits() {
		m.Go("consumer/commit", g.commitLoop)
	}
	return g, nil
}

// ID is the member's id.
func (g *Group) ID() string { return g.id }

// Streams returns the streams of a topic, as many as Config.Topics asked for. The partitions that this member owns are divided among them.
func (g *Group) Streams(topic string) []*Stream { return g.byTopic[topic] }

// Close commits what was processed (AutoCommit), gives up the partitions and ends the session. It tries for about a session time-out, so a
// coordination service that is away cannot hold it for ever: then the error says so, and the partitions are free once the session expires.
// Streams return ErrClosed from now on. Calls after the first wait for it and return the same.
func (g *Group) Close() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.closing {
		g.closing = true
		g.closeBy = g.m.Uptime() + g.cfg.SessionTimeout
		g.wake.Broadcast()
		g.commitDue.Broadcast()
		for _, st := range g.streams {
			st.more.Broadcast()
		}
		if g.party != nil && g.party.control != nil {
			conn := g.party.control // a join may wait for the others
			g.mu.Unlock()
			conn.Close()
			g.mu.Lock()
		}
	}
	for !g.closed {
		g.wake.Wait()
	}
	return g.closeErr
}

// Seek makes offset the next record of a partition that this member owns. What is queued of it is dropped. The next commit, if
// the partition is still owned then, makes it durable. ErrNotOwner, ErrClosed.
func (g *Group) Seek(topic string, partition int32, offset int64) error {
	if offset < 0 {
		return fmt.Errorf("seek %s/%d to %d: want an offset of 0 or more", topic, partition, offset)
	}
	g.mu.Lock()
	if g.closing {
		g.mu.Unlock()
		return ErrClosed
	}
	c := g.find(topic, partition)
	if c == nil {
		g.mu.Unlock()
		return fmt.Errorf("seek %s/%d to %d: %w", topic, partition, offset, ErrNotOwner)
	}
	old := c.cursor
	old.live.Store(false)
	c.cursor = newCursor(c, offset)
	c.cursor.rewind.Store(true)
	c.position, c.notBefore, c.failures = offset, 0, 0
	c.aside = nil
	c.stream.purge()
	g.touch()
	conn := g.refetch(c)
	g.mu.Unlock()
	if conn != nil {
		conn.Close() // a long poll may be waiting for the old position
	}
	return nil
}

// Progress is where a partition stands.
type Progress struct {
	Topic     string
	Partition int32
	Processed int64 // next record to process, -1: not known yet
	Position  int64 // next record to fetch, -1: not known yet
	End       int64 // first offset that was not visible at the last fetch, -1: not known yet
}

// Lag is the number of visible records that are not processed, as of the last fetch; -1: not known yet.
func (p Progress) Lag() int64 {
	if p.End < 0 || p.Processed < 0 {
		return -1
	}
	return max(p.End-p.Processed, 0)
}

// Progress lists the partitions that this member owns now, by topic and partition.
func (g *Group) Progress() []Progress {
	g.mu.Lock()
	defer g.mu.Unlock()
	var out []Progress
	for _, c := range g.claims {
		out = append(out, Progress{c.topic, c.partition, c.cursor.processed.Load(), c.position, c.end})
	}
	return out
}

func (g *Group) autoCommits() bool { return g.cfg.AutoCommit && g.cfg.Delivery == AtLeastOnce }

func (g *Group) isClosing() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.closing
}

func (g *Group) subject(topic string, partition int32) string {
	return fmt.Sprintf("%s/%s/%d", g.cfg.Group, topic, partition)
}

func (g *Group) traceClaim(kind machine.Kind, c *claim, a int64) {
	g.m.Trace(machine.Event{Kind: kind, Subject: c.subject, Detail: g.id, A: a, C: c.id.short()})
}

func (g *Group) trace(kind machine.Kind, subject string, a int64) {
	g.m.Trace(machine.Event{Kind: kind, Subject: subject, Detail: g.id, A: a})
}
