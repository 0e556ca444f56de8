package oracle

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"faultline/faults"
	"faultline/sim/machine"
	"faultline/workloads/history"
)

// Liveness judges that the system comes back: LIVE.
//
// Verified as time goes on, when nothing disturbs (see calm) for Promise.HealWithin:
//   - every broker machine that is up has registered, and its node is there;
//   - every consumer that joined and did not leave, and whose process is up, has its node in the group;
//   - every partition has an open log at each broker that it is assigned to, as far as these are registered;
//   - every partition with several replicas has a leader, which is registered, and all of its replicas are in sync;
//   - no process ends with an error. (A panic is never excused.)
//
// Verified when nothing disturbs for deliveredWithin: no record that was sent so long ago is given up because the producer's delivery time-out is over, be it known or not whether it is in the log. With one replica acks=all
// waits for the disk, so what piled up while the broker was away may take longer than the time-out: there the producer must have been acknowledged something in that partition meanwhile.
//
// Verified always: a producer or consumer never ends with an error; a broker or coordination server only because its disk is full, or failed
// and a fault of a disk is or was there a moment ago, or after one of its logs was fenced.
//
// Verified at the end:
//   - the world did not get stuck, into a livelock or a panic;
//   - the world came to rest within the time that the trial waits for it (End.Waits);
//   - no consumer reads from below the start of its log, without a reset;
//   - Promise.HealWithin after the heal began, every broker and consumer machine is up, and every group has processed
//     what was acked before, as far as Delivery owes it: a group that stands still is told with the place where it stands.
//
// Beyond the atlas ([Ruins]): a server whose disk decayed or lost what was flushed may end with any error, stay down or keep logs closed. One whose disk was replaced
// comes back. A partition that is freed need not find a leader, or its replicas each other. With the registry ruined only panics and worlds that do not go on are told. Everything else holds.
//
// Not verified: which records are missing (Delivery), how fast things are before the heal (Budget), records that are given up for other reasons, or sooner, or where disks are too small (Promise.Small).
type Liveness struct {
	Findings
	promise  *Promise
	delivery *Delivery
	reg      *registry
	calm     *calm
	machines map[string]*station
	told     map[string]bool
	open     map[hosted]bool // logs that are open
	disks    map[int]bool    // disk faults that are active
	diskAt   time.Duration   // when the last one ended; none
	topics   time.Duration   // when one was made, changed or deleted last
	next     time.Duration   // when to look next; none: something disturbs
}

// hosted is a partition on a machine.
type hosted struct {
	machine string
	place
}

// station is a machine and what runs there.
type station struct {
	up          bool
	incarnation int
	broker      string // id of the broker that came up there, in any incarnation
	since       time.Duration
	exit        string             // why its last process ended by itself
	regular     bool               // it ended by itself, without an error
	fenced      bool               // the process lost a log to an I/O error
	consumers   map[[2]string]bool // group and id of the members that joined from this process
}

// NewLiveness makes the oracle. It asks delivery what is owed.
func NewLiveness(p *Promise, d *Delivery) *Liveness {
	l := &Liveness{promise: p, delivery: d, reg: newRegistry(), calm: newCalm(p), machines: map[string]*station{}, told: map[string]bool{}, open: map[hosted]bool{},
		disks: map[int]bool{}, diskAt: none, next: none}
	l.Free(p.Ruins.Registry)
	if d != nil {
		d.gaveUp = l.gaveUp
	}
	for _, names := range [][]string{p.Coord, p.Brokers} {
		for _, m := range names {
			if slices.Contains(p.Spare, m) {
				continue // it has a station from its start on
			}
			l.machines[m] = &station{consumers: map[[2]string]bool{}}
		}
	}
	return l
}

// Invariants implements [Oracle].
func (l *Liveness) Invariants() []string { return []string{Live} }

func (l *Liveness) station(name string) *station {
	s := l.machines[name]
	if s == nil {
		s = &station{consumers: map[[2]string]bool{}}
		l.machines[name] = s
	}
	return s
}

// Needs implements [history.Selective]: as time goes on, of which requests tell.
func (*Liveness) Needs() history.Steps { return history.Requesting }

// Observe implements [Oracle].
func (l *Liveness) Observe(e *history.Event) {
	if l.next >= 0 && e.At > l.next {
		l.look(e.At)
	}
	switch e.Kind {
	case history.Traced:
		l.traced(e)
		return
	case history.FaultInjected:
		if k := e.Fault.Kind; k == faults.DiskErrors || k == faults.ShortDisk {
			l.disks[e.Number] = true
		}
	case history.FaultHealed:
		if l.disks[e.Number] {
			delete(l.disks, e.Number)
			l.diskAt = e.At
		}
	case history.PhaseBegan:
		if e.Phase == history.Heal && len(l.disks) > 0 {
			clear(l.disks)
			l.diskAt = e.At
		}
	case history.MachineStarted:
		s := l.station(e.Machine)
		s.fenced = false
		s.up, s.incarnation, s.since, s.exit, s.regular = true, e.Incarnation, e.At, "", false
		clear(s.consumers)
	case history.MachineCrashed, history.MachineExited:
		s := l.station(e.Machine)
		s.up, s.since = false, e.At
		maps.DeleteFunc(l.open, func(h hosted, _ bool) bool { return h.machine == e.Machine })
		if e.Kind == history.MachineExited {
			s.exit, s.regular = e.Text, e.Text == ""
			switch p := l.promise; {
			case strings.Contains(e.Text, "panic"):
				l.Insist(e.At, Live, "the process on %s panicked: %s", e.Machine, e.Text)
			case p.Ruins.Hurt(e.Machine):
			case e.Text != "" && p.HealWithin > 0 && l.calm.now() && e.At > l.calm.since+p.HealWithin:
				l.Violate(e.At, Live, "the process on %s ended, though nothing disturbs since %v: %s", e.Machine, l.calm.since, e.Text)
			case e.Text != "" && !l.explained(s, e):
				l.Violate(e.At, Live, "the process on %s ended with an error that nothing explains: %s", e.Machine, e.Text)
			}
		}
		clear(s.consumers)
	}
	if l.calm.observe(e) {
		l.plan(e.At)
	}
}

// diskWithin is how long after a disk fault a process may still end by it: it has to notice, and to give up what it has under way.
const diskWithin = 3 * time.Second

// explained reports whether a process may end with an error: only that of a server, from a disk that failed.
func (l *Liveness) explained(s *station, e *history.Event) bool {
	if !slices.Contains(l.promise.Brokers, e.Machine) && !slices.Contains(l.promise.Coord, e.Machine) {
		return false
	}
	if s.fenced || l.promise.Ruins.Hurt(e.Machine) {
		return true
	}
	if strings.Contains(e.Text, machine.ErrNoSpace.Error()) {
		return true // a disk may be too small without any fault
	}
	if !strings.Contains(e.Text, machine.ErrIO.Error()) {
		return false
	}
	return len(l.disks) > 0 || l.diskAt >= 0 && e.At <= l.diskAt+diskWithin
}

func (l *Liveness) traced(e *history.Event) {
	t := &e.Trace
	switch t.Kind {
	case machine.BrokerUp:
		l.station(e.Machine).broker = itoa(t.A)
		return
	case machine.BrokerDown:
		return
	case machine.LogOpened:
		if at, ok := parsePlace(t.Subject); ok {
			l.open[hosted{e.Machine, at}] = true
		}
		return
	case machine.LogFailed:
		l.station(e.Machine).fenced = true
		return
	case machine.TopicRemoved:
		maps.DeleteFunc(l.open, func(h hosted, _ bool) bool { return h.topic == t.Subject && h.machine == e.Machine })
		return
	case machine.ConsumerJoined:
		l.station(e.Machine).consumers[[2]string{t.Subject, t.Detail}] = true
		return
	case machine.ConsumerLeft:
		delete(l.station(e.Machine).consumers, [2]string{t.Subject, t.Detail})
		return
	}
	switch what, _ := l.reg.observe(e); what {
	case topicChange:
		l.topics = e.At
		fallthrough
	case brokerChange, memberChange:
		clear(l.told)
		l.plan(e.At)
	}
}

// plan finds the next moment to look: nothing may have changed for as long as a recovery may take.
func (l *Liveness) plan(now time.Duration) {
	l.next = none
	if l.promise.HealWithin > 0 && l.calm.now() {
		l.next = now + l.promise.HealWithin
	}
}

// look reports who should have come back and has not.
func (l *Liveness) look(now time.Duration) {
	l.next = none
	for _, m := range l.missing(true) {
		if !l.told[m] {
			l.told[m] = true
			l.Violate(now, Live, "%s, though nothing disturbs since %v; the limit is %v", m, l.calm.since, l.promise.HealWithin)
		}
	}
}

// missing lists machines that are not up, brokers and consumers that are not registered. A machine that is down on purpose while the
// load runs is not missing.
func (l *Liveness) missing(loading bool) []string {
	var out []string
	for _, name := range l.names() {
		s := l.machines[name]
		service := slices.Contains(l.promise.Brokers, name) || slices.Contains(l.promise.Coord, name)
		switch {
		case !s.up && (loading || s.regular && !service), !s.up && s.exit == "" && !service && slices.Contains(l.promise.Spare, name), l.promise.Ruins.Hurt(name):
			continue
		case !s.up && s.exit != "":
			out = append(out, name+" is down since "+s.since.String()+": its process ended with: "+s.exit)
			continue
		case !s.up:
			out = append(out, name+" is down since "+s.since.String())
			continue
		case slices.Contains(l.promise.Brokers, name):
			if _, registered := l.reg.brokers[s.broker]; s.broker == "" || !registered {
				out = append(out, "the broker on "+name+" is up since "+s.since.String()+" but not registered")
			}
		}
		var members [][2]string
		for c := range s.consumers {
			members = append(members, c)
		}
		slices.SortFunc(members, func(a, b [2]string) int { return cmp.Or(cmp.Compare(a[0], b[0]), cmp.Compare(a[1], b[1])) })
		for _, c := range members {
			if l.reg.members[c[0]][c[1]] == nil {
				out = append(out, "consumer "+c[1]+" on "+name+" joined group "+c[0]+" but is not registered")
			}
		}
	}
	return append(out, l.closed()...)
}

// closed lists the replicas that are not open at their broker, though it is registered; and, of topics with several replicas, the partitions that have no leader or miss some of their
// replicas among those in sync.
func (l *Liveness) closed() []string {
	var out []string
	for topic, parts := range l.reg.replicas {
		for p, replicas := range parts {
			at := place{topic, p}
			for _, broker := range replicas {
				if _, registered := l.reg.brokers[broker]; !registered {
					continue
				}
				for name, s := range l.machines {
					if s.up && s.broker == broker && !l.open[hosted{name, at}] && !l.promise.Ruins.Hurt(name) {
						out = append(out, "broker "+broker+" on "+name+" has not opened its log of "+at.String())
					}
				}
			}
			if why := l.astray(at, replicas); why != "" {
				out = append(out, why)
			}
		}
	}
	slices.Sort(out)
	return out
}

// astray says what a partition with several replicas lacks, "": nothing.
func (l *Liveness) astray(at place, replicas []string) string {
	if len(replicas) < 2 || l.promise.Ruins.of(at) {
		return ""
	}
	leader := l.reg.leader(at)
	if leader == "" {
		return at.String() + " has no leader"
	}
	if _, up := l.reg.brokers[leader]; !up {
		return at.String() + " is led by broker " + leader + ", which is not registered"
	}
	for _, id := range replicas {
		n, _ := strconv.ParseInt(id, 10, 32)
		if s := l.reg.states[at.topic]; findMember(s[at.partition].ISR, int32(n)) < 0 {
			return "broker " + id + " is not in sync with " + at.String() + ", which broker " + leader + " leads"
		}
	}
	return ""
}

func (l *Liveness) names() []string {
	var names []string
	for name := range l.machines {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Waits tells who is not up or registered, or what is not delivered yet, "" when all is well.
func (l *Liveness) Waits() string {
	if m := l.missing(false); len(m) > 0 {
		return m[0]
	}
	return l.delivery.Waits()
}

// Finish implements [Oracle].
func (l *Liveness) Finish(end End) {
	if end.Cut {
		return
	}
	if end.Trouble != "" {
		l.Insist(end.At, Live, "%s: %s", end.Trouble, end.Detail)
		return
	}
	p := l.promise
	if end.Waits != "" && p.HealWithin > 0 {
		l.Violate(end.At, Live, "the run did not come to rest within %v after the heal: it still waits: %s", end.At-l.calm.heal, end.Waits)
	}
	if p.HealWithin <= 0 || l.calm.heal < 0 || end.At < l.calm.heal+p.HealWithin {
		return
	}
	for _, m := range l.missing(false) {
		if !l.told[m] {
			l.Violate(end.At, Live, "%s, %v after the heal began; the limit is %v", m, end.At-l.calm.heal, p.HealWithin)
		}
	}
	for _, s := range append(l.delivery.standing(), l.delivery.lagging()...) {
		l.Violate(end.At, Live, "%s, %v after the heal began; the limit is %v", s, end.At-l.calm.heal, p.HealWithin)
	}
}
