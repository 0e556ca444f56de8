package machine

// Event is a state transition that a process reports with Trace. Oracles judge by these events where the
// outside (wire, disk) does not show the truth, and people read them in traces.
type Event struct {
	Kind    string // one of the constants below: "<room>.<what>"
	Subject string // what it is about; see each kind
	Detail  string // free text or small data; see each kind
	A, B, C int64  // see each kind
}

// Kinds of events. Subject "t/p" is topic and partition joined by a slash, "g/t/p" with the consumer group before.
const (
	// Broker. B and C are 0 unless said.
	BrokerUp     = "broker.up"     // registered and serving. A: broker id
	BrokerDown   = "broker.down"   // regular stop. A: broker id
	LogClaimed   = "log.claimed"   // what is told of the log from now on is of the topic with this id. Subject t/p. Detail: the id
	LogOpened    = "log.opened"    // Subject t/p. A: log start, B: log end, C: 1 after a clean shutdown
	LogAppended  = "log.appended"  // Subject t/p. A: base offset, B: next offset (LEO after)
	LogVisible   = "log.visible"   // Subject t/p. A: first offset that consumers may not see
	LogRolled    = "log.rolled"    // Subject t/p. A: base offset of the new active segment
	LogDeleted   = "log.deleted"   // a segment goes. Subject t/p. A: its base offset, B: the log start after it
	LogTruncated = "log.truncated" // Subject t/p. A: log end before, B: log end after
	// LogCompacted: a segment takes the place of those with the same offsets. Subject t/p. A: its base offset, B: the offset after its last, C: the offset below which records were compacted
	LogCompacted = "log.compacted"
	LogFailed    = "log.failed"   // an I/O error fenced the log. Subject t/p. Detail: the error
	LeaderBegan  = "leader.began" // this broker leads. Subject t/p. A: leader epoch, B: log end, C: high watermark as it knows it
	// HighWatermark moved, as far as this broker knows; C is 1 at the leader. Subject t/p. A: the high watermark, B: leader epoch, -1: it is what the broker begins with, its log just opened
	HighWatermark = "log.committed"
	StateProposed = "isr.proposed" // this leader asks for other in-sync replicas. Subject t/p. A: how many it wants, B: leader epoch
	// StateDecided by the controller. Subject t/p. Detail: why. A: leader, B: leader epoch, C: controller epoch
	StateDecided      = "controller.decided"
	ControllerElected = "controller.elected" // A: broker, B: controller epoch
	TopicRemoved      = "topic.removed"      // this broker dropped its logs of a deleted topic. Subject: topic, Detail: its id

	// Group coordinator. C is the leader epoch in which it leads the group's partition of the offsets topic.
	GroupsLoaded = "group.loaded"  // it begins. Subject: t/p of its partition. A: partitions of the offsets topic
	GroupChanged = "group.changed" // Subject: group. Detail: its state. A: generation, B: members
	GroupCame    = "group.came"    // Subject: group. Detail: id of a member that it has from now on. A: generation
	GroupWent    = "group.went"    // Subject: group. Detail: id of a member that it has no more. A: generation
	GroupGiven   = "group.given"   // Subject g/t/p. Detail: id of the member to whom the stored assignment gives it. A: generation
	GroupStored  = "group.stored"  // a commit counts from now on. Subject g/t/p. Detail: id of the member and, after a space, that of the topic, if it is known. A: next offset to read, B: generation of the commit; -1 and no member: as it was loaded

	// Coordination service: the applied transactions, in order.
	ZnodeCreated   = "znode.created"   // Subject: path. Detail: data. A: owner session (0: persistent), B: zxid
	ZnodeSet       = "znode.set"       // Subject: path. Detail: data. A: new version, B: zxid
	ZnodeDeleted   = "znode.deleted"   // Subject: path. A: owner session (0: persistent), B: zxid
	SessionOpened  = "session.opened"  // A: session id, B: time-out in ns
	SessionClosed  = "session.closed"  // by its client. A: session id
	SessionExpired = "session.expired" // A: session id
	CoordLeads     = "coord.leads"     // this server of several leads from now on. A: term

	// Consumer. Subject g/t/p unless said; Detail: consumer id. C, with a partition: the first eight bytes of the topic's id; 0: not known.
	ConsumerJoined    = "consumer.joined"    // a registry group. Subject: group. A: session id
	ConsumerLeft      = "consumer.left"      // Subject: group
	ConsumerClaimed   = "consumer.claimed"   // ownership taken. A: offset it starts from, B: generation in a coordinator group
	ConsumerReleased  = "consumer.released"  // ownership given up (before the registry is told)
	ConsumerHanded    = "consumer.handed"    // a record goes to the application. A: offset
	ConsumerCommitted = "consumer.committed" // a commit was acknowledged. A: next offset to read
	ConsumerReset     = "consumer.reset"     // position out of range. A: old position, B: new position
	ConsumerRebalance = "consumer.rebalance" // an attempt starts. Subject: group. A: attempt number
	// ConsumerSynced: a member of a coordinator group got its assignment. Subject: group. Detail: its member id. A: generation
	ConsumerSynced = "consumer.synced"

	// Producer. Subject t/p.
	ProducerRetry = "producer.retry" // Detail: the error. A: attempt number
)
