package oracle

import (
	"cmp"
	"fmt"
	"slices"

	"faultline/workloads/history"
)

// Agreement judges whether the replicas of a partition hold the same (MATCH), and whether what is committed stays (DUR), by the bytes on the brokers' disks.
//
// Verified, when a leader of the registry's epoch moves the high watermark (HW): it has the batches below, and so has every in-sync and every eligible replica of the registry
// that did not lose its tail since it became one; with the same bytes and leader epochs. Each batch is read once on each disk.
//
// When a leader begins in a clean election: its log has every batch that was below a HW before (DUR). And the registry names no leader that was neither in sync nor eligible, unless the topic
// allows that.
//
// When a follower joins the in-sync replicas, by whoever's decision: its log has every batch that was below a HW before (MATCH), for it may be elected from then on. Retention may have taken those at its start; that it was begun anew there
// does not excuse more than what no other copy has either.
//
// At the end, on every replica whose log is open: batches at the same offset with the same leader epoch are the same; and below the HW of the leader all logs are the
// same, and have what was ever committed, as far as their retention left it.
//
// Bytes are compared by length, number of records, times and CRC-32C, which is checked against the bytes when they are read.
//
// After an unclean election, where the topic allows it, what the new leader does not have counts as never committed. Beyond the atlas ([Ruins]) a partition that is freed is not
// judged.
//
// Not verified: while the run goes on, replicas that are not in sync; of logs that are compacted, more than what is new when a high watermark moves: replicas differ by what is compacted, record by record
// Compaction compares them.
type Agreement struct {
	Findings
	recordless
	cluster *Cluster
	disks   *Disks
	ledgers byPartition[ledger]

	fresh, other, part []logBatch // for reuse
}

// ledger is what is committed of a partition: batches without a gap.
type ledger struct {
	from    int64
	batches []logBatch
	cursors copies[cursor] // where the last read of each log ended
	told    bool
}

func (g *ledger) end() int64 {
	if n := len(g.batches); n > 0 {
		return g.batches[n-1].next()
	}
	return g.from
}

// cursor is a boundary between batches in a file.
type cursor struct {
	base        int64 // of the segment
	offset, pos int64
}

// NewAgreement judges the partitions that c follows on the disks that d watches.
func NewAgreement(c *Cluster, d *Disks) *Agreement {
	o := &Agreement{cluster: c, disks: d}
	o.Free(c.promise.Ruins.Records)
	c.onDecided = append(c.onDecided, o.decided)
	c.onBegan = append(c.onBegan, o.began)
	c.onTold = append(c.onTold, o.told)
	c.onGone = append(c.onGone, o.ledgers.forget)
	return o
}

// Invariants lists what it can report.
func (o *Agreement) Invariants() []string { return []string{Match, Durable} }

// Observe takes an event of the run.
func (o *Agreement) Observe(e *history.Event) {
}

// told compares what a leader commits.
func (o *Agreement) told(e *history.Event, p *replicas, leader bool) {
	if !leader {
		return
	}
	s := o.cluster.state(p.place)
	if s == nil || int64(s.LeaderEpoch) != e.Trace.B {
		return
	}
	g := o.ledgers.of(p)
	if p.topic.Compact { // what was told before, by one that does not know that it leads no more too, may be compacted
		g.from, g.batches = max(g.end(), p.told), nil
	}
	from, to := g.end(), e.Trace.A
	if to <= from {
		return
	}
	l := o.disks.on(e.Machine, p.place)
	if l == nil {
		return
	}
	if start := l.first(); from < start { // retention took what was committed meanwhile, as by one that led, and the registry knew better
		g.from, g.batches, from = start, nil, start
	}
	if from >= to {
		return
	}
	fresh := o.between(o.fresh[:0], g, l, from, to)
	o.fresh = fresh
	if reached := endOf(fresh, from); reached != to {
		o.tell(g, e, Match, "%s leads %s and told that what lies below %d is committed, but its log has batches from %d to %d only", e.Machine, p.place, to, from, reached)
		return
	}
	for i := range len(s.ISR) + len(s.ELR) {
		name, ok := o.cluster.intact(s.member(i))
		f := o.disks.on(name, p.place)
		if !ok || f == nil || f == l || !f.open || f.cutting {
			continue
		}
		since := min(max(from, f.first()), to) // each replica's retention has its own clock
		if f.restarted > 0 && f.restarted > o.earliest(p, f) {
			since = from
		}
		lead := fresh
		for len(lead) > 0 && lead[0].base < since {
			lead = lead[1:]
		}
		o.other = o.between(o.other[:0], g, f, since, to)
		if why := differ(lead, o.other, since, to); why != "" {
			o.tell(g, e, Match, "%s leads %s and told that what lies below %d is committed, but %s, which is %s, differs: %s", e.Machine, p.place, to, name, rank(i, s), why)
		}
	}
	g.batches = append(g.batches, fresh...)
}

// member is one of those in sync and then those eligible, counted through; rank says which it is.
func (s *PartitionState) member(i int) InSync {
	if i < len(s.ISR) {
		return s.ISR[i]
	}
	return s.ELR[i-len(s.ISR)]
}

func rank(i int, s *PartitionState) string {
	if i < len(s.ISR) {
		return "in sync"
	}
	return "eligible"
}

// tell notes a violation, once a partition until its next leader.
func (o *Agreement) tell(g *ledger, e *history.Event, invariant, format string, args ...any) {
	if !g.told {
		g.told = true
		o.Violate(e.At, invariant, format, args...)
	}
}

// earliest is the highest first offset of the other copies: no leader can have begun later, so a log that was begun anew beyond it skips records that are there.
func (o *Agreement) earliest(p *replicas, of *diskLog) (offset int64) {
	for _, b := range o.disks.brokers {
		if l := o.disks.on(b.machine, p.place); l != nil && l != of {
			offset = max(offset, l.first())
		}
	}
	return offset
}

// owes is the offset from which on a log must have what is committed: its first one, as far as retention made it that. A log that was begun anew may begin no later than another copy.
func (o *Agreement) owes(p *replicas, l *diskLog) int64 {
	first := l.first()
	if first > 0 && first == l.restarted {
		return min(first, o.earliest(p, l))
	}
	return first
}

// first is the first offset of the log.
func (l *diskLog) first() int64 {
	if live := l.live(); len(live) > 0 {
		return live[0].base
	}
	return 0
}

// began compares the log of a new leader with what is committed.
func (o *Agreement) began(e *history.Event, p *replicas) {
	g := o.ledgers.of(p)
	g.told = false
	l := o.disks.on(e.Machine, p.place)
	if l == nil || e.Trace.A < p.epoch {
		return
	}
	if p.topic.Compact {
		return
	}
	start := o.owes(p, l)
	for len(g.batches) > 0 && g.batches[0].base < start {
		g.from = g.batches[0].next()
		g.batches = g.batches[1:]
	}
	if len(g.batches) == 0 {
		g.from = max(g.from, start)
		return
	}
	n, why := o.lacks(l, g.batches)
	if why != "" && !p.lost {
		o.tell(g, e, Durable, "%s begins to lead %s in epoch %d without what was committed at %s", e.Machine, p.place, e.Trace.A, why)
	}
	g.batches = g.batches[:n]
}

// lacks holds a log against what is committed: how many batches of it the log has, and, when these are not all, where it parts from them.
func (o *Agreement) lacks(l *diskLog, committed []logBatch) (n int, why string) {
	if len(committed) == 0 {
		return 0, ""
	}
	have, _, _, _ := o.disks.cached(l)
	i, _ := slices.BinarySearchFunc(have, committed[0].base, func(b logBatch, o int64) int { return cmp.Compare(b.base, o) })
	have = have[min(i, len(have)):]
	for n < len(committed) && n < len(have) && committed[n] == have[n] {
		n++
	}
	if n == len(committed) {
		return n, ""
	}
	lost := committed[n]
	return n, fmt.Sprintf("%d..%d: %s", lost.base, lost.next()-1, differ(committed[n:n+1], have[min(n, len(have)):], lost.base, lost.next()))
}

// decided judges who the registry says leads and who is in sync.
func (o *Agreement) decided(e *history.Event, p *replicas, was, now *PartitionState) {
	if was == nil || o.cluster.freed(p) {
		return
	}
	if was.Unclean(now) && !p.topic.Unclean {
		o.Violate(e.At, Durable, "broker %d is elected to lead %s in epoch %d, though it was neither in sync nor eligible and the topic asks for one that was", now.Leader, p.place, now.LeaderEpoch)
	}
	if p.topic.Compact {
		return
	}
	g := o.ledgers.of(p)
	for _, m := range now.ISR {
		name, ok := o.cluster.intact(m)
		l := o.disks.on(name, p.place)
		if findMember(was.ISR, m.ID) >= 0 || p.lost || !ok || l == nil || !l.open || l.failed || l.cutting {
			continue
		}
		committed := g.batches
		for start := o.owes(p, l); len(committed) > 0 && committed[0].base < start; {
			committed = committed[1:]
		}
		if _, why := o.lacks(l, committed); why != "" {
			o.tell(g, e, Match, "broker %d joins the in-sync replicas of %s without what was committed at %s", m.ID, p.place, why)
		}
	}
}

// between reads the log's batches from one offset to another, or as far as they go, and appends them to out.
func (o *Agreement) between(out []logBatch, g *ledger, l *diskLog, from, to int64) []logBatch {
	i, found := l.segment(from)
	if !found {
		i--
	}
	c := g.cursors.on(l.on.machine)
	if c == nil {
		c = g.cursors.add(l.on.machine, cursor{})
	}
	for at := from; i >= 0 && i < len(l.segs) && at < to; i++ {
		s := l.segs[i]
		f, ok := s.file(l.on.model)
		if !ok || s.base > at {
			return out
		}
		part := segmentScan{base: s.base, path: s.path, batches: o.part[:0]}
		switch {
		case c.base == s.base && c.offset == at && c.pos <= f.Size:
			part.base, part.pos = at, c.pos
		default:
			for _, b := range s.batches { // durable ones need not be read again to pass them
				if b.next() > at {
					break
				}
				part.pos += int64(b.size)
				part.base = b.next()
			}
		}
		_ = part.scanTo(&o.disks.buf, f.ReadAt, f.Size, to)
		o.part = part.batches
		pos := part.pos
		for n := len(part.batches) - 1; n >= 0 && part.batches[n].next() > to; n-- {
			pos -= int64(part.batches[n].size)
			part.batches = part.batches[:n]
		}
		for len(part.batches) > 0 && part.batches[0].base < at {
			part.batches = part.batches[1:]
		}
		out = append(out, part.batches...)
		at = endOf(out, from)
		*c = cursor{s.base, at, pos}
	}
	return out
}

func endOf(batches []logBatch, from int64) int64 {
	if n := len(batches); n > 0 {
		return batches[n-1].next()
	}
	return from
}

// differ says where other is not the same as one from an offset to another, "": it is.
func differ(one, other []logBatch, from, to int64) string {
	for i, b := range one {
		switch {
		case i >= len(other):
			return fmt.Sprintf("it ends at %d, and should reach %d", endOf(other, from), to)
		case b != other[i]:
			return fmt.Sprintf("it has %s where %s should be", other[i], b)
		}
	}
	return ""
}

func (b logBatch) String() string {
	return fmt.Sprintf("batch %d..%d of epoch %d, %d bytes, CRC %08x", b.base, b.next()-1, b.epoch, b.size, b.crc)
}

// Finish compares all replicas.
func (o *Agreement) Finish(end End) {
	if end.Cut || end.Trouble != "" {
		return
	}
	for _, p := range o.cluster.order {
		s := o.cluster.state(p.place)
		if s == nil || s.Leader < 0 || p.topic.Compact || o.cluster.freed(p) {
			continue
		}
		lead := o.disks.on(o.cluster.machineOf(s.Leader), p.place)
		if lead == nil || !lead.open {
			continue
		}
		g := o.ledgers.of(p)
		base, _, _, _ := o.disks.last(lead)
		committed := slices.DeleteFunc(slices.Clone(g.batches), func(b logBatch) bool { return b.base < lead.first() })
		if why := o.apart(committed, base, lead.first(), lead.committed); why != "" {
			o.Violate(end.At, Durable, "what was committed of %s is not what its leader %s has now: %s", p.place, lead.on.machine, why)
		}
		for _, b := range o.disks.brokers {
			l := o.disks.on(b.machine, p.place)
			if l == nil || l == lead || !l.open {
				continue
			}
			other, _, _, _ := o.disks.last(l)
			if why := o.apart(base, other, o.owes(p, l), lead.committed); why != "" {
				o.Violate(end.At, Match, "the logs of %s on %s, which leads, and on %s differ: %s", p.place, lead.on.machine, b.machine, why)
			}
		}
	}
}

// apart says where one log is not the same as another, which starts at an offset, below the HW, where both have begun, or above it in spite of the same leader epoch.
func (o *Agreement) apart(one, other []logBatch, start, hw int64) string {
	for len(one) > 0 && one[0].base < start {
		one = one[1:]
	}
	if len(one) == 0 {
		return ""
	}
	i := 0
	for i < len(other) && other[i].base < one[0].base {
		i++
	}
	other = other[i:]
	for i, b := range one {
		switch {
		case b.next() <= hw && i >= len(other):
			return fmt.Sprintf("below the high watermark %d, %s is there and then nothing", hw, b)
		case i >= len(other):
			return ""
		case b.next() <= hw && b != other[i]:
			return fmt.Sprintf("below the high watermark %d, %s and %s", hw, b, other[i])
		case b.base == other[i].base && b.epoch == other[i].epoch && b != other[i]:
			return fmt.Sprintf("%s and %s", b, other[i])
		case b.base != other[i].base:
			return ""
		}
	}
	return ""
}
