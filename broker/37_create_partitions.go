package broker

import (
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// createPartitions adds partitions to topics, on the brokers that the request names or spread over the live ones, with as many replicas as the topic's first partition has.
func (c *conn) createPartitions(req *kmsg.CreatePartitionsRequest) (*kmsg.CreatePartitionsResponse, error) {
	b := c.b
	until := b.m.Uptime() + adminWait(req.TimeoutMillis)
	resp := kmsg.NewPtrCreatePartitionsResponse()
	for i := range req.Topics {
		rt := &req.Topics[i]
		pt := kmsg.NewCreatePartitionsResponseTopic()
		pt.Topic = rt.Topic
		asked := int32(-1) // partitions that there were when the request was first looked at
		ref := b.changeTopic(strings.Clone(rt.Topic), until, func(t *topic) *refusal {
			if n := int32(len(t.replicas)); asked < 0 {
				asked = n
			} else if n == rt.Count {
				return nil // an attempt whose answer was lost
			}
			next, ref := b.addPartitions(t, rt)
			if ref == nil && !req.ValidateOnly {
				t.replicas = next
			}
			return ref
		})
		pt.ErrorCode, pt.ErrorMessage = ref.result()
		resp.Topics = append(resp.Topics, pt)
	}
	return resp, nil
}

// addPartitions is the topic's assignment with the partitions that are asked for.
func (b *Broker) addPartitions(t *topic, rt *kmsg.CreatePartitionsRequestTopic) ([][]int32, *refusal) {
	have, copies := len(t.replicas), len(t.replicas[0])
	if m := t.moves[0]; m != nil {
		copies = len(m.To)
	}
	switch {
	case int(rt.Count) <= have || rt.Count > MaxPartitions:
		return nil, refuse(codeInvalidPartitions, "topic %s has %d partitions, %d are asked for: want more, and at most %d", t.name, have, rt.Count, MaxPartitions)
	case len(rt.Assignment) > 0 && len(rt.Assignment) != int(rt.Count)-have:
		return nil, refuse(codeInvalidReplicaAssignment, "%d partitions come, %d are assigned", int(rt.Count)-have, len(rt.Assignment))
	}
	next := slices.Clone(t.replicas)
	if len(rt.Assignment) > 0 {
		for i, a := range rt.Assignment {
			if ref := b.checkReplicas(int32(have+i), a.Replicas); ref != nil {
				return nil, ref
			}
			if len(a.Replicas) != copies {
				return nil, refuse(codeInvalidReplicaAssignment, "partition %d has %d replicas: want %d, as the others have", have+i, len(a.Replicas), copies)
			}
			next = append(next, slices.Clone(a.Replicas))
		}
		return next, nil
	}
	b.mu.Lock()
	live := b.liveLocked()
	b.mu.Unlock()
	if len(live) < copies {
		return nil, refuse(codeInvalidReplicationFactor, "%d replicas are needed, %d brokers are registered", copies, len(live))
	}
	for p := have; p < int(rt.Count); p++ {
		var ids []int32
		for i := range copies {
			ids = append(ids, live[(p+i)%len(live)].id)
		}
		next = append(next, ids)
	}
	return next, nil
}
