package group

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// consumerType is the protocol type of groups whose members' metadata this package looks into.
const consumerType = "consumer"

// topicsOf are the topics that a member subscribes to, sorted. ok is false when its metadata doesn't say.
func (g *group) topicsOf(m *member) (topics []string, ok bool) {
	meta := kmsg.NewConsumerMemberMetadata()
	if g.protocolType != consumerType || meta.ReadFrom(m.metadata(g.protocol)) != nil {
		return nil, false
	}
	slices.Sort(meta.Topics)
	return slices.Compact(meta.Topics), true
}

// subscribes tells whether a member may be reading the topic: the offsets of it are in use.
func (g *group) subscribes(topic string) bool {
	return slices.ContainsFunc(g.members, func(m *member) bool {
		topics, ok := g.topicsOf(m)
		return !ok || slices.Contains(topics, topic)
	})
}
