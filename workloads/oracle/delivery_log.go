package oracle

import (
	"cmp"
	"math"
	"slices"
	"time"

	"faultline/sim/machine"
	"faultline/workloads/history"
)

// topicLog is a topic as Delivery sees it. A topic that is deleted and made again is another one.
type topicLog struct {
	name  string
	gone  bool
	parts []*partLog // by partition; nil: not met yet
	// Of one that took the name of another, by source: the first record of which it was not settled before what became of it, and those before that which were not settled either.
	first []int64
	open  []map[int64]bool
}

// succeed notes which records were settled before a topic was made that takes the name of another: none of them is in it.
func (d *Delivery) succeed(name string) {
	d.forget()
	t := d.topic(name)
	for _, s := range d.sources {
		open := map[int64]bool{}
		for seq := range s.old { // order: a set
			open[seq] = true
		}
		t.first, t.open = append(t.first, s.recent.base), append(t.open, open)
	}
}

// precedes tells whether a record was settled before the topic was made.
func (t *topicLog) precedes(id history.ID) bool {
	n := id.Source()
	return n < len(t.first) && id.Seq() < t.first[n] && !t.open[n][id.Seq()]
}

func (t *topicLog) at(partition int32) any {
	if partition < 0 {
		return t.name
	}
	return place{t.name, partition}
}

// partLog is the log of one partition: where it starts and ends, and what it holds that is not settled.
type partLog struct {
	place
	number  int
	topic   *topicLog
	broker  string // machine that has the log; of several replicas, that leads
	closed  bool   // its process stopped, and no later one opened it
	several bool   // replicas
	unclean bool   // the next leader need not have what was committed
	freed   bool   // of several replicas: nothing is owed any more
	start   int64
	end     int64 // log end offset
	visible int64 // first offset that consumers may not see; none: not known
	entries queue[entry]
	leftOut int64 // every offset that some group legally never saw is below
	sure    int64 // what lies below survives the next power loss on a disk that stopped to flush; math.MaxInt64 on one that did not
	losses  []loss
	seats   []*seatLog
}

// entry says which record is at an offset.
type entry struct {
	id    history.ID
	flags entryFlags
}

type entryFlags uint8

const (
	isAcked   entryFlags = 1 << iota // the producer was told
	isSeen                           // a group found it there
	isDurable                        // acked with acks=all
	isLost                           // a power loss or disk error may have taken it, legally
)

// loss is a moment when the log may have lost its end.
type loss struct {
	at    time.Duration // forever: it may lose it at any time
	from  int64         // first offset that was not visible then
	all   bool          // durable records too
	below int64         // with all: where the log ended; offsets from from on to there may be given out anew
	old   string        // machine that led before and may not know yet that it does not any more
}

// mayHaveLost reports whether a record that was sent and acked at an offset may be gone without breach of promise. What
// was sent after the loss is not excused, whenever it was acked.
func (p *partLog) mayHaveLost(durable bool, sentAt time.Duration, offset int64) bool {
	for _, l := range p.losses {
		if sentAt <= l.at && offset >= l.from && (l.all || !durable) {
			return true
		}
	}
	return false
}

func (d *Delivery) topic(name string) *topicLog {
	all := d.topics
	if d.dead(name) {
		all = d.deleted
	}
	t := all[name]
	if t == nil {
		t = &topicLog{name: name, gone: d.dead(name)}
		all[name] = t
	}
	return t
}

func (d *Delivery) part(t *topicLog, partition int32) *partLog {
	if partition < 0 {
		partition = 0
	}
	for int(partition) >= len(t.parts) {
		t.parts = append(t.parts, nil)
	}
	p := t.parts[partition]
	if p == nil {
		p = &partLog{place: place{t.name, partition}, number: d.marks, topic: t, visible: none, sure: math.MaxInt64, several: d.promise.Replicated(t.name)}
		d.marks++
		t.parts[partition] = p
		if d.promise.Ruins.of(p.place) {
			d.ruin(t.name, partition)
		}
		for i := range d.promise.Groups {
			if g := &d.promise.Groups[i]; g.reads(t.name) {
				d.newSeat(g, p)
			}
		}
	}
	return p
}

// put notes that a record is at an offset.
func (d *Delivery) put(at time.Duration, p *partLog, offset int64, id history.ID, flag entryFlags) {
	if offset < p.entries.base || offset-p.entries.base >= windowLimit {
		return
	}
	for offset >= p.entries.end() {
		p.entries.push()
	}
	e := p.entries.at(offset)
	if e.flags != 0 && e.id != id {
		if flag == isSeen && p.mayHaveLost(true, d.sentAt(id), offset) {
			return // a queue still held what a ruined disk lost, while the offset was given out anew
		}
		if e.flags&isLost == 0 && !p.mayHaveLost(!p.several || e.flags&(isDurable|isSeen) != 0, d.sentAt(e.id), offset) {
			d.Violate(at, Deliver, "offset %d of %v holds record %v (%s) and record %v (%s)", offset, p.place, e.id, e.flags, id, flag)
		}
		*e = entry{}
	}
	e.id = id
	e.flags |= flag
	if flag == isSeen && (p.several || !p.anew(offset)) {
		e.flags &^= isLost // it was not lost after all; a ruined disk may have lost what a queue still held
	}
}

func (f entryFlags) String() string {
	switch {
	case f&isAcked != 0 && f&isSeen != 0:
		return "acked and processed"
	case f&isAcked != 0:
		return "acked"
	}
	return "processed"
}

// logged follows what a broker says of its log.
func (d *Delivery) logged(e *history.Event) {
	t := &e.Trace
	pl, ok := parsePlace(t.Subject)
	if !ok || d.dead(pl.topic) {
		return
	}
	p := d.part(d.topic(pl.topic), pl.partition)
	if p.several {
		d.replica(e, p)
		return
	}
	if p.broker != e.Machine {
		if p.broker = e.Machine; d.promise.Ruins.Decays(p.broker) {
			p.decay()
		}
	}
	switch t.Kind {
	case machine.LogAppended:
		p.end = t.B
	case machine.LogVisible:
		p.visible = t.A
	case machine.LogOpened:
		p.closed = false
		p.start, p.end, p.visible = t.A, t.B, t.B
		p.fell()
		if p.sure == math.MaxInt64 && d.promise.Ruins.Exposed(p.broker) {
			p.sure = t.B // opened for the first time since its disk flushes nothing, or since a power loss settled what is there
		}
	case machine.LogDeleted:
		p.start = max(p.start, t.B)
	case machine.LogTruncated:
		p.end = t.B
		p.fell()
	case machine.LogFailed:
		p.lose(e.At, false, 0)
	}
}

// fell tells all claims where the log ends now, which may be further back.
func (p *partLog) fell() {
	for _, s := range p.seats {
		for i := range s.claims {
			s.claims[i].low = min(s.claims[i].low, p.end)
		}
	}
}

// replica follows what the brokers say of a log with several replicas.
func (d *Delivery) replica(e *history.Event, p *partLog) {
	t := &e.Trace
	switch t.Kind {
	case machine.LogAppended:
		p.end = max(p.end, t.B)
	case machine.LogOpened:
		p.closed = false
		p.end, p.visible = max(p.end, t.B), max(p.visible, 0)
	case machine.LogDeleted:
		if e.Machine == p.broker {
			p.start = max(p.start, t.B)
		}
	case machine.LogTruncated:
		d.learnt(e.At, e.Machine, p)
	case machine.LogFailed:
		p.lose(e.At, false, 0)
	case machine.HighWatermark:
		switch {
		case t.C == 1:
			p.visible = max(p.visible, t.A)
		case t.B >= 0:
			d.learnt(e.At, e.Machine, p)
		}
	case machine.LeaderBegan:
		d.moved(e, p)
	}
}

// moved notes that another leader begins.
func (d *Delivery) moved(e *history.Event, p *partLog) {
	t := &e.Trace
	d.learnt(e.At, e.Machine, p)
	if p.unclean {
		p.unclean = false
		p.lose(forever, true, min(t.B, t.C))
		p.losses[len(p.losses)-1].old = p.broker
	}
	if p.broker != "" {
		p.lose(forever, false, 0)
		p.losses[len(p.losses)-1].old = p.broker
		if p.broker == e.Machine { // it leads anew, in another epoch: what it appended is there
			d.learnt(e.At, e.Machine, p)
		}
	}
	p.broker, p.closed = e.Machine, false
	p.visible = max(p.visible, t.C)
}

// ruin frees a partition with several replicas.
func (d *Delivery) ruin(topic string, partition int32) {
	if d.dead(topic) {
		return
	}
	if p := d.part(d.topic(topic), partition); p.several && !p.freed {
		p.freed = true
		p.lose(forever, true, 0)
	}
}

// decay notes that the only copy of the log may lose anything at any time. Several are freed as a whole.
func (p *partLog) decay() {
	if !p.several {
		p.lose(forever, true, 0)
	}
}

// learnt ends the losses that a leader may bring which does not know that it is none any more; of all logs if p is nil.
func (d *Delivery) learnt(at time.Duration, machine string, p *partLog) {
	if p == nil {
		for _, t := range d.topics {
			for _, p := range t.parts {
				if p != nil && p.several {
					d.learnt(at, machine, p)
				}
			}
		}
		return
	}
	for i := range p.losses {
		if l := &p.losses[i]; l.at == forever && l.old == machine {
			l.at, l.below = at, p.ends()
		}
	}
}

// decided follows who leads the partitions of a topic.
func (d *Delivery) decided(e *history.Event, topic string) {
	if d.dead(topic) {
		return
	}
	was, now := d.states[e.Trace.Subject], ParseStates(e.Trace.Detail)
	d.states[e.Trace.Subject] = now
	t := d.promise.topic(topic)
	for i := range now {
		if i < len(was) && was[i].Unclean(&now[i]) && t != nil && t.Unclean {
			d.part(d.topic(topic), int32(i)).unclean = true
		}
	}
}

// servedFrom is the first offset that consumers can have.
func (d *Delivery) servedFrom(p *partLog) int64 {
	if p.several && d.disk != nil {
		return d.disk.LogStartOn(p.broker, p.place.topic, p.partition)
	}
	return d.logStart(p)
}

// lose notes what may be lost of every log on a machine.
func (d *Delivery) lose(machine string, how func(*partLog)) {
	for _, t := range d.topics {
		for _, p := range t.parts {
			if p != nil && p.broker == machine {
				how(p)
			}
		}
	}
}

// sentAt is when a record was sent; of one that is settled, long ago.
func (d *Delivery) sentAt(id history.ID) time.Duration {
	if _, r, _ := d.find(id); r != nil {
		return r.sentAt
	}
	return 0
}

// anew reports whether the offset may hold, or come to hold, another record than it once did.
func (p *partLog) anew(offset int64) bool {
	for _, l := range p.losses {
		if l.all && offset >= l.from && (l.at == forever || offset < l.below) {
			return true
		}
	}
	return false
}

// ruined reports whether the log was ever on a ruined disk.
func (p *partLog) ruined() bool {
	return slices.ContainsFunc(p.losses, func(l loss) bool { return l.all })
}

// ends is the end of what the log was ever known to hold.
func (p *partLog) ends() int64 { return max(p.end, p.visible, p.entries.end()) }

// mend notes that nothing more is lost.
func (p *partLog) mend(at time.Duration) {
	for i := range p.losses {
		if l := &p.losses[i]; l.at == forever && l.old == "" && !p.freed {
			l.at, l.below = at, p.ends()
		}
	}
}

// lose notes that the log may have lost what was not visible or, with all, what lies at the offset and behind it.
func (p *partLog) lose(at time.Duration, all bool, from int64) {
	if !all {
		from = max(p.visible, 0)
	}
	p.losses = append(p.losses, loss{at: at, from: from, all: all, below: p.ends()})
	for o := max(from, p.entries.base); o < p.entries.end(); o++ {
		if e := p.entries.at(o); e.flags != 0 && (all || e.flags&isDurable == 0 && (!p.several || e.flags&isSeen == 0)) {
			e.flags |= isLost
		}
	}
}

// logStart is the first offset that the log still has.
func (d *Delivery) logStart(p *partLog) int64 {
	if d.disk != nil && !p.topic.gone {
		return max(p.start, d.disk.LogStart(p.place.topic, p.partition))
	}
	return p.start
}

// removeTopic forgets a deleted topic. Records under way to it are owed to nobody.
func (d *Delivery) removeTopic(name string) {
	t := d.topics[name]
	if t == nil {
		return
	}
	t.gone = true
	delete(d.topics, name)
	d.deleted[name] = t
	for _, p := range t.parts {
		if p == nil {
			continue
		}
		for _, s := range p.seats {
			delete(d.paths, s.seat.String())
			d.near[p.partition&15] = nil
		}
	}
}

// forget drops what is settled.
func (d *Delivery) forget() {
	for _, t := range d.topics {
		for _, p := range t.parts {
			if p == nil {
				continue
			}
			low := p.entries.end()
			for _, s := range p.seats {
				low = min(low, s.settled())
			}
			p.entries.dropBelow(low)
		}
	}
	for _, s := range d.sources {
		if s.known {
			s.forget(d)
		}
	}
}

func (s *source) forget(d *Delivery) {
	q := &s.recent
	for q.n > 0 {
		r := q.at(q.base)
		switch settled, open := s.settled(r); {
		case settled:
		case open:
			return
		default:
			s.old[q.base] = *r
		}
		q.dropBelow(q.base + 1)
	}
	if len(s.old) > s.sweep {
		for seq, r := range s.old {
			if settled, _ := s.settled(&r); settled {
				delete(s.old, seq)
			}
		}
		s.sweep = max(1024, 2*len(s.old))
	}
}

// settled reports whether nothing more can be said of a record, and otherwise whether it is open: its outcome or its delivery will come.
// Those that are neither may never show again, or at any time.
func (s *source) settled(r *record) (settled, open bool) {
	switch {
	case r.topic.gone && r.state != pending && r.state != unknown:
		return true, false
	case r.state == pending && !s.dead:
		return false, true
	case r.topic.gone: // it may turn up in another topic of the name
		return false, false
	case r.offset < 0 || r.partition < 0 || int(r.partition) >= len(r.topic.parts) || r.topic.parts[r.partition] == nil:
		return false, false
	case r.offset < r.topic.parts[r.partition].entries.base:
		return true, false
	}
	return false, r.state == acked
}

// sorted lists all partitions of topics that exist, by topic and number.
func (d *Delivery) sorted() []*partLog {
	var all []*partLog
	for _, t := range d.topics {
		for _, p := range t.parts {
			if p != nil {
				all = append(all, p)
			}
		}
	}
	slices.SortFunc(all, func(a, b *partLog) int {
		return cmp.Or(cmp.Compare(a.place.topic, b.place.topic), cmp.Compare(a.partition, b.partition))
	})
	return all
}
