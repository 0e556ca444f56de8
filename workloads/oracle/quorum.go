package oracle

import (
	"slices"
	"strconv"
	"time"

	"faultline/sim/machine"
	"faultline/workloads/history"
)

// Quorum judges that what a leader counts as committed is where it must be: on at least as many replicas as acks=all needs (min.insync.replicas, or all that there are if these are fewer), and on
// all who may be elected (KIP-966).
//
// Verified, when a leader of the registry's epoch moves the high watermark (HW):
//   - every in-sync and every eligible replica of the registry has had all that lies below, be it up or down (MATCH; what it has, byte for byte, is for Agreement to compare);
//   - so have at least as many replicas as acks=all needs (HW);
//   - the leader does not know that too few are in sync (HW). It knows when each state that the registry had in this leader epoch lists too few; or since the registry took a state like that from
//     its own hand, and has had no other one.
//
// What a replica loses, because it was not flushed, it has had, until the registry lists the replica in a registration from after the loss: the leader counts what it was told before, the fetch that
// tells it may be under way still, and nobody can tell it of the loss sooner. The atlas counts the loss just as long as one of those that the partition survives (faults.Copies), and nobody is elected
// by an entry from before it (DUR). From then on what the replica has got again counts. What a replica cuts off because its log parts from its leader's it never had.
//
// Verified, when a replica is taken out of a partition, as a reassignment does at its end: all that stay are in sync (KIP-455). With fewer, the copies that go may be of those that acks=all has counted (DUR).
//
// That acks=all is answered only for what lies below a HW is for Acknowledged.
//
// Not verified: that a write for which too few are in sync is refused at once; leaders that have only heard from the registry that too few are. Beyond the atlas ([Ruins]) a partition that is freed is not judged.
type Quorum struct {
	Findings
	cluster *Cluster
	reached byPartition[copies[reach]]
	short   byPartition[shortage]
}

// reach is how far a log on a broker has got. Everything below it has had.
type reach struct {
	life   int   // incarnation of the process
	now    int64 // in this life
	before int64 // in earlier ones, that is counted still
	open   bool  // in this life: what is cut off now is not what recovery found gone
}

// shortage is what a leader knows of too few in-sync replicas.
type shortage struct {
	begun bool          // all states of this leader epoch are short
	since time.Duration // since when it knows by its own write; none: it does not
}

// heardWithin is how long a leader that got an answer may still act as if it had not.
const heardWithin = 100 * time.Millisecond

// NewQuorum judges the partitions that c follows.
func NewQuorum(c *Cluster) *Quorum {
	o := &Quorum{cluster: c, short: byPartition[shortage]{unmet: shortage{since: none}}}
	o.Free(c.promise.Ruins.Records)
	c.onDecided = append(c.onDecided, o.decided)
	c.onTold = append(c.onTold, o.told)
	c.onTaken = append(c.onTaken, o.taken)
	c.onGone = append(c.onGone, func(p *replicas) {
		o.short.forget(p)
		o.reached.forget(p)
	})
	return o
}

// Invariants lists what it can report.
func (o *Quorum) Invariants() []string { return []string{HighMark, Match, Durable} }

// Needs implements [history.Selective].
func (*Quorum) Needs() history.Steps { return history.Appending }

// Observe takes an event of the run.
func (o *Quorum) Observe(e *history.Event) {
	switch e.Kind {
	case history.MachinePaused, history.MachineResumed:
		for _, p := range o.cluster.order {
			s := o.short.of(p)
			if now := o.cluster.state(p.place); s.since >= 0 && now != nil && o.cluster.machineOf(now.Leader) == e.Machine {
				s.since = e.At
			}
		}
	case history.CoordCalled:
		o.cluster.eachAnswered(e, func(p *replicas, s *PartitionState) {
			if len(s.ISR) < o.needs(p) {
				o.short.of(p).since = e.At
			}
		})
	case history.Traced:
		o.traced(e)
	}
}

// traced follows how far each replica has got.
func (o *Quorum) traced(e *history.Event) {
	t := &e.Trace
	switch t.Kind {
	case machine.LogOpened, machine.LogAppended, machine.LogTruncated:
	default:
		return
	}
	p := o.cluster.bySubject(t.Subject)
	if p == nil {
		return
	}
	all := o.reached.of(p)
	r := all.on(e.Machine)
	if r == nil {
		r = all.add(e.Machine, reach{life: e.Incarnation})
	}
	if r.life != e.Incarnation {
		*r = reach{life: e.Incarnation, before: max(r.before, r.now)}
	}
	switch t.Kind {
	case machine.LogOpened:
		r.now, r.open = max(r.now, t.B), true
	case machine.LogAppended:
		r.now = t.B
	case machine.LogTruncated:
		if r.now = t.B; r.open {
			r.before = min(r.before, t.B)
		}
	}
}

// had is how far a replica on a machine has got.
func (o *Quorum) had(name string, p *replicas) int64 { return o.reached.of(p).on(name).had() }

func (r *reach) had() int64 {
	if r == nil {
		return 0
	}
	return max(r.now, r.before)
}

// needs is how many replicas must have what is committed.
func (o *Quorum) needs(p *replicas) int {
	return min(max(p.topic.MinISR, 1), len(o.cluster.reg.replicas[p.topic.Name][p.partition]))
}

func (o *Quorum) decided(_ *history.Event, p *replicas, was, now *PartitionState) {
	for _, m := range slices.Concat(now.ISR, now.ELR) {
		if r := o.reached.of(p).on(o.cluster.machineOf(m.ID)); r != nil && !o.cluster.former(m) {
			r.before = 0
		}
	}
	s := o.short.of(p)
	few := len(now.ISR) < o.needs(p)
	if was == nil || was.LeaderEpoch != now.LeaderEpoch {
		*s = shortage{begun: few, since: none}
	} else if !few {
		*s = shortage{since: none}
	}
}

func (o *Quorum) told(e *history.Event, p *replicas, leader bool) {
	if !leader {
		return
	}
	s := o.cluster.state(p.place)
	if s == nil || int64(s.LeaderEpoch) != e.Trace.B {
		return
	}
	hw, needs, all := e.Trace.A, o.needs(p), o.reached.of(p)
	for i := range len(s.ISR) + len(s.ELR) {
		name := o.cluster.machineOf(s.member(i).ID)
		if had := all.on(name).had(); name != "" && had < hw {
			o.Violate(e.At, Match, "%s leads %s and told that what lies below %d is committed, but %s, which is %s, has had no more than what lies below %d",
				e.Machine, p.place, hw, name, rank(i, s), had)
			return
		}
	}
	copies := 0
	all.each(func(_ string, r *reach) {
		if r.had() >= hw {
			copies++
		}
	})
	short := o.short.of(p)
	switch {
	case copies < needs && hw > 0:
		o.Violate(e.At, HighMark, "%s leads %s and told that what lies below %d is committed, but only %d replicas have had it; acks=all needs %d", e.Machine, p.place, hw, copies, needs)
	case short.begun:
		o.Violate(e.At, HighMark, "%s leads %s and told that what lies below %d is committed, but in its leader epoch %d there were never more than %d replicas in sync; acks=all needs %d",
			e.Machine, p.place, hw, s.LeaderEpoch, len(s.ISR), needs)
	case short.since >= 0 && e.At > short.since+heardWithin:
		o.Violate(e.At, HighMark, "%s leads %s and told that what lies below %d is committed, but since %v it knows that only %d replicas are in sync; acks=all needs %d",
			e.Machine, p.place, hw, short.since, len(s.ISR), needs)
	}
}

func (o *Quorum) taken(e *history.Event, p *replicas, gone string) {
	s := o.cluster.state(p.place)
	if s == nil || o.cluster.freed(p) {
		return
	}
	for _, stays := range o.cluster.reg.replicas[p.place.topic][p.partition] {
		if !slices.ContainsFunc(s.ISR, func(m InSync) bool { return strconv.Itoa(int(m.ID)) == stays }) {
			o.Violate(e.At, Durable, "broker %s is no replica of %s any more, though broker %s, which stays, is not in sync", gone, p.place, stays)
		}
	}
}

// Finish has nothing to judge: high watermarks are judged when they are told, replicas when they go.
func (o *Quorum) Finish(End) {}
