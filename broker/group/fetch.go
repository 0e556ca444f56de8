package group

import "github.com/twmb/franz-go/pkg/kmsg"

// Fetch tells the committed offsets of a group: of the partitions asked for, or of all when r.Topics is nil. A partition without one has -1. What is on its way to the log does not
// count, nor what was committed in another topic of the same name. Whoever calls sets both name and id of the topics that it knows; one without a name is unknown. Versions before 8 of OffsetFetch have the same fields for a single group.
func (c *Coordinator) Fetch(r *kmsg.OffsetFetchRequestGroup) kmsg.OffsetFetchResponseGroup {
	resp := kmsg.NewOffsetFetchResponseGroup()
	resp.Group = r.Group
	if resp.ErrorCode = c.refuse(r.Group); resp.ErrorCode != 0 {
		return resp
	}
	g := c.find(r.Group)
	for i := range r.Topics {
		t := kmsg.NewOffsetFetchResponseGroupTopic()
		t.Topic, t.TopicID = r.Topics[i].Topic, r.Topics[i].TopicID
		for _, n := range r.Topics[i].Partitions {
			p := g.fetch(partition{t.Topic, n}, t.TopicID)
			if t.Topic == "" {
				p.ErrorCode = codeUnknownTopicID
			}
			t.Partitions = append(t.Partitions, p)
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
		id := g.offsets[p].at.topic
		if n := len(resp.Topics); n == 0 || resp.Topics[n-1].Topic != p.topic || resp.Topics[n-1].TopicID != id {
			t := kmsg.NewOffsetFetchResponseGroupTopic()
			t.Topic, t.TopicID = p.topic, id
			resp.Topics = append(resp.Topics, t)
		}
		t := &resp.Topics[len(resp.Topics)-1]
		t.Partitions = append(t.Partitions, g.fetch(p, id))
	}
	return resp
}

func (g *group) fetch(p partition, id TopicID) kmsg.OffsetFetchResponseGroupTopicPartition {
	resp := kmsg.NewOffsetFetchResponseGroupTopicPartition()
	resp.Partition, resp.Offset, resp.LeaderEpoch, resp.Metadata = p.n, -1, -1, kmsg.StringPtr("")
	if g == nil || g.offsets[p] == nil || g.offsets[p].at == nil || !g.offsets[p].at.topic.is(id) {
		return resp
	}
	at := g.offsets[p].at
	resp.Offset, resp.LeaderEpoch, resp.Metadata = at.offset, at.epoch, kmsg.StringPtr(at.metadata)
	return resp
}
