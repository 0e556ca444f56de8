package history

import (
	"time"

	"faultline/sim/machine"
)

// Recorder is told what happens in a world and tells its observers. It allocates nothing for an event.
type Recorder struct {
	now       func() time.Duration
	observers Audience[Observer]
	event     Event
	traced    Event // a Traced one: most are, and its other fields are never set
	seq       int64
	applied   Applied
}

// NewRecorder returns a recorder without observers. now reads the world's time.
func NewRecorder(now func() time.Duration) *Recorder { return &Recorder{now: now} }

// Attach adds an observer. Observers are told in the order in which they were attached; one that is [Selective], what it needs.
func (r *Recorder) Attach(o Observer) { r.observers.Add(o, NeedsOf(o)) }

// Count is the number of events so far.
func (r *Recorder) Count() int64 { return r.seq }

// Who is a process: a machine and which incarnation of it.
type Who struct {
	Machine     string
	Incarnation int
}

// begin clears the event and stamps it.
func (r *Recorder) begin(k Kind, w Who) *Event {
	r.seq++
	r.event = Event{Seq: r.seq, At: r.now(), Kind: k, Machine: w.Machine, Incarnation: w.Incarnation}
	return &r.event
}

func (r *Recorder) emit() {
	for _, o := range r.observers.Of(&r.event) {
		o.Observe(&r.event)
	}
}

// Sent says that the application is about to give a record to its producer. Call it before producer.Send. The partition is -1
// when the producer chooses it, key is [HashKey] of the record's key, hash [HashRecord] of key and value.
func (r *Recorder) Sent(w Who, id ID, producer, topic string, partition int32, key, hash uint64) {
	e := r.begin(Sent, w)
	e.ID, e.Producer, e.Topic, e.Partition, e.Key, e.Hash = id, producer, topic, partition, key, hash
	r.emit()
}

// Acked says that the producer reported the record as stored at the offset; -1 when the broker was not asked to tell.
func (r *Recorder) Acked(w Who, id ID, topic string, partition int32, offset int64) {
	e := r.begin(Acked, w)
	e.ID, e.Topic, e.Partition, e.Offset = id, topic, partition, offset
	r.emit()
}

// Failed says that the producer reported that the record is surely not stored; partition is the one that it was for, -1 when none was chosen.
func (r *Recorder) Failed(w Who, id ID, partition int32, reason string) {
	e := r.begin(Failed, w)
	e.ID, e.Partition, e.Text = id, partition, reason
	r.emit()
}

// Unknown says that the producer gave up and does not know whether the record is stored.
func (r *Recorder) Unknown(w Who, id ID, partition int32, reason string) {
	e := r.begin(Unknown, w)
	e.ID, e.Partition, e.Text = id, partition, reason
	r.emit()
}

// Processed says that the application is done with a record. Call it before the call of Next that tells the consumer so.
func (r *Recorder) Processed(w Who, group, consumer, topic string, partition int32, offset int64, id ID, hash uint64) {
	e := r.begin(Processed, w)
	e.Group, e.Consumer, e.Topic, e.Partition, e.Offset, e.ID, e.Hash = group, consumer, topic, partition, offset, id, hash
	r.emit()
}

// Sought says that the application is about to move the group's position. Call it before Seek.
func (r *Recorder) Sought(w Who, group, consumer, topic string, partition int32, offset int64) {
	e := r.begin(Sought, w)
	e.Group, e.Consumer, e.Topic, e.Partition, e.Offset = group, consumer, topic, partition, offset
	r.emit()
}

// Suspended says that the application is about to pause a partition. Call it before Pause, and Continued if that fails.
func (r *Recorder) Suspended(w Who, group, consumer, topic string, partition int32) {
	r.suspension(Suspended, w, group, consumer, topic, partition)
}

// Continued says that the application is about to resume a partition. Call it before Resume.
func (r *Recorder) Continued(w Who, group, consumer, topic string, partition int32) {
	r.suspension(Continued, w, group, consumer, topic, partition)
}

func (r *Recorder) suspension(k Kind, w Who, group, consumer, topic string, partition int32) {
	e := r.begin(k, w)
	e.Group, e.Consumer, e.Topic, e.Partition = group, consumer, topic, partition
	r.emit()
}

// Traced passes on what a process traced. What another server of the coordination service, or another life of this one, traced before is left out.
func (r *Recorder) Traced(w Who, t machine.Event) {
	if !r.applied.Fresh(w, &t) {
		return
	}
	r.seq++
	e := &r.traced
	e.Seq, e.At, e.Kind, e.Machine, e.Incarnation, e.Trace = r.seq, r.now(), Traced, w.Machine, w.Incarnation, t
	for _, o := range r.observers.Of(e) {
		o.Observe(e)
	}
}

// KafkaCalled passes on a finished request. The call is not kept.
func (r *Recorder) KafkaCalled(w Who, call *KafkaCall) {
	e := r.begin(KafkaCalled, w)
	e.Kafka = call
	r.emit()
	r.event.Kafka = nil
}

// CoordCalled passes on a finished operation. The call is not kept.
func (r *Recorder) CoordCalled(w Who, call *CoordCall) {
	e := r.begin(CoordCalled, w)
	e.Coord = call
	r.emit()
	r.event.Coord = nil
}

// CoordAsked passes on a write that a client is about to ask for. It is not kept.
func (r *Recorder) CoordAsked(w Who, call *CoordCall) {
	e := r.begin(CoordAsked, w)
	e.Coord = call
	r.emit()
	r.event.Coord = nil
}

// CoordHeard passes on what the coordination service sent to a session. It is not kept.
func (r *Recorder) CoordHeard(w Who, said *CoordSaid) {
	e := r.begin(CoordHeard, w)
	e.Heard = said
	r.emit()
	r.event.Heard = nil
}

// FaultInjected says that a fault begins. The number is the fault's own in this run.
func (r *Recorder) FaultInjected(number int, fault Fault, text string) {
	e := r.begin(FaultInjected, Who{})
	e.Number, e.Fault, e.Text = number, &fault, text
	r.emit()
	r.event.Fault = nil
}

// FaultHealed says that the fault with this number is over. The text may say what it did, behind a #.
func (r *Recorder) FaultHealed(number int, text string) {
	e := r.begin(FaultHealed, Who{})
	e.Number, e.Text = number, text
	r.emit()
}

// FaultHeld says that the fault with this number did not strike, and why.
func (r *Recorder) FaultHeld(number int, text string) {
	e := r.begin(FaultHeld, Who{})
	e.Number, e.Text = number, text
	r.emit()
}

// PartitionRuined says that the fault with this number took more copies of the partition than the system survives.
func (r *Recorder) PartitionRuined(topic string, partition int32, number int) {
	e := r.begin(PartitionRuined, Who{})
	e.Topic, e.Partition, e.Number = topic, partition, number
	r.emit()
}

// MachineStarted says that a process begins on a machine.
func (r *Recorder) MachineStarted(w Who) { r.begin(MachineStarted, w); r.emit() }

// MachineCrashed says that the process was killed; power tells whether the machine lost its page cache too.
func (r *Recorder) MachineCrashed(w Who, power bool, why string) {
	e := r.begin(MachineCrashed, w)
	e.Power, e.Text = power, why
	r.emit()
}

// MachineExited says that the process ended by itself, with an error or (nil) regularly. A panic is an error.
func (r *Recorder) MachineExited(w Who, reason error) {
	e := r.begin(MachineExited, w)
	if reason != nil {
		e.Text = reason.Error()
		if e.Text == "" {
			e.Text = "an error without text"
		}
	}
	r.emit()
}

// MachinePaused says that nothing of the process runs until MachineResumed.
func (r *Recorder) MachinePaused(w Who) { r.begin(MachinePaused, w); r.emit() }

// MachineResumed ends MachinePaused.
func (r *Recorder) MachineResumed(w Who) { r.begin(MachineResumed, w); r.emit() }

// MachineWiped says that the machine's disk lost everything.
func (r *Recorder) MachineWiped(w Who) { r.begin(MachineWiped, w); r.emit() }

// MachineRuined says that the fault with this number takes something from the machine that the system does not survive.
func (r *Recorder) MachineRuined(machine string, number int, what string) {
	e := r.begin(MachineRuined, Who{Machine: machine})
	e.Number, e.Text = number, what
	r.emit()
}

// MachineMended says that it does so no longer.
func (r *Recorder) MachineMended(machine string, number int, what string) {
	e := r.begin(MachineMended, Who{Machine: machine})
	e.Number, e.Text = number, what
	r.emit()
}

// PhaseBegan says that the run enters a phase.
func (r *Recorder) PhaseBegan(p Phase) {
	e := r.begin(PhaseBegan, Who{})
	e.Phase = p
	r.emit()
}
