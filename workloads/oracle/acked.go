package oracle

import (
	"encoding/binary"

	wire "faultline/broker/record"
	"faultline/workloads/history"
)

// Acknowledged judges what becomes of records that were acked with acks=all, of topics with several replicas (DUR).
//
// Verified: when such a record is acked, some leader had told that its offset is committed. At the end every one of them is read off the disk of the partition's leader: it is at its offset,
// unless retention took it there, or compaction, because its key comes again (Compaction judges that).
//
// After an unclean election, where the topic allows it, what was acked before, or by a leader that did not know yet, may be gone and is not asked for. Beyond the atlas ([Ruins]) a partition that is freed is not judged.
//
// Not verified: topics with one replica, and the records' bytes (Delivery, the linearizability of appends).
type Acknowledged struct {
	Findings
	cluster *Cluster
	disks   *Disks
	sources []Producer // by source number
	acked   map[place][]ackedAt
	records wire.Iterator
	buf     []byte
	there   []history.ID // see read
}

const (
	nothing = history.ID(^uint64(0))     // there is no record
	unnamed = history.ID(^uint64(0) - 1) // there is a record without a name
)

// ackedAt is a record and the offset that its producer was told.
type ackedAt struct {
	offset int64
	id     history.ID
}

// NewAcknowledged judges the partitions that c follows on the disks that d watches.
func NewAcknowledged(c *Cluster, d *Disks) *Acknowledged {
	o := &Acknowledged{cluster: c, disks: d, acked: map[place][]ackedAt{}}
	o.Free(c.promise.Ruins.Records)
	c.onGone = append(c.onGone, func(p *replicas) { delete(o.acked, p.place) })
	return o
}

// Invariants lists what it can report.
func (o *Acknowledged) Invariants() []string { return []string{Durable} }

// Needs implements [history.Selective].
func (*Acknowledged) Needs() history.Steps { return history.Sending | history.Acking }

// Observe takes an event of the run.
func (o *Acknowledged) Observe(e *history.Event) {
	if e.Kind == history.Sent {
		for e.ID.Source() >= len(o.sources) {
			o.sources = append(o.sources, Producer{})
		}
		if s := &o.sources[e.ID.Source()]; s.Name != e.Producer {
			*s = o.cluster.promise.producer(e.Producer)
			s.Name = e.Producer
		}
		return
	}
	if e.Kind != history.Acked || e.Offset < 0 || !o.cluster.promise.Replicated(e.Topic) {
		return
	}
	if n := e.ID.Source(); n >= len(o.sources) || o.sources[n].Acks != -1 {
		return
	}
	at := place{e.Topic, e.Partition}
	p := o.cluster.part(at)
	if p == nil || p.unclean > 0 || o.cluster.freed(p) {
		return
	}
	if e.Offset >= p.told {
		o.Violate(e.At, Durable, "record %v is acked with acks=all at offset %d of %s, but no leader told that more than what lies below %d is committed", e.ID, e.Offset, at, p.told)
	}
	o.acked[at] = append(o.acked[at], ackedAt{e.Offset, e.ID})
}

// Finish reads every record that was acked.
func (o *Acknowledged) Finish(end End) {
	if end.Cut || end.Trouble != "" {
		return
	}
	for _, p := range o.cluster.order {
		s := o.cluster.state(p.place)
		if s == nil || s.Leader < 0 || p.unclean > 0 || o.cluster.freed(p) {
			continue
		}
		l := o.disks.on(o.cluster.machineOf(s.Leader), p.place)
		if l == nil || !l.open {
			continue
		}
		first := o.read(l)
		for _, a := range o.acked[p.place] {
			id := nothing
			if i := a.offset - first; i >= 0 && i < int64(len(o.there)) {
				id = o.there[i]
			}
			switch found := id != nothing; {
			case a.offset < l.first():
			case !found && o.disks.Compacted(p.place.topic, p.partition, a.offset):
			case !found:
				o.Violate(end.At, Durable, "record %v, acked with acks=all at offset %d of %s, is not there any more: its leader %s has nothing there", a.id, a.offset, p.place, l.on.machine)
			case id != a.id:
				o.Violate(end.At, Durable, "record %v, acked with acks=all at offset %d of %s, is not there any more: its leader %s has record %v there", a.id, a.offset, p.place, l.on.machine, id)
			}
		}
	}
}

// read puts into o.there which record is at each offset of a log, from the first one on.
func (o *Acknowledged) read(l *diskLog) (first int64) {
	o.there, first = o.there[:0], l.first()
	for _, s := range l.live() {
		f, ok := l.on.model.File(s.path)
		if !ok {
			continue
		}
		if int64(len(o.buf)) < f.Size {
			o.buf = make([]byte, f.Size)
		}
		n, _ := f.ReadAt(o.buf[:f.Size], 0)
		for rest := o.buf[:n]; len(rest) > 0; {
			b, next, err := wire.Next(rest)
			if err != nil {
				break // Recoveries tells
			}
			rest = next
			for o.records.Reset(b); o.records.Next(); {
				r := &o.records.Record
				i := r.Offset - first
				if i < 0 || i >= windowLimit {
					continue
				}
				for i >= int64(len(o.there)) {
					o.there = append(o.there, nothing)
				}
				o.there[i] = unnamed
				r.Headers(func(h wire.RecordHeader) bool {
					if string(h.Key) == "id" && len(h.Value) == 8 {
						o.there[i] = history.ID(binary.BigEndian.Uint64(h.Value))
					}
					return true
				})
			}
		}
	}
	return first
}
