package oracle

import (
	"time"

	wire "faultline/broker/record"
	"faultline/sim/machine"
	"faultline/workloads/history"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Times judges what brokers answer to the question for the first record of a time or later (ListOffsets), by the records on the disk of the broker that answers (DELIVER: who goes there is to miss nothing; DIRTY).
//
// Verified of each answer to a time:
//   - the record at the offset has the timestamp that the answer tells, which is the time that was asked for or a later one;
//   - no record below it has: timestamps need not rise with offsets, the first is the one with the least offset;
//   - it is one that this broker shows by the time of the answer (DIRTY);
//   - when the answer says that there is none, there was none that this broker had shown before it was asked.
//
// What retention or compaction has taken by the time of the answer is not asked for. Not verified: answers about the log's ends (Delivery, Watermarks, the linearizability of logs), and topics where an unclean election
// may give offsets out anew.
//
// Beyond the atlas ([Ruins]): logs on a ruined disk and partitions that are freed are not judged, and none is when a wire changes bytes.
type Times struct {
	Findings
	disks   *Disks
	shown   map[hostedName][]toldAt // by broker and "t/p", the latest last
	records wire.Iterator
	buf     []byte
}

// NewTimes judges the disks that d watches.
func NewTimes(d *Disks) *Times {
	o := &Times{disks: d, shown: map[hostedName][]toldAt{}}
	o.Free(d.promise.Ruins.Records)
	return o
}

// Invariants implements [Oracle].
func (o *Times) Invariants() []string { return []string{Deliver, Dirty} }

// Needs implements [history.Selective].
func (*Times) Needs() history.Steps { return history.Committing | history.Requesting }

// Observe implements [Oracle].
func (o *Times) Observe(e *history.Event) {
	switch e.Kind {
	case history.Traced:
		switch t := &e.Trace; t.Kind {
		case machine.LogVisible:
			if at, ok := parsePlace(t.Subject); ok && !o.disks.promise.Replicated(at.topic) {
				o.tell(e, t.A)
			}
		case machine.HighWatermark:
			if t.C == 1 {
				o.tell(e, t.A)
			}
		case machine.LogOpened: // what it showed in another life is for others to judge
			delete(o.shown, hostedName{e.Machine, t.Subject})
			if at, ok := parsePlace(t.Subject); ok && !o.disks.promise.Replicated(at.topic) {
				o.tell(e, t.B)
			}
		case machine.LeaderBegan: // likewise
			delete(o.shown, hostedName{e.Machine, t.Subject})
			o.tell(e, t.C)
		}
	case history.KafkaCalled:
		o.called(e)
	}
}

// tell notes what a broker shows from now on, and forgets what is too old for any question that is still under way.
func (o *Times) tell(e *history.Event, below int64) {
	const questionsLast = 30 * time.Second
	key := hostedName{e.Machine, e.Trace.Subject}
	list := append(o.shown[key], toldAt{e.At, below})
	for len(list) > 256 || len(list) > 1 && list[1].at < e.At-questionsLast {
		list = list[1:]
	}
	o.shown[key] = list
}

// before is the offset below which a broker had shown everything at a time.
func (o *Times) before(key hostedName, at time.Duration) int64 {
	list := o.shown[key]
	for i := len(list) - 1; i >= 0; i-- {
		if list[i].at < at {
			return list[i].hw
		}
	}
	return 0
}

func (o *Times) called(e *history.Event) {
	req, ok := e.Kafka.Req.(*kmsg.ListOffsetsRequest)
	resp, answered := e.Kafka.Resp.(*kmsg.ListOffsetsResponse)
	if !ok || !answered || len(req.Topics) != len(resp.Topics) {
		return
	}
	for i := range resp.Topics {
		if len(req.Topics[i].Partitions) != len(resp.Topics[i].Partitions) {
			continue
		}
		for j := range resp.Topics[i].Partitions {
			ask, got := &req.Topics[i].Partitions[j], &resp.Topics[i].Partitions[j]
			if at := (place{resp.Topics[i].Topic, got.Partition}); ask.Timestamp >= 0 && got.ErrorCode == 0 && ask.Partition == got.Partition && o.judges(at) {
				o.judge(e, at, ask.Timestamp, got.Offset, got.Timestamp)
			}
		}
	}
}

func (o *Times) judges(at place) bool {
	p := o.disks.promise
	t := p.topic(at.topic)
	return t != nil && !t.Unclean && !o.disks.deleted[at.topic] && !(t.Replicas > 1 && p.Ruins.of(at))
}

// judge looks for the first record of the time, and holds the answer against it.
func (o *Times) judge(e *history.Event, at place, asked, offset, timestamp int64) {
	l := o.disks.asked(e.Kafka, at)
	if l == nil || !l.open || l.unsound(e) || l.since > e.Kafka.Start {
		return
	}
	below := offset
	if offset < 0 {
		below = o.before(hostedName{l.on.machine, at.String()}, e.Kafka.Start-skew)
	}
	first := int64(none)
	there, stamp := false, int64(none)
	o.read(l, below+1, func(r *wire.Record) {
		if first < 0 && r.Timestamp >= asked && r.Offset < below {
			first = r.Offset
		}
		if r.Offset == offset {
			there, stamp = true, r.Timestamp
		}
	})
	shown := o.shown[hostedName{l.on.machine, at.String()}]
	switch {
	case len(shown) > 0 && shown[0].at <= e.Kafka.Start && offset >= shown[len(shown)-1].hw:
		o.Violate(e.At, Dirty, "%s tells of offset %d of %s, of time %d, but it shows only what lies below %d", l.on.machine, offset, at, timestamp, shown[len(shown)-1].hw)
	case first >= 0 && offset < 0:
		o.Violate(e.At, Deliver, "%s says that %s has no record of time %d or later, but offset %d is one, and was shown before %v, when %s asked", l.on.machine, at, asked, first, e.Kafka.Start, e.Machine)
	case first >= 0:
		o.Violate(e.At, Deliver, "%s says that offset %d of %s is the first of time %d or later, but offset %d is one", l.on.machine, offset, at, asked, first)
	case offset >= 0 && timestamp < asked:
		o.Violate(e.At, Deliver, "%s says that offset %d of %s is the first of time %d or later, though it is of %d", l.on.machine, offset, at, asked, timestamp)
	case there && stamp != timestamp:
		o.Violate(e.At, Deliver, "%s says that offset %d of %s is of time %d, but it is of %d", l.on.machine, offset, at, timestamp, stamp)
	}
}

// read calls fn for the records of a log below an offset, and a few more.
func (o *Times) read(l *diskLog, below int64, fn func(*wire.Record)) {
	for _, s := range l.live() {
		f, ok := l.on.model.File(s.path)
		if !ok || s.base >= below {
			return
		}
		if int64(len(o.buf)) < f.Size {
			o.buf = make([]byte, f.Size)
		}
		n, _ := f.ReadAt(o.buf[:f.Size], 0)
		for rest := o.buf[:n]; len(rest) > 0; {
			b, next, err := wire.Next(rest)
			if err != nil || b.BaseOffset >= below {
				break // what is in the way Recoveries tells
			}
			rest = next
			for o.records.Reset(b); o.records.Next(); {
				fn(&o.records.Record)
			}
		}
	}
}

// Finish has nothing to judge: all is judged when it happens.
func (o *Times) Finish(End) {}
