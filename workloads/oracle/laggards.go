package oracle

import (
	"slices"
	"strconv"
	"time"

	"faultline/sim/machine"
	"faultline/workloads/history"
)

// Laggards judges that in-sync replicas that lag are taken out (LIVE): while one counts nothing is committed without it, so whoever waits for acks=all waits for it.
//
// Verified, of a leader that has begun in the registry's epoch and is registered, with no fault on its machine, on the coordination service or between the two, and none since before the replica fell behind: an in-sync replica that lacks what
// the leader had at a moment leaves the in-sync replicas, or gets it, within the lag that replicas are allowed (Promise.ReplicaLag), a quarter of it (the leader looks that often) and laggardSlack, unless the
// registry has another state of the partition meanwhile.
//
// A fault hits the machines that it names; a fault between machines hits the ways between them: of those only the one from the leader to the coordination service counts, and those within that service, so the followers may be as far
// from their leader as they like. One that names no machine, as a misfortune, hits everybody. What a fault leaves behind, such as a session that is over, may last for the longest time-out of a session more.
//
// Not verified: idle partitions; leaders that faults hit. Beyond the atlas ([Ruins]) a partition that is freed is not judged.
type Laggards struct {
	Findings
	cluster *Cluster
	quorum  *Quorum                  // knows how far each replica has got
	faults  map[int]*history.Fault   // active
	hit     map[string]time.Duration // machine -> when its process, or a fault in its way, began or ended last
	all     time.Duration            // when another phase began
	paused  map[string]bool
	absent  map[int32]bool // brokers that the registry does not have: they cannot change its states
	behind  map[seen]leaderEnd
	next    time.Duration
}

// seen is a replica of a partition as its leader sees it.
type seen struct {
	place
	broker int32
}

// leaderEnd is the end of the leader's log at a moment.
type leaderEnd struct {
	end   int64
	since time.Duration
}

// laggardSlack covers the write to the registry, and other topics' writes before it.
const laggardSlack = 500 * time.Millisecond

// NewLaggards judges the partitions that q follows.
func NewLaggards(q *Quorum) *Laggards {
	o := &Laggards{cluster: q.cluster, quorum: q, faults: map[int]*history.Fault{}, hit: map[string]time.Duration{}, all: none, paused: map[string]bool{}, absent: map[int32]bool{}, behind: map[seen]leaderEnd{}}
	o.Free(q.cluster.promise.Ruins.Records)
	q.cluster.onDecided = append(q.cluster.onDecided, func(_ *history.Event, p *replicas, was, now *PartitionState) {
		if was == nil || was.LeaderEpoch != now.LeaderEpoch || !sameMembers(was, now) {
			o.forget(p.place)
		}
	})
	q.cluster.onBegan = append(q.cluster.onBegan, func(_ *history.Event, p *replicas) { o.forget(p.place) })
	q.cluster.onGone = append(q.cluster.onGone, func(p *replicas) { o.forget(p.place) })
	return o
}

// Invariants lists what it can report.
func (o *Laggards) Invariants() []string { return []string{Live} }

func (o *Laggards) forget(p place) {
	for k := range o.behind { // order: no matter
		if k.place == p {
			delete(o.behind, k)
		}
	}
}

// Needs implements [history.Selective].
func (*Laggards) Needs() history.Steps { return history.Requesting }

// Observe takes an event of the run.
func (o *Laggards) Observe(e *history.Event) {
	switch e.Kind {
	case history.FaultInjected:
		o.faults[e.Number] = e.Fault
		o.strikes(e.Fault, e.At)
	case history.FaultHealed:
		o.strikes(o.faults[e.Number], e.At)
		delete(o.faults, e.Number)
	case history.MachineCrashed, history.MachineExited, history.MachineStarted, history.MachinePaused, history.MachineResumed, history.MachineWiped:
		o.hit[e.Machine] = e.At
		o.paused[e.Machine] = e.Kind == history.MachinePaused
	case history.PhaseBegan:
		o.all = e.At
	}
	if e.Kind == history.Traced {
		o.registered(e)
	}
	if lag := o.cluster.promise.ReplicaLag; lag > 0 && e.At >= o.next {
		o.next = e.At + lag/8
		o.look(e.At, lag+lag/4+laggardSlack)
	}
}

// registered follows which brokers the registry has. One that lost its session and is back has had something in its way until then.
func (o *Laggards) registered(e *history.Event) {
	t := &e.Trace
	if t.Kind != machine.ZnodeCreated && t.Kind != machine.ZnodeDeleted {
		return
	}
	name, ok := parseName(t.Subject, brokersRoot)
	id, err := strconv.ParseInt(name, 10, 32)
	if !ok || err != nil {
		return
	}
	o.absent[int32(id)] = t.Kind == machine.ZnodeDeleted
	o.hit[o.cluster.machineOf(int32(id))] = e.At
}

// hinders tells whether a fault is in the way of a broker, or coordination server, that wants to change the registry.
func (o *Laggards) hinders(f *history.Fault, machine string) bool {
	coord := o.cluster.promise.Coord
	has := slices.Contains[[]string]
	registry := func(names []string) bool {
		return slices.ContainsFunc(names, func(n string) bool { return has(coord, n) })
	}
	switch {
	case len(f.Hit) == 0:
		return true
	case len(f.Peers) == 0:
		return has(f.Hit, machine)
	}
	return has(f.Hit, machine) && registry(f.Peers) || has(f.Peers, machine) && registry(f.Hit)
}

func (o *Laggards) strikes(f *history.Fault, at time.Duration) {
	p := o.cluster.promise
	for _, m := range slices.Concat(p.Brokers, p.Coord) {
		if f != nil && o.hinders(f, m) {
			o.hit[m] = at
		}
	}
}

// quiet is the moment from which on nothing is in the way of a leader on a machine; false: something is.
func (o *Laggards) quiet(machine string) (since time.Duration, ok bool) {
	p := o.cluster.promise
	last := max(o.hit[machine], o.all)
	for _, m := range append([]string{machine}, p.Coord...) {
		last = max(last, o.hit[m])
		if o.paused[m] {
			return 0, false
		}
		for _, f := range o.faults { // order: no matter
			if o.hinders(f, m) {
				return 0, false
			}
		}
	}
	return last + p.SessionTimeout, true
}

func (o *Laggards) look(now, within time.Duration) {
	for _, p := range o.cluster.order {
		s := o.cluster.state(p.place)
		if s == nil || s.Leader < 0 || len(s.ISR) < 2 || p.epoch != int64(s.LeaderEpoch) || o.cluster.freed(p) {
			continue
		}
		leader := o.cluster.machineOf(s.Leader)
		since, ok := o.quiet(leader)
		if !ok || leader != p.leader || o.absent[s.Leader] {
			o.forget(p.place)
			continue
		}
		end := o.quorum.had(leader, p)
		for _, m := range s.ISR {
			if m.ID == s.Leader {
				continue
			}
			k := seen{p.place, m.ID}
			name := o.cluster.machineOf(m.ID)
			was, known := o.behind[k]
			switch had := o.quorum.had(name, p); {
			case !known || had >= was.end || since > was.since:
				o.behind[k] = leaderEnd{end, max(now, since)}
			case now > was.since+within:
				o.Violate(now, Live, "%s leads %s and had what lies below %d at %v, but %s, which is in sync, has had no more than what lies below %d since, and is still in sync; the lag that replicas are allowed is %v",
					leader, p.place, was.end, was.since, name, had, o.cluster.promise.ReplicaLag)
				o.behind[k] = leaderEnd{end, now}
			}
		}
	}
}

// Finish has nothing to judge: who lags is judged when it is time.
func (o *Laggards) Finish(End) {}
