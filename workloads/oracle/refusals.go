package oracle

import (
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"faultline/faults"
	"faultline/sim/machine"
	"faultline/workloads/history"
)

// Refusals judges that brokers do not blame their disks for nothing: LIVE.
//
// Verified: a broker answers produce, fetch or list-offsets requests with a storage error only when its disk can have failed it. That is: a fault that makes
// disk operations fail, or leaves no space, or a misfortune of the programs, is active or ended at most refusedWithin before the request began; or one of the machine's logs was fenced not
// longer ago; or its disk was ever ruined, or is too small (Promise.Small). Reads and writes that move fewer bytes than asked, slow disks, crashes and losses of power explain nothing: a log that is whole can be read.
//
// Not verified: other errors, which say that the broker is not the right one or not ready; what clients do about it.
type Refusals struct {
	Findings
	promise *Promise
	faults  map[int]bool             // that may make disks fail, active
	until   time.Duration            // when the last of them ended; none
	fenced  map[string]time.Duration // machine -> when a log was fenced there last
	told    map[string]bool          // machine and partition
}

// refusedWithin is how long after its cause a broker may refuse requests: it gives up what it has under way, and ends.
const refusedWithin = 3 * time.Second

// NewRefusals makes the oracle.
func NewRefusals(p *Promise) *Refusals {
	r := &Refusals{promise: p, faults: map[int]bool{}, until: none, fenced: map[string]time.Duration{}, told: map[string]bool{}}
	r.Free(p.Ruins.Registry)
	return r
}

// Invariants implements [Oracle].
func (r *Refusals) Invariants() []string { return []string{Live} }

// Needs implements [history.Selective].
func (*Refusals) Needs() history.Steps { return history.Requesting }

// Observe implements [Oracle].
func (r *Refusals) Observe(e *history.Event) {
	switch e.Kind {
	case history.Traced:
		if e.Trace.Kind == machine.LogFailed {
			r.fenced[e.Machine] = e.At
		}
	case history.FaultInjected:
		switch e.Fault.Kind {
		case faults.DiskErrors, faults.FullDisk, faults.Misfortune:
			r.faults[e.Number] = true
		}
	case history.FaultHealed:
		if r.faults[e.Number] {
			delete(r.faults, e.Number)
			r.until = e.At
		}
	case history.PhaseBegan:
		if e.Phase == history.Heal && len(r.faults) > 0 {
			clear(r.faults)
			r.until = e.At
		}
	case history.KafkaCalled:
		r.called(e)
	}
}

func (r *Refusals) called(e *history.Event) {
	switch resp := e.Kafka.Resp.(type) {
	case *kmsg.ProduceResponse:
		for i := range resp.Topics {
			for j := range resp.Topics[i].Partitions {
				r.answered(e, "produce", resp.Topics[i].Topic, resp.Topics[i].Partitions[j].Partition, resp.Topics[i].Partitions[j].ErrorCode)
			}
		}
	case *kmsg.FetchResponse:
		for i := range resp.Topics {
			for j := range resp.Topics[i].Partitions {
				r.answered(e, "fetch", resp.Topics[i].Topic, resp.Topics[i].Partitions[j].Partition, resp.Topics[i].Partitions[j].ErrorCode)
			}
		}
	case *kmsg.ListOffsetsResponse:
		for i := range resp.Topics {
			for j := range resp.Topics[i].Partitions {
				r.answered(e, "list-offsets", resp.Topics[i].Topic, resp.Topics[i].Partitions[j].Partition, resp.Topics[i].Partitions[j].ErrorCode)
			}
		}
	}
}

func (r *Refusals) answered(e *history.Event, what, topic string, partition int32, code int16) {
	if code != kerr.KafkaStorageError.Code {
		return
	}
	broker, _, _ := strings.Cut(e.Kafka.Broker, ":")
	at := place{topic, partition}
	if key := broker + " " + at.String(); !r.told[key] && !r.explained(broker, e.Kafka.Start) {
		r.told[key] = true
		r.Violate(e.At, Live, "%s refused a %s request for %s with a storage error, though its disk did not fail", broker, what, at)
	}
}

// explained tells whether the machine's disk may have failed a request that began at start.
func (r *Refusals) explained(machine string, start time.Duration) bool {
	if r.promise.Small || len(r.faults) > 0 || r.until >= 0 && start <= r.until+refusedWithin {
		return true
	}
	if at, ok := r.fenced[machine]; ok && start <= at+refusedWithin {
		return true
	}
	return r.promise.Ruins.Hurt(machine)
}

// Finish implements [Oracle].
func (r *Refusals) Finish(End) {}
