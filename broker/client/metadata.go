package client

import (
	"cmp"
	"fmt"
	"net"
	"slices"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// refreshLocked makes one refresh of the metadata, or waits for the end of the one under way. The error is about reaching a broker.
func (c *Cluster) refreshLocked() error {
	for {
		if c.closed {
			return notSent(ErrClosed)
		}
		if c.refreshing {
			c.m.Mark("mark/client/shared-refresh")
			for c.refreshing && !c.closed {
				c.changed.Wait()
			}
			if c.closed {
				return notSent(ErrClosed)
			}
			return c.lastErr // nil: the caller looks whether it is enough
		}
		wait := c.pace.notBefore - c.m.Uptime()
		if wait <= 0 || c.pace.failures == 0 && c.newcomers() {
			break
		}
		before := c.seq
		c.changed.WaitTimeout(wait)
		if c.seq != before && !c.refreshing {
			return c.lastErr
		}
	}
	c.refreshing = true
	c.seq++
	seq := c.seq
	ok, err := c.fetchMetadata(seq)
	c.refreshing, c.lastErr = false, err
	c.pace.ended(ok && err == nil, c.m.Uptime(), c.cfg.Backoff, c.cfg.BackoffMax, c.rng.Float64())
	c.changed.Broadcast()
	return err
}

// newcomers tells whether there is a topic that was never asked for: while all is well, these need not wait.
func (c *Cluster) newcomers() bool {
	for _, name := range c.names {
		if c.topics[name].got == 0 {
			return true
		}
	}
	return false
}

// fetchMetadata asks some broker for all topics that are not fresh. ok: nothing was missing.
func (c *Cluster) fetchMetadata(seq int) (ok bool, err error) {
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = []kmsg.MetadataRequestTopic{} // nil would mean all
	for _, name := range c.names {
		if e := c.topics[name]; e.got < max(e.want, e.asked) {
			t := kmsg.NewMetadataRequestTopic()
			t.Topic = kmsg.StringPtr(name)
			req.Topics = append(req.Topics, t)
		}
	}
	conn, err := c.anyLocked()
	if err != nil {
		return false, err
	}
	c.mu.Unlock()
	resp, err := conn.start(req, min(c.cfg.RequestTimeout, c.cfg.DialTimeout), true).Wait()
	if err == nil && c.m.Failpoint("fault/client/metadata") {
		err = errMisfortune
	}
	c.mu.Lock()
	if err != nil {
		c.m.Mark("mark/client/metadata-failed")
		return false, notSent(fmt.Errorf("metadata: %w", stripped(err)))
	}
	ok = c.learn(resp.(*kmsg.MetadataResponse), seq)
	for _, t := range req.Topics {
		if e := c.topics[*t.Topic]; e.got < seq {
			e.settle(nil, notSent(fmt.Errorf("topic %s: %w: the metadata leaves it out", *t.Topic, ErrProtocol)), seq, c.m.Uptime())
			ok = false
		}
	}
	return ok, nil
}

// settle stores the outcome of refresh seq. After an error the next caller makes another one.
func (e *entry) settle(t *Topic, err error, seq int, now time.Duration) {
	e.topic, e.err, e.got, e.at = t, err, seq, now
	if err != nil {
		e.want = seq + 1
	}
}

// learn stores what a metadata response says. ok: every topic is known and has all its leaders.
func (c *Cluster) learn(resp *kmsg.MetadataResponse, seq int) (ok bool) {
	c.brokers = c.brokers[:0]
	for _, b := range resp.Brokers {
		c.brokers = append(c.brokers, brokerAddr{b.NodeID, net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port)))})
	}
	slices.SortFunc(c.brokers, func(a, b brokerAddr) int { return cmp.Compare(a.id, b.id) })

	ok = true
	for _, t := range resp.Topics {
		if t.Topic == nil {
			continue
		}
		e := c.entry(*t.Topic)
		if err := kerr.ErrorForCode(t.ErrorCode); err != nil {
			if err == kerr.UnknownTopicOrPartition {
				c.m.Mark("mark/client/unknown-topic")
				err = ErrUnknownTopic
			}
			e.settle(nil, notSent(fmt.Errorf("topic %s: %w", *t.Topic, err)), seq, c.m.Uptime())
			ok = false
			continue
		}
		topic := &Topic{Name: *t.Topic, ID: t.TopicID, Partitions: make([]Partition, len(t.Partitions))}
		for i := range topic.Partitions {
			topic.Partitions[i] = Partition{ID: int32(i), Leader: -1, Epoch: -1}
		}
		was := e.topic
		if e.of != t.TopicID {
			was, e.of, e.least = nil, t.TopicID, nil
		}
		for _, p := range t.Partitions {
			if p.Partition < 0 || int(p.Partition) >= len(topic.Partitions) {
				continue // a hole: its place keeps leader -1
			}
			if p.Leader < 0 {
				c.m.Mark("mark/client/partition-without-leader")
			}
			now := &topic.Partitions[p.Partition]
			now.Leader, now.Epoch = p.Leader, p.LeaderEpoch
			e.raise(p.Partition, p.LeaderEpoch)
			if least := e.least[p.Partition]; p.LeaderEpoch >= 0 && p.LeaderEpoch < least {
				c.m.Mark("mark/client/metadata-of-old-epoch")
				ok = false
				now.Leader, now.Epoch = -1, least
				if was != nil && int(p.Partition) < len(was.Partitions) && was.Partitions[p.Partition].Epoch == least {
					now.Leader = was.Partitions[p.Partition].Leader
				}
			}
			ok = ok && p.Leader >= 0
		}
		e.settle(topic, nil, seq, c.m.Uptime())
	}
	return ok
}

func insert(names []string, name string) []string {
	i, found := slices.BinarySearch(names, name)
	if found {
		return names
	}
	return slices.Insert(names, i, name)
}
