package machine

import (
	"fmt"
	"slices"
)

// Event is a state transition that a process reports with Trace. Oracles judge by these events where the
// outside (wire, disk) does not show the truth, and people read them in traces.
type Event struct {
	Kind    Kind   // one of the constants below
	Subject string // what it is about; see each kind
	Detail  string // free text or small data; see each kind
	A, B, C int64  // see each kind
}

// Kind says what an event tells. Observers tell kinds apart for every event of a run, so it is a number; its name is "<room>.<what>".
type Kind uint8

// Kinds of events. Subject "t/p" is topic and partition joined by a slash, "g/t/p" with the consumer group before.
const (
	// Broker. B and C are 0 unless said.
	BrokerUp     Kind = iota + 1 // registered and serving. A: broker id
	BrokerDown                   // regular stop. A: broker id
	LogClaimed                   // what is told of the log from now on is of the topic with this id. Subject t/p. Detail: the id
	LogOpened                    // Subject t/p. A: log start, B: log end, C: 1 after a clean shutdown
	LogAppended                  // Subject t/p. A: base offset, B: next offset (LEO after)
	LogVisible                   // Subject t/p. A: first offset that consumers may not see
	LogRolled                    // Subject t/p. A: base offset of the new active segment
	LogDeleted                   // a segment goes. Subject t/p. A: its base offset, B: the log start after it
	LogTruncated                 // Subject t/p. A: log end before, B: log end after, C: 1 when it begins anew there, without what it knew of its producers
	// LogCompacted: a segment takes the place of those with the same offsets. Subject t/p. A: its base offset, B: the offset after its last, C: the offset below which records were compacted
	LogCompacted
	LogFailed   // an I/O error fenced the log. Subject t/p. Detail: the error
	LeaderBegan // this broker leads. Subject t/p. A: leader epoch, B: log end, C: high watermark as it knows it
	// HighWatermark moved, as far as this broker knows; C is 1 at the leader. Subject t/p. A: the high watermark, B: leader epoch, -1: it is what the broker begins with, its log just opened
	HighWatermark
	StateProposed // this leader asks for other in-sync replicas. Subject t/p. A: how many it wants, B: leader epoch
	// StateDecided by the controller. Subject t/p. Detail: why. A: leader, B: leader epoch, C: controller epoch
	StateDecided
	ControllerElected // A: broker, B: controller epoch
	TopicRemoved      // this broker dropped its logs of a deleted topic. Subject: topic, Detail: its id

	// Group coordinator. C is the leader epoch in which it leads the group's partition of the offsets topic.
	GroupsLoaded // it begins. Subject: t/p of its partition. A: partitions of the offsets topic
	GroupChanged // Subject: group. Detail: its state. A: generation, B: members
	GroupCame    // Subject: group. Detail: id of a member that it has from now on. A: generation
	GroupWent    // Subject: group. Detail: id of a member that it has no more. A: generation
	GroupGiven   // Subject g/t/p. Detail: id of the member to whom the stored assignment gives it. A: generation
	GroupStored  // a commit counts from now on. Subject g/t/p. Detail: id of the member and, after a space, that of the topic, if it is known. A: next offset to read, B: generation of the commit; -1 and no member: as it was loaded
	// GroupExpired: a committed offset counts no more, because nobody used it for the retention time. Subject g/t/p. Detail: a space and the id of the topic, if it is known. A: the offset, B: generation
	GroupExpired

	// Coordination service: the applied transactions, in order.
	ZnodeCreated   // Subject: path. Detail: data. A: owner session (0: persistent), B: zxid
	ZnodeSet       // Subject: path. Detail: data. A: new version, B: zxid
	ZnodeDeleted   // Subject: path. A: owner session (0: persistent), B: zxid
	SessionOpened  // A: session id, B: time-out in ns
	SessionClosed  // by its client. A: session id
	SessionExpired // A: session id
	CoordLeads     // this server of several leads from now on. A: term

	// Consumer. Subject g/t/p unless said; Detail: consumer id. C, with a partition: the first eight bytes of the topic's id; 0: not known.
	ConsumerJoined    // a registry group. Subject: group. A: session id
	ConsumerLeft      // Subject: group
	ConsumerClaimed   // ownership taken. A: offset it starts from, B: generation in a coordinator group
	ConsumerReleased  // ownership given up (before the registry is told)
	ConsumerHanded    // a record goes to the application. A: offset
	ConsumerCommitted // a commit was acknowledged. A: next offset to read
	ConsumerReset     // position out of range. A: old position, B: new position
	ConsumerRebalance // an attempt starts. Subject: group. A: attempt number
	// ConsumerSynced: a member of a coordinator group got its assignment. Subject: group. Detail: its member id. A: generation
	ConsumerSynced

	// Producer. Subject t/p.
	ProducerRetry // Detail: the error. A: attempt number

	// An application that keeps others out by a lock of the coordination service's recipe.
	LockActed // it acts as the holder. Subject: path of the lock, Detail: of its own node below that, A: session id
)

var kindNames = [...]string{
	BrokerUp:          "broker.up",
	BrokerDown:        "broker.down",
	LogClaimed:        "log.claimed",
	LogOpened:         "log.opened",
	LogAppended:       "log.appended",
	LogVisible:        "log.visible",
	LogRolled:         "log.rolled",
	LogDeleted:        "log.deleted",
	LogTruncated:      "log.truncated",
	LogCompacted:      "log.compacted",
	LogFailed:         "log.failed",
	LeaderBegan:       "leader.began",
	HighWatermark:     "log.committed",
	StateProposed:     "isr.proposed",
	StateDecided:      "controller.decided",
	ControllerElected: "controller.elected",
	TopicRemoved:      "topic.removed",
	GroupsLoaded:      "group.loaded",
	GroupChanged:      "group.changed",
	GroupCame:         "group.came",
	GroupWent:         "group.went",
	GroupGiven:        "group.given",
	GroupStored:       "group.stored",
	GroupExpired:      "group.expired",
	ZnodeCreated:      "znode.created",
	ZnodeSet:          "znode.set",
	ZnodeDeleted:      "znode.deleted",
	SessionOpened:     "session.opened",
	SessionClosed:     "session.closed",
	SessionExpired:    "session.expired",
	CoordLeads:        "coord.leads",
	ConsumerJoined:    "consumer.joined",
	ConsumerLeft:      "consumer.left",
	ConsumerClaimed:   "consumer.claimed",
	ConsumerReleased:  "consumer.released",
	ConsumerHanded:    "consumer.handed",
	ConsumerCommitted: "consumer.committed",
	ConsumerReset:     "consumer.reset",
	ConsumerRebalance: "consumer.rebalance",
	ConsumerSynced:    "consumer.synced",
	ProducerRetry:     "producer.retry",
	LockActed:         "lock.acted",
}

func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return ""
}

// MarshalText and UnmarshalText write and read a kind by its name.
func (k Kind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

func (k *Kind) UnmarshalText(name []byte) error {
	i := slices.Index(kindNames[:], string(name))
	if i < 0 {
		return fmt.Errorf("no event is of kind %q", name)
	}
	*k = Kind(i)
	return nil
}
