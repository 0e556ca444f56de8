package oracle

import (
	"time"

	"faultline/workloads/history"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Unflushed judges what consumers get to see (DIRTY). With one replica only what is flushed may be visible (the paper, section 3.1), because a power loss
// may take the rest.
//
// Verified: when the broker moves what is visible, and whenever a client gets records or a high watermark, the disk has
// everything below it: fsync has returned nil since it was written, by what the disk knows and not by what the broker says. The reply was on its way for at least Delay, so
// it is judged by the disk as it was that much before it arrived. A reply may not show records above its own high watermark.
//
// Of a topic with several replicas only the last is judged here: its consumers see what is committed, see Uncommitted.
//
// Beyond the atlas ([Ruins]): logs on a ruined disk are not judged, nor are replies when a wire changes bytes.
//
// Not verified: names of files, see Recoveries.
type Unflushed struct {
	Findings
	// Delay is the least time that a reply is under way. 0 is always right, and lets a violation slip that is over when the reply arrives.
	Delay time.Duration

	disks *Disks
	logs  map[*diskLog]*flushedLog
}

// flushedLog is how far a partition was durable, lately.
type flushedLog struct {
	at  []time.Duration // times at which end moved; ring of the last ones
	end []int64
}

const flushedKept = 128

// NewUnflushed judges the disks that d watches.
func NewUnflushed(d *Disks) *Unflushed {
	o := &Unflushed{disks: d, logs: map[*diskLog]*flushedLog{}}
	o.Free(d.promise.Ruins.Registry)
	d.onSynced = append(d.onSynced, func(l *diskLog) { o.note(l) })
	d.onVisible = append(d.onVisible, o.visible)
	d.onOpened = append(d.onOpened, func(l *diskLog, _ *history.Event) { o.note(l) })
	forget := func(l *diskLog) { delete(o.logs, l) }
	d.onDrop = append(d.onDrop, forget)
	d.onRuin = append(d.onRuin, forget)
	return o
}

// Invariants lists what it can report.
func (o *Unflushed) Invariants() []string { return []string{Dirty} }

// note takes down how far a log is durable now.
func (o *Unflushed) note(l *diskLog) int64 {
	f := o.logs[l]
	if f == nil {
		f = &flushedLog{}
		o.logs[l] = f
	}
	end := o.disks.flushed(l)
	if n := len(f.end); n == 0 || end > f.end[n-1] {
		if n == flushedKept {
			f.at, f.end = append(f.at[:0], f.at[n/2:]...), append(f.end[:0], f.end[n/2:]...)
		}
		f.at, f.end = append(f.at, o.disks.now()), append(f.end, end)
	}
	return end
}

// before is how far it was durable at a time; what is no longer known counts as durable.
func (f *flushedLog) before(at time.Duration) int64 {
	for i := len(f.at) - 1; i >= 0; i-- {
		if f.at[i] <= at {
			return f.end[i]
		}
	}
	return f.end[0]
}

func (o *Unflushed) visible(l *diskLog, end int64) {
	if l.replicated {
		return
	}
	if durable := o.note(l); durable < end && l.open && o.there(l, end) {
		o.Violate(o.disks.now(), Dirty, "%s on %s made records up to %d visible, but only those below %d are flushed", l.place, l.on.machine, end-1, durable)
	}
}

// there tells whether the log's files have everything below the offset; if not, Recoveries tells what is wrong.
func (o *Unflushed) there(l *diskLog, end int64) bool {
	_, _, reached, _ := o.disks.cached(l)
	return reached >= end
}

// Needs implements [history.Selective].
func (*Unflushed) Needs() history.Steps { return history.Requesting }

// Observe takes an event of the run.
func (o *Unflushed) Observe(e *history.Event) {
	if e.Kind != history.KafkaCalled || o.disks.promise.Ruins.Records() {
		return
	}
	resp, ok := e.Kafka.Resp.(*kmsg.FetchResponse)
	if !ok {
		return
	}
	for i := range resp.Topics {
		t := &resp.Topics[i]
		for j := range t.Partitions {
			if p := &t.Partitions[j]; p.ErrorCode == 0 {
				o.shown(e, place{t.Topic, p.Partition}, p)
			}
		}
	}
}

// shown judges what a client got of one partition.
func (o *Unflushed) shown(e *history.Event, at place, p *kmsg.FetchResponseTopicPartition) {
	l := o.disks.asked(e.Kafka, at)
	if l != nil && l.unsound(e) {
		return
	}
	end := int64(0)
	eachHeader(p.RecordBatches, func(b logBatch) { end = b.next() })
	if end > p.HighWatermark {
		o.Violate(e.At, Dirty, "%s got records of %s up to %d, with a high watermark of %d", e.Machine, at, end-1, p.HighWatermark)
	}
	f := o.logs[l]
	if l == nil || l.replicated || f == nil || len(f.end) == 0 {
		return
	}
	end = max(end, p.HighWatermark)
	if end <= f.end[0] {
		return
	}
	arrived := min(e.Kafka.End, e.At) - o.Delay
	if end <= f.before(arrived) {
		return
	}
	// An answer from before the log was last opened, or from a broker that is down now, may be of a time that is not known any more.
	// One that shows what is not on disk at all is for others to judge.
	if !l.open || l.since >= e.Kafka.Start || !o.there(l, end) {
		return
	}
	o.Violate(e.At, Dirty, "%s was shown that %s reaches %d, but only records below %d were flushed at %v", e.Machine, at, end, f.before(arrived), arrived)
}

// Finish has nothing to judge: what is visible is judged when it is shown.
func (o *Unflushed) Finish(End) {}
