package broker

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// listPartitionReassignments tells which partitions are being moved, as far as this broker knows.
func (c *conn) listPartitionReassignments(req *kmsg.ListPartitionReassignmentsRequest) (*kmsg.ListPartitionReassignmentsResponse, error) {
	b := c.b
	resp := kmsg.NewPtrListPartitionReassignmentsResponse()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, name := range b.names {
		t := b.topics[name]
		pt := kmsg.NewListPartitionReassignmentsResponseTopic()
		pt.Topic = name
		for id, m := range t.moves {
			if m == nil || req.Topics != nil && !slices.ContainsFunc(req.Topics, func(rt kmsg.ListPartitionReassignmentsRequestTopic) bool {
				return rt.Topic == name && slices.Contains(rt.Partitions, int32(id))
			}) {
				continue
			}
			pp := kmsg.NewListPartitionReassignmentsResponseTopicPartition()
			pp.Partition, pp.Replicas, pp.AddingReplicas, pp.RemovingReplicas = int32(id), t.replicas[id], m.adding(), m.leaving(t.replicas[id])
			pt.Partitions = append(pt.Partitions, pp)
		}
		if len(pt.Partitions) > 0 {
			resp.Topics = append(resp.Topics, pt)
		}
	}
	return resp, nil
}
