package oracle

import (
	"strings"
	"time"

	"faultline/broker/client"
	"faultline/faults"
	"faultline/sim/machine"
	"faultline/workloads/history"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Watermarks judges the high watermarks (HW) that brokers tell (HW).
//
// Verified:
//   - in the life of one process, what a broker tells of a partition never goes back, be it leader or follower. After a restart it may be lower: the checkpoint is older, but not by more than
//     writtenWithin, unless a disk failed or stalled, or the process stood still, in that time (KAFKA-1647). Nor is it above all that any broker told of that topic before, and the log start: nothing is committed that is not
//     known to be;
//   - over leaders: a new one begins with what it knew as a follower, which may be lower than what the old one told. But as soon as it moves it is not below anything that a leader of an earlier
//     epoch told, for every in-sync replica has all of that. Nor does it, until then, answer a client that asks where the log ends with less (KIP-207);
//   - log start <= HW <= log end, as the broker tells them: when the log is opened, at each move, when retention deletes, and, when the log was restarted further on, by the next append.
//
// After an unclean election, where the topic allows it, the HW may go back, and that of a follower below its log start: its log must begin anew there before the next append.
//
// Not verified: that the HW moves (Liveness, Delivery), that what lies below is what was there (Agreement). Beyond the atlas ([Ruins]) a partition that is freed is not
// judged.
type Watermarks struct {
	Findings
	cluster *Cluster
	marks   byPartition[copies[watermark]]
	highest byPartition[highest]
	disks   map[int]bool  // faults of disks that are active
	diskAt  time.Duration // when the last one ended
}

// highest are the highest HWs of a partition.
type highest struct {
	led  int64 // that a leader told since the last unclean election
	ever int64 // that any broker told
}

// writtenWithin is how long after it was told a high watermark is written down at the latest.
const writtenWithin = 3 * time.Second

// watermark is what one process told of one partition.
type watermark struct {
	inc        int
	hw         int64
	start, end int64
	epoch      int64         // in which it leads; none
	since      time.Duration // of when
	before     int64         // the highest HW that a leader of an earlier epoch told
	unclean    int           // unclean elections when it was looked at
	behind     bool          // log and HW were not moved together: by the next append the one must have followed the other
	open       bool          // before, what goes was deleted in an earlier life

	recent []toldAt // what was told in the last writtenWithin, and the last before
	owed   int64    // what an earlier life must have written down
}

type toldAt struct {
	at time.Duration
	hw int64
}

// note takes down what was told. A few in a short time count as the first.
func (w *watermark) note(at time.Duration, hw int64) {
	if n := len(w.recent); n > 0 && at < w.recent[n-1].at+100*time.Millisecond {
		return
	}
	w.recent = append(w.recent, toldAt{at, hw})
	for len(w.recent) > 1 && w.recent[1].at <= at-writtenWithin {
		w.recent = w.recent[1:]
	}
}

// written is what must be written down at a time.
func (w *watermark) written(at time.Duration) (hw int64) {
	for _, r := range w.recent {
		if r.at <= at-writtenWithin {
			hw = r.hw
		}
	}
	return hw
}

// NewWatermarks judges the partitions that c follows.
func NewWatermarks(c *Cluster) *Watermarks {
	o := &Watermarks{cluster: c, disks: map[int]bool{}, diskAt: none}
	o.Free(c.promise.Ruins.Records)
	c.onTold = append(c.onTold, o.told)
	c.onBegan = append(c.onBegan, o.began)
	c.onGone = append(c.onGone, o.marks.forget)
	return o
}

// Invariants lists what it can report.
func (o *Watermarks) Invariants() []string { return []string{HighMark} }

func (o *Watermarks) mark(e *history.Event, p *replicas) *watermark {
	all := o.marks.of(p)
	w := all.on(e.Machine)
	if w == nil {
		w = all.add(e.Machine, watermark{inc: none})
	}
	if w.inc != e.Incarnation {
		*w = watermark{inc: e.Incarnation, epoch: none, unclean: p.unclean, owed: w.owed}
	}
	if w.unclean != p.unclean {
		w.unclean, w.hw, w.before = p.unclean, 0, 0
	}
	return w
}

// Needs implements [history.Selective].
func (*Watermarks) Needs() history.Steps { return history.Appending | history.Requesting }

// Observe takes an event of the run.
func (o *Watermarks) Observe(e *history.Event) {
	if e.Kind != history.Traced {
		o.outside(e)
		return
	}
	t := &e.Trace
	switch t.Kind {
	case machine.LogOpened, machine.LogAppended, machine.LogTruncated, machine.LogDeleted:
	default:
		return
	}
	p := o.cluster.bySubject(t.Subject)
	if p == nil || o.cluster.freed(p) {
		return
	}
	w := o.mark(e, p)
	switch t.Kind {
	case machine.LogOpened:
		w.start, w.end, w.hw, w.open = t.A, t.B, t.A, true
		w.recent = nil // a replica that comes back to a broker in the same process is another one
	case machine.LogAppended:
		if w.behind && w.hw < w.start {
			o.Violate(e.At, HighMark, "%s appends to %s, whose log starts at %d, above the high watermark %d", e.Machine, p.place, w.start, w.hw)
		}
		w.behind, w.end = false, t.B
	case machine.LogTruncated:
		w.end = t.B
		if t.B > t.A || t.B == t.A && w.open {
			w.start, w.behind = t.B, true
		}
		w.start = min(w.start, t.B)
	case machine.LogDeleted:
		w.start = t.B
		if w.open && w.hw < w.start {
			o.Violate(e.At, HighMark, "%s deleted %s up to %d, above the high watermark %d", e.Machine, p.place, w.start, w.hw)
		}
	}
}

// outside follows what was done to a machine: what it must have written down, and what excuses that it has not.
func (o *Watermarks) outside(e *history.Event) {
	each := func(do func(w *watermark)) {
		for i := range o.marks.all {
			if w := o.marks.all[i].on(e.Machine); w != nil {
				do(w)
			}
		}
	}
	switch e.Kind {
	case history.FaultInjected:
		switch e.Fault.Kind {
		case faults.DiskErrors, faults.FullDisk, faults.ShortDisk, faults.SlowDisk, faults.StalledDisk:
			o.disks[e.Number] = true
		}
	case history.FaultHealed:
		if o.disks[e.Number] {
			delete(o.disks, e.Number)
			o.diskAt = e.At
		}
	case history.MachineCrashed, history.MachineExited:
		troubled := len(o.disks) > 0 || o.diskAt >= 0 && e.At < o.diskAt+writtenWithin
		each(func(w *watermark) {
			if w.owed = 0; !troubled {
				w.owed = w.written(e.At)
			}
			w.recent = nil
		})
	case history.MachinePaused, history.MachineResumed:
		each(func(w *watermark) { w.recent = nil })
	case history.MachineWiped:
		each(func(w *watermark) { w.owed = 0 })
	case history.KafkaCalled:
		o.named(e)
	}
}

// named judges where leaders say that logs end. Who began to lead while the request was under way may have answered before.
func (o *Watermarks) named(e *history.Event) {
	req, ok := e.Kafka.Req.(*kmsg.ListOffsetsRequest)
	resp, answered := e.Kafka.Resp.(*kmsg.ListOffsetsResponse)
	if !ok || !answered {
		return
	}
	host, _, _ := strings.Cut(e.Kafka.Broker, ":")
	for i := range resp.Topics {
		for j := range resp.Topics[i].Partitions {
			at, rp := place{resp.Topics[i].Topic, resp.Topics[i].Partitions[j].Partition}, &resp.Topics[i].Partitions[j]
			p := o.cluster.parts[at]
			if rp.ErrorCode != 0 || !asksEnd(req, at) || p == nil || o.cluster.freed(p) {
				continue
			}
			if w := o.marks.of(p).on(host); w != nil && w.epoch >= 0 && w.since <= e.Kafka.Start && w.unclean == p.unclean && rp.Offset < w.before {
				o.Violate(e.At, HighMark, "%s, which leads %s in epoch %d, tells %s that its log ends at %d, but a leader before told %d", host, at, w.epoch, e.Machine, rp.Offset, w.before)
			}
		}
	}
}

// asksEnd tells whether a request asks where the partition's log ends.
func asksEnd(req *kmsg.ListOffsetsRequest, at place) bool {
	for i := range req.Topics {
		for j := range req.Topics[i].Partitions {
			if p := &req.Topics[i].Partitions[j]; req.Topics[i].Topic == at.topic && p.Partition == at.partition {
				return p.Timestamp == client.Latest
			}
		}
	}
	return false
}

func (o *Watermarks) began(e *history.Event, p *replicas) {
	w, high := o.mark(e, p), o.highest.of(p)
	if p.lost {
		w.hw, high.led = 0, 0
	}
	w.before = high.led
	high.ever = max(high.ever, e.Trace.C)
	high.led = max(w.before, e.Trace.C)
	w.epoch, w.since = e.Trace.A, e.At
	o.bounds(e, p, w, e.Trace.C)
	if e.Trace.C < w.hw {
		o.Violate(e.At, HighMark, "%s begins to lead %s with the high watermark %d, but it told %d before", e.Machine, p.place, e.Trace.C, w.hw)
	}
	w.hw = e.Trace.C
}

func (o *Watermarks) told(e *history.Event, p *replicas, leader bool) {
	w, high := o.mark(e, p), o.highest.of(p)
	hw := e.Trace.A
	if !leader && hw < w.start && p.unclean > 0 {
		w.behind = true
	} else {
		o.bounds(e, p, w, hw)
	}
	w.note(e.At, hw)
	switch {
	case e.Trace.B < 0:
		if owed := min(w.owed, w.end); hw < owed && p.unclean == 0 && !o.cluster.promise.Small && !o.cluster.promise.Ruins.Any() {
			o.Violate(e.At, HighMark, "%s opens %s with the high watermark %d, but it told %d at least %v before its last life ended", e.Machine, p.place, hw, owed, writtenWithin)
		}
		if known := max(high.ever, w.start); hw > known && p.unclean == 0 {
			o.Violate(e.At, HighMark, "%s opens %s with the high watermark %d, but nobody told more than %d", e.Machine, p.place, hw, known)
		}
		w.owed = 0
	case hw < w.hw && p.unclean == 0:
		o.Violate(e.At, HighMark, "%s tells the high watermark %d of %s, but it told %d before", e.Machine, hw, p.place, w.hw)
	case leader && e.Trace.B == w.epoch && p.epoch <= w.epoch && hw < w.before:
		o.Violate(e.At, HighMark, "%s, which leads %s in epoch %d, tells the high watermark %d, but a leader before told %d", e.Machine, p.place, w.epoch, hw, w.before)
	}
	w.hw = hw
	if e.Trace.B >= 0 {
		high.ever = max(high.ever, hw)
	}
	if leader && e.Trace.B >= p.epoch { // a leader that was deposed may still tell what an unclean election made void
		high.led = max(high.led, hw)
	}
}

// bounds holds a high watermark against the log.
func (o *Watermarks) bounds(e *history.Event, p *replicas, w *watermark, hw int64) {
	if hw < w.start || hw > w.end {
		o.Violate(e.At, HighMark, "%s tells the high watermark %d of %s, whose log has %d to %d", e.Machine, hw, p.place, w.start, w.end)
	}
}

// Finish has nothing to judge: high watermarks are judged when they are told.
func (o *Watermarks) Finish(End) {}
