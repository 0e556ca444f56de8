package client

import (
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Setting is a topic configuration entry, such as {"retention.ms", "60000"}.
type Setting struct{ Name, Value string }

// CreateTopic makes a topic with so many replicas of each partition. kerr.TopicAlreadyExists when it is there.
func (c *Cluster) CreateTopic(name string, partitions int32, replicas int16, settings ...Setting) error {
	req := kmsg.NewPtrCreateTopicsRequest()
	req.TimeoutMillis = int32(c.cfg.RequestTimeout.Milliseconds())
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = name, partitions, replicas
	for _, s := range settings {
		e := kmsg.NewCreateTopicsRequestTopicConfig()
		e.Name, e.Value = s.Name, kmsg.StringPtr(s.Value)
		t.Configs = append(t.Configs, e)
	}
	req.Topics = append(req.Topics, t)
	resp, err := c.request(req)
	if err != nil {
		return fmt.Errorf("create topic %s: %w", name, err)
	}
	c.Invalidate(name)
	for _, t := range resp.(*kmsg.CreateTopicsResponse).Topics {
		if t.Topic != name {
			continue
		}
		if err := kerr.ErrorForCode(t.ErrorCode); err != nil {
			if t.ErrorMessage != nil {
				return fmt.Errorf("create topic %s: %w: %s", name, err, *t.ErrorMessage)
			}
			return fmt.Errorf("create topic %s: %w", name, err)
		}
		return nil
	}
	return fmt.Errorf("create topic %s: %w", name, unknown(fmt.Errorf("%w: the answer leaves it out", ErrProtocol)))
}

// DeleteTopic deletes a topic. kerr.UnknownTopicOrPartition when there is none.
func (c *Cluster) DeleteTopic(name string) error {
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.TopicNames = []string{name}
	t := kmsg.NewDeleteTopicsRequestTopic()
	t.Topic = kmsg.StringPtr(name)
	req.Topics = append(req.Topics, t)
	defer c.Invalidate(name)
	return c.deleteTopic(name, req)
}

// DeleteTopicID deletes the topic with the id, and no other that may have its name by now. kerr.UnknownTopicID when the broker that is asked does not know it, or not yet.
func (c *Cluster) DeleteTopicID(id [16]byte) error {
	req := kmsg.NewPtrDeleteTopicsRequest()
	t := kmsg.NewDeleteTopicsRequestTopic()
	t.TopicID = id
	req.Topics = append(req.Topics, t)
	return c.deleteTopic(fmt.Sprintf("%x", id), req)
}

func (c *Cluster) deleteTopic(name string, req *kmsg.DeleteTopicsRequest) error {
	req.TimeoutMillis = int32(c.cfg.RequestTimeout.Milliseconds())
	resp, err := c.request(req)
	if err != nil {
		return fmt.Errorf("delete topic %s: %w", name, err)
	}
	for _, t := range resp.(*kmsg.DeleteTopicsResponse).Topics {
		if err := kerr.ErrorForCode(t.ErrorCode); err != nil {
			return fmt.Errorf("delete topic %s: %w", name, err)
		}
	}
	return nil
}

// Reassign begins to move partitions, which are named by their place in the list, to other replicas. A nil entry leaves a partition as it is.
func (c *Cluster) Reassign(topic string, replicas [][]int32) error {
	req := kmsg.NewPtrAlterPartitionAssignmentsRequest()
	req.TimeoutMillis = int32(c.cfg.RequestTimeout.Milliseconds())
	t := kmsg.NewAlterPartitionAssignmentsRequestTopic()
	t.Topic = topic
	for id, list := range replicas {
		if list != nil {
			p := kmsg.NewAlterPartitionAssignmentsRequestTopicPartition()
			p.Partition, p.Replicas = int32(id), list
			t.Partitions = append(t.Partitions, p)
		}
	}
	req.Topics = append(req.Topics, t)
	resp, err := c.request(req)
	if err != nil {
		return fmt.Errorf("reassign %s: %w", topic, err)
	}
	c.Invalidate(topic)
	answer := resp.(*kmsg.AlterPartitionAssignmentsResponse)
	if err := kerr.ErrorForCode(answer.ErrorCode); err != nil {
		return fmt.Errorf("reassign %s: %w", topic, err)
	}
	for _, t := range answer.Topics {
		for _, p := range t.Partitions {
			if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
				return fmt.Errorf("reassign %s/%d: %w", topic, p.Partition, err)
			}
		}
	}
	return nil
}

// Timestamps that ask Offset for a place instead of a time.
const (
	Latest       int64 = -1 // the first offset that is not visible yet
	Earliest     int64 = -2 // the log start
	MaxTimestamp int64 = -3 // the record with the largest timestamp
)

// Offset looks up the first offset whose record's timestamp (ms since 1970) is at least ts, or one of the places above.
// It returns -1, -1 when there is no such record.
func (c *Cluster) Offset(topic string, partition int32, ts int64) (offset, timestamp int64, err error) {
	fail := func(err error) (int64, int64, error) {
		return -1, -1, fmt.Errorf("offset of %s/%d at %d: %w", topic, partition, ts, err)
	}
	conn, err := c.Leader(topic, partition)
	if err != nil {
		return fail(err)
	}
	if offset, timestamp, err = conn.Offset(topic, partition, -1, ts); err != nil {
		var refused *kerr.Error
		if !errors.As(err, &refused) || refused == kerr.NotLeaderForPartition || refused == kerr.UnknownTopicOrPartition {
			c.Invalidate(topic)
		}
		return fail(err)
	}
	return offset, timestamp, nil
}

// request sends an administrative request to any broker.
func (c *Cluster) request(req kmsg.Request) (kmsg.Response, error) {
	conn, err := c.Any()
	if err != nil {
		return nil, err
	}
	return conn.Request(req)
}
