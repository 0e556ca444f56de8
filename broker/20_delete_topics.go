package broker

import (
	"errors"
	"strings"
	"time"

	coord "faultline/coord/client"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// deleteTopics takes topics off the registry. Their brokers drop the logs when they hear of it; this one has when it answers.
func (c *conn) deleteTopics(req *kmsg.DeleteTopicsRequest) (*kmsg.DeleteTopicsResponse, error) {
	b := c.b
	until := b.m.Uptime() + adminWait(req.TimeoutMillis)
	resp := kmsg.NewPtrDeleteTopicsResponse()
	answer := func(name *string, id topicID, ref *refusal) {
		pt := kmsg.NewDeleteTopicsResponseTopic()
		pt.Topic, pt.TopicID = name, id
		if ref != nil {
			pt.ErrorCode, pt.ErrorMessage = ref.code, kmsg.StringPtr(ref.text)
		}
		resp.Topics = append(resp.Topics, pt)
	}
	if req.Version < 6 {
		for _, name := range req.TopicNames {
			id, ref := b.deleteTopic(strings.Clone(name), topicID{}, until)
			answer(&name, id, ref)
		}
		return resp, nil
	}
	for i := range req.Topics {
		rt := &req.Topics[i]
		if rt.Topic != nil {
			id, ref := b.deleteTopic(strings.Clone(*rt.Topic), topicID{}, until)
			answer(rt.Topic, id, ref)
			continue
		}
		b.mu.Lock()
		t := b.byID[rt.TopicID]
		b.mu.Unlock()
		if t == nil {
			answer(nil, rt.TopicID, refuse(codeUnknownTopicID, "no topic has id %v", topicID(rt.TopicID)))
			continue
		}
		_, ref := b.deleteTopic(t.name, t.id, until)
		answer(&t.name, rt.TopicID, ref)
	}
	return resp, nil
}

// unregister removes a topic, the state of its partitions if it has one, and the offsets that groups committed, at one stroke.
func (b *Broker) unregister(cl *coord.Client, name string, id topicID, version int32) error {
	stat, found, err := cl.Exists(statePath(name), false)
	if err != nil {
		return err
	}
	ops := []coord.Op{coord.DeleteOp(idPath(name, id), 0)}
	if found {
		ops = append(ops, coord.DeleteOp(statePath(name), stat.Version))
	}
	ops = append(ops, coord.DeleteOp(topicsPath+"/"+name, version))
	offsets, err := committedOffsets(cl, name)
	if err != nil {
		return err
	}
	return cl.Multi(append(ops, offsets...)...)
}

// committedOffsets are the operations that take a topic's offsets from the groups that keep them in the registry (KAFKA-2000): those of a deleted topic mean nothing to the next of its name. Who reads it commits only
// as long as it is there (idPath), so that what is not found between its deletion and the next one's creation never comes.
func committedOffsets(cl *coord.Client, topic string) (ops []coord.Op, err error) {
	groups, _, err := cl.Children(groupsPath, false)
	if errors.Is(err, coord.ErrNoNode) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	for _, g := range groups {
		home := groupsPath + "/" + g + "/offsets/" + topic
		partitions, _, err := cl.Children(home, false)
		if errors.Is(err, coord.ErrNoNode) {
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, p := range partitions {
			ops = append(ops, coord.DeleteOp(home+"/"+p, -1))
		}
	}
	return ops, nil
}

// deleteTopic deletes the topic with the name and id. Without an id it is the one that has the name when the registry is read first.
func (b *Broker) deleteTopic(name string, id topicID, until time.Duration) (topicID, *refusal) {
	if checkTopicName(name) != nil {
		return id, refuse(codeUnknownTopicOrPartition, "no topic can have the name %q", name)
	}
	node := topicsPath + "/" + name
	begun := id != topicID{}
	for {
		b.mu.Lock()
		cl := b.session.client
		b.mu.Unlock()
		data, stat, err := cl.Get(node, false)
		var t *topic
		if err == nil {
			t, err = decodeTopic(name, data)
		}
		switch {
		case errors.Is(err, coord.ErrNoNode) && !begun:
			return id, refuse(codeUnknownTopicOrPartition, "there is no topic %s", name)
		case errors.Is(err, coord.ErrNoNode), err == nil && begun && t.id != id:
			err = nil // an attempt whose answer was lost, or somebody else, deleted it
		case err == nil:
			id, begun = t.id, true
			err = b.unregister(cl, name, id, stat.Version)
			if err == nil && b.m.Failpoint("fault/broker/delete-lost") {
				err = coord.ErrConnectionLoss
			}
			if errors.Is(err, coord.ErrNoNode) || errors.Is(err, coord.ErrBadVersion) || errors.Is(err, coord.ErrNotEmpty) {
				continue
			}
		}
		if err == nil {
			break
		}
		if code := coordCode(err); code != codeRequestTimedOut || b.m.Uptime() >= until || b.isStopping() {
			return id, refuse(code, "delete topic %s: %v", name, err)
		}
		b.m.Sleep(keepBackoff)
	}
	if !b.awaitTopic(until, func() bool { return b.byID[id] == nil }) {
		return id, refuse(codeRequestTimedOut, "topic %s is deleted, but this broker has not heard of it yet", name)
	}
	return id, nil
}
