package oracle

import (
	"faultline/workloads/history"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Uncommitted judges what consumers get to see of topics with several replicas (DIRTY).
//
// Verified, of every answer to a fetch: neither its high watermark nor its records reach beyond the highest high watermark that any leader had told by the time at which it arrived, and its records not
// beyond its own. (A deposed leader, and a new one that has not heard of everybody yet, may show less.)
//
// Not verified: that what is handed over is not replaced by other records (the linearizability of appends, Agreement); topics with one replica (Unflushed). Beyond the
// atlas ([Ruins]) a partition that is freed is not judged.
type Uncommitted struct {
	Findings
	cluster *Cluster
}

// NewUncommitted judges the partitions that c follows.
func NewUncommitted(c *Cluster) *Uncommitted {
	o := &Uncommitted{cluster: c}
	o.Free(c.promise.Ruins.Records)
	return o
}

// Invariants lists what it can report.
func (o *Uncommitted) Invariants() []string { return []string{Dirty} }

// Needs implements [history.Selective].
func (*Uncommitted) Needs() history.Steps { return history.Requesting }

// Observe takes an event of the run.
func (o *Uncommitted) Observe(e *history.Event) {
	if e.Kind != history.KafkaCalled || len(o.cluster.order) == 0 {
		return
	}
	resp, ok := e.Kafka.Resp.(*kmsg.FetchResponse)
	if !ok {
		return
	}
	for i := range resp.Topics {
		t := &resp.Topics[i]
		for j := range t.Partitions {
			f := &t.Partitions[j]
			p := o.cluster.parts[place{t.Topic, f.Partition}]
			if p == nil || f.ErrorCode != 0 || o.cluster.freed(p) {
				continue
			}
			end := int64(0)
			eachHeader(f.RecordBatches, func(b logBatch) { end = b.next() })
			switch {
			case f.HighWatermark > p.told:
				o.Violate(e.At, Dirty, "%s was told by %s that %s is committed up to %d, but no leader told more than %d so far", e.Machine, e.Kafka.Broker, p.place, f.HighWatermark, p.told)
			case end > f.HighWatermark || end > p.told:
				o.Violate(e.At, Dirty, "%s got records of %s up to %d from %s, with the high watermark %d; no leader told more than %d", e.Machine, p.place, end-1, e.Kafka.Broker, f.HighWatermark, p.told)
			}
		}
	}
}

// Finish has nothing to judge: answers are judged when they arrive.
func (o *Uncommitted) Finish(End) {}
