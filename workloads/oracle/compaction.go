package oracle

import (
	"encoding/binary"
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
// Not verified: that there is compaction at all; how long a tombstone stays once its batch says until when, beyond that (the policy's time is not held against what the batch says); a replica that lagged longer
// than tombstones stay may have an old value of a key whose tombstone it never saw.
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

// table is what is committed of a partition, by key.
type table struct {
	place
	end  int64 // what lies below was looked at
	last map[string]stored
	at   cursor // where the log was read up to
	on   *diskLog
}

// stored is a record on disk.
type stored struct {
	offset    int64
	epoch     int32
	hash      uint64 // of time, key, value and headers
	key       string
	keyed     bool
	tombstone bool
	horizon   int64 // of its batch: when tombstones may go, ms since 1970; 0: not said
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
	o.disks.Observe(e)
	if o.cluster != nil {
		o.cluster.Observe(e)
	}
}

func (o *Compaction) table(p place) *table {
	t := o.tables[p]
	if t == nil {
		t = &table{place: p, last: map[string]stored{}}
		o.tables[p] = t
		o.order = append(o.order, t)
	}
	return t
}

// follows tells whether the topic is compacted and there, judges whether anything is promised of the partition besides.
func (o *Compaction) follows(topic string) bool {
	return o.disks.promise.Compacts(topic) && !o.disks.deleted[topic]
}

func (o *Compaction) judges(p place) bool {
	return o.follows(p.topic) && !o.disks.promise.Ruins.Spoilt() && !(o.disks.promise.Replicated(p.topic) && o.disks.promise.Ruins.of(p))
}

// read calls fn for the records of batches, and returns the offset behind the last batch; wrong says what is in the way.
func (o *Compaction) read(p []byte, from int64, fn func(stored)) (next int64, wrong string) {
	for next = from; len(p) > 0; {
		b, rest, err := wire.Next(p)
		if err == nil {
			err = b.Check()
		}
		if err != nil {
			return next, err.Error()
		}
		if b.BaseOffset != next {
			return next, fmt.Sprintf("a batch at offset %d where the one at %d is due", b.BaseOffset, next)
		}
		horizon := int64(0)
		if at, ok := b.Horizon(); ok {
			horizon = at
		}
		for o.records.Reset(b); o.records.Next(); {
			r := &o.records.Record
			fn(stored{r.Offset, b.LeaderEpoch, hashStored(r), string(r.Key), r.Key != nil, r.Value == nil, horizon})
		}
		if err := o.records.Err(); err != nil {
			return next, err.Error()
		}
		p, next = rest, b.NextOffset()
	}
	return next, ""
}

// hashStored is over all of a record that clients see, but its offset.
func hashStored(r *wire.Record) uint64 {
	p := binary.BigEndian.AppendUint64(nil, uint64(r.Timestamp))
	p = binary.BigEndian.AppendUint64(p, history.HashRecord(r.Key, r.Value))
	r.Headers(func(h wire.RecordHeader) bool {
		p = binary.BigEndian.AppendUint64(p, history.HashRecord(h.Key, h.Value))
		return true
	})
	return history.HashRecord(nil, p)
}

// bytes are those of a file as processes see them, from a position on, valid until the next call.
func (o *Compaction) bytes(l *diskLog, name string, from int64) []byte {
	f, ok := l.on.model.File(name)
	if !ok || f.Size <= from {
		return nil
	}
	if n := f.Size - from; int64(cap(o.buf)) < n {
		o.buf = make([]byte, n)
	}
	p := o.buf[:f.Size-from]
	n, _ := f.ReadAt(p, from)
	return p[:n]
}

// all are the records of a log, by offset; those of segments that begin at or behind an offset are left out.
func (o *Compaction) all(l *diskLog, before int64) (list []stored) {
	for _, s := range l.live() {
		if s.base < before {
			o.read(o.bytes(l, s.path, 0), s.base, func(r stored) { list = append(list, r) })
		}
	}
	return list
}

const everything = int64(1) << 62

// shown is the first offset that may not be compacted: what no leader told to be committed.
func (o *Compaction) shown(l *diskLog) int64 {
	if l.replicated && o.cluster != nil {
		return o.cluster.part(l.place).told
	}
	return l.visible
}

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

// numbered calls fn for the batches of idempotent producers in a file.
func (o *Compaction) numbered(l *diskLog, name string, fn func(h numbers)) {
	for p := o.bytes(l, name, 0); len(p) >= batchHead; {
		h, size := readNumbers(p)
		if size < batchHead || size > int64(len(p)) {
			return
		}
		if h.producer >= 0 && h.first >= 0 {
			fn(h)
		}
		p = p[size:]
	}
}

// committed takes into the table what is committed from now on, as the log that says so has it.
func (o *Compaction) committed(l *diskLog, to int64) {
	if l == nil || !o.judges(l.place) {
		return
	}
	t := o.table(l.place)
	for t.end < to {
		i, found := l.segment(t.end)
		if !found {
			i--
		}
		if i < 0 || i >= len(l.segs) {
			t.end = max(t.end, l.first())
			if t.end >= to || i >= len(l.segs) || len(l.segs) == 0 {
				return
			}
			continue
		}
		s := l.segs[i]
		at := cursor{base: s.base, offset: s.base}
		if t.on == l && t.at.base == s.base && !s.sealed {
			at = t.at
		}
		p := o.bytes(l, s.path, at.pos)
		before := t.end
		for len(p) >= batchHead && t.end < to {
			size := int64(int32(binary.BigEndian.Uint32(p[8:]))) + batchPrefix
			if size < batchHead || size > int64(len(p)) {
				break
			}
			next, wrong := o.read(p[:size], at.offset, func(r stored) {
				if r.offset >= t.end && r.offset < to && r.keyed {
					t.last[r.key] = r
				}
			})
			if wrong != "" || next > to {
				break // Agreement tells, or Recoveries
			}
			p = p[size:]
			at.offset, at.pos = next, at.pos+size
			t.end = max(t.end, next)
		}
		t.on, t.at = l, at
		if t.end == before {
			return
		}
	}
}

// began looks whether a new leader has the last record of each key.
func (o *Compaction) began(e *history.Event, p *replicas) {
	if !o.judges(p.place) {
		return
	}
	t := o.table(p.place)
	t.on = nil
	if p.lost {
		t.last, t.end = map[string]stored{}, 0 // begins anew, with what it has
		return
	}
	if l := o.disks.on(e.Machine, p.place); l != nil && e.Trace.A >= p.epoch {
		if why := o.lacks(t, l, t.end); why != "" {
			o.Violate(e.At, Durable, "%s begins to lead %s in epoch %d without the last value of a key: %s", e.Machine, p.place, e.Trace.A, why)
		}
	}
}

// decided looks whether who joins the in-sync replicas has the last record of each key.
func (o *Compaction) decided(e *history.Event, p *replicas, was, now *PartitionState) {
	if was == nil || !o.judges(p.place) {
		return
	}
	for _, m := range now.ISR {
		name, ok := o.cluster.intact(m)
		l := o.disks.on(name, p.place)
		if findMember(was.ISR, m.ID) >= 0 || now.LeaderEpoch != was.LeaderEpoch || !ok || l == nil || !l.open || l.failed || l.cutting {
			continue
		}
		t := o.table(p.place)
		if why := o.lacks(t, l, t.end); why != "" {
			o.Violate(e.At, Match, "broker %d joins the in-sync replicas of %s without the last value of a key: %s", m.ID, p.place, why)
		}
	}
}

// lacks says of which key the log has not the last record of those below an offset.
func (o *Compaction) lacks(t *table, l *diskLog, below int64) string {
	at := map[int64]stored{}
	first, later := map[string]int64{}, map[string]int64{}
	shown := o.shown(l)
	for _, r := range o.all(l, everything) {
		at[r.offset] = r
		if r.offset < shown {
			later[r.key] = r.offset
		}
		if _, ok := first[r.key]; !ok {
			first[r.key] = r.offset
		}
	}
	last := make([]stored, 0, len(t.last))
	for _, r := range t.last {
		if r.offset < below && r.offset >= l.first() {
			last = append(last, r)
		}
	}
	slices.SortFunc(last, func(a, b stored) int { return int(a.offset - b.offset) })
	for _, r := range last {
		got, ok := at[r.offset]
		switch earlier, some := first[r.key]; {
		case ok && (got.hash != r.hash || got.epoch != r.epoch):
			return fmt.Sprintf("at offset %d is another record than was committed for key %q", r.offset, r.key)
		case ok, later[r.key] > r.offset: // a leader that did not know that it led no more may have committed that
		case r.tombstone && some && earlier < r.offset:
			return fmt.Sprintf("key %q has a record at offset %d, and the tombstone at %d that was committed is gone", r.key, earlier, r.offset)
		case r.tombstone:
		default:
			return fmt.Sprintf("the last record of key %q, committed at offset %d, is gone", r.key, r.offset)
		}
	}
	return ""
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
