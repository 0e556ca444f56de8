// Package history is what is known of a run: who sent, received and processed which record, what the processes traced,
// what they asked of each other, and what was done to them.
//
// A [Recorder] is fed by whoever runs the world and shows each event to its observers at once, in the order in which things
// happened; oracles are observers. Nothing is kept but a ring of the last events, unless a [Writer] is attached, so a
// run of any length needs the same memory. One recorder belongs to one world and one goroutine at a time.
package history

import (
	"time"

	"faultline/faults"
	"faultline/sim/machine"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Kind says what an event is, and so which of its fields mean something.
type Kind uint8

const (
	// Producing application. Each record that it sends ends in at most one of Acked, Failed, Unknown; a crash of the machine
	// leaves its records without any, which is the same as Unknown.
	Sent    Kind = iota + 1 // ID, Key, Hash, Topic. Partition is -1 while nobody has chosen it
	Acked                   // ID, Topic, Partition, Offset (-1 with acks=0: nobody knows)
	Failed                  // ID, Text (error). The record is surely not in the log
	Unknown                 // ID, Text (error). The record may be in the log, or come to be

	// Consuming application.
	Processed // Group, Consumer, Topic, Partition, Offset, ID, Hash. The application is done with the record
	Sought    // Group, Consumer, Topic, Partition, Offset. The application asked to go on from Offset
	Suspended // Group, Consumer, Topic, Partition. The application asks that nothing of it be handed over until Continued
	Continued // Group, Consumer, Topic, Partition

	// What a process said of itself.
	Traced // Trace

	// What a process asked, when its outcome is known. Those that a crash interrupts are never seen.
	KafkaCalled // Kafka
	CoordCalled // Coord

	// A write that a client is about to ask of the coordination service. CoordCalled tells what became of it, if its process lives so long.
	CoordAsked // Coord, without results

	// What the coordination service sent to a session, in the order in which it came. What was asked may be known later, or never.
	CoordHeard // Heard

	// What was done to the world. Number pairs an injection with its end; a fault without a duration ends at once.
	FaultInjected // Number, Fault, Text (the fault as its plan writes it)
	FaultHealed   // Number, Text

	// What became of the machines.
	MachineStarted // a process begins: the first time or after a crash or exit
	MachineCrashed // Power: the page cache is gone too. Text: why
	MachineExited  // the process ended by itself. Text: the error, empty for a regular end
	MachinePaused
	MachineResumed
	MachineWiped // its disk is empty now

	// A fault that the system does not survive hit the machine, Number, and Text says in what (faults.Ruin): "bytes", the disk may read differently from what was
	// made durable; "flushes", the next power loss may take what was made durable since; "wire", what it sends and gets may differ.
	MachineRuined
	MachineMended // Number, Text: that fault is over. What came of it may last

	PhaseBegan // Phase

	FaultHeld // Number, Text (the fault, and why): it would have left what the system survives, and did not strike
	// A fault, Number, took, or may take, more copies of a partition than the system survives. Topic, Partition.
	PartitionRuined
)

var kindNames = [...]string{
	Sent: "sent", Acked: "acked", Failed: "failed", Unknown: "unknown", Processed: "processed", Sought: "sought", Suspended: "suspended", Continued: "continued",
	Traced: "traced", KafkaCalled: "kafka", CoordCalled: "coord", CoordAsked: "asked", CoordHeard: "heard", FaultInjected: "fault", FaultHealed: "healed",
	MachineStarted: "started", MachineCrashed: "crashed", MachineExited: "exited", MachinePaused: "paused",
	MachineResumed: "resumed", MachineWiped: "wiped", MachineRuined: "ruined", MachineMended: "mended", PhaseBegan: "phase",
	FaultHeld: "held", PartitionRuined: "partition-ruined",
}

func (k Kind) String() string {
	if int(k) < len(kindNames) && kindNames[k] != "" {
		return kindNames[k]
	}
	return "kind(" + itoa(int64(k)) + ")"
}

// Phase is a part of a run. They come in this order, each at most once.
type Phase uint8

const (
	Load    Phase = iota + 1 // load and faults
	Heal                     // faults are over and every machine is started; load may go on
	Quiesce                  // no more load: what is under way comes to rest
	End                      // nothing more is judged
)

var phaseNames = [...]string{Load: "load", Heal: "heal", Quiesce: "quiesce", End: "end"}

func (p Phase) String() string {
	if int(p) < len(phaseNames) && phaseNames[p] != "" {
		return phaseNames[p]
	}
	return "phase(" + itoa(int64(p)) + ")"
}

// ID names a record of the run: the number of the source that made it (one for each producer incarnation, from 0) and its place in what the
// source made (from 0). The source's order is the order of Sent. It travels in the record header "id".
type ID uint64

const seqBits = 40

// MaxSources is how many sources one run may number.
const MaxSources = 1 << (64 - seqBits)

// NewID joins a source number and a sequence number below 2^40.
func NewID(source int, seq int64) ID { return ID(source)<<seqBits | ID(seq)&(1<<seqBits-1) }

// Source is the number of the source.
func (id ID) Source() int { return int(id >> seqBits) }

// Seq is the place in what the source made.
func (id ID) Seq() int64 { return int64(id & (1<<seqBits - 1)) }

// String is "source/seq".
func (id ID) String() string { return itoa(int64(id.Source())) + "/" + itoa(id.Seq()) }

// Event is one thing that happened. Which fields mean something depends on Kind; the others are zero.
//
// Observers get a pointer to an event that the recorder uses again: copy what you keep. Strings may be kept; Kafka, Coord and Heard
// (and what they point to) may not.
type Event struct {
	Seq  int64         // place in the history, from 1
	At   time.Duration // world time
	Kind Kind

	Machine     string // where it happened; empty for what concerns no machine
	Incarnation int    // of the process there, from 1

	ID        ID
	Hash      uint64 // of key and value, see HashRecord
	Key       uint64 // of the key alone, see HashKey; 0: there is none
	Producer  string // with Sent: the producer's name
	Group     string
	Consumer  string
	Topic     string
	Partition int32
	Offset    int64

	Text   string
	Number int    // of a fault
	Fault  *Fault // may be kept
	Power  bool   // of a crash
	Phase  Phase

	Trace machine.Event
	Kafka *KafkaCall
	Coord *CoordCall
	Heard *CoordSaid
}

// Fault is what a fault does, and to whom.
type Fault struct {
	Kind  faults.Kind
	Hit   []string // machines; none: it names none
	Peers []string // of a fault between machines: those on the other side, the machines themselves being whole
}

// KafkaCall is a finished request to a broker, as broker/client's tap shows it.
type KafkaCall struct {
	Broker     string        // address that was dialled, "host:port"
	Key        int16         // API key of the request
	Version    int16         // and its version
	Req        kmsg.Request  // nil when read from a file
	Resp       kmsg.Response // nil when Err is set, when there is no answer, or when read from a file
	Err        error
	Sent       bool          // false: surely nothing of it reached the wire
	Start, End time.Duration // world time
}

// CoordCall is a finished operation on the coordination service, as coord/client's tap shows it.
type CoordCall struct {
	Session    int64  // session at the end of the call; 0 when there was none
	Op         string // create, delete, set, check (in a multi), exists, get, children, multi, close
	Path       string
	Data       []byte // argument of create and set
	Version    int32  // argument of delete, set and check (-1: any)
	Ephemeral  bool   // flags of create
	Sequential bool
	Ops        []CoordCall // parts of a multi: their arguments

	Name     string   // result of create: the path made
	Value    []byte   // result of get
	Children []string // result of children, sorted
	Found    bool     // result of exists
	Stat     Stat     // result of create, exists, get, set, children
	Err      error
	Unknown  bool          // Err leaves open whether the operation took effect
	Sent     bool          // false: surely nothing of it reached the wire
	Start    time.Duration // world time
	End      time.Duration
}

// CoordSaid is what a client of the coordination service was sent, as coord/client's tap shows it.
type CoordSaid struct {
	Session int64
	What    string // answer: to a request. left: after a reconnection all watches are left again, or have fired. alive: the session lives on. created, deleted, set, children: a watch fired
	Path    string
	Op      string // with answer: exists, get, children, or empty for a request of another kind
	Watch   bool   // with answer: the request asked for a watch
	Found   bool   // with answer: the request succeeded; there is such a node
	Zxid    int64  // with answer and left: last transaction that the server had applied
	Mzxid   int64  // with answer: of the node, if it tells
	Pzxid   int64  // likewise: transaction that last created or deleted a child

	Since time.Duration // with alive: world time when what is answered was sent
}

// Stat is the part of a znode's stat that histories need.
type Stat struct {
	Czxid, Mzxid int64
	Version      int32
	Owner        int64 // session of an ephemeral, 0 for a persistent
}

// Observer is shown the events of a run, in order.
type Observer interface {
	Observe(e *Event)
}
