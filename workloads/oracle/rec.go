package oracle

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"faultline/broker/log"
	"faultline/workloads/history"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Recoveries judges whether logs survive what happens to their brokers (REC), by the bytes on disk.
//
// Verified, when a log is opened after its process or machine stopped:
//   - it is a prefix of what it was, batch by batch, with the same bytes (length and CRC, which is checked anew);
//   - it has everything that was durable (fsync returned nil, under names that were durable), everything that was visible (so everything
//     acked with acks=all), and after a process crash everything that was in the page cache;
//   - it begins where it began, but for segments that were removed by name (Retention judges those), and not before: what was deleted for good, by a
//     durable checkpoint or directory, or by what a client was shown, does not come back;
//   - its files hold batches without a gap or a byte between them, to the end that the broker tells; indexes agree with a linear scan;
//   - all of it is durable again, so that the next power loss takes nothing.
//
// While it is open: what is visible is whole, without garbage on the way, in files whose names are durable; nothing visible is cut off; a fetch
// is answered from the batch that contains its offset, without gaps, with no more bytes than it asked for unless it is one batch. At the end: the bytes of every durable batch are still those that became
// durable. And (LIVE) a log whose broker came back was opened within the promised time after the heal.
//
// A replica's log may be cut where it parts from its leader's, flushed or not, but not below the high watermark that its broker told; and it may be dropped as a whole to begin
// anew further on, or further back when it begins behind all that its leader has, which its checkpoint says first.
//
// Beyond the atlas ([Ruins]): logs on a ruined disk are not judged, nor is one that is opened with a hole on a disk that ever was ruined, for what lies below the recovery point is not read again; nor are replies when a wire changes bytes; index files are not judged any more on a disk that was ever ruined.
//
// Not verified: the records inside the batches; what a compaction puts in the place of a segment at the moment at which the process stops (Compaction does).
type Recoveries struct {
	Findings
	disks *Disks
	stuck map[*diskLog]bool // told already
	files log.Checker
}

// NewRecoveries judges the disks that d watches.
func NewRecoveries(d *Disks) *Recoveries {
	o := &Recoveries{disks: d, stuck: map[*diskLog]bool{}}
	o.Free(d.promise.Ruins.Registry)
	d.onOpened = append(d.onOpened, o.opened)
	d.onVisible = append(d.onVisible, o.visible)
	d.onCut = append(d.onCut, o.cut)
	return o
}

// Invariants lists what it can report.
func (o *Recoveries) Invariants() []string { return []string{Recovery, Live} }

// Needs implements [history.Selective].
func (*Recoveries) Needs() history.Steps { return history.Requesting }

// Observe takes an event of the run.
func (o *Recoveries) Observe(e *history.Event) {
	if e.Kind == history.KafkaCalled && !o.disks.promise.Ruins.Records() {
		o.fetched(e)
	}
}

// opened compares a log that was opened with what it was before.
func (o *Recoveries) opened(l *diskLog, e *history.Event) {
	at, start, end := e.At, e.Trace.A, e.Trace.B
	batches, first, reached, wrong := o.disks.cached(l)
	if (wrong != "" || reached != end) && o.disks.promise.Ruins.Hurt(l.on.machine) {
		l.ruined = true // a hole below what its disk confirmed to be durable: nobody looks there again
		return
	}
	if wrong != "" {
		o.Violate(at, Recovery, "%s on %s was opened, but its files hold valid batches up to %d only: %s", l.place, l.on.machine, reached, wrong)
	}
	if reached != end || first > start {
		o.Violate(at, Recovery, "%s on %s was opened as %d..%d, its files hold %d..%d", l.place, l.on.machine, start, end, first, reached)
	}
	if durable, why := o.disks.durable(l); durable < end && wrong == "" {
		o.Violate(at, Recovery, "%s on %s was opened up to %d, but a power loss could take it back to %d: %s", l.place, l.on.machine, end, durable, why)
	}
	if start < l.floor {
		o.Violate(at, Recovery, "%s on %s was opened as %d..%d, but what lies below %d was deleted for good: it came back", l.place, l.on.machine, start, end, l.floor)
	}
	o.indexes(l, at)
	if b := l.before; b != nil {
		o.compare(l, b, batches, first, reached, at)
	}
	delete(o.stuck, l)
}

// compare checks that the batches now are a prefix of those before, and long enough.
func (o *Recoveries) compare(l *diskLog, b *stopped, now []logBatch, first, reached int64, at time.Duration) {
	what := "a process crash"
	if b.power {
		what = "a power loss"
	}
	tell := func(format string, args ...any) {
		o.Violate(at, Recovery, "%s on %s after %s at %v: %s", l.place, l.on.machine, what, b.at, fmt.Sprintf(format, args...))
	}
	if reached < b.require {
		tell("the log ends at %d, but it reached %d and %s", reached, b.require, b.why)
		return
	}
	if first > b.start && b.require > b.start {
		tell("the log begins at %d, but nobody removed %d..%d", first, b.start, min(first, b.require)-1)
		return
	}
	was := b.batches
	if b.swap.next > 0 { // there is one file or the other; Compaction looks at what is in it
		within := func(n logBatch) bool { return n.base >= b.swap.base && n.base < b.swap.next }
		now, was = slices.DeleteFunc(slices.Clone(now), within), slices.DeleteFunc(slices.Clone(was), within)
	}
	for len(was) > 0 && was[0].base < first {
		was = was[1:]
	}
	// A power loss can bring segments back whose removal was not durable.
	for len(now) > 0 && len(b.batches) > 0 && now[0].base < b.batches[0].base {
		now = now[1:]
	}
	for i, n := range now {
		switch {
		case i >= len(was) && (b.extra || n.base < b.end):
			return
		case i >= len(was):
			tell("the log goes on with a batch at %d..%d, but it ended at %d", n.base, n.next()-1, b.end)
			return
		case n != was[i]:
			tell("the batch at offset %d has %d records, %d bytes, CRC %08x; before it had offset %d, %d records, %d bytes, CRC %08x",
				n.base, n.count, n.size, n.crc, was[i].base, was[i].count, was[i].size, was[i].crc)
			return
		}
	}
}

// indexes lets the log's own checker compare indexes with a linear scan of what is on disk.
func (o *Recoveries) indexes(l *diskLog, at time.Duration) {
	if o.disks.promise.Ruins.Hurt(l.on.machine) {
		return // an index that was read as it was not, and written again, stays wrong
	}
	var files []log.DirFile
	for _, f := range l.on.model.Files() {
		if path.Dir(f.Path) == l.dir {
			files = append(files, log.DirFile{Name: path.Base(f.Path), Size: f.Size, Data: fileReader{f}})
		}
	}
	_, err := o.files.Check(files)
	var d *log.Damage
	// Damage of the log itself is told elsewhere.
	if errors.As(err, &d) && !strings.HasSuffix(d.File, ".log") {
		o.Violate(at, Recovery, "%s on %s: the index disagrees with a linear scan: %s, position %d: %s", l.place, l.on.machine, d.File, d.Pos, d.What)
	}
}

// visible checks what the broker just showed to consumers.
func (o *Recoveries) visible(l *diskLog, end int64) {
	if !l.open || o.stuck[l] {
		return
	}
	durable, why := o.disks.durable(l)
	if durable >= end {
		return
	}
	// Is it there and only not durable? Then Unflushed tells, unless it is for the name.
	_, _, reached, wrong := o.disks.cached(l)
	switch {
	case reached < end && wrong != "":
		o.stuck[l] = true
		o.Violate(o.disks.now(), Recovery, "%s on %s is visible up to %d, but its files hold valid batches up to %d only: %s", l.place, l.on.machine, end, reached, wrong)
	case reached < end:
		o.stuck[l] = true
		o.Violate(o.disks.now(), Recovery, "%s on %s is visible up to %d, but its files end at %d", l.place, l.on.machine, end, reached)
	case strings.Contains(why, "name of"):
		o.stuck[l] = true
		o.Violate(o.disks.now(), Recovery, "%s on %s is visible up to %d, but a power loss could take it back to %d: %s", l.place, l.on.machine, end, durable, why)
	}
}

// cut checks a truncation: nothing visible may go while the log is open.
func (o *Recoveries) cut(l *diskLog, s *segmentScan, size int64) {
	if !l.open || size >= s.pos {
		return
	}
	rest := *s
	rest.cut(size)
	if first := rest.next(); first < l.shown() {
		o.Violate(o.disks.now(), Recovery, "%s on %s: %s is cut to %d bytes, which takes the visible records from %d on", l.place, l.on.machine, s.path, size, first)
	}
}

// fetched checks that the broker found the right place for an offset.
func (o *Recoveries) fetched(e *history.Event) {
	req, ok := e.Kafka.Req.(*kmsg.FetchRequest)
	resp, answered := e.Kafka.Resp.(*kmsg.FetchResponse)
	if !ok || !answered {
		return
	}
	for i := range resp.Topics {
		t := &resp.Topics[i]
		for j := range t.Partitions {
			p := &t.Partitions[j]
			ask := fetchPartition(req, t.Topic, p.Partition)
			if ask == nil || p.ErrorCode != 0 {
				continue
			}
			l := o.disks.asked(e.Kafka, place{t.Topic, p.Partition})
			if l != nil && l.unsound(e) {
				continue
			}
			if l != nil && l.open && e.Kafka.Start >= l.since {
				l.floor = max(l.floor, p.LogStartOffset)
			}
			if len(p.RecordBatches) == 0 {
				continue
			}
			asked, whole := ask.FetchOffset, 0
			due := int64(-1)
			eachBatch(p.RecordBatches, func(b logBatch, err error) bool {
				whole++
				switch {
				case err != nil && due < 0:
					o.Violate(e.At, Recovery, "%s/%d on %s: a fetch from offset %d got bytes that are no batch: %v", t.Topic, p.Partition, e.Kafka.Broker, asked, err)
				case err != nil && err != errBatchCut:
					o.Violate(e.At, Recovery, "%s/%d on %s: a fetch from offset %d got bytes that are no batch after %d: %v", t.Topic, p.Partition, e.Kafka.Broker, asked, due-1, err)
				case err != nil:
				case due < 0 && (b.base > asked || b.next() <= asked):
					o.Violate(e.At, Recovery, "%s/%d on %s: a fetch from offset %d got the batch %d..%d first", t.Topic, p.Partition, e.Kafka.Broker, asked, b.base, b.next()-1)
				case due >= 0 && b.base != due:
					o.Violate(e.At, Recovery, "%s/%d on %s: a fetch from offset %d got the batch at %d where the one at %d is due", t.Topic, p.Partition, e.Kafka.Broker, asked, b.base, due)
				default:
					due = b.next()
					return true
				}
				return false
			})
			if whole > 1 && len(p.RecordBatches) > int(ask.PartitionMaxBytes) {
				o.Violate(e.At, Recovery, "%s/%d on %s: a fetch of at most %d bytes from offset %d got several batches, %d bytes", t.Topic, p.Partition, e.Kafka.Broker,
					ask.PartitionMaxBytes, asked, len(p.RecordBatches))
			}
		}
	}
}

// eachBatch calls fn for each batch until it returns false or there is one that is not whole and right.
func eachBatch(p []byte, fn func(logBatch, error) bool) {
	for len(p) > 0 {
		b, _, err := readBatch(p)
		if !fn(b, err) || err != nil {
			return
		}
		p = p[b.size:]
	}
}

func fetchPartition(req *kmsg.FetchRequest, topic string, partition int32) *kmsg.FetchRequestTopicPartition {
	for i := range req.Topics {
		if req.Topics[i].Topic != topic {
			continue
		}
		for j := range req.Topics[i].Partitions {
			if p := &req.Topics[i].Partitions[j]; p.Partition == partition {
				return p
			}
		}
	}
	return nil
}

// Finish compares every log with what became durable in it.
func (o *Recoveries) Finish(end End) {
	if end.Cut {
		return
	}
	d := o.disks
	healed := d.heal != none && d.promise.HealWithin > 0 && end.At >= d.heal+d.promise.HealWithin
	for _, b := range d.brokers {
		for _, l := range b.order {
			switch {
			case l.open && l.ruined:
			case l.open:
				o.unchanged(l, end)
			case d.promise.Ruins.Hurt(b.machine):
			case l.before != nil && healed && !d.deleted[l.topic]:
				why := "it was not opened"
				if l.offline != "" {
					why = l.offline
				}
				o.Violate(end.At, Live, "%s on %s, which stopped at %v, is not open %v after the heal: %s", l.place, b.machine, l.before.at, end.At-d.heal, why)
			}
		}
	}
}

// unchanged reads an open log once more.
func (o *Recoveries) unchanged(l *diskLog, end End) {
	d := o.disks
	d.follow(l)
	batches, _, reached, wrong := d.last(l)
	for _, s := range l.live() {
		for i, b := range s.batches {
			if b.next() > l.visible {
				break
			}
			if i >= len(batches) {
				o.Violate(end.At, Recovery, "%s on %s: the records from %d on were visible and are not on disk any more: %s", l.place, l.on.machine, reached, wrong)
				return
			}
			if b != batches[i] {
				o.Violate(end.At, Recovery, "%s on %s: the bytes of the batch at offset %d changed after it was visible", l.place, l.on.machine, b.base)
				return
			}
		}
		batches = batches[min(len(s.batches), len(batches)):]
	}
	if end.Trouble == "" && !l.failed {
		o.indexes(l, end.At)
	}
}
