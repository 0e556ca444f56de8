package oracle

import (
	"slices"
	"time"
)

// Promise is what a scenario owes: the modes that its producers and groups run in, the bounds that it sets, and which faults its plan
// may bring. Loss that the modes allow is no violation, so oracles read here what they may expect.
type Promise struct {
	Producers []Producer
	Groups    []Group
	Topics    []Topic

	// Coord names the machines of the coordination service, Brokers those of the brokers (both sorted). Spare names the brokers that may
	// never start, and the consumers whose process only a fault starts: one that was down when that fault ended stays down.
	Coord   []string
	Brokers []string
	Spare   []string

	// SessionTimeout of brokers' and consumers' sessions. SessionSlack is how much later than the time-out the service may
	// notice; it must cover its tick and a loaded machine. Drift is the largest rate error of any machine's clock
	// that the plan brings (0.01: one percent); expiry may come that much early or late.
	SessionTimeout time.Duration
	SessionSlack   time.Duration
	Drift          float64

	// Granted is the time-out that the service gives to the sessions of a machine, for what they ask. A machine that is not listed may get any.
	Granted map[string]time.Duration

	// OwnedWithin is T of OWNALL: how long after the last change of members, brokers or topics, and after the last
	// fault, a partition may be without owner. 0: not judged.
	OwnedWithin time.Duration
	// HealWithin is how long after the heal everything must be delivered, up, registered and owned. 0: not judged.
	HealWithin time.Duration
	// Late is how old a record may be when a group has processed it, from Sent to Processed. 0: not judged.
	Late time.Duration

	// OffsetsRetention is how long what a coordinator group committed stays after its last member went, and OffsetsCheck how often its coordinator looks. 0: not judged.
	OffsetsRetention, OffsetsCheck time.Duration

	// ReplicaLag is how long a replica may lag before it is not in sync any more. 0: not known.
	ReplicaLag time.Duration
	// Small: the machines' disks may get full without any fault.
	Small bool

	// Ruins are what faults beyond the atlas have taken of this so far. nil: no plan can.
	Ruins *Ruins

	// Incarnations tell topics of one name apart. nil: no name is used twice.
	Incarnations *Incarnations

	// Budgets. 0: no cap.
	RebalancesPerChange int // attempts of all members of a group together, for each change of its members, of brokers or of topics
	RequestsPerSecond   int // of one machine to the brokers, within any second of the run
	// Produce is how long 99 of 100 produce requests with acks=1 take at most.
	Produce time.Duration
}

// Producer is what a producer promises, by the name that it has in Sent. One that is not listed promises nothing but
// that what it reported as failed is not there.
type Producer struct {
	Name string
	// Acks: -1 (all), 1 or 0. With -1 an acked record survives power loss. With 1 it survives a process crash; a power
	// loss or a disk error may take it as long as it is not visible. With 0 nothing is owed.
	Acks int16
	// Ordered: at most one request in flight for a partition, or idempotent, so that no retry overtakes.
	Ordered bool
	// Idempotent: no record is in the log twice.
	Idempotent bool
	// Keyed: the key of a record says to which partition of its topic it goes.
	Keyed bool
	// DeliveryTimeout is how long it tries to deliver a record, RequestTimeout how long it waits for one answer. 0: not known.
	DeliveryTimeout, RequestTimeout time.Duration
}

// DeliveryMode is how a group treats records.
type DeliveryMode uint8

const (
	AtLeastOnce DeliveryMode = iota // process, then commit
	AtMostOnce                      // commit, then process
)

// Reset says where a group goes that has no offset, or one that is out of range.
type Reset uint8

const (
	Smallest Reset = iota
	Largest
)

// Group is a consumer group.
type Group struct {
	Name     string
	Topics   []string // that every member subscribes to
	Delivery DeliveryMode
	Reset    Reset
	// CommitWithin is how long after it was processed a record is covered by a commit, when nothing disturbs. 0: not judged.
	CommitWithin time.Duration
	// Coordinated: its members meet at a broker, not in the registry. Eager: they give up everything before a rebalance. Static: they do not leave when they stop.
	// RebalanceWithin is how long a rebalance waits for a member.
	Coordinated     bool
	Eager           bool
	Static          bool
	RebalanceWithin time.Duration
	Old             bool          // its members know no member ids before they are members
	SessionTimeout  time.Duration // of its members
	// Extra is by how much the time-outs of the members on some machines are longer than those of the group.
	Extra    map[string]Extra
	Assignor string // how its leader divides the partitions, by its protocol name
	// Commits: its members commit by themselves what they processed, one record after the other, and for the last time when they part with a partition.
	Commits bool
	// MaxPoll is how long an application may work on one record and have its member stay in a coordinator group. 0: not judged.
	MaxPoll time.Duration
	// Loner: no membership, claims or commits (the low-level consumer); only what it processes is judged.
	Loner bool
}

// Extra is how much longer than those of its group the time-outs of a member are: the session's, and what an application may work on a record, which is how long a rebalance waits for it, too.
type Extra struct{ Session, MaxPoll time.Duration }

// session is the time-out of a member on a machine.
func (g *Group) session(machine string) time.Duration {
	return g.SessionTimeout + g.Extra[machine].Session
}

// rebalance is how long a rebalance waits for a member on a machine.
func (g *Group) rebalance(machine string) time.Duration {
	if g.Old {
		return g.session(machine) // it cannot tell another
	}
	return g.RebalanceWithin + g.Extra[machine].MaxPoll
}

// Topic is a topic that the scenario makes.
type Topic struct {
	Name           string
	Partitions     int32
	SegmentBytes   int64
	SegmentAge     time.Duration // at which a segment is closed, counted from its first record. 0: not judged
	RetentionTime  time.Duration // < 0: for ever
	RetentionBytes int64         // < 0: unlimited
	Replicas       int           // of each partition; 0 counts as 1
	MinISR         int           // in-sync replicas that acks=all needs
	Unclean        bool          // a replica that may lack committed records may lead when no other is left
	// TombstoneRetention is how long a tombstone stays after what it supersedes was compacted away. 0: not judged.
	TombstoneRetention time.Duration
	Compact            bool // of each key the last record stays, for some time at least that of a tombstone
}

// Replicated tells whether the topic's partitions have several replicas: what is visible is then what is committed, below the high watermark, not
// what is flushed.
func (p *Promise) Replicated(topic string) bool {
	t := p.topic(topic)
	return t != nil && t.Replicas > 1
}

// Compacts tells whether the topic's logs are compacted.
func (p *Promise) Compacts(topic string) bool {
	t := p.topic(topic)
	return t != nil && t.Compact
}

// topic returns the topic with the name, or nil.
func (p *Promise) topic(name string) *Topic {
	name = BaseTopic(name)
	for i := range p.Topics {
		if p.Topics[i].Name == name {
			return &p.Topics[i]
		}
	}
	return nil
}

// group returns the group with the name, or nil.
func (p *Promise) group(name string) *Group {
	for i := range p.Groups {
		if p.Groups[i].Name == name {
			return &p.Groups[i]
		}
	}
	return nil
}

// producer returns the producer with the name, or one that promises nothing.
func (p *Promise) producer(name string) Producer {
	for i := range p.Producers {
		if p.Producers[i].Name == name {
			return p.Producers[i]
		}
	}
	return Producer{Name: name}
}

// registered reports whether the group's members meet in the registry.
func (g *Group) registered() bool { return g != nil && !g.Loner && !g.Coordinated }

// reads reports whether the group reads the topic.
func (g *Group) reads(topic string) bool { return slices.Contains(g.Topics, BaseTopic(topic)) }

// Disk is what the trial knows of the brokers' disks, apart from what brokers say.
type Disk interface {
	// LogStart is the first offset that the partition's log still holds; of several replicas, that of the one which starts last.
	LogStart(topic string, partition int32) int64
	// LogStartOn is the first offset that the replica on the machine still holds.
	LogStartOn(machine, topic string, partition int32) int64
	// Compacted tells whether compaction took the record at the offset from some replica's log, as one whose key comes again later.
	Compacted(topic string, partition int32, offset int64) bool
}
