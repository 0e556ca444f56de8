package consumer

import (
	"fmt"
	"slices"

	broker "faultline/broker/client"
)

// Pause has nothing of a partition handed over until Resume; what is queued of it is kept, and takes no room from others. A claim of the partition that comes later is not paused. ErrNotOwner, ErrClosed.
func (g *Group) Pause(topic string, partition int32) error { return g.pauseOr(topic, partition, true) }

// Resume ends a Pause: the partition goes on where it was. ErrNotOwner, ErrClosed.
func (g *Group) Resume(topic string, partition int32) error {
	return g.pauseOr(topic, partition, false)
}

func (g *Group) pauseOr(topic string, partition int32, pause bool) error {
	g.mu.Lock()
	if g.closing {
		g.mu.Unlock()
		return ErrClosed
	}
	c := g.find(topic, partition)
	if c == nil {
		g.mu.Unlock()
		return fmt.Errorf("pause or resume %s/%d: %w", topic, partition, ErrNotOwner)
	}
	var conn *broker.Conn
	switch was := c.paused.Swap(pause); {
	case pause && !was:
		c.stream.setAside(c)
	case was && !pause:
		c.stream.takeBack(c)
		conn = g.refetch(c)
	}
	g.mu.Unlock()
	if conn != nil {
		conn.Close() // a long poll may be waiting without it
	}
	return nil
}

// setAside takes what is queued of a claim out of the queue. Called with the lock held.
func (s *Stream) setAside(c *claim) {
	s.keep(func(ch *chunk) bool {
		if ch.cursor.claim != c {
			return true
		}
		c.aside = append(c.aside, ch)
		return false
	})
}

// takeBack is the end of it. Called with the lock held.
func (s *Stream) takeBack(c *claim) {
	for _, ch := range c.aside {
		s.count(ch, 1)
	}
	s.queue = slices.Concat(c.aside, s.queue)
	c.aside = nil
	s.more.Broadcast()
}

// putBack does away with the chunk that is being read, because its partition is paused: what is left of it comes first when it goes on.
func (s *Stream) putBack() {
	ch := s.reader.chunk
	ch.rest, ch.from = s.reader.head, s.reader.it.Record.Offset
	s.drop()
	g := s.g
	g.mu.Lock()
	defer g.mu.Unlock()
	if !ch.cursor.live.Load() {
		return
	}
	c := ch.cursor.claim
	c.aside = slices.Insert(c.aside, 0, ch)
	if !c.paused.Load() {
		s.takeBack(c) // it goes on already
	}
}
