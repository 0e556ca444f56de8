package oracle

import (
	"encoding/binary"
	"fmt"
	"slices"

	"faultline/workloads/history"
)

// table is what is committed of a partition, by key.
type table struct {
	place
	end  int64 // what lies below was looked at
	last map[string]stored
	at   cursor // where the log was read up to
	on   *diskLog
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
