package oracle

import (
	"slices"
	"time"

	"faultline/sim/machine"
	"faultline/workloads/history"
)

// Solitude judges that a leader that is alone in sync commits what it has, where one in-sync replica is enough (LIVE, KAFKA-13091): nobody is left to wait for.
//
// Verified: when a leader is answered that it is the only in-sync replica now, the high watermark that it tells reaches what was its log end then within the lag that replicas are allowed
// (Promise.ReplicaLag), unless within that time the state changes, the leader asks for another one, its log ends elsewhere, or its process stops or stands still.
//
// Not verified: leaders that have company, whose next fetch moves the high watermark; leaders that hear of it from the registry. Beyond the atlas ([Ruins]) a partition that is freed is not judged.
type Solitude struct {
	Findings
	cluster *Cluster
	logs    byPartition[copies[lone]]
	waits   []wait
}

// lone is what a broker told of a log.
type lone struct {
	end, hw int64
	epoch   int64 // in which it leads; none
}

// wait is a high watermark that is due.
type wait struct {
	hosted
	partition *replicas
	upTo      int64
	from      time.Duration
}

// of tells whether it is of the log that an event is of.
func (w *wait) of(e *history.Event, p *replicas) bool {
	return w.partition == p && w.machine == e.Machine
}

// NewSolitude judges the partitions that c follows.
func NewSolitude(c *Cluster) *Solitude {
	o := &Solitude{cluster: c}
	o.Free(c.promise.Ruins.Records)
	c.onDecided = append(c.onDecided, func(_ *history.Event, p *replicas, was, now *PartitionState) {
		if was == nil || was.LeaderEpoch != now.LeaderEpoch || !sameMembers(was, now) {
			o.drop(func(w *wait) bool { return w.place == p.place })
		}
	})
	c.onGone = append(c.onGone, func(p *replicas) {
		o.logs.forget(p)
		o.drop(func(w *wait) bool { return w.place == p.place })
	})
	return o
}

// Invariants lists what it can report.
func (o *Solitude) Invariants() []string { return []string{Live} }

func (o *Solitude) drop(which func(w *wait) bool) {
	o.waits = slices.DeleteFunc(o.waits, func(w wait) bool { return which(&w) })
}

// Needs implements [history.Selective].
func (*Solitude) Needs() history.Steps { return history.Appending | history.Committing }

// Observe takes an event of the run.
func (o *Solitude) Observe(e *history.Event) {
	if lag := o.cluster.promise.ReplicaLag; len(o.waits) > 0 {
		o.drop(func(w *wait) bool {
			over := e.At > w.from+lag
			if over && !o.cluster.promise.Ruins.of(w.place) {
				o.Violate(w.from+lag, Live, "%s is alone in sync with %s since %v and has records up to %d, but its high watermark is still %d", w.machine, w.place, w.from, w.upTo-1, o.logs.of(w.partition).on(w.machine).hw)
			}
			return over
		})
	}
	switch e.Kind {
	case history.MachineCrashed, history.MachineExited, history.MachineStarted, history.MachinePaused:
		o.drop(func(w *wait) bool { return w.machine == e.Machine })
	case history.CoordCalled:
		o.answered(e)
	case history.Traced:
		o.traced(e)
	}
}

func (o *Solitude) traced(e *history.Event) {
	t := &e.Trace
	switch t.Kind {
	case machine.LogOpened, machine.LogAppended, machine.LogTruncated, machine.LogFailed, machine.HighWatermark, machine.LeaderBegan, machine.StateProposed:
	default:
		return
	}
	p := o.cluster.bySubject(t.Subject)
	if p == nil {
		return
	}
	all := o.logs.of(p)
	l := all.on(e.Machine)
	if l == nil {
		l = all.add(e.Machine, lone{epoch: none})
	}
	switch t.Kind {
	case machine.LogAppended:
		l.end = t.B
		return
	case machine.LogOpened:
		l.end, l.epoch = t.B, none
	case machine.LogTruncated:
		l.end = t.B
	case machine.HighWatermark:
		l.hw = t.A
		o.drop(func(w *wait) bool { return w.of(e, p) && w.upTo <= l.hw })
		return
	case machine.LeaderBegan:
		l.hw, l.epoch = t.C, t.A
	}
	o.drop(func(w *wait) bool { return w.of(e, p) })
}

// answered notes who is alone by the state that the registry took.
func (o *Solitude) answered(e *history.Event) {
	o.cluster.eachAnswered(e, func(p *replicas, s *PartitionState) {
		l := o.logs.of(p).on(e.Machine)
		if o.cluster.promise.ReplicaLag <= 0 || p.topic.MinISR > 1 || len(s.ISR) != 1 || s.ISR[0].ID != s.Leader || l == nil || l.epoch != int64(s.LeaderEpoch) || l.end <= l.hw {
			return
		}
		o.waits = append(o.waits, wait{hosted{e.Machine, p.place}, p, l.end, e.At})
	})
}

// Finish has nothing to judge: what is due is judged when it is.
func (o *Solitude) Finish(End) {}
