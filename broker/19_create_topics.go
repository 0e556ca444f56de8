package broker

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	coord "faultline/coord/client"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// MaxPartitions bounds one topic.
const MaxPartitions = 10_000

// newTopic is a topic to be made.
type newTopic struct {
	name       string
	partitions int32
	copies     int       // replicas of each partition
	replicas   [][]int32 // nil: spread over the live brokers
	settings   []setting
}

// refusal is why a topic was not created or deleted, for the client.
type refusal struct {
	code int16
	text string
}

func refuse(code int16, format string, args ...any) *refusal {
	return &refusal{code, fmt.Sprintf(format, args...)}
}

// createTopics registers topics. It answers once this broker has opened its part of them; others may need a moment more.
func (c *conn) createTopics(req *kmsg.CreateTopicsRequest) (*kmsg.CreateTopicsResponse, error) {
	b := c.b
	until := b.m.Uptime() + adminWait(req.TimeoutMillis)
	resp := kmsg.NewPtrCreateTopicsResponse()
	seen := map[string]int{}
	for i := range req.Topics {
		seen[req.Topics[i].Topic]++
	}
	for i := range req.Topics {
		rt := &req.Topics[i]
		t, ref := b.checkNewTopic(rt)
		if ref == nil && seen[rt.Topic] > 1 {
			ref = refuse(codeInvalidRequest, "topic %s is named more than once", rt.Topic)
		}
		var id topicID
		if ref == nil && !req.ValidateOnly {
			id, ref = b.createTopic(t, until)
		}
		pt := kmsg.NewCreateTopicsResponseTopic()
		pt.Topic = rt.Topic
		if ref != nil {
			pt.ErrorCode, pt.ErrorMessage = ref.code, kmsg.StringPtr(ref.text)
			pt.NumPartitions, pt.ReplicationFactor = -1, -1
		} else {
			pt.TopicID = id
			pt.NumPartitions, pt.ReplicationFactor = t.partitions, int16(t.copies)
			pt.Configs = []kmsg.CreateTopicsResponseTopicConfig{}
			for _, e := range b.describe(t.settings) {
				pc := kmsg.NewCreateTopicsResponseTopicConfig()
				pc.Name, pc.Value, pc.Source = e.name, kmsg.StringPtr(e.value), int8(e.source)
				pt.Configs = append(pt.Configs, pc)
			}
		}
		resp.Topics = append(resp.Topics, pt)
	}
	return resp, nil
}

// adminWait is how long an administrative request may take.
func adminWait(millis int32) time.Duration {
	return min(max(time.Duration(millis)*time.Millisecond, 100*time.Millisecond), maxAckWait)
}

// checkNewTopic reads what a client asks for.
func (b *Broker) checkNewTopic(rt *kmsg.CreateTopicsRequestTopic) (t newTopic, _ *refusal) {
	t.name, t.partitions = strings.Clone(rt.Topic), rt.NumPartitions
	if err := checkTopicName(t.name); err != nil {
		return t, refuse(codeInvalidTopic, "%v", err)
	}
	for _, rc := range rt.Configs {
		if rc.Value != nil {
			t.settings = append(t.settings, setting{strings.Clone(rc.Name), strings.Clone(*rc.Value)})
		}
	}
	slices.SortFunc(t.settings, func(x, y setting) int { return strings.Compare(x.name, y.name) })
	for i := 1; i < len(t.settings); i++ {
		if t.settings[i].name == t.settings[i-1].name {
			return t, refuse(codeInvalidConfig, "topic setting %s is given twice", t.settings[i].name)
		}
	}
	if _, err := topicPolicy(b.cfg.policy(), t.settings); err != nil {
		return t, refuse(codeInvalidConfig, "%v", err)
	}
	if len(rt.ReplicaAssignment) > 0 {
		if rt.NumPartitions != -1 || rt.ReplicationFactor != -1 {
			return t, refuse(codeInvalidRequest, "with an assignment, the numbers of partitions and replicas must be -1")
		}
		return t, b.readAssignment(rt, &t)
	}
	if t.partitions == -1 {
		t.partitions = b.cfg.Partitions
	}
	switch {
	case t.partitions < 1 || t.partitions > MaxPartitions:
		return t, refuse(codeInvalidPartitions, "%d partitions: want 1 to %d, or -1 for the default", t.partitions, MaxPartitions)
	case rt.ReplicationFactor == -1:
		t.copies = b.cfg.Replicas
	case rt.ReplicationFactor < 1:
		return t, refuse(codeInvalidReplicationFactor, "replication factor %d: want 1 or more, or -1 for the default", rt.ReplicationFactor)
	default:
		t.copies = int(rt.ReplicationFactor)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return t, tooFew(t.copies, b.liveLocked())
}

// tooFew refuses a topic that would have fewer replicas for ever than it should.
func tooFew(copies int, live []liveBroker) *refusal {
	if copies > len(live) {
		return refuse(codeInvalidReplicationFactor, "replication factor %d: %d brokers are registered", copies, len(live))
	}
	return nil
}

// readAssignment reads which broker gets which partition.
func (b *Broker) readAssignment(rt *kmsg.CreateTopicsRequestTopic, t *newTopic) *refusal {
	n := len(rt.ReplicaAssignment)
	if n > MaxPartitions {
		return refuse(codeInvalidPartitions, "%d partitions: want at most %d", n, MaxPartitions)
	}
	t.partitions, t.replicas = int32(n), make([][]int32, n)
	t.copies = len(rt.ReplicaAssignment[0].Replicas)
	b.mu.Lock()
	live := b.liveLocked()
	b.mu.Unlock()
	for _, a := range rt.ReplicaAssignment {
		switch {
		case a.Partition < 0 || int(a.Partition) >= n || t.replicas[a.Partition] != nil:
			return refuse(codeInvalidReplicaAssignment, "partition %d: the assignment must name 0 to %d once each", a.Partition, n-1)
		case len(a.Replicas) == 0 || len(a.Replicas) != t.copies:
			return refuse(codeInvalidReplicaAssignment, "partition %d has %d replicas: want as many as the others, and at least 1", a.Partition, len(a.Replicas))
		}
		for i, id := range a.Replicas {
			switch {
			case slices.Contains(a.Replicas[:i], id):
				return refuse(codeInvalidReplicaAssignment, "partition %d: broker %d is named twice", a.Partition, id)
			case !slices.ContainsFunc(live, func(l liveBroker) bool { return l.id == id }):
				return refuse(codeInvalidReplicaAssignment, "partition %d: broker %d is not registered", a.Partition, id)
			}
		}
		t.replicas[a.Partition] = slices.Clone(a.Replicas)
	}
	return nil
}

// createTopic registers a topic and waits until this broker has opened its part, at most until the given uptime.
func (b *Broker) createTopic(t newTopic, until time.Duration) (topicID, *refusal) {
	b.mu.Lock()
	id := newTopicID(b.rng)
	replicas := t.replicas
	live := b.liveLocked()
	if replicas == nil {
		if refused := tooFew(t.copies, live); refused != nil {
			b.mu.Unlock()
			return id, refused
		}
		first := b.rng.IntN(len(live))
		for p := range int(t.partitions) {
			var r []int32
			for i := range t.copies {
				r = append(r, live[(first+p+i)%len(live)].id)
			}
			replicas = append(replicas, r)
		}
	}
	b.mu.Unlock()

	node := topicsPath + "/" + t.name
	data := (&topic{id: id, replicas: replicas, settings: t.settings}).encode()
	for {
		b.mu.Lock()
		cl := b.session.client
		b.mu.Unlock()
		// Offsets that were committed while an earlier topic of this name was being deleted.
		stale, err := committedOffsets(cl, t.name)
		if err == nil {
			err = cl.Multi(append([]coord.Op{coord.CreateOp(node, data, 0), coord.CreateOp(idPath(t.name, id), nil, 0)}, stale...)...)
		}
		var refused *coord.MultiError
		if errors.As(err, &refused) && refused.Index > 0 {
			continue // a group was faster
		}
		if err == nil && b.m.Failpoint("fault/broker/create-lost") {
			err = coord.ErrConnectionLoss
		}
		if errors.Is(err, coord.ErrNodeExists) {
			// Perhaps by an earlier attempt whose answer was lost.
			found, _, getErr := cl.Get(node, false)
			if getErr == nil {
				if made, decodeErr := decodeTopic(t.name, found); decodeErr == nil && made.id == id {
					b.m.Mark("mark/broker/create-found-done")
					err = nil
				}
			} else if !errors.Is(getErr, coord.ErrNoNode) {
				err = getErr
			}
		}
		if err == nil {
			break
		}
		if errors.Is(err, coord.ErrNodeExists) {
			b.m.Mark("mark/broker/create-of-existing-topic")
			return id, refuse(codeTopicAlreadyExists, "topic %s exists", t.name)
		}
		if code := coordCode(err); code != codeRequestTimedOut || b.m.Uptime() >= until || b.isStopping() {
			return id, refuse(code, "create topic %s: %v", t.name, err)
		}
		b.m.Sleep(keepBackoff)
	}
	if b.m.Failpoint("fault/broker/create-unheard") || !b.awaitTopic(until, func() bool { return b.readyLocked(b.byID[id]) }) {
		b.m.Mark("mark/broker/create-unheard")
		return id, refuse(codeRequestTimedOut, "topic %s is registered, but this broker has not opened it yet", t.name)
	}
	return id, nil
}

// readyLocked tells whether a topic is known and its partitions here are open. The lock is held.
func (b *Broker) readyLocked(t *topic) bool {
	if t == nil {
		return false
	}
	for i, replicas := range t.replicas {
		if slices.Contains(replicas, b.cfg.ID) && t.local[i] == nil {
			return false
		}
	}
	return !t.replicated() || len(t.states) == len(t.replicas) // each has a leader, or had one
}

// awaitTopic waits until something holds of the topics known here, which ok tells under the lock; false: not by then.
func (b *Broker) awaitTopic(until time.Duration, ok func() bool) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for !ok() {
		left := until - b.m.Uptime()
		if left <= 0 || b.stopping {
			return false
		}
		b.changed.WaitTimeout(left)
	}
	return true
}
