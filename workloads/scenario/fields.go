// Package scenario is the schema of scenario files: which machines there are, what they do, what goes wrong, and what is promised
// all the same. Files are read strictly; every problem is reported with its place and with what is allowed.
//
// This file is the one place that documents the fields: `faultline scenarios show --fields` and docs/scenarios.md print its comments.
// A quantity written as a range (1..5) or as a list of words ([all, 1]) is drawn per seed by [Scenario.Draw], except where the
// comment says that it is drawn per machine or per message.
package scenario

import (
	"faultline/faults"
	"faultline/faults/quantity"
)

// Scenario is one scenario file.
type Scenario struct {
	// Name of the scenario: lower-case letters, digits and dashes.
	Name string `yaml:"name" need:"true"`
	// What it puts to the test, in a sentence or two.
	About string `yaml:"about"`
	// The machines and how they are configured.
	Topology Topology `yaml:"topology"`
	// The load.
	Workload Workload `yaml:"workload"`
	// How the network behaves when nothing is wrong.
	Network Network `yaml:"network"`
	// How the disks behave when nothing is wrong.
	Disk Disk `yaml:"disk"`
	// What goes wrong, one fault a line.
	Faults faults.Plan `yaml:"faults"`
	// Faults that the seed draws, besides those of the list.
	Swarm *faults.Swarm `yaml:"swarm"`
	// What must hold all the same.
	Promise Promise `yaml:"promise"`
}

// Topology is the cluster and its clients.
type Topology struct {
	// Brokers are the machines broker-1, broker-2, ...; a bare number is their count.
	Brokers Brokers `yaml:"brokers"`
	// Coordinators are the machines of the coordination service, coord-1, ...; a bare number is their count.
	Coordinators Coordinators `yaml:"coordinators"`
	// Number of racks over which the machines of each role are spread by their number: broker-1 and coord-1 are in rack-1. A fault may hit a whole rack.
	Racks quantity.Counts `yaml:"racks" default:"1" min:"1" max:"16"`
	// Topics that exist, or are created, before the load starts. Default: one topic "visits".
	Topics []Topic `yaml:"topics"`
	// Producers are the machines producer-1, producer-2, ..., numbered through the list. Default: one entry with all defaults.
	Producers []Producer `yaml:"producers"`
	// Groups of consumers on the machines consumer-1, consumer-2, ..., numbered through the list. Default: one group "readers".
	Groups []Group `yaml:"groups"`
}

// Brokers configures the brokers.
type Brokers struct {
	// Number of brokers.
	Count quantity.Counts `yaml:"count" short:"true" default:"1" min:"1" max:"128"`
	// Further brokers, which only a start fault starts; they have the numbers after the others.
	Spare quantity.Counts `yaml:"spare" default:"0" min:"0" max:"16"`
	// How far the wall clock is off at the start; drawn per machine.
	ClockOffset quantity.Durations `yaml:"clock_offset" default:"0s" min:"-1h" max:"1h" each:"true"`
	// When a broker starts, counted from the start of the world; drawn per machine.
	Start quantity.Durations `yaml:"start" default:"0s" min:"0s" each:"true"`
	// Session time-out with the coordination service.
	SessionTimeout quantity.Durations `yaml:"session_timeout" default:"2s" min:"100ms" max:"5m"`
	// How often a broker looks for segments that retention may delete, or that are to be compacted.
	RetentionInterval quantity.Durations `yaml:"retention_interval" default:"5s" min:"10ms"`
	// How long a follower may be behind before it is no longer in sync.
	ReplicaLag quantity.Durations `yaml:"replica_lag" default:"2s" min:"10ms"`
	// How much of one partition a follower asks for at once.
	ReplicaFetchBytes quantity.Sizes `yaml:"replica_fetch_bytes" default:"1MiB" min:"1B" max:"64MiB"`
	// How often partitions are given back to their preferred leaders.
	PreferredInterval quantity.Durations `yaml:"preferred_interval" default:"5m" min:"10ms"`
	// Partitions of the topic that keeps what coordinator groups commit.
	OffsetsPartitions quantity.Counts `yaml:"offsets_partitions" default:"4" min:"1" max:"50"`
	// Replicas of each of them, or as many as there are brokers, if these are fewer. A commit needs more than half of them in sync.
	OffsetsReplicas quantity.Counts `yaml:"offsets_replicas" default:"3" min:"1" max:"16"`
	// A segment of that topic is closed and the next one begun at this size; then it can be compacted.
	OffsetsSegmentBytes quantity.Sizes `yaml:"offsets_segment_bytes" default:"1MiB" min:"1KiB"`
	// What a coordinator group committed stays so long after its last member went, or after the commit, if that was later.
	OffsetsRetention quantity.Durations `yaml:"offsets_retention" default:"168h" min:"10ms"`
	// How often a coordinator looks for offsets that were not used for so long.
	OffsetsCheck quantity.Durations `yaml:"offsets_check" default:"10m" min:"10ms"`
	// Whether log bytes go to consumers straight from files, or through the broker's memory.
	ZeroCopy quantity.Choice `yaml:"zero_copy" default:"yes" oneof:"yes|no"`
	// How long the first rebalance of an empty coordinator group waits for more members.
	GroupDelay quantity.Durations `yaml:"group_delay" default:"200ms" min:"0s" max:"1m"`
	// How long after a process ended by itself (a disk error, a lost session) it is started again.
	Restart quantity.Durations `yaml:"restart" default:"500ms" min:"1ms"`
}

// Coordinators configures the coordination service.
type Coordinators struct {
	// Number of servers that replicate the registry. It works as long as more than half of them do and reach each other.
	Count quantity.Choice `yaml:"count" short:"true" default:"1" oneof:"1|3|5"`
	// How far the wall clock is off at the start; drawn per machine.
	ClockOffset quantity.Durations `yaml:"clock_offset" default:"0s" min:"-1h" max:"1h" each:"true"`
	// When a server starts, counted from the start of the world; drawn per machine.
	Start quantity.Durations `yaml:"start" default:"0s" min:"0s" each:"true"`
	// How often a server looks for sessions that ran out.
	Tick quantity.Durations `yaml:"tick" default:"100ms" min:"1ms" max:"1m"`
	// Clients that do nothing but write and read two znodes while the load lasts, each at one server: the first at coord-1, the next at coord-2, ... They show whether all servers tell the same. Faults do not hit their machine.
	Clients quantity.Counts `yaml:"clients" default:"0" min:"0" max:"16"`
	// Machines client-1, client-2, ... whose applications use the service as its recipes say, at any server: they take turns at a lock (ephemeral sequential nodes, each with a watch on the one before), and share a queue and a tally (writes under conditions, alone and together).
	Recipes quantity.Counts `yaml:"recipes" default:"0" min:"0" max:"16"`
	// A snapshot is written after so many transactions.
	SnapshotEvery quantity.Counts `yaml:"snapshot_every" default:"200" min:"1"`
	// How long after a process ended by itself it is started again.
	Restart quantity.Durations `yaml:"restart" default:"500ms" min:"1ms"`
}

// Topic configures one topic.
type Topic struct {
	// Name of the topic: letters, digits, dots, dashes and underscores.
	Name string `yaml:"name" need:"true"`
	// Number of partitions.
	Partitions quantity.Counts `yaml:"partitions" default:"4" min:"1" max:"1024"`
	// Replicas of each partition, on as many brokers. With one, a message is visible when it is flushed; with more, when every in-sync replica has it.
	Replicas quantity.Counts `yaml:"replicas" default:"1" min:"1" max:"16"`
	// In-sync replicas that acks=all needs. Where a seed draws fewer replicas, it is as many as these.
	MinISR quantity.Counts `yaml:"min_isr" default:"1" min:"1" max:"16"`
	// Whether a replica that may lack records may lead when no other is left.
	Unclean quantity.Choice `yaml:"unclean" default:"no" oneof:"no|yes"`
	// A segment is closed and the next one begun at this size.
	SegmentBytes quantity.Sizes `yaml:"segment_bytes" default:"64KiB" min:"1KiB"`
	// A segment is closed when its first record is older than this.
	SegmentAge quantity.Durations `yaml:"segment_age" default:"never" min:"10ms" max:"never"`
	// Bytes of log from one entry of the offset index to the next.
	IndexInterval quantity.Sizes `yaml:"index_interval" default:"4KiB" min:"1B"`
	// The log is flushed after so many messages.
	FlushMessages quantity.Counts `yaml:"flush_messages" default:"unlimited" min:"1" max:"unlimited"`
	// The log is flushed after this time. A message becomes visible when it is flushed.
	FlushInterval quantity.Durations `yaml:"flush_interval" default:"20ms" min:"1ms" max:"never"`
	// Segments whose newest record is older than this are deleted.
	RetentionTime quantity.Durations `yaml:"retention_time" default:"never" min:"10ms" max:"never"`
	// The oldest segments are deleted as long as a partition is larger than this.
	RetentionBytes quantity.Sizes `yaml:"retention_bytes" default:"unlimited" min:"1KiB" max:"unlimited"`
	// Whether of each key only the last record stays. Segments are deleted by age and size all the same, if these are bounded.
	Compact quantity.Choice `yaml:"compact" default:"no" oneof:"no|yes"`
	// Compaction waits until so much of a log is new since the last one.
	CompactRatio quantity.Percents `yaml:"compact_ratio" default:"50%" min:"1%" max:"100%"`
	// A tombstone, a record without a value, stays so long after what it supersedes was compacted away.
	TombstoneRetention quantity.Durations `yaml:"tombstone_retention" default:"24h" min:"1ms"`
	// The largest batch that is accepted.
	MaxBatch quantity.Sizes `yaml:"max_batch" default:"1MiB" min:"1KiB"`
}

// Producer configures some producers alike.
type Producer struct {
	// Number of producers.
	Count quantity.Counts `yaml:"count" short:"true" default:"1" min:"1" max:"128"`
	// How far the wall clock is off at the start; drawn per machine.
	ClockOffset quantity.Durations `yaml:"clock_offset" default:"0s" min:"-1h" max:"1h" each:"true"`
	// When a producer starts, counted from the start of the load; drawn per machine.
	Start quantity.Durations `yaml:"start" default:"0s" min:"0s" each:"true"`
	// When a produced batch is acknowledged: not at all (0), in the log (1), flushed too (all).
	Acks quantity.Choice `yaml:"acks" default:"all" oneof:"0|1|all"`
	// A batch is sent at this size at the latest. One that a topic refuses as too large (see max_batch) is split.
	Batch quantity.Sizes `yaml:"batch" default:"16KiB" min:"1B"`
	// A batch is sent with so many records at the latest.
	BatchRecords quantity.Counts `yaml:"batch_records" default:"unlimited" min:"1" max:"unlimited"`
	// A batch is sent after this time at the latest.
	Linger quantity.Durations `yaml:"linger" default:"5ms" min:"0s"`
	// Batches on their way to one broker at the same time. With more than one, retries may change the order.
	InFlight quantity.Counts `yaml:"in_flight" default:"1" min:"1" max:"64"`
	// Whether a batch that is sent again is in the log once and in its place; needs acks all and in_flight of at most 5.
	// What a log knows of a producer goes with its records when a replica begins anew at a later offset, as in Kafka: where topics with several replicas keep records for less time than a batch may be sent again, it may be there twice around that offset.
	Idempotent quantity.Choice `yaml:"idempotent" default:"no" oneof:"no|yes"`
	// How often a batch is sent again.
	Retries quantity.Counts `yaml:"retries" default:"unlimited" min:"0" max:"unlimited"`
	// Pause before a batch is sent again.
	RetryBackoff quantity.Durations `yaml:"retry_backoff" default:"100ms" min:"0s"`
	// How long an answer is waited for.
	RequestTimeout quantity.Durations `yaml:"request_timeout" default:"2s" min:"1ms"`
	// A record is given up after this time.
	DeliveryTimeout quantity.Durations `yaml:"delivery_timeout" default:"30s" min:"1ms"`
	// Memory for records that wait; a full buffer blocks the sender.
	Buffer quantity.Sizes `yaml:"buffer" default:"4MiB" min:"1KiB"`
	// How a record finds its partition: by the hash of its key, at random, or, as records without a key do, one partition until a batch is full (sticky).
	Partitioner quantity.Choice `yaml:"partitioner" default:"key" oneof:"key|random|sticky"`
	// Compression of batches.
	Compression quantity.Choice `yaml:"compression" default:"none" oneof:"none|gzip|snappy|lz4|zstd"`
	// How long after a process ended by itself it is started again.
	Restart quantity.Durations `yaml:"restart" default:"500ms" min:"1ms"`
}

// Group configures one consumer group.
type Group struct {
	// Name of the group: letters, digits, dots, dashes and underscores.
	Name string `yaml:"name" need:"true"`
	// How members find to each other: in the coordination service (registry, the paper's way), or by a broker (coordinator, Kafka's classic protocol).
	Protocol quantity.Choice `yaml:"protocol" default:"registry" oneof:"registry|coordinator"`
	// How the leader of a coordinator group divides the partitions.
	Assignor quantity.Choice `yaml:"assignor" default:"range" oneof:"range|roundrobin|sticky|cooperative-sticky" only:"coordinator"`
	// Whether members of a coordinator group are static: each has its machine's name as group.instance.id, does not leave when it stops, and gets what it had when it comes back within its session. Old clients cannot be.
	Static quantity.Choice `yaml:"static" default:"no" oneof:"no|yes" only:"coordinator"`
	// Whether members of a coordinator group speak as clients do now, or as the first ones did: without a rebalance time-out of their own, which is then their session time-out, and without a member
	// id before the first rebalance is over.
	Clients quantity.Choice `yaml:"clients" default:"current" oneof:"current|old" only:"coordinator"`
	// How long the application may work on one record before its member of a coordinator group leaves; also how long a rebalance waits for a member.
	MaxPollInterval quantity.Durations `yaml:"max_poll_interval" default:"5s" min:"10ms" max:"1h" only:"coordinator"`
	// How much longer than max_poll_interval that of a member of a coordinator group is; drawn per machine.
	MaxPollExtra quantity.Durations `yaml:"max_poll_extra" default:"0s" min:"0s" max:"1h" each:"true" only:"coordinator"`
	// Number of consumers that start by themselves.
	Consumers quantity.Counts `yaml:"consumers" default:"2" min:"1" max:"128"`
	// Further consumers, which only a start fault starts; they have the numbers after the others of the group.
	Spare quantity.Counts `yaml:"spare" default:"0" min:"0" max:"64"`
	// How far the wall clock is off at the start; drawn per machine.
	ClockOffset quantity.Durations `yaml:"clock_offset" default:"0s" min:"-1h" max:"1h" each:"true"`
	// When a consumer starts, counted from the start of the load; drawn per machine.
	Start quantity.Durations `yaml:"start" default:"0s" min:"0s" each:"true"`
	// Topics that the group reads. Default: all of the topology.
	Topics []string `yaml:"topics"`
	// Streams per consumer and topic, each read by a task of its own.
	Streams quantity.Counts `yaml:"streams" default:"1" min:"1" max:"16"`
	// Records of a stream that are worked on at a time, and done in any order. 1: one after the other, as always with at-most-once.
	Workers quantity.Counts `yaml:"workers" default:"1" min:"1" max:"64"`
	// Whether a record is committed after it was processed or before.
	Delivery quantity.Choice `yaml:"delivery" default:"at-least-once" oneof:"at-least-once|at-most-once"`
	// Whether the consumer commits by itself, or the application does.
	Commit quantity.Choice `yaml:"commit" default:"auto" oneof:"auto|manual"`
	// Time from one commit to the next, either way.
	CommitInterval quantity.Durations `yaml:"commit_interval" default:"500ms" min:"1ms"`
	// Where a group without a committed offset, or with one out of range, starts.
	Reset quantity.Choice `yaml:"reset" default:"smallest" oneof:"smallest|largest"`
	// Session time-out with the coordination service, or at the group's coordinator.
	SessionTimeout quantity.Durations `yaml:"session_timeout" default:"2s" min:"100ms" max:"5m"`
	// How much longer than session_timeout that of a member of a coordinator group is; drawn per machine.
	SessionExtra quantity.Durations `yaml:"session_extra" default:"0s" min:"0s" max:"5m" each:"true" only:"coordinator"`
	// How long the application works on a record; drawn per record.
	Process quantity.Durations `yaml:"process" default:"0s" min:"0s" each:"true"`
	// How long the application stands still when it stalls at a record; drawn per stall.
	Stall quantity.Durations `yaml:"stall" default:"5s" min:"1ms" max:"10m" each:"true"`
	// Share of the records at which the application stalls.
	StallChance quantity.Percents `yaml:"stall_chance" default:"0%" min:"0%" max:"100%"`
	// How long the application pauses a partition when it does; drawn per pause. Until it resumes it nothing of the partition is handed over.
	Hold quantity.Durations `yaml:"hold" default:"1s" min:"1ms" max:"10m" each:"true"`
	// Share of the records after which the application pauses their partition.
	HoldChance quantity.Percents `yaml:"hold_chance" default:"0%" min:"0%" max:"100%"`
	// How far back in time from a record the application goes when it does; drawn each time. With a negative one it only asks what the first record after that time is.
	Rewind quantity.Durations `yaml:"rewind" default:"1s" min:"-1h" max:"1h" each:"true"`
	// Share of the records after which the application goes back, while the load lasts. Records that are worked on by several workers have none.
	RewindChance quantity.Percents `yaml:"rewind_chance" default:"0%" min:"0%" max:"100%"`
	// Largest answer to one fetch.
	FetchBytes quantity.Sizes `yaml:"fetch_bytes" default:"256KiB" min:"1KiB"`
	// A fetch waits until so many bytes are there.
	FetchMin quantity.Sizes `yaml:"fetch_min" default:"1B" min:"1B"`
	// A fetch waits so long at most.
	FetchWait quantity.Durations `yaml:"fetch_wait" default:"250ms" min:"1ms"`
	// Records that wait in one stream at most.
	Queue quantity.Counts `yaml:"queue" default:"2000" min:"1"`
	// How often a rebalance of a registry group is tried again before the consumer gives up.
	RebalanceRetries quantity.Counts `yaml:"rebalance_retries" default:"unlimited" min:"0" max:"unlimited" only:"registry"`
	// Pause before a rebalance of a registry group is tried again.
	RebalanceBackoff quantity.Durations `yaml:"rebalance_backoff" default:"200ms" min:"1ms" only:"registry"`
	// How long after a process ended by itself it is started again.
	Restart quantity.Durations `yaml:"restart" default:"500ms" min:"1ms"`
}

// Workload is the load.
type Workload struct {
	// What the messages are: page-visits (activity events, keyed by visitor address), or the lines of a file.
	Kind string `yaml:"kind" default:"page-visits" oneof:"page-visits|lines"`
	// File of the lines; relative to the scenario file. The command line can give it too.
	Input string `yaml:"input"`
	// Messages per second of all producers together.
	Rate quantity.Rates `yaml:"rate" default:"500/s" min:"1/s" max:"10000000/s"`
	// How long the load lasts. Lines of a file end with the file.
	Duration quantity.Durations `yaml:"duration" default:"10s" min:"1ms" max:"24h"`
	// Size of a message; drawn per message.
	MessageBytes quantity.Sizes `yaml:"message_bytes" default:"100B..300B" min:"16B" max:"1MiB" each:"true"`
	// Share of the messages that have no value: tombstones, where a topic is compacted.
	Tombstones quantity.Percents `yaml:"tombstones" default:"0%" min:"0%" max:"100%"`
	// Number of visitors, that is of different keys.
	Visitors quantity.Counts `yaml:"visitors" default:"1000" min:"1"`
	// Producers stop and wait while the slowest group is so many messages behind: no more than this must be kept in memory.
	MaxLag quantity.Counts `yaml:"max_lag" default:"unlimited" min:"1" max:"unlimited"`
}

// Network is the undisturbed network between any two machines.
type Network struct {
	// One-way latency; drawn per message.
	Latency quantity.Durations `yaml:"latency" default:"200us..800us" min:"0s" max:"1m" each:"true"`
	// How the latency is drawn: each value as likely as another (uniform), mostly little and now and then much (heavy-tail), always the least (constant).
	Shape quantity.Choice `yaml:"shape" default:"uniform" oneof:"uniform|heavy-tail|constant"`
	// Bandwidth of each machine's network card, each way.
	Bandwidth quantity.Bandwidths `yaml:"bandwidth" default:"125MiB/s" min:"1KiB/s"`
}

// Disk is the undisturbed disk of each machine.
type Disk struct {
	// Time of a transfer that does not continue the last one, such as a read that misses the page cache.
	Seek quantity.Durations `yaml:"seek" default:"20us..200us" min:"1us" max:"1m"`
	// Time that the device takes to make an fsync durable, besides the transfer.
	Flush quantity.Durations `yaml:"flush" default:"200us..2ms" min:"1us" max:"1m"`
	// Sequential bandwidth.
	Bandwidth quantity.Bandwidths `yaml:"bandwidth" default:"400MiB/s" min:"1KiB/s"`
	// Size of the page cache.
	Cache quantity.Sizes `yaml:"cache" default:"1GiB" min:"1MiB"`
	// Size of the disk.
	Space quantity.Sizes `yaml:"space" default:"unlimited" min:"64KiB" max:"unlimited"`
}

// Promise is what must hold in spite of the faults, beyond the invariants that always hold.
type Promise struct {
	// The heal phase, in which no fault is active, lasts this long at most: by its end every acknowledged message must be delivered to every group.
	Heal quantity.Durations `yaml:"heal" default:"30s" min:"1ms"`
	// Every partition has an owner in each group so long after the last fault ended and the last member came or went.
	Owned quantity.Durations `yaml:"owned" default:"15s" min:"1ms"`
	// How old a record may be when a group has processed it, counted from when it was sent.
	Late quantity.Durations `yaml:"late" default:"never" min:"1ms" max:"never"`
	// How long a produce request with acks=1 takes, from the request to the answer: 99 of 100 at most this.
	Produce quantity.Durations `yaml:"produce" default:"never" min:"1ms" max:"never"`
	// Rebalance attempts of all members of a group together, for each change of its members, of brokers or of topics.
	Rebalances quantity.Counts `yaml:"rebalances" default:"unlimited" min:"1" max:"unlimited"`
	// Requests of one machine to the brokers within any second.
	Requests quantity.Rates `yaml:"requests" default:"unlimited" min:"1/s" max:"unlimited"`
	// Invariants that this scenario does not promise: what is lost with acks=1 is no violation here. Codes of the oracles.
	Except []string `yaml:"except"`
}
