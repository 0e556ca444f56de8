package oracle

import (
	"maps"
	"slices"
	"strings"
	"time"

	simdisk "faultline/sim/disk"
	"faultline/sim/machine"
	"faultline/workloads/history"
)

// Disks watches the brokers' disks for the oracles that judge by what is really there: Recoveries, Retention and Unflushed. It reads every
// byte that becomes durable once, as it becomes durable, and everything again after a crash and at the end. It holds for each
// batch on disk a few words, never the bytes.
//
// A log on a disk that a fault beyond the atlas ruined ([Ruins]) is told to nobody, until it is opened on a disk that is sound again; and
// then what it was before is forgotten.
//
// All of them share one Disks, which is shown each event before they are.
type Disks struct {
	promise *Promise
	now     func() time.Duration
	byName  map[string]*brokerDisk
	brokers []*brokerDisk
	buf     scanBuffer
	ended   map[*diskLog]*whole // see last

	// What happened to a log, for the oracles; nil: nobody wants to know.
	onStop    []func(*diskLog)
	onOpened  []func(*diskLog, *history.Event)
	onSynced  []func(*diskLog)
	onVisible []func(*diskLog, int64)
	onRemove  []func(*diskLog, *segmentScan)
	onDrop    []func(*diskLog)
	onCut     []func(l *diskLog, s *segmentScan, size int64)
	onRuin    []func(*diskLog)
	onCompact []func(l *diskLog, e *history.Event) // just before the new file takes the place of the old ones

	heal        time.Duration   // when the heal phase began; none: not yet
	deleted     map[string]bool // topics that are not there now
	everDeleted map[string]bool
	compacted   map[place]map[int64]bool // offsets of records that compaction took
	ids         map[string]string        // machine -> broker id
	assigned    map[place][]string       // ids of the brokers that have a replica
	left        map[place][]string       // and of those that had one
}

// brokerDisk is one broker's disk.
type brokerDisk struct {
	machine string
	model   *simdisk.Model
	wall    func() time.Time
	logs    map[string]*diskLog // by directory
	named   map[string]*diskLog // by "topic/partition"
	order   []*diskLog

	ahead     []aheadSample // of the wall clock before the world's, lately
	mostAhead time.Duration // ever
}

type aheadSample struct {
	at    time.Duration
	ahead int64 // wall clock in ms since 1970, minus world time in ms
}

// NewDisks watches no disk yet. now reads the world's time.
func NewDisks(p *Promise, now func() time.Duration) *Disks {
	return &Disks{promise: p, now: now, byName: map[string]*brokerDisk{}, heal: none, deleted: map[string]bool{}, everDeleted: map[string]bool{}, ended: map[*diskLog]*whole{}, compacted: map[place]map[int64]bool{},
		ids: map[string]string{}, assigned: map[place][]string{}, left: map[place][]string{}}
}

// Watch follows a broker's disk from now on, as the disk's observer. wall reads that machine's wall clock.
func (d *Disks) Watch(name string, m *simdisk.Model, wall func() time.Time) {
	b := &brokerDisk{machine: name, model: m, wall: wall, logs: map[string]*diskLog{}, named: map[string]*diskLog{}}
	d.byName[name] = b
	d.brokers = append(d.brokers, b)
	m.Observe(func(e simdisk.Event) { d.happened(b, e) })
}

// Needs implements [history.Selective].
func (*Disks) Needs() history.Steps { return history.Appending | history.Committing }

// Observe takes an event of the run.
func (d *Disks) Observe(e *history.Event) {
	if len(d.ended) > 0 {
		clear(d.ended)
	}
	b := d.byName[e.Machine]
	switch e.Kind {
	case history.Traced:
		if b != nil {
			if e.Trace.Kind == machine.BrokerUp {
				d.ids[e.Machine] = itoa(e.Trace.A)
			}
			d.sample(b)
			d.traced(b, e)
			return
		}
		if topic, ok := parseName(e.Trace.Subject, topicsRoot); ok {
			switch e.Trace.Kind {
			case machine.ZnodeDeleted:
				d.deleted[topic], d.everDeleted[topic] = true, true
				maps.DeleteFunc(d.compacted, func(p place, _ map[int64]bool) bool { return p.topic == topic })
			case machine.ZnodeCreated:
				d.deleted[topic] = false
				d.assign(topic, parseTopic(e.Trace.Detail))
			case machine.ZnodeSet:
				d.assign(topic, parseTopic(e.Trace.Detail))
			}
		}
	case history.FaultInjected, history.FaultHealed:
		for _, b := range d.brokers {
			d.sample(b)
		}
	case history.MachineRuined:
		if b != nil && d.promise.Ruins.Disk(e.Machine) {
			for _, l := range b.order {
				d.ruin(l)
			}
		}
	case history.PhaseBegan:
		if e.Phase == history.Heal {
			d.heal = e.At
		}
	}
}

// assign takes another assignment of a topic.
func (d *Disks) assign(topic string, replicas map[int32][]string) {
	for partition, ids := range replicas { // order: each for itself
		p := place{topic, partition}
		for _, id := range d.assigned[p] {
			if !slices.Contains(ids, id) {
				d.left[p] = append(d.left[p], id)
			}
		}
		d.assigned[p] = ids
	}
}

// movedAway tells whether the log's broker was to have a replica and then not any more.
func (d *Disks) movedAway(l *diskLog) bool {
	return slices.Contains(d.left[l.place], d.ids[l.on.machine])
}

// ruin lets no oracle judge a log any more.
func (d *Disks) ruin(l *diskLog) {
	l.ruined, l.before, l.crowded = true, nil, none
	for _, fn := range d.onRuin {
		fn(l)
	}
}

const sampleFor = 30 * time.Second

// sample notes how far the wall clock is ahead of the world.
func (d *Disks) sample(b *brokerDisk) {
	now := d.now()
	ahead := b.wall().UnixMilli() - now.Milliseconds()
	b.mostAhead = max(b.mostAhead, time.Duration(ahead)*time.Millisecond)
	n := len(b.ahead)
	if n > 0 && b.ahead[n-1].ahead == ahead {
		return
	}
	// A sample counts until the next one is old enough.
	for len(b.ahead) > 1 && b.ahead[1].at < now-sampleFor {
		b.ahead = b.ahead[1:]
	}
	b.ahead = append(b.ahead, aheadSample{now, ahead})
}

// latest is the latest time, in ms since 1970, that the machine's wall clock has shown lately, or ever.
func (d *Disks) latest(b *brokerDisk, ever bool) int64 {
	now := d.now().Milliseconds()
	t := b.wall().UnixMilli()
	for _, s := range b.ahead {
		t = max(t, now+s.ahead)
	}
	if ever {
		t = max(t, now+b.mostAhead.Milliseconds())
	}
	return t
}

// earliest is the earliest time, in ms since 1970, that the machine's wall clock would have shown now by how it went lately.
func (d *Disks) earliest(b *brokerDisk) int64 {
	t := b.wall().UnixMilli()
	for _, s := range b.ahead {
		t = min(t, d.now().Milliseconds()+s.ahead)
	}
	return t
}

func (d *Disks) traced(b *brokerDisk, e *history.Event) {
	t := &e.Trace
	switch t.Kind {
	case machine.LogOpened, machine.LogVisible, machine.LogFailed, machine.LogCompacted, machine.LogDeleted, machine.LogTruncated, machine.HighWatermark, machine.LeaderBegan:
	default:
		return
	}
	l := b.named[t.Subject] // its directory was made or found before
	if l == nil {
		return
	}
	switch t.Kind {
	case machine.LogOpened:
		d.opened(l, e)
	case machine.LogVisible:
		l.visible = max(l.visible, t.A)
		d.follow(l)
		for _, fn := range d.onVisible {
			if !l.ruined {
				fn(l, t.A)
			}
		}
	case machine.LogDeleted:
		if i, ok := l.segment(t.A); ok && !l.segs[i].dead {
			d.removed(l, l.segs[i])
			l.segs[i].dead = true
			l.shorten()
		}
		if t.B <= l.checkpointed() {
			l.floor = max(l.floor, t.B)
		}
	case machine.LogTruncated:
		l.cutting = false
		l.visible = min(l.visible, t.B)
		if l.open && t.B < l.floor {
			l.sink(t.B)
			l.since = e.At // answers of before tell nothing of it
		}
		if t.B > t.A || t.B == t.A && l.open {
			l.restarted = t.B
		}
	case machine.LogCompacted:
		for _, fn := range d.onCompact {
			if !l.ruined {
				fn(l, e)
			}
		}
		l.swap, l.replaced = span{t.A, t.B}, false
	case machine.HighWatermark:
		l.committed = t.A
	case machine.LeaderBegan:
		l.committed = t.C
	case machine.LogFailed:
		l.failed = true
		if !l.open {
			l.offline = t.Detail
		}
	}
}

// on returns the partition's log on the machine's disk, or nil.
func (d *Disks) on(name string, p place) *diskLog {
	b := d.byName[name]
	if b == nil {
		return nil
	}
	for _, l := range b.order {
		if l.place == p {
			return l
		}
	}
	return nil
}

// asked returns the log that an answer of a broker tells of, or nil.
func (d *Disks) asked(c *history.KafkaCall, p place) *diskLog {
	host, _, _ := strings.Cut(c.Broker, ":")
	return d.on(host, p)
}

// opened reads the log anew, whole.
func (d *Disks) opened(l *diskLog, e *history.Event) {
	l.open, l.since, l.visible, l.failed, l.offline, l.crowded = true, e.At, e.Trace.B, false, "", none
	l.committed, l.cutting, l.swap, l.replaced = e.Trace.A, false, span{}, false
	l.segs = l.segs[:0]
	for _, f := range l.on.model.Files() {
		if dir, base, ok := segmentFile(f.Path); ok && dir == l.dir {
			l.segs = append(l.segs, &segmentScan{base: base, path: f.Path})
		}
	}
	if l.ruined && !d.promise.Ruins.Disk(l.on.machine) {
		l.ruined, l.before, l.floor, l.sound = false, nil, 0, e.At
	}
	d.follow(l)
	for _, fn := range d.onOpened {
		if !l.ruined {
			fn(l, e)
		}
	}
	l.floor = max(l.floor, e.Trace.A)
	l.before = nil
}

// LogStart is the first offset that the partition's log holds; of several replicas, that of the one which starts last. It implements Disk.
func (d *Disks) LogStart(topic string, partition int32) int64 {
	start := int64(0)
	for _, b := range d.brokers {
		start = max(start, d.LogStartOn(b.machine, topic, partition))
	}
	return start
}

// Compacted implements Disk.
func (d *Disks) Compacted(topic string, partition int32, offset int64) bool {
	return d.compacted[place{topic, partition}][offset]
}

// LogStartOn implements Disk.
func (d *Disks) LogStartOn(machine, topic string, partition int32) int64 {
	if l := d.on(machine, place{topic, partition}); l != nil {
		if live := l.live(); len(live) > 0 {
			return live[0].base
		}
	}
	return 0
}
