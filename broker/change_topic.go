package broker

import (
	"errors"
	"slices"
	"time"

	coord "faultline/coord/client"
)

// changeTopic changes a topic's node in the registry, with a condition on its version: change is asked again when somebody else was faster, and when it is not known what became of a write. It must be harmless
// to make the same change twice. Nothing is written when it refuses, or changes nothing. The topic's brokers hear of it by their watches; this one has when it answers.
func (b *Broker) changeTopic(name string, until time.Duration, change func(t *topic) *refusal) *refusal {
	if checkTopicName(name) != nil {
		return refuse(codeUnknownTopicOrPartition, "no topic can have the name %q", name)
	}
	node := topicsPath + "/" + name
	for {
		b.mu.Lock()
		cl := b.session.client
		b.mu.Unlock()
		data, stat, err := cl.Get(node, false)
		if errors.Is(err, coord.ErrNoNode) {
			return refuse(codeUnknownTopicOrPartition, "there is no topic %s", name)
		}
		var t *topic
		if err == nil {
			t, err = b.decodeTopic(name, data)
		}
		version := stat.Version
		if err == nil {
			if ref := change(t); ref != nil {
				return ref
			}
			if next := t.encode(); string(next) != string(data) {
				err = cl.Multi(stands(name, t.id), coord.SetOp(node, next, version))
				version++
			}
		}
		switch {
		case err == nil:
			if !b.awaitTopic(until, func() bool {
				known := b.topics[name]
				return known == nil || known.id != t.id || known.node >= version && b.readyLocked(known)
			}) {
				return refuse(codeRequestTimedOut, "the change of topic %s is registered, but this broker has not heard of it yet", name)
			}
			return nil
		case errors.Is(err, coord.ErrBadVersion), errors.Is(err, coord.ErrNoNode):
			continue
		}
		if code := coordCode(err); code != codeRequestTimedOut || b.m.Uptime() >= until || b.isStopping() {
			return refuse(code, "change topic %s: %v", name, err)
		}
		b.m.Sleep(keepBackoff)
	}
}

// checkReplicas says what is wrong with the replicas that somebody wants for a partition.
func (b *Broker) checkReplicas(partition int32, replicas []int32) *refusal {
	b.mu.Lock()
	live := b.liveLocked()
	b.mu.Unlock()
	if len(replicas) == 0 {
		return refuse(codeInvalidReplicaAssignment, "partition %d has no replica: want at least 1", partition)
	}
	for i, id := range replicas {
		switch {
		case slices.Contains(replicas[:i], id):
			return refuse(codeInvalidReplicaAssignment, "partition %d: broker %d is named twice", partition, id)
		case !slices.ContainsFunc(live, func(l liveBroker) bool { return l.id == id }):
			return refuse(codeInvalidReplicaAssignment, "partition %d: broker %d is not registered", partition, id)
		}
	}
	return nil
}

// result is a refusal as two fields of a response.
func (r *refusal) result() (code int16, text *string) {
	if r == nil {
		return 0, nil
	}
	return r.code, &r.text
}
