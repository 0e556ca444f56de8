package faults

import (
	"fmt"
	"strings"
	"time"
)

// Target is what faults may do to a world. The simulated cluster implements it. Every method may be called for a machine in any state
// and does nothing where it does not apply (Restart of a running process, Resume of one that is not paused, heal a second time).
type Target interface {
	// Machines lists the machines of a role (broker, coord, producer, consumer, client; "": of all roles) in a fixed order.
	Machines(role string) []string
	// Leader is the machine that leads the partition now, "" when there is none.
	Leader(topic string, partition int32) string
	// Coordinator is the machine that coordinates the consumer group now, "" when none does.
	Coordinator(group string) string
	// Racks is over how many racks the machines are spread, see [Rack].
	Racks() int
	// Spare tells whether the machine's process only runs after a start fault.
	Spare(machine string) bool
	// SessionTimeout is the session time-out that the machine asked of the coordination service; 0 when it keeps no session.
	SessionTimeout(machine string) time.Duration

	// Copies is the account of who holds good copies of what now.
	Copies() *Copies

	// Crash kills the machine's process; its page cache survives.
	Crash(machine string)
	// PowerLoss kills the process, if there is one, and loses what was not synced, as the disk model says.
	PowerLoss(machine string)
	// Restart starts a process on a machine that has none, also for the first time on a spare machine.
	Restart(machine string)
	// StopProcess asks the process for a regular stop and returns at once.
	StopProcess(machine string)
	// Pause holds the process, Resume lets it go on.
	Pause(machine string)
	Resume(machine string)
	// Freeze holds the machine's network stack: nothing is sent, acknowledged or accepted until Thaw. Whoever freezes a machine pauses its process too.
	Freeze(machine string)
	Thaw(machine string)
	// WipeDisk puts an empty disk in the place of the machine's. It is called while no process runs.
	WipeDisk(machine string)

	// Partition cuts the network from each of from to each of to, or both ways. Overlapping cuts add up: a link works when all are healed.
	Partition(from, to []string, bothWays bool) Heal
	// Link makes the network from each of from to each of to worse, in that direction. Overlapping rules: latencies and losses add up, the least
	// bandwidth counts. The number of the fault in its plan keys what it draws.
	Link(from, to []string, number int, rule Link) Heal
	// Reset resets the open connections between a and b.
	Reset(a, b []string)
	// Cut breaks them after so many more bytes have arrived.
	Cut(a, b []string, after int64)

	// ClockJump moves the wall clock. ClockDrift sets how much faster than the world both clocks run, in parts per million; 0 is none.
	ClockJump(machine string, by time.Duration)
	ClockDrift(machine string, ppm int64)

	// Disk puts a fault on the machine's disk. It stays over a restart of the process, until healed. Overlapping ones each have their turn. The number
	// of the fault in its plan keys what it draws: leaving another fault out shifts none of it.
	Disk(machine string, number int, f DiskFault) Heal
	// CPU makes the machine's cores slower by the factor; 1 is as before.
	CPU(machine string, factor int64)
	// Misfortune makes a failpoint fire on all machines, with the probability in parts per million: it takes up to latency and then the
	// early way out. A later call for the same place takes the place of the one before; 0 is never.
	Misfortune(place string, ppm int64, latency time.Duration)

	// AddPartitions raises the topic's partitions to total, CreateTopic makes a topic with the broker's defaults; both as an administrator
	// would: asynchronously, and again until it worked.
	AddPartitions(topic string, total int32)
	CreateTopic(topic string, partitions int32)
	// DeleteTopic deletes a topic, RestoreTopic makes it again as the scenario has it, Reassign moves its partitions to the registered brokers from one on; in the same way.
	DeleteTopic(topic string)
	RestoreTopic(topic string)
	Reassign(topic, from string)
}

// Heal ends an effect, and says what it did. Further calls do nothing and say nothing.
type Heal func() Toll

// Toll counts what a fault did to those that it hit.
type Toll struct {
	Operations int64 // of the disk, that it changed; with bit-rot sectors
	Held       int64 // messages that waited
	Lost       int64 // messages that were lost and sent again
	Corrupted  int64 // messages that arrived with a flipped bit
}

// Add is both together.
func (t Toll) Add(o Toll) Toll {
	return Toll{t.Operations + o.Operations, t.Held + o.Held, t.Lost + o.Lost, t.Corrupted + o.Corrupted}
}

// String says it in words; "" when nothing was counted.
func (t Toll) String() string {
	var parts []string
	add := func(n int64, one, many string) {
		switch {
		case n == 1:
			parts = append(parts, one)
		case n > 0:
			parts = append(parts, fmt.Sprintf(many, n))
		}
	}
	add(t.Operations, "1 disk operation hit", "%d disk operations hit")
	add(t.Held, "1 message held", "%d messages held")
	add(t.Lost, "1 message lost", "%d messages lost")
	add(t.Corrupted, "1 message corrupted", "%d messages corrupted")
	return strings.Join(parts, ", ")
}

// Link is how a bad link behaves.
type Link struct {
	Latency   time.Duration // added to each message
	Spread    time.Duration // and at most so much more, drawn per message
	HeavyTail bool          // of the spread: mostly little; else each part of it is as likely
	Bandwidth int64         // bytes per second that are left; 0: as before
	Loss      int64         // parts per million of the messages that are lost and sent again
	Corrupt   int64         // parts per million of the messages of which one bit is flipped
	After     int64         // of Corrupt: bytes at the beginning of each message that are spared
	Clog      bool          // nothing passes until healed, then all of it does, in order
}

// DiskEffect is what a disk fault does to an operation that it hits.
type DiskEffect uint8

const (
	DiskError     DiskEffect = iota + 1 // fails with machine.ErrIO
	DiskFull                            // a write that needs more than Free bytes fails with machine.ErrNoSpace
	DiskShort                           // a read or write moves fewer bytes than asked, at least one
	DiskSlow                            // takes Latency longer
	DiskStall                           // does not end until healed
	DiskRot                             // no operation: one bit of each durable sector, with the probability, when it begins
	DiskMisdirect                       // the first page of a write lands on another page of the file
	DiskLie                             // fsync reports success and makes nothing durable
)

// DiskFault hits operations on files.
type DiskFault struct {
	Effect  DiskEffect
	Op      DiskOps
	Path    string        // pattern, see MatchPath; "": every file
	PPM     int64         // probability per operation (or sector) in parts per million; 1000000: always
	Count   int64         // operations (or sectors) that are hit at most; 0: no limit
	Latency time.Duration // of DiskSlow
	Free    int64         // of DiskFull: bytes that are left
}

// DiskOps is a set of operations.
type DiskOps uint16

const (
	OpRead DiskOps = 1 << iota
	OpWrite
	OpSync
	OpTruncate
	OpOpen
	OpCreate
	OpMkdir
	OpRemove
	OpRename
	OpReadDir
	OpStat
	OpSyncDir
	OpData = OpRead | OpWrite | OpTruncate | OpSync | OpSyncDir // what moves bytes
	OpAll  = OpSyncDir<<1 - 1
)

// diskOps are the words for operations in a plan.
var diskOps = map[string]DiskOps{
	"": OpData, "data": OpData, "all": OpAll, "read": OpRead, "write": OpWrite | OpTruncate, "fsync": OpSync | OpSyncDir, "truncate": OpTruncate,
	"open": OpOpen, "create": OpCreate, "mkdir": OpMkdir, "remove": OpRemove, "rename": OpRename, "readdir": OpReadDir, "stat": OpStat, "syncdir": OpSyncDir,
}

// Clock runs callbacks at moments of world time, counted from the start of the load, outside any task.
// Callbacks of the same moment run in the order in which they were given.
type Clock interface {
	At(t time.Duration, fn func())
}
