package group

import (
	"bytes"
	"cmp"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// DeleteOffsets forgets offsets that the group doesn't use (KIP-496). It is answered with kmsg.OffsetDeleteResponse when that is in the log.
func (c *Coordinator) DeleteOffsets(now Time, ref Ref, r *kmsg.OffsetDeleteRequest) {
	resp := kmsg.NewPtrOffsetDeleteResponse()
	resp.Version = r.Version
	g := c.find(r.Group)
	resp.ErrorCode = c.refuse(r.Group)
	switch {
	case resp.ErrorCode != 0:
	case g == nil:
		resp.ErrorCode = codeGroupNotFound
	case g.state == Dead:
		resp.ErrorCode = codeNotAvailable
	case len(g.members) > 0 && g.protocolType != consumerType:
		resp.ErrorCode = codeNonEmpty // what it uses cannot be told
	}
	if resp.ErrorCode != 0 {
		c.reply(ref, resp)
		return
	}
	var gone []partition
	for i := range r.Topics {
		t := kmsg.NewOffsetDeleteResponseTopic()
		t.Topic = r.Topics[i].Topic
		for j := range r.Topics[i].Partitions {
			p := kmsg.NewOffsetDeleteResponseTopicPartition()
			p.Partition = r.Topics[i].Partitions[j].Partition
			if g.subscribes(t.Topic) {
				p.ErrorCode = codeSubscribed
			} else if where := (partition{t.Topic, p.Partition}); g.offsets[where] != nil {
				gone = append(gone, where)
			}
			t.Partitions = append(t.Partitions, p)
		}
		resp.Topics = append(resp.Topics, t)
	}
	if len(gone) == 0 {
		c.reply(ref, resp)
		return
	}
	c.append(g.tombstones(gone), func(_ Time, ok bool) {
		if !ok {
			c.reply(ref, failedDelete(resp, codeNotAvailable))
			return
		}
		for _, p := range gone {
			g.drop(p)
		}
		c.reply(ref, resp)
	}, func(code int16) { c.reply(ref, failedDelete(resp, code)) })
}

func failedDelete(resp *kmsg.OffsetDeleteResponse, code int16) *kmsg.OffsetDeleteResponse {
	resp.ErrorCode, resp.Topics = code, nil
	return resp
}

// Named is a topic that had the name, or has it.
type Named struct {
	Name string
	ID   TopicID
}

// TopicDeleted forgets the offsets of a topic in all groups: they must not be taken for those of another topic of the same name (KAFKA-2000). Also those on their way to the log. What was committed in the other topic
// already stays.
func (c *Coordinator) TopicDeleted(topic Named) {
	if c.phase != isServing {
		return
	}
	for _, g := range c.sorted() {
		if g.state == Dead {
			continue
		}
		var gone []partition
		for _, p := range g.partitions() {
			o := g.offsets[p]
			switch {
			case p.topic != topic.Name:
			case o.last.is(topic.ID):
				gone = append(gone, p)
				delete(g.offsets, p) // a commit that is under way keeps its own offset, which nobody sees
			case o.at != nil && o.at.topic.is(topic.ID):
				o.at = nil // the one of the other topic that is under way comes later in the log
			}
		}
		if len(gone) > 0 {
			c.append(g.tombstones(gone), nil, nil)
		}
	}
}

// Topics are those that some group has offsets of, sorted by name. One that was deleted while the partition had no coordinator is found here after loading.
func (c *Coordinator) Topics() []Named {
	var topics []Named
	for _, g := range c.sorted() {
		for _, p := range g.partitions() {
			topics = append(topics, Named{p.topic, g.offsets[p].last})
		}
	}
	slices.SortFunc(topics, func(a, b Named) int { return cmp.Or(strings.Compare(a.Name, b.Name), bytes.Compare(a.ID[:], b.ID[:])) })
	return slices.Compact(topics)
}
