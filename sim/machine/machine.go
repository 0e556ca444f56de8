// Package machine is the seam: what a program of this system may ask of the computer it runs on.
//
// Brokers, the coordination service, producers and consumers see the outside world through
// [Machine] and nothing else, so the same code runs on the simulated computer
// (sim/virtual: virtual clock, disk, network, CPU; one seed decides everything) and on the
// real one (sim/host: files, TCP, wall clock). One conformance suite holds both to this page.
//
// # Rules for code above the seam
//
//   - Block only through the seam. A task that waits on a channel, a sync.Mutex or the real
//     clock stops the whole world.
//   - A process can be killed at any call to the seam: the call does not return, deferred
//     functions run, and their own calls to the seam do not return either. Never recover() a panic
//     that you did not raise.
//   - Do not iterate over a map when the order can reach the outside (a message, a file, a log line).
package machine

import (
	"math/rand/v2"
	"net"
	"time"
)

// Machine is a process's view of the computer it runs on. A value belongs to one incarnation of
// the process: after a crash and restart the process gets a new one, with the same name and disk.
type Machine interface {
	// Name is the host name. Other machines reach this one by dialing "name:port".
	Name() string

	// Now reads the wall clock. It may be wrong (offset), run fast or slow (drift) and jump
	// forward or back. Use it for timestamps in records and for retention, never to measure time spans.
	Now() time.Time

	// Uptime reads the monotonic clock: time since some moment before the process started. It may drift but
	// never jumps, and goes on while the process is paused. Use it for time-outs and leases.
	Uptime() time.Duration

	// Sleep suspends the task for at least d of this machine's time. d <= 0 only yields.
	Sleep(d time.Duration)

	// After runs fn as a new task once d has passed, unless the timer is stopped before.
	After(d time.Duration, name string, fn func()) Timer

	// Rand returns a random stream for one purpose, a constant such as "producer/partitioner".
	// Streams of different purposes and machines are independent of each other. The caller keeps the stream; a
	// second call with the same purpose starts the same stream again (simulated) or a new one (real).
	Rand(purpose string) *rand.Rand

	// Go starts fn as a task of this process. The name is for people: it appears in traces and stuck verdicts.
	// When fn panics, the process crashes and the world reports the panic with the task's own stack.
	Go(name string, fn func())

	// NewMutex returns an unlocked lock; NewCond a condition on it. The names appear in stuck verdicts.
	NewMutex(name string) Mutex
	NewCond(name string, l Mutex) Cond

	// Disk is this machine's file system. It outlives the process.
	Disk() Disk

	// Listen opens a TCP port on this machine; port 0 picks a free one. It fails with an error that wraps ErrAddressInUse
	// when another listener of this machine has the port.
	Listen(port int) (net.Listener, error)

	// Dial connects to "host:port" within the time-out (0: the computer's own, about 2 minutes).
	// Errors wrap ErrConnRefused, ErrTimeout or ErrNoHost. Deadlines on the connection (SetDeadline
	// and its kin) are read on this machine's wall clock at the time of the call and then kept in monotonic time.
	Dial(address string, timeout time.Duration) (net.Conn, error)

	// SendFile copies n bytes of src from offset to dst, by the system's zero-copy path where there is one.
	// It returns the bytes sent and an error when these are fewer than n.
	SendFile(dst net.Conn, src File, offset, n int64) (int64, error)

	// Work occupies one core for as long as the given work costs on this hardware. On the real machine it is free:
	// there the work itself takes the time.
	Work(w Work)

	// Trace records an event of this process. It is folded into the run's hash and shown to oracles;
	// the event's strings should be constants or kept by the caller, so that tracing allocates nothing.
	Trace(e Event)

	// Tracing tells whether anybody sees what Trace records; guard a costly Detail with it.
	Tracing() bool

	// Failpoint marks a legal misfortune, named "fault/<room>/<place>". It may take time or let others run; when it
	// returns true the caller takes its early-return path, as if the step had failed. On the real machine
	// it returns false at once.
	Failpoint(place string) bool

	// Mark says that this run has been in a state worth reaching, named "mark/<room>/<what>": a torn tail that was cut off, a claim that another
	// owner refused. Runs count marks to show what their faults provoked ("sometimes" assertions); a mark changes nothing, no event
	// and no hash. The name is a constant. On the real machine it does nothing.
	Mark(place string)

	// Exit ends this process with the reason, as os.Exit would: no deferred function may count on reaching
	// the outside. nil is a regular end. It does not return.
	Exit(reason error)
}

// Timer is a pending After.
type Timer interface {
	// Stop prevents the function from starting and reports whether it did (false: it already started or was stopped).
	Stop() bool
}

// Mutex is a lock that is not reentrant and not fair.
type Mutex interface {
	Lock()
	Unlock()
}

// Cond is a condition variable. Waiters hold the lock that it was made with; wake-ups may be spurious, so wait in a loop.
type Cond interface {
	Wait()
	// WaitTimeout waits at most d of this machine's time and reports whether it was woken (false: the time ran out).
	WaitTimeout(d time.Duration) bool
	Signal()
	Broadcast()
}

// Work counts things whose CPU cost the hardware profile knows.
type Work struct {
	Requests int   // protocol messages that a client wrote or read, and batches that a producer made
	Served   int   // protocol requests that a server handled
	Sent     int   // records that a producer took and encoded
	Records  int   // records that a server looked at
	Received int   // records that a consumer decoded and handed over
	Batches  int   // batches that they were in, each checked by itself
	Copied   int64 // bytes moved by the CPU from memory to memory
	Moved    int64 // bytes written to a connection, or read from one
	Stored   int64 // bytes written to files
	Flushed  int64 // bytes that a sync of their file takes from memory to the disk
	Summed   int64 // bytes checksummed
	Syscalls int   // system calls
	Packed   int64 // bytes compressed
	Inflated int64 // bytes that decompression brought forth
	Codec    int8  // of both: the number that record batches have for it

	Queue QueueWork
}

// QueueWork counts what the baseline queue's clients and servers do, whose code is not that of requests and records.
type QueueWork struct {
	Frames   int // of messages, that a client made and wrote
	Answers  int // frames of a client that were confirmed to it, many at once perhaps
	Arrived  int // frames of messages that a client read, and of acknowledgements that it wrote
	Sent     int // messages that a client put into frames
	Received int // messages that a client took out of frames, handed over and acknowledged
	Served   int // frames that a server read
	Told     int // frames of clients that a server confirmed, many in a write perhaps
	Pushed   int // writes of a server with messages for a client
	Taken    int // messages that a server took in, and as often again as there are queues that got them
	Passed   int // messages that a server gave to a consumer, put into a frame, or took an acknowledgement of, each time
}

// Plus is both together.
func (q QueueWork) Plus(o QueueWork) QueueWork {
	return QueueWork{
		q.Frames + o.Frames, q.Answers + o.Answers, q.Arrived + o.Arrived, q.Sent + o.Sent, q.Received + o.Received,
		q.Served + o.Served, q.Told + o.Told, q.Pushed + o.Pushed, q.Taken + o.Taken, q.Passed + o.Passed,
	}
}
