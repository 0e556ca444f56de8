package consumer

import (
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	broker "faultline/broker/client"
	"faultline/sim/machine"
)

// lookUp finds positions for partitions that have none: nobody committed one, or it proved out of range. They go to the start or the end of the log, as
// configured, and nowhere else: with Smallest, what is skipped is exactly what the log no longer holds.
func (f *fetcher) lookUp(conn *broker.Conn) error {
	g := f.g
	place := broker.Earliest
	if g.cfg.Reset == Largest {
		place = broker.Latest
	}
	cursors, epochs := make([]*cursor, len(f.resets)), make([]int32, len(f.resets))
	g.mu.Lock()
	for i, c := range f.resets {
		cursors[i], epochs[i] = c.cursor, c.epoch
	}
	g.mu.Unlock()

	// The request has no room for ids (KIP-516 left it out). So the broker is asked first whose name it is: a topic's successor comes later, and of that nobody fetches by the old id.
	strange, err := f.strange(conn)
	if err != nil {
		return err
	}
	req := kmsg.NewPtrListOffsetsRequest()
	req.ReplicaID = -1
	for i, c := range f.resets {
		if n := len(req.Topics); n == 0 || req.Topics[n-1].Topic != c.topic {
			t := kmsg.NewListOffsetsRequestTopic()
			t.Topic = c.topic
			req.Topics = append(req.Topics, t)
		}
		p := kmsg.NewListOffsetsRequestTopicPartition()
		p.Partition, p.Timestamp = c.partition, place
		p.CurrentLeaderEpoch = epochs[i]
		t := &req.Topics[len(req.Topics)-1]
		t.Partitions = append(t.Partitions, p)
	}
	resp, err := conn.Request(req)
	if err != nil {
		return err
	}
	if g.m.Failpoint("fault/consumer/look-up") {
		return errMisfortune
	}
	answer, ok := resp.(*kmsg.ListOffsetsResponse)
	if !ok {
		return fmt.Errorf("list offsets of %s: the answer is a %T", f.broker.addr, resp)
	}

	g.mu.Lock()
	defer g.mu.Unlock()
	for i, c := range f.resets {
		if c.gone || c.cursor != cursors[i] || c.position >= 0 {
			continue
		}
		offset := int64(-1)
		for _, t := range answer.Topics {
			for _, p := range t.Partitions {
				if t.Topic == c.topic && p.Partition == c.partition && kerr.ErrorForCode(p.ErrorCode) == nil {
					offset = p.Offset
				}
			}
		}
		if offset < 0 || slices.Contains(strange, c.topic) {
			g.refused(c)
			continue
		}
		g.resetTo(c, offset)
	}
	return nil
}

// strange lists the topics of the partitions to be looked up that this broker knows by another id than the claims do, or not at all.
func (f *fetcher) strange(conn *broker.Conn) ([]string, error) {
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = []kmsg.MetadataRequestTopic{}
	for _, c := range f.resets {
		if n := len(req.Topics); c.id != (topicID{}) && (n == 0 || *req.Topics[n-1].Topic != c.topic) {
			t := kmsg.NewMetadataRequestTopic()
			t.Topic = kmsg.StringPtr(c.topic)
			req.Topics = append(req.Topics, t)
		}
	}
	if len(req.Topics) == 0 {
		return nil, nil
	}
	resp, err := conn.Request(req)
	if err != nil {
		return nil, err
	}
	answer, ok := resp.(*kmsg.MetadataResponse)
	if !ok {
		return nil, fmt.Errorf("metadata of %s: the answer is a %T", f.broker.addr, resp)
	}
	var strange []string
	for _, c := range f.resets {
		known := slices.ContainsFunc(answer.Topics, func(t kmsg.MetadataResponseTopic) bool {
			return t.Topic != nil && *t.Topic == c.topic && c.id == t.TopicID
		})
		if !known && c.id != (topicID{}) {
			f.g.m.Mark("mark/consumer/look-up-of-deleted-topic")
			strange = append(strange, c.topic)
		}
	}
	return strange, nil
}

// resetTo goes on from offset. What is queued from before stays: it was read, so it is handed over. Called with the lock held.
func (g *Group) resetTo(c *claim, offset int64) {
	old := c.outOfRange
	c.position, c.outOfRange, c.failures = offset, -1, 0
	if old < 0 {
		g.m.Mark("mark/consumer/began-without-commit")
		// The starting point counts as processed up to there, so that it gets committed: the next owner begins there too.
		c.cursor.processed.CompareAndSwap(-1, offset)
		g.touch()
	} else if offset < old {
		g.m.Mark("mark/consumer/reset-back")
		c.cursor.rewind.Store(true) // the log lost its end: commits go back with it
	} else {
		g.m.Mark("mark/consumer/reset-forward")
	}
	g.m.Trace(machine.Event{Kind: machine.ConsumerReset, Subject: c.subject, Detail: g.id, A: old, B: offset, C: c.id.short()})
}
