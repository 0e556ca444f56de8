// Package deploy says what the programs of a drawn scenario are configured with: brokers, coordination servers, producers, consumers and topics. It is the same on simulated and on real machines.
package deploy

import (
	"fmt"
	"math"
	"time"

	"faultline/broker"
	"faultline/broker/record"
	"faultline/consumer"
	"faultline/consumer/assign"
	"faultline/coord"
	"faultline/faults/quantity"
	"faultline/producer"
	"faultline/workloads/scenario"
)

// Ports that programs serve on, where each has a machine of its own.
const (
	CoordPort  = 2181
	PeerPort   = 2888 // of coordination servers, for each other
	BrokerPort = 9092
)

// Addresses are where the servers of a scenario are.
type Addresses struct {
	Coord   []string // by index
	Peers   []string // of coordination servers, for each other
	Brokers []string
}

// Machines are the addresses of servers that each have a machine of their own.
func Machines(list []scenario.Machine) Addresses {
	var a Addresses
	for _, m := range list {
		switch m.Role {
		case "coord":
			a.Coord = append(a.Coord, fmt.Sprintf("%s:%d", m.Name, CoordPort))
			a.Peers = append(a.Peers, fmt.Sprintf("%s:%d", m.Name, PeerPort))
		case "broker":
			a.Brokers = append(a.Brokers, fmt.Sprintf("%s:%d", m.Name, BrokerPort))
		}
	}
	return a
}

// Coord is the configuration of a server of the coordination service; index counts from 1.
func Coord(sc *scenario.Scenario, a Addresses, index int) coord.Config {
	c := sc.Topology.Coordinators
	return coord.Config{Port: CoordPort, Peers: a.Peers, ID: index, DataDir: "coord", TickTime: c.Tick.V().D(), SnapshotEvery: int(c.SnapshotEvery.V())}
}

// Broker is the configuration of a broker.
func Broker(sc *scenario.Scenario, a Addresses, id int32) broker.Config {
	c := &sc.Topology.Brokers
	return broker.Config{
		ID: id, Port: BrokerPort, Coord: a.Coord, SessionTimeout: c.SessionTimeout.V().D(), DataDir: "broker",
		ReplicaLag: c.ReplicaLag.V().D(), ReplicaFetchBytes: int(c.ReplicaFetchBytes.V()), PreferredInterval: c.PreferredInterval.V().D(),
		RetentionInterval: c.RetentionInterval.V().D(),
		OffsetsPartitions: int32(c.OffsetsPartitions.V()), OffsetsReplicas: OffsetsReplicas(sc), OffsetsLeastISR: 1 + OffsetsReplicas(sc)/2,
		OffsetsSegmentBytes: int64(c.OffsetsSegmentBytes.V()), OffsetsRetention: c.OffsetsRetention.V().D(), OffsetsCheck: c.OffsetsCheck.V().D(),
		MinGroupSession: time.Millisecond, GroupDelay: groupDelay(c.GroupDelay.V().D()), CopyReads: c.ZeroCopy.V() == "no",
	}
}

// OffsetsReplicas is how many replicas the offsets topic has.
func OffsetsReplicas(sc *scenario.Scenario) int {
	c := &sc.Topology.Brokers
	return int(min(c.OffsetsReplicas.V(), c.Count.V()))
}

// groupDelay is the scenario's duration in the broker's words.
func groupDelay(d time.Duration) time.Duration {
	if d == 0 {
		return -1
	}
	return d
}

var codecs = map[string]record.Codec{"none": record.None, "gzip": record.Gzip, "snappy": record.Snappy, "lz4": record.LZ4, "zstd": record.Zstd}

// Acks are the values of a scenario's acks in the protocol's words.
var Acks = map[string]int16{"0": 0, "1": 1, "all": -1}

// Producer is the configuration of a producer.
func Producer(a Addresses, c *scenario.Producer) producer.Config {
	cfg := producer.Config{
		Brokers: a.Brokers, Acks: Acks[c.Acks.V()],
		BatchBytes: int(c.Batch.V()), BatchRecords: int(Unlimited(int64(c.BatchRecords.V()), 0)), Linger: c.Linger.V().D(), BufferBytes: int(c.Buffer.V()),
		Retries: retries(int64(c.Retries.V())), RetryBackoff: c.RetryBackoff.V().D(), RequestTimeout: c.RequestTimeout.V().D(),
		DeliveryTimeout: c.DeliveryTimeout.V().D(), MaxInFlight: int(c.InFlight.V()), Idempotent: c.Idempotent.V() == "yes", MetadataMaxAge: time.Second, Compression: codecs[c.Compression.V()],
	}
	switch c.Partitioner.V() {
	case "random":
		cfg.Partitioner = producer.Random
	case "sticky":
		cfg.Partitioner = producer.Sticky
	}
	return cfg
}

// retries is the scenario's number in the producer's words.
func retries(n int64) int {
	switch n {
	case 0:
		return -1
	case math.MaxInt64:
		return 0 // as long as the delivery time-out lasts
	}
	return int(min(n, math.MaxInt32))
}

// Consumer is the configuration of the consumer of a group that is named.
func Consumer(sc *scenario.Scenario, a Addresses, c *scenario.Group, name string) consumer.Config {
	topics := map[string]int{}
	for _, t := range sc.TopicsOf(c) {
		topics[t] = int(c.Streams.V())
	}
	cfg := consumer.Config{
		Group: c.Name, ID: name, Coord: a.Coord, SessionTimeout: c.SessionTimeout.V().D(), Topics: topics,
		AutoCommit: c.Commit.V() == "auto", CommitInterval: c.CommitInterval.V().D(),
		FetchBytes: int32(c.FetchBytes.V()), FetchMinBytes: int32(c.FetchMin.V()), MaxWait: c.FetchWait.V().D(), QueueRecords: int(c.Queue.V()),
		RebalanceRetries: int(Unlimited(int64(c.RebalanceRetries.V()), 0)), RebalanceBackoff: c.RebalanceBackoff.V().D(),
		RequestTimeout: 2 * time.Second,
	}
	if c.Protocol.V() == "coordinator" {
		assignor, _ := assign.ByName(c.Assignor.V())
		cfg.Protocol, cfg.Coord, cfg.Brokers, cfg.Assignors = consumer.Coordinator, nil, a.Brokers, []*assign.Assignor{assignor}
		cfg.MaxPollInterval, cfg.MetadataMaxAge = c.MaxPollInterval.V().D(), time.Second
		cfg.RequestTimeout, cfg.Old = time.Second, c.Clients.V() == "old"
		if c.Static.V() == "yes" {
			cfg.Instance = name
		}
	}
	if c.Reset.V() == "largest" {
		cfg.Reset = consumer.Largest
	}
	if c.Delivery.V() == "at-most-once" {
		cfg.Delivery = consumer.AtMostOnce
	} else {
		cfg.OutOfOrder = c.Workers.V() > 1
	}
	return cfg
}

// OrNever is a duration whose value "never" is written as the given number.
func OrNever(d quantity.Durations, never time.Duration) time.Duration {
	if v := d.V().D(); v != math.MaxInt64 {
		return v
	}
	return never
}

// Unlimited is n, or instead where that stands for no limit.
func Unlimited(n int64, instead int64) int64 {
	if n == math.MaxInt64 {
		return instead
	}
	return n
}
