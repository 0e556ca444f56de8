package oracle

import (
	"time"

	"faultline/workloads/history"
)

// Steadiness judges that in-sync replicas do not come and go without a reason (BUDGET).
//
// Verified: once nothing has disturbed for twice the lag that is allowed (Promise.ReplicaLag), a session time-out and a second, be there records or not, no replica leaves the in-sync
// replicas, unless its broker's registration went within that time.
//
// Not verified: how fast they come back (Liveness). Beyond the atlas ([Ruins]) a partition that is freed is not judged.
type Steadiness struct {
	Findings
	recordless
	cluster *Cluster
	calm    *calm
	changed time.Duration // when a broker last came or went
}

// NewSteadiness judges the partitions that c follows.
func NewSteadiness(c *Cluster) *Steadiness {
	o := &Steadiness{cluster: c, calm: newCalm(c.promise)}
	o.Free(c.promise.Ruins.Records)
	c.onDecided = append(c.onDecided, o.decided)
	return o
}

// Invariants lists what it can report.
func (o *Steadiness) Invariants() []string { return []string{Budget} }

// Observe takes an event of the run.
func (o *Steadiness) Observe(e *history.Event) {
	o.calm.observe(e)
	if e.Kind == history.Traced {
		if _, ok := parseName(e.Trace.Subject, brokersRoot); ok {
			o.changed = e.At
		}
	}
}

func (o *Steadiness) decided(e *history.Event, p *replicas, was, now *PartitionState) {
	lag := o.cluster.promise.ReplicaLag
	since := max(o.calm.since, o.changed) + 2*lag + o.cluster.promise.SessionTimeout + o.cluster.promise.SessionSlack
	if was == nil || lag <= 0 || o.cluster.freed(p) || !o.calm.now() || e.At <= since {
		return
	}
	for _, m := range was.ISR {
		if findMember(now.ISR, m.ID) < 0 && now.LeaderEpoch == was.LeaderEpoch {
			o.Violate(e.At, Budget, "broker %d leaves the in-sync replicas of %s, though nothing disturbs since %v; the lag that is allowed is %v", m.ID, p.place, o.calm.since, lag)
		}
	}
}

// Finish has nothing to judge: changes are judged when they are made.
func (o *Steadiness) Finish(End) {}
