package consumer

import (
	"fmt"
	"slices"
	"strings"
	"time"

	broker "faultline/broker/client"
	"faultline/consumer/assign"
	coord "faultline/coord/client"
)

// Reset says where a group starts that has no committed offset, or one that is out of range.
type Reset uint8

const (
	Smallest Reset = iota // at the start of the log
	Largest               // at its end
)

// Delivery says when an offset is committed.
type Delivery uint8

const (
	// AtLeastOnce commits what the application has processed.
	AtLeastOnce Delivery = iota
	// AtMostOnce commits records before it hands them over, up to 100 of a partition at a time. When the consumer crashes or loses
	// the partition in between, the committed records that were not handed over yet are lost to the group.
	AtMostOnce
)

// Protocol says how the members of a group find to each other.
type Protocol uint8

const (
	Registry    Protocol = iota // the paper's: in the coordination service, without a master
	Coordinator                 // Kafka's classic protocol: by a broker
)

// Config says how to join a group. Zero fields take the default.
type Config struct {
	Group    string // required
	Protocol Protocol
	// ID names the member; no two members of a group may have the same. Default: the machine's name and a random number, which is not enough
	// when one process joins the same group twice.
	ID             string
	Coord          []string       // addresses of the coordination service ("host:port"); required of a registry group
	SessionTimeout time.Duration  // of the session there, or at the group coordinator; a member that is silent so long loses its partitions (default 6 s)
	Topics         map[string]int // topic -> number of streams; required

	// Of a coordinator group.
	Brokers []string // addresses to find the cluster by ("host:port"); required
	// Assignors by preference; all members must have one in common (default: range). With one that is not cooperative among them, partitions are given up
	// before every rebalance.
	Assignors []*assign.Assignor
	// Instance makes the member a static one (group.instance.id, KIP-345): it does not leave when it closes, and gets what it had when it comes back within its session.
	Instance string
	// MaxPollInterval is how long the application may work on a record. When it takes longer the member leaves the group, until Next is called again (KIP-62; default 5 min).
	MaxPollInterval  time.Duration
	RebalanceTimeout time.Duration // how long a rebalance waits for this member (default MaxPollInterval)
	// Old: the member speaks the first version of JoinGroup, as clients before KIP-62 and KIP-394 do. It cannot tell a RebalanceTimeout, so that this is its session time-out, and does not
	// learn its member id before the first rebalance is over. It cannot be a static one.
	Old               bool
	HeartbeatInterval time.Duration // default a third of SessionTimeout at most, 3 s
	MetadataMaxAge    time.Duration // how often leaders and numbers of partitions are looked up anew (default 5 min)
	Listener          Listener

	Reset    Reset
	Delivery Delivery
	// OutOfOrder: the application works on several records of a stream at a time and says with Message.Done which it is done with, in any order; Stream.Next says nothing of the record before.
	// With AtLeastOnce only.
	OutOfOrder bool
	// AutoCommit commits every CommitInterval what was processed, and on every release of a partition. Without it only Commit does. With
	// AtMostOnce it means nothing.
	AutoCommit     bool
	CommitInterval time.Duration // default 1 s

	FetchBytes    int32         // most bytes of one partition in one fetch (default 1 MiB)
	FetchMinBytes int32         // a fetch waits for so many bytes (default 1) ...
	MaxWait       time.Duration // ... but no longer than this (default 5 s)
	// QueueRecords bounds each stream's queue: nothing more is fetched for a stream that has so many records or QueueBytes waiting. A
	// fetch under way may exceed it once.
	QueueRecords int // default 10,000
	QueueBytes   int // default 16 MiB

	// RebalanceRetries is how many attempts in a row may fail before the member stops trying and waits for the next change of the registries, or
	// for a session time-out, to start anew. Default 0: no limit.
	RebalanceRetries int
	// RebalanceBackoff is the pause after the first failed attempt. It doubles with each further one, up to the session time-out, and is
	// spread by half either way. Default 200 ms.
	RebalanceBackoff time.Duration

	RequestTimeout time.Duration // for the answer of a broker, besides MaxWait (default 10 s)

	Tap      broker.Tap // sees every request to brokers; of a coordinator group only what concerns the group and fetches
	CoordTap coord.Tap  // sees every operation on the coordination service
}

// Listener is told which partitions the member of a coordinator group gets and loses. Its functions run one at a time and hold up the rebalance; nil ones are not called.
type Listener struct {
	Assigned func([]assign.Partition) // before the first record of them
	// Revoked: no record of them is handed over any more, and nobody else owns them yet: Commit still counts for them.
	Revoked func([]assign.Partition)
	Lost    func([]assign.Partition) // others may own them already
}

func (c Config) withDefaults() (Config, error) {
	def := func(d *time.Duration, v time.Duration) {
		if *d <= 0 {
			*d = v
		}
	}
	def(&c.SessionTimeout, 6*time.Second)
	def(&c.CommitInterval, time.Second)
	def(&c.MaxWait, 5*time.Second)
	def(&c.RebalanceBackoff, 200*time.Millisecond)
	def(&c.RequestTimeout, 10*time.Second)
	if c.FetchBytes <= 0 {
		c.FetchBytes = 1 << 20
	}
	if c.FetchMinBytes <= 0 {
		c.FetchMinBytes = 1
	}
	if c.QueueRecords <= 0 {
		c.QueueRecords = 10_000
	}
	if c.QueueBytes <= 0 {
		c.QueueBytes = 16 << 20
	}
	def(&c.MaxPollInterval, 5*time.Minute)
	if c.Old {
		c.RebalanceTimeout, c.Instance = c.SessionTimeout, ""
	}
	def(&c.RebalanceTimeout, c.MaxPollInterval)
	def(&c.HeartbeatInterval, min(c.SessionTimeout/3, 3*time.Second))
	if len(c.Assignors) == 0 {
		c.Assignors = []*assign.Assignor{assign.Range}
	}
	if c.Protocol == Coordinator && len(c.Brokers) == 0 {
		return c, fmt.Errorf("join group %q: no address of a broker: set Config.Brokers", c.Group)
	}
	if c.Protocol == Registry && len(c.Coord) == 0 {
		return c, fmt.Errorf("join group %q: no address of the coordination service: set Config.Coord", c.Group)
	}
	if err := checkName("group", c.Group); err != nil {
		return c, err
	}
	if c.ID != "" {
		if err := checkName("member id", c.ID); err != nil {
			return c, err
		}
	}
	if len(c.Topics) == 0 {
		return c, fmt.Errorf("join group %q: no topics: set Config.Topics", c.Group)
	}
	if c.OutOfOrder && c.Delivery == AtMostOnce {
		return c, fmt.Errorf("join group %q: OutOfOrder with AtMostOnce: want AtLeastOnce, for AtMostOnce commits before the application has a record", c.Group)
	}
	for _, t := range sortedTopics(c.Topics) {
		if err := checkName("topic", t); err != nil {
			return c, err
		}
		if c.Topics[t] < 1 {
			return c, fmt.Errorf("join group %q: topic %q with %d streams: want 1 or more", c.Group, t, c.Topics[t])
		}
	}
	return c, nil
}

// checkName keeps names that become path elements of the registry in bounds.
func checkName(what, name string) error {
	if name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\x00") {
		return fmt.Errorf("%s %q: want a name that is not empty, is not a dot path and has no slash", what, name)
	}
	return nil
}

func sortedTopics[V any](topics map[string]V) []string {
	names := make([]string, 0, len(topics))
	// order: sorted below
	for t := range topics {
		names = append(names, t)
	}
	slices.Sort(names)
	return names
}
