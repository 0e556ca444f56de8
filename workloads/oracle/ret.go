package oracle

import (
	"fmt"
	"time"

	"faultline/workloads/history"
)

// Retention judges what goes from the brokers' disks (RET), at the moment when the broker says that a segment goes and when its file
// loses its name.
//
// Verified, for a log that is open: the segment is the oldest; its newest record is older than the retention time by that broker's wall clock (the latest
// reading of the last 30 s: the decision comes a little before the deed), or the log without it still has as many bytes as the policy keeps; all
// of it is visible; it is not the one that holds the log's end, and an active segment remains. The same holds while a log is being opened for
// what an interrupted deletion left over; there, segments may go too that lie behind the first batch which is not whole, for a crash can do that.
// A log goes as a whole only after its topic was deleted or its replica was moved to another broker; and all its segments do when a replica begins anew with another part of its leader's log,
// which its checkpoint says first.
// And what the policy does not keep goes: not later than Within after it could. That includes the only segment when all its records are too old, for the
// broker rolls it then. A segment that holds several batches is not larger than the topic's segments may be, unless it may be compacted, which adds a little to each batch with tombstones. And no batch is appended behind a record that is
// older by the age at which the topic's segments are closed (one replica: a copy may bring several batches at once).
//
// Not verified: topics whose policy the promise does not tell.
//
// Beyond the atlas ([Ruins]): of logs on a ruined disk only that none goes as a whole is judged: what cannot be read is no reason to remove it.
type Retention struct {
	Findings
	recordless
	// Within bounds how long a segment may stay when nothing disturbs: it must cover a round of the broker's retention task. 0: not judged.
	Within time.Duration

	disks  *Disks
	topics map[string]*Topic
	calm   *calm
	looked time.Duration // when all logs were last looked at
	told   map[*diskLog]bool
}

// lookEvery is how often all logs are looked at while events come.
const lookEvery = 500 * time.Millisecond

// NewRetention judges the disks that d watches.
func NewRetention(d *Disks) *Retention {
	o := &Retention{disks: d, topics: map[string]*Topic{}, calm: newCalm(d.promise), told: map[*diskLog]bool{}}
	for i := range d.promise.Topics {
		o.topics[d.promise.Topics[i].Name] = &d.promise.Topics[i]
	}
	o.Free(d.promise.Ruins.Registry)
	d.onRemove = append(d.onRemove, o.removed)
	d.onDrop = append(d.onDrop, o.dropped)
	d.onVisible = append(d.onVisible, func(l *diskLog, _ int64) { o.sized(l); o.aged(l); o.look(l) })
	return o
}

// Invariants lists what it can report.
func (o *Retention) Invariants() []string { return []string{Retain} }

// Observe takes an event of the run.
func (o *Retention) Observe(e *history.Event) {
	o.calm.observe(e)
	if o.Within > 0 && e.At-o.looked >= lookEvery {
		o.looked = e.At
		o.eachOpen(o.look)
	}
}

// eachOpen calls fn for every log that is open, on a sound disk, and whose topic is there.
func (o *Retention) eachOpen(fn func(*diskLog)) {
	for _, b := range o.disks.brokers {
		for _, l := range b.order {
			if l.open && !l.ruined && !o.disks.deleted[l.topic] {
				fn(l)
			}
		}
	}
}

// Waits says which segment should still go, "" when none should or it has stayed too long already.
func (o *Retention) Waits() string {
	what := ""
	if o.Within <= 0 {
		return what
	}
	o.eachOpen(func(l *diskLog) {
		o.disks.follow(l)
		o.look(l)
		if l.crowded != none && !o.told[l] && what == "" {
			what = fmt.Sprintf("retention of %s on %s, whose first segment begins at %d", l.place, l.on.machine, l.crowd.base)
		}
	})
	return what
}

// dropped judges a log that goes as a whole.
func (o *Retention) dropped(l *diskLog) {
	if !o.disks.everDeleted[l.topic] && !o.disks.movedAway(l) {
		o.Violate(o.disks.now(), Retain, "%s on %s was removed as a whole, but nobody deleted its topic or moved its replica away", l.place, l.on.machine)
	}
}

// removed judges a segment that goes.
func (o *Retention) removed(l *diskLog, s *segmentScan) {
	i, ok := l.segment(s.base)
	if !ok {
		return
	}
	f, ok := l.on.model.File(s.path)
	if !ok {
		return
	}
	whole := segmentScan{base: s.base, path: s.path, batches: append([]logBatch(nil), s.batches...), pos: s.pos}
	_ = whole.scan(&o.disks.buf, f.ReadAt, f.Size)
	older := l.segs[:i]
	for len(older) > 0 && older[0].dead {
		older = older[1:]
	}
	last := i == len(l.segs)-1

	tell := func(format string, args ...any) {
		what := fmt.Sprintf("segment %d..%d (%d bytes)", s.base, whole.next()-1, f.Size)
		if len(whole.batches) == 0 {
			what = fmt.Sprintf("empty segment %d", s.base)
		}
		o.Violate(o.disks.now(), Retain, "%s on %s: %s was removed, but %s", l.place, l.on.machine, what, fmt.Sprintf(format, args...))
	}
	if l.replicated && (last && i > 0 && s.base >= l.committed || l.restarts(l.first(), whole.next(), last)) {
		return // the end of a replica is cut off, or it begins anew: Recoveries judges that
	}
	if !l.open {
		// The log is being opened, and may be in any state that a crash can leave.
		if len(whole.batches) == 0 || len(older) > 0 && o.behindDamage(l, i) {
			return
		}
	}
	if len(whole.batches) == 0 && f.Size == 0 && i > 0 && l.segs[i-1].next() <= s.base {
		return // a roll that failed takes its file back
	}
	switch {
	case last && len(older) == 0:
		tell("no segment is left to append to")
	case last:
		tell("it is the active one")
	case len(older) > 0:
		tell("an older one, %d, is still there", older[0].base)
	case l.open && whole.next() > l.shown():
		tell("only what lies below %d is visible", l.shown())
	default:
		if why := o.keeps(l, &whole); why != "" {
			tell("%s", why)
		}
	}
}

// behindDamage tells whether the log breaks off before the segment.
func (o *Retention) behindDamage(l *diskLog, i int) bool {
	front := *l
	front.segs = l.segs[:i]
	_, _, reached, wrong := o.disks.cached(&front)
	return wrong != "" || reached != l.segs[i].base
}

// keeps says why the policy keeps the oldest segment, "" when it does not.
func (o *Retention) keeps(l *diskLog, s *segmentScan) string {
	t := o.topics[BaseTopic(l.topic)]
	if t == nil {
		return ""
	}
	keep := retentionTime(t)
	newest, now := s.newest(), o.disks.latest(l.on, !l.open)
	if keep >= 0 && newest >= 0 && now-newest > keep.Milliseconds() {
		return ""
	}
	rest := o.behind(l, s.base)
	if b := l.before; b != nil { // the decision may be older than the crash, and the log was longer then
		was := int64(0)
		for _, x := range b.batches {
			if x.base >= s.next() {
				was += int64(x.size)
			}
		}
		rest = max(rest, was)
	}
	if t.RetentionBytes > 0 && rest >= t.RetentionBytes {
		return ""
	}
	why := fmt.Sprintf("the log behind it has %d bytes", rest)
	if t.RetentionBytes > 0 {
		why += fmt.Sprintf(" of %d that are kept", t.RetentionBytes)
	}
	if keep >= 0 && newest >= 0 {
		why += fmt.Sprintf(", and its newest record is %v old, records are kept for %v", time.Duration(now-newest)*time.Millisecond, keep)
	}
	return why
}

// retentionTime is the topic's, negative: for ever.
func retentionTime(t *Topic) time.Duration {
	if t.RetentionTime == 0 {
		return 7 * 24 * time.Hour // the default, design section 4
	}
	return t.RetentionTime
}

// behind is the size of the segments after the one with the base offset.
func (o *Retention) behind(l *diskLog, base int64) int64 {
	total := int64(0)
	for _, s := range l.segs {
		if s.base <= base {
			continue
		}
		if f, ok := l.on.model.File(s.path); ok {
			total += f.Size
		}
	}
	return total
}

// look notes whether the oldest segment should go, and tells when it has stayed too long.
func (o *Retention) look(l *diskLog) {
	now := o.disks.now()
	s := o.due(l)
	if s == nil {
		l.crowded = none
		return
	}
	if first := (span{s.base, s.next()}); l.crowded == none || l.crowd != first {
		l.crowded, l.crowd = now, first
	}
	if o.Within <= 0 || o.disks.heal == none || o.told[l] || len(o.calm.faults) > 0 || len(o.calm.paused) > 0 {
		return
	}
	if since := max(l.crowded, o.calm.since, l.since, o.disks.heal); now-since > o.Within {
		o.told[l] = true
		o.Violate(now, Retain, "%s on %s: segment %d..%d should have been removed, but has stayed for %v since nothing disturbs", l.place, l.on.machine,
			s.base, s.next()-1, now-since)
	}
}

// due returns the oldest segment when the policy does not keep it, else nil. The active segment goes, once another one took its place, when all its
// records are visible and too old.
func (o *Retention) due(l *diskLog) *segmentScan {
	live := l.live()
	if !l.open || l.failed || len(live) == 0 || o.topics[BaseTopic(l.topic)] == nil || live[0].next() > min(l.visible, l.shown()) {
		return nil
	}
	s := live[0]
	if len(live) > 1 {
		if s.sealed && (o.expired(l, s) || o.crowds(l, s)) {
			return s
		}
		return nil
	}
	if f, ok := l.on.model.File(s.path); !ok || f.Size != s.pos || !o.expired(l, s) {
		return nil
	}
	return s
}

// expired tells whether all the segment's records are too old, by the machine's present wall clock.
func (o *Retention) expired(l *diskLog, s *segmentScan) bool {
	keep, newest := retentionTime(o.topics[BaseTopic(l.topic)]), s.newest()
	return keep >= 0 && newest >= 0 && l.on.wall().UnixMilli()-newest > keep.Milliseconds()
}

// crowds tells whether the log is large enough without the segment.
func (o *Retention) crowds(l *diskLog, s *segmentScan) bool {
	t := o.topics[BaseTopic(l.topic)]
	return t.RetentionBytes > 0 && o.behind(l, s.base) >= t.RetentionBytes
}

// sized looks whether segments, of those that are not known as whole, are larger than they may be.
func (o *Retention) sized(l *diskLog) {
	t := o.topics[BaseTopic(l.topic)]
	if t == nil || t.SegmentBytes <= 0 {
		return
	}
	for i := len(l.segs) - 1; i >= 0 && !l.segs[i].sized; i-- {
		s := l.segs[i]
		s.sized = s.sealed
		if s.pos > t.SegmentBytes && len(s.batches) > 1 && !t.Compact {
			s.sized = true
			o.Violate(o.disks.now(), Retain, "%s on %s: segment %d..%d has %d batches of %d bytes together, segments of this topic have at most %d", l.place, l.on.machine,
				s.base, s.next()-1, len(s.batches), s.pos, t.SegmentBytes)
		}
	}
}

// aged looks whether a batch was appended to a segment that should have been closed for its age.
func (o *Retention) aged(l *diskLog) {
	t := o.topics[BaseTopic(l.topic)]
	if t == nil || t.SegmentAge <= 0 || t.Compact || l.replicated {
		return
	}
	for i := len(l.segs) - 1; i >= 0; i-- {
		s := l.segs[i]
		judged := s.aged
		for s.aged = max(1, min(s.aged, len(s.batches))); s.aged < len(s.batches); s.aged++ {
			if b, first := s.batches[s.aged], s.batches[0].first; b.maxTime-first >= t.SegmentAge.Milliseconds() {
				o.Violate(o.disks.now(), Retain, "%s on %s: the batch at offset %d is in segment %d, whose first record is %v older; segments of this topic are closed after %v", l.place, l.on.machine,
					b.base, s.base, time.Duration(b.maxTime-first)*time.Millisecond, t.SegmentAge)
			}
		}
		if s.sealed && judged > 0 {
			return // those before were judged when they were followed by this one
		}
	}
}

// Finish looks whether every log kept its bounds.
func (o *Retention) Finish(end End) {
	if end.Cut || end.Trouble != "" {
		return
	}
	for _, b := range o.disks.brokers {
		for _, l := range b.order {
			if !l.open || l.ruined || o.disks.deleted[l.topic] {
				continue
			}
			if len(l.live()) == 0 {
				o.Violate(end.At, Retain, "%s on %s has no segment to append to", l.place, b.machine)
				continue
			}
			o.disks.follow(l)
			o.sized(l)
			o.aged(l)
			o.look(l)
		}
	}
}
