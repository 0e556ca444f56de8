package oracle

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"time"

	wire "faultline/broker/record"
	"faultline/sim/machine"
	"faultline/workloads/history"
)

// Compaction judges logs that are compacted, by the records on the brokers' disks: what goes (RET), that the last value of each key stays (DUR), that replicas agree (MATCH), and that
// retries are still known (IDEMP).
//
// Verified, when a broker puts a compacted segment in the place of others:
//   - it holds batches for the same offsets, without a gap, and is durable; the records in it are ones that were there, with the same leader epoch, time, key, value and headers;
//   - a record that is not in it is below the high watermark, and its key comes again later, below the high watermark, in the same log; or it is a tombstone whose batch says that it may go by now (by that broker's wall clock,
//     the latest reading of the last 30 s), and nothing of its key is left before it;
//   - a tombstone that stays is to stay for the topic's time from then on (Promise.Topics, TombstoneRetention), by the earliest reading of that broker's wall clock of the last 30 s and less compactingWithin; and
//     once a batch says until when, no other one says otherwise;
//   - of each idempotent producer the last batch below the high watermark stays, if only as a header that says so: a replica that copies the log, or reads it after a crash, knows retries by it (IDEMP). A producer
//     that was silent for forgottenAfter, by its batch's time and the broker's wall clock, may be forgotten;
//   - the active segment is not touched.
//
// Verified when a leader begins, when a replica joins those in sync, and at the end for every open replica: of each key it has the last record that was committed below its high watermark as any leader told it, or a later one; a tombstone may be gone if nothing is left
// that it supersedes. At the end, below the leader's high watermark: what two replicas have at the same offset is the same record.
//
// After an unclean election, where the topic allows it, the table of last records begins anew. Beyond the atlas ([Ruins]) a partition that is freed is not judged, and
// none once a disk or a wire was ruined.
//
// Not verified: that there is compaction at all; a replica that lagged longer than tombstones stay may have an old value of a key whose tombstone it never saw.
type Compaction struct {
	Findings
	recordless
	cluster *Cluster
	disks   *Disks
	tables  map[place]*table
	order   []*table
	records wire.Iterator
	buf     []byte
}

// NewCompaction judges the topics that are compacted, on the disks that d watches. c may be nil when no topic has several replicas.
func NewCompaction(c *Cluster, d *Disks) *Compaction {
	o := &Compaction{cluster: c, disks: d, tables: map[place]*table{}}
	o.Free(d.promise.Ruins.Spoilt)
	d.onCompact = append(d.onCompact, o.compacts)
	d.onVisible = append(d.onVisible, func(l *diskLog, end int64) {
		if !l.replicated {
			o.committed(l, end)
		}
	})
	if c != nil {
		c.onTold = append(c.onTold, func(e *history.Event, p *replicas, leader bool) {
			if s := c.state(p.place); leader && s != nil && int64(s.LeaderEpoch) == e.Trace.B {
				o.committed(d.on(e.Machine, p.place), e.Trace.A)
			}
		})
		c.onBegan = append(c.onBegan, o.began)
		c.onDecided = append(c.onDecided, o.decided)
	}
	return o
}

// Invariants lists what it can report.
func (o *Compaction) Invariants() []string { return []string{Retain, Durable, Match, Idemp} }

// Observe takes an event of the run.
func (o *Compaction) Observe(e *history.Event) {
	if topic, ok := parseName(e.Trace.Subject, topicsRoot); ok && e.Kind == history.Traced && e.Trace.Kind == machine.ZnodeDeleted {
		o.order = slices.DeleteFunc(o.order, func(t *table) bool { return t.topic == topic })
		maps.DeleteFunc(o.tables, func(p place, _ *table) bool { return p.topic == topic })
	}
}

// follows tells whether the topic is compacted and there, judges whether anything is promised of the partition besides.
func (o *Compaction) follows(topic string) bool {
	return o.disks.promise.Compacts(topic) && !o.disks.deleted[topic]
}

func (o *Compaction) judges(p place) bool {
	return o.follows(p.topic) && !o.disks.promise.Ruins.Spoilt() && !(o.disks.promise.Replicated(p.topic) && o.disks.promise.Ruins.of(p))
}

const everything = int64(1) << 62

// shown is the first offset that may not be compacted: what no leader told to be committed.
func (o *Compaction) shown(l *diskLog) int64 {
	if l.replicated && o.cluster != nil {
		return o.cluster.part(l.place).told
	}
	return l.visible
}

// compactingWithin is how long a compaction may take: what it says of tombstones counts from its begin.
const compactingWithin = 10 * time.Second

// compacts compares the segment that comes with those that go.
func (o *Compaction) compacts(l *diskLog, e *history.Event) {
	if !o.follows(l.topic) || !l.open {
		return
	}
	from, to := e.Trace.A, e.Trace.B
	judged := o.judges(l.place) // what goes is noted in any case: Delivery asks
	tell := func(format string, args ...any) {
		if !judged {
			return
		}
		o.Violate(e.At, Retain, "%s on %s is compacted from %d to %d: %s", l.place, l.on.machine, from, to-1, fmt.Sprintf(format, args...))
	}
	live := l.live()
	if n := len(live); n == 0 || live[n-1].base < to {
		tell("that includes the active segment")
		return
	}
	name := path.Join(l.dir, fmt.Sprintf("%020d.log.tmp", from))
	if f, ok := l.on.model.File(name); !ok || f.Synced < f.Size {
		tell("its new file is not durable")
	}
	var fresh []stored
	next, wrong := o.read(o.bytes(l, name, 0), from, func(r stored) { fresh = append(fresh, r) })
	if wrong != "" || next != to {
		tell("the new segment ends at %d: %s", next, wrong)
		return
	}
	have := o.all(l, everything)
	shown := o.shown(l)
	last, first := map[string]int64{}, map[string]int64{} // of each key: below the high watermark, and of what is left
	for _, r := range have {
		if r.keyed && r.offset < shown {
			last[r.key] = r.offset
		}
		if r.keyed && r.offset < from {
			if _, ok := first[r.key]; !ok {
				first[r.key] = r.offset
			}
		}
	}
	for _, r := range fresh {
		if _, ok := first[r.key]; !ok && r.keyed {
			first[r.key] = r.offset
		}
	}
	wall := o.disks.latest(l.on, false)
	if judged {
		o.remembers(l, e, name, shown, wall)
	}
	stays := o.disks.promise.topic(l.topic).TombstoneRetention
	soonest := o.disks.earliest(l.on) + (stays - compactingWithin).Milliseconds()
	i := 0
	for _, r := range have {
		if r.offset < from || r.offset >= to {
			continue
		}
		for i < len(fresh) && fresh[i].offset < r.offset {
			tell("the new segment has a record at offset %d, where none was", fresh[i].offset)
			i++
		}
		if i < len(fresh) && fresh[i].offset == r.offset {
			if f := fresh[i]; f.epoch != r.epoch || f.hash != r.hash {
				tell("the record at offset %d is not the one that was there", r.offset)
			} else if stays > 0 && r.tombstone && f.horizon != r.horizon && (r.horizon != 0 || f.horizon < soonest) {
				tell("the tombstone at offset %d is to stay until %v, where it was %v; the topic keeps tombstones for %v, the wall clock shows %v",
					r.offset, time.UnixMilli(f.horizon).UTC(), time.UnixMilli(r.horizon).UTC(), stays, time.UnixMilli(wall).UTC())
			}
			i++
			continue
		}
		earlier, ok := first[r.key]
		switch {
		case r.offset >= shown:
			tell("the record at offset %d goes, but only what lies below %d is committed", r.offset, shown)
		case r.keyed && last[r.key] > r.offset:
		case !r.keyed || !r.tombstone:
			tell("the record at offset %d goes, and no later one has its key %q", r.offset, r.key)
		case r.horizon == 0 || r.horizon > wall:
			tell("the tombstone at offset %d goes, which was to stay until %v; the wall clock shows %v", r.offset, time.UnixMilli(r.horizon).UTC(), time.UnixMilli(wall).UTC())
		case ok && earlier < r.offset:
			tell("the tombstone at offset %d goes before the record at %d, which it supersedes", r.offset, earlier)
		}
		gone := o.disks.compacted[l.place]
		if gone == nil {
			gone = map[int64]bool{}
			o.disks.compacted[l.place] = gone
		}
		gone[r.offset] = true
	}
	for ; i < len(fresh); i++ {
		tell("the new segment has a record at offset %d, where none was", fresh[i].offset)
	}
}

// forgottenAfter is how long a silent producer is remembered (producer.id.expiration.ms).
const forgottenAfter = 24 * time.Hour

// remembers looks whether the segment that comes still says where each idempotent producer stands whose last committed batch it has.
func (o *Compaction) remembers(l *diskLog, e *history.Event, name string, shown, wall int64) {
	from, to := e.Trace.A, e.Trace.B
	last := map[int64]numbers{} // of each producer, below the high watermark
	for _, s := range l.live() {
		if s.base < shown {
			o.numbered(l, s.path, func(h numbers) {
				if h.base < shown {
					last[h.producer] = h
				}
			})
		}
	}
	kept := map[int64]numbers{}
	o.numbered(l, name, func(h numbers) { kept[h.producer] = h })
	for _, id := range slices.Sorted(maps.Keys(last)) {
		h, k := last[id], kept[id]
		if h.base >= from && h.base < to && (k.base != h.base || k.epoch != h.epoch || k.first != h.first || k.records != h.records) && wall-h.newest < forgottenAfter.Milliseconds() {
			o.Violate(e.At, Idemp, "%s on %s is compacted from %d to %d: that the batch at offset %d was the last one of producer %d, from sequence number %d on, is not to be seen any more",
				l.place, l.on.machine, from, to-1, h.base, h.producer, h.first)
		}
	}
}

// Finish looks at every replica.
func (o *Compaction) Finish(end End) {
	if end.Cut || end.Trouble != "" {
		return
	}
	for _, t := range o.order {
		if !o.judges(t.place) {
			continue
		}
		var lead *diskLog
		if o.cluster != nil {
			if s := o.cluster.state(t.place); s != nil && s.Leader >= 0 {
				lead = o.disks.on(o.cluster.machineOf(s.Leader), t.place)
			}
		}
		for _, b := range o.disks.brokers {
			l := o.disks.on(b.machine, t.place)
			if l == nil || !l.open || l.ruined || lead != nil && !l.replicated {
				continue
			}
			if l.replicated && (lead == nil || !lead.open) {
				continue
			}
			if why := o.lacks(t, l, min(t.end, l.shown())); why != "" {
				o.Violate(end.At, Durable, "%s on %s: %s", l.place, l.on.machine, why)
			}
			if lead != nil && l != lead {
				o.agree(end, lead, l)
			}
		}
	}
}

// agree compares two replicas, record by record.
func (o *Compaction) agree(end End, lead, l *diskLog) {
	at := map[int64]stored{}
	for _, r := range o.all(lead, everything) {
		at[r.offset] = r
	}
	for _, r := range o.all(l, everything) {
		if one, ok := at[r.offset]; ok && r.offset < lead.committed && (one.hash != r.hash || one.epoch != r.epoch) {
			o.Violate(end.At, Match, "%s has another record at offset %d on %s, which leads, than on %s", l.place, r.offset, lead.on.machine, l.on.machine)
			return
		}
	}
}
