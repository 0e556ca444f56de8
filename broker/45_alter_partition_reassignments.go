package broker

import (
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// alterPartitionReassignments begins to move partitions to other replicas (KIP-455), or back to where they were. New replicas are added first; when all that there shall be are in sync the controller takes the others
// out. Only partitions of topics with several replicas move: of others nobody else could have a copy in time.
func (c *conn) alterPartitionReassignments(req *kmsg.AlterPartitionAssignmentsRequest) (*kmsg.AlterPartitionAssignmentsResponse, error) {
	b := c.b
	until := b.m.Uptime() + adminWait(req.TimeoutMillis)
	resp := kmsg.NewPtrAlterPartitionAssignmentsResponse()
	resp.AllowReplicationFactorChange = req.AllowReplicationFactorChange
	for i := range req.Topics {
		rt := &req.Topics[i]
		pt := kmsg.NewAlterPartitionAssignmentsResponseTopic()
		pt.Topic = rt.Topic
		refused := make([]*refusal, len(rt.Partitions))
		all := b.changeTopic(strings.Clone(rt.Topic), until, func(t *topic) *refusal {
			for j := range rt.Partitions {
				refused[j] = b.move(t, &rt.Partitions[j], req.AllowReplicationFactorChange)
			}
			return nil
		})
		for j := range rt.Partitions {
			pp := kmsg.NewAlterPartitionAssignmentsResponseTopicPartition()
			pp.Partition = rt.Partitions[j].Partition
			if pp.ErrorCode, pp.ErrorMessage = refused[j].result(); pp.ErrorCode == 0 {
				pp.ErrorCode, pp.ErrorMessage = all.result()
			}
			pt.Partitions = append(pt.Partitions, pp)
		}
		resp.Topics = append(resp.Topics, pt)
	}
	return resp, nil
}

// move notes in the topic what is asked for one of its partitions.
func (b *Broker) move(t *topic, rp *kmsg.AlterPartitionAssignmentsRequestTopicPartition, resize bool) *refusal {
	id := rp.Partition
	if id < 0 || int(id) >= len(t.replicas) {
		return refuse(codeUnknownTopicOrPartition, "topic %s has no partition %d", t.name, id)
	}
	old := t.moves[id]
	to := slices.Clone(rp.Replicas)
	switch {
	case rp.Replicas == nil && old == nil:
		return refuse(codeNoReassignment, "partition %d of %s is not being reassigned", id, t.name)
	case rp.Replicas == nil:
		to = slices.Clone(old.From)
	default:
		if ref := b.checkReplicas(id, to); ref != nil {
			return ref
		}
	}
	from := t.replicas[id]
	if old != nil {
		from = old.From
	}
	switch {
	case !t.replicated():
		return refuse(codeInvalidReplicaAssignment, "the partitions of %s have one replica each: they cannot be moved", t.name)
	case !resize && len(to) != len(from):
		return refuse(codeInvalidReplicationFactor, "partition %d of %s has %d replicas, %d are asked for, and the request does not allow that", id, t.name, len(from), len(to))
	case old != nil && slices.Equal(old.To, to) || old == nil && slices.Equal(t.replicas[id], to):
		return nil // under way or done
	}
	t.moves[id] = &move{From: from, To: to}
	t.replicas[id] = append(slices.Clone(to), without(t.replicas[id], to)...)
	return nil
}
