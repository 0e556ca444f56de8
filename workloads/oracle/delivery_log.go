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
	begun   Begun
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
	p := d.logs.get(t.Subject)
	if p == nil {
		pl, ok := parsePlace(t.Subject)
		if !ok || d.dead(pl.topic) {
			return
		}
		p = d.part(d.topic(pl.topic), pl.partition)
		d.logs.set(t.Subject, p)
	}
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

// servedFrom is the first offset that consumers can have.
func (d *Delivery) servedFrom(p *partLog) int64 {
	if p.several && d.disk != nil {
		return d.disk.LogStartOn(p.broker, p.place.topic, p.partition)
	}
	return d.logStart(p)
}

// sentAt is when a record was sent; of one that is settled, long ago.
func (d *Delivery) sentAt(id history.ID) time.Duration {
	if _, r, _ := d.find(id); r != nil {
		return r.sentAt
	}
	return 0
}

// ends is the end of what the log was ever known to hold.
func (p *partLog) ends() int64 { return max(p.end, p.visible, p.entries.end()) }

// logStart is the first offset that the log still has.
func (d *Delivery) logStart(p *partLog) int64 {
	if d.disk != nil && !p.topic.gone {
		return max(p.start, d.disk.LogStart(p.place.topic, p.partition))
	}
	return p.start
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
