package faults

import "time"

// Target is what faults may do to a world. The simulated cluster implements it. Every method may be called for a machine in any state
// and does nothing where it does not apply (Restart of a running process, Resume of one that is not paused, heal a second time).
type Target interface {
	// Machines lists the machines of a role (broker, coord, producer, consumer; "": of all roles) in a fixed order.
	Machines(role string) []string
	// Leader is the machine that leads the partition now, "" when there is none.
	Leader(topic string, partition int32) string
	// Spare tells whether the machine's process only runs after a start fault.
	Spare(machine string) bool
	// SessionTimeout is the session time-out that the machine asked of the coordination service; 0 when it keeps no session.
	SessionTimeout(machine string) time.Duration

	// Crash kills the machine's process; its page cache survives.
	Crash(machine string)
	// PowerLoss kills the process, if there is one, and loses what was not synced, as the disk model says.
	PowerLoss(machine string)
	// Restart starts a process on a machine that has none, also for the first time on a spare machine.
	Restart(machine string)
	// StopProcess asks the process for a regular stop and returns at once.
	StopProcess(machine string)
	// Pause freezes the process, Resume lets it go on.
	Pause(machine string)
	Resume(machine string)

	// Partition cuts the network from each of from to each of to, or both ways. Overlapping cuts add up: a link works when all are healed.
	Partition(from, to []string, bothWays bool) (heal func())
	// Link makes the network from each of from to each of to slow, in that direction. Overlapping rules: latencies add up, the least bandwidth counts.
	Link(from, to []string, rule Link) (heal func())
	// Reset resets the open connections between a and b.
	Reset(a, b []string)

	// ClockJump moves the wall clock. ClockDrift sets how much faster than the world both clocks run, in parts per million; 0 is none.
	ClockJump(machine string, by time.Duration)
	ClockDrift(machine string, ppm int64)

	// Disk puts a fault on the machine's disk. It stays over a restart of the process, until healed. Overlapping ones each have their turn.
	Disk(machine string, f DiskFault) (heal func())
	// CPU makes the machine's cores slower by the factor; 1 is as before.
	CPU(machine string, factor int64)
	// Misfortune makes a failpoint fire on all machines, with the probability in parts per million: it takes up to latency and then the
	// early way out. A later call for the same place takes the place of the one before; 0 is never.
	Misfortune(place string, ppm int64, latency time.Duration)

	// AddPartitions raises the topic's partitions to total, CreateTopic makes a topic with the broker's defaults; both as an administrator
	// would: asynchronously, and again until it worked.
	AddPartitions(topic string, total int32)
	CreateTopic(topic string, partitions int32)
}

// Link is how a slow link behaves.
type Link struct {
	Latency   time.Duration // added to each message
	Bandwidth int64         // bytes per second that are left; 0: as before
	Clog      bool          // nothing passes until healed, then all of it does, in order
}

// DiskEffect is what a disk fault does to an operation that it hits.
type DiskEffect uint8

const (
	DiskError DiskEffect = iota + 1 // fails with machine.ErrIO
	DiskFull                        // a write that needs space fails with machine.ErrNoSpace
	DiskShort                       // a read or write moves fewer bytes than asked, at least one
	DiskSlow                        // takes Latency longer
	DiskStall                       // does not end until healed
)

// DiskFault hits operations on files.
type DiskFault struct {
	Effect  DiskEffect
	Op      DiskOps
	Path    string        // pattern, see MatchPath; "": every file
	PPM     int64         // probability per operation in parts per million; 1000000: always
	Count   int64         // operations that are hit at most; 0: no limit
	Latency time.Duration // of DiskSlow
}

// DiskOps is a set of operations.
type DiskOps uint8

const (
	OpRead DiskOps = 1 << iota
	OpWrite
	OpSync
	OpAll = OpRead | OpWrite | OpSync
)

// Clock runs callbacks at moments of world time, counted from the start of the load, outside any task.
// Callbacks of the same moment run in the order in which they were given.
type Clock interface {
	At(t time.Duration, fn func())
}
