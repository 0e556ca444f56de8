package consumer

import (
	"fmt"

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
		if offset < 0 {
			g.refused(c)
			continue
		}
		g.resetTo(c, offset)
	}
	return nil
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
	g.m.Trace(machine.Event{Kind: machine.ConsumerReset, Subject: c.subject, Detail: g.id, A: old, B: offset})
}
