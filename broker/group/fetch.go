package group

import "github.com/twmb/franz-go/pkg/kmsg"

// Fetch tells the committed offsets of a group: of the partitions asked for, or of all when r.Topics is nil. A partition without one has -1. What is on its way to the log does not
// count. Versions before 8 of OffsetFetch have the same fields for a single group.
func (c *Coordinator) Fetch(r *kmsg.OffsetFetchRequestGroup) kmsg.OffsetFetchResponseGroup {
	resp := kmsg.NewOffsetFetchResponseGroup()
	resp.Group = r.Group
	if resp.ErrorCode = c.refuse(r.Group); resp.ErrorCode != 0 {
		return resp
	}
	g := c.find(r.Group)
	for i := range r.Topics {
		t := kmsg.NewOffsetFetchResponseGroupTopic()
		t.Topic = r.Topics[i].Topic
		for _, n := range r.Topics[i].Partitions {
			t.Partitions = append(t.Partitions, g.fetch(partition{t.Topic, n}))
		}
		resp.Topics = append(resp.Topics, t)
	}
	if r.Topics != nil || g == nil {
		return resp
	}
	for _, p := range g.partitions() {
		if g.offsets[p].at == nil {
			continue
		}
		if n := len(resp.Topics); n == 0 || resp.Topics[n-1].Topic != p.topic {
			t := kmsg.NewOffsetFetchResponseGroupTopic()
			t.Topic = p.topic
			resp.Topics = append(resp.Topics, t)
		}
		t := &resp.Topics[len(resp.Topics)-1]
		t.Partitions = append(t.Partitions, g.fetch(p))
	}
	return resp
}

func (g *group) fetch(p partition) kmsg.OffsetFetchResponseGroupTopicPartition {
	resp := kmsg.NewOffsetFetchResponseGroupTopicPartition()
	resp.Partition, resp.Offset, resp.LeaderEpoch, resp.Metadata = p.n, -1, -1, kmsg.StringPtr("")
	if g == nil || g.offsets[p] == nil || g.offsets[p].at == nil {
		return resp
	}
	at := g.offsets[p].at
	resp.Offset, resp.LeaderEpoch, resp.Metadata = at.offset, at.epoch, kmsg.StringPtr(at.metadata)
	return resp
}
