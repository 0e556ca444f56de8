package client

import (
	"faultline/sim/machine"
)

// Topic is what the metadata says of a topic.
type Topic struct {
	Name       string
	ID         [16]byte
	Partitions []Partition // sorted by id, without holes
}

// Partition is one partition of a topic.
type Partition struct {
	ID     int32
	Leader int32 // broker id; -1 when its broker is not registered
}

// Cluster finds the brokers of a cluster and keeps a connection to each that is used. All methods may be called by many
// tasks at once; they block for at most a back-off, a dial and a metadata request.
//
// Errors of brokers come as kerr errors (errors.Is with kerr.TopicAlreadyExists and so on), wrapped.
type Cluster struct {
}

// NewCluster starts from the bootstrap addresses ("host:port"). It contacts nobody yet.
func NewCluster(m machine.Machine, bootstrap []string, cfg Config) *Cluster { return nil }

// Topic returns the metadata of a topic, from the cache when it is there, or ErrUnknownTopic. The result is shared: do not change it.
func (c *Cluster) Topic(name string) (*Topic, error) { return nil, nil }

// Leader returns a connection to the partition's broker. After Invalidate, or when it is not known, the metadata is
// refreshed first, within the back-off. Errors: ErrUnknownTopic, ErrNoLeader, ErrClosed, or what the dial said.
func (c *Cluster) Leader(topic string, partition int32) (*Conn, error) { return nil, nil }

// Broker returns a connection to the broker with this id.
func (c *Cluster) Broker(id int32) (*Conn, error) { return nil, nil }

// Any returns a connection to some live broker: one that is connected, or else the next one that answers a dial.
func (c *Cluster) Any() (*Conn, error) { return nil, nil }

// Invalidate says that the topic's metadata proved wrong (NOT_LEADER_OR_FOLLOWER, UNKNOWN_TOPIC_OR_PARTITION, a connection that
// failed): the next call that needs it asks a broker again.
func (c *Cluster) Invalidate(topic string) {}

// Setting is a topic configuration entry, such as {"retention.ms", "60000"}.
type Setting struct{ Name, Value string }

// CreateTopic makes a topic with one replica for each partition. kerr.TopicAlreadyExists when it is there.
func (c *Cluster) CreateTopic(name string, partitions int32, settings ...Setting) error { return nil }

// DeleteTopic deletes a topic. kerr.UnknownTopicOrPartition when there is none.
func (c *Cluster) DeleteTopic(name string) error { return nil }

// Timestamps that ask Offset for a place instead of a time.
const (
	Latest       int64 = -1 // the first offset that is not visible yet
	Earliest     int64 = -2 // the log start
	MaxTimestamp int64 = -3 // the record with the largest timestamp
)

// Offset looks up the first offset whose record's timestamp (ms since 1970) is at least ts, or one of the places above.
// It returns -1, -1 when there is no such record.
func (c *Cluster) Offset(topic string, partition int32, ts int64) (offset, timestamp int64, err error) {
	return -1, -1, nil
}

// Close closes all connections; calls under way and later ones fail with ErrClosed.
func (c *Cluster) Close() {}
