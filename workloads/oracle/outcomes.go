package oracle

import (
	"slices"
	"strings"
	"time"

	"faultline/faults"
	"faultline/workloads/history"
)

// Outcomes judges what producers tell of the records that they were given: when (LIVE), and to which partitions they went (ORDER).
//
// Verified:
//   - a record has its outcome, whatever it is, within its producer's delivery time-out (KIP-91), lateAnswers times its request time-out and outcomeSlack; be its partition without a leader, its broker silent, or nobody there at all. The time begins
//     with the next record that its application sends, for until then Send may not have returned; and anew when a fault that holds up the producer's own process is over;
//   - records with equal keys go to the same partition, whoever sends them, as long as their topic has as many partitions: of producers that choose by the key.
//
// Not verified: the last record of each process, which may still be in Send; partitions of records whose outcome tells none; keys in topics that ever grew, for producers hear of that at different times.
//
// Beyond the atlas ([Ruins]): keys are not judged where a wire changes bytes, or the registry is ruined. When there is an outcome always is.
type Outcomes struct {
	Findings
	promise *Promise
	reg     *registry
	counts  map[string]int // partitions of each topic
	grown   map[string]bool
	sources []*giver
	keys    map[keyed]int32
	holding map[int]*history.Fault   // active faults that hold up processes; those that name no machine, all of them
	freed   map[string]time.Duration // when the last of them ended, by machine; "": of all machines
}

// giver is one life of a producer, and what it was given that has no outcome.
type giver struct {
	producer    Producer
	machine     string
	incarnation int
	dead        bool
	pending     queue[given]
}

type given struct {
	at    time.Duration
	topic string
	key   uint64
	over  bool
}

// keyed is a key in a topic.
type keyed struct {
	topic string
	key   uint64
}

const (
	// lateAnswers covers what the producer may wait for when the time-out ends: the metadata, the connection it is asked for by (two answers), that to the leader (two more), and the answer to the request itself.
	lateAnswers = 6
	// outcomeSlack covers the pauses before each of them.
	outcomeSlack = 2 * time.Second
)

// NewOutcomes judges the producers that the promise lists.
func NewOutcomes(p *Promise) *Outcomes {
	return &Outcomes{
		promise: p, reg: newRegistry(), counts: map[string]int{}, grown: map[string]bool{}, keys: map[keyed]int32{},
		holding: map[int]*history.Fault{}, freed: map[string]time.Duration{},
	}
}

// Invariants implements [Oracle].
func (o *Outcomes) Invariants() []string { return []string{Live, Order} }

// Needs implements [history.Selective].
func (*Outcomes) Needs() history.Steps { return history.Sending | history.Acking }

// Observe implements [Oracle].
func (o *Outcomes) Observe(e *history.Event) {
	switch e.Kind {
	case history.Sent:
		o.sent(e)
	case history.Acked, history.Failed, history.Unknown:
		o.told(e)
	case history.MachineCrashed, history.MachineExited:
		for _, s := range o.sources {
			if s != nil && s.machine == e.Machine && s.incarnation == e.Incarnation {
				s.dead = true
			}
		}
	case history.FaultInjected:
		if holdsUp(e) {
			o.holding[e.Number] = e.Fault
		}
	case history.FaultHealed:
		if f := o.holding[e.Number]; f != nil {
			delete(o.holding, e.Number)
			for _, m := range f.Hit {
				o.freed[m] = e.At
			}
			if len(f.Hit) == 0 {
				o.freed[""] = e.At
			}
		}
	case history.Traced:
		if what, _ := o.reg.observe(e); what == topicChange {
			for t, parts := range o.reg.replicas { // order: no matter
				if was := o.counts[t]; was > 0 && was != len(parts) {
					o.grown[BaseTopic(t)] = true
				}
				o.counts[t] = len(parts)
			}
		}
	}
}

// holdsUp tells a fault that keeps processes from doing in time what they would.
func holdsUp(e *history.Event) bool {
	switch e.Fault.Kind {
	case faults.Pause, faults.Freeze, faults.SlowCPU, faults.ClockDrift:
		return true
	case faults.Misfortune:
		return strings.Contains(e.Text, "fault/producer/") || strings.Contains(e.Text, "fault/client/")
	}
	return false
}

// hindered tells whether a fault holds up the processes of a machine, or when the last one that did was over.
func (o *Outcomes) hindered(machine string) (now bool, since time.Duration) {
	for _, f := range o.holding { // order: no matter
		if len(f.Hit) == 0 || slices.Contains(f.Hit, machine) {
			return true, 0
		}
	}
	return false, max(o.freed[machine], o.freed[""])
}

func (o *Outcomes) sent(e *history.Event) {
	n := e.ID.Source()
	for n >= len(o.sources) {
		o.sources = append(o.sources, nil)
	}
	s := o.sources[n]
	if s == nil {
		s = &giver{producer: o.promise.producer(e.Producer), machine: e.Machine, incarnation: e.Incarnation}
		o.sources[n] = s
	}
	if s.pending.end() == e.ID.Seq() { // else the history is broken, which Delivery tells
		*s.pending.push() = given{at: e.At, topic: e.Topic, key: e.Key}
	}
}

// told judges an outcome.
func (o *Outcomes) told(e *history.Event) {
	n := e.ID.Source()
	if n >= len(o.sources) || o.sources[n] == nil {
		return
	}
	s := o.sources[n]
	r := s.pending.at(e.ID.Seq())
	if r == nil || r.over {
		return
	}
	o.late(e.At, s, e.ID.Seq(), e.Kind.String()+" "+e.Text)
	o.place(e, s, r)
	r.over = true
	for r := s.pending.at(s.pending.base); r != nil && r.over; r = s.pending.at(s.pending.base) {
		s.pending.dropBelow(s.pending.base + 1)
	}
}

// late judges how long a record has had no outcome.
func (o *Outcomes) late(now time.Duration, s *giver, seq int64, what string) {
	p := &s.producer
	next := s.pending.at(seq + 1)
	hindered, since := o.hindered(s.machine)
	if next == nil || hindered || p.DeliveryTimeout <= 0 {
		return
	}
	since = max(since, next.at)
	if within := p.DeliveryTimeout + lateAnswers*p.RequestTimeout + outcomeSlack; now > since+within {
		o.Violate(now, Live, "record %d of %s on %s, sent to %s at %v, is %s at %v, %v after its producer had it and nothing holds that up; its delivery time-out is %v, its request time-out %v",
			seq, p.Name, s.machine, s.pending.at(seq).topic, s.pending.at(seq).at, what, now, now-since, p.DeliveryTimeout, p.RequestTimeout)
	}
}

// mostKeys bounds the memory.
const mostKeys = 100_000

// place judges where a record went by its key.
func (o *Outcomes) place(e *history.Event, s *giver, r *given) {
	topic := r.topic
	if !s.producer.Keyed || r.key == 0 || e.Partition < 0 || e.Topic != "" && e.Topic != topic || o.grown[BaseTopic(topic)] || o.promise.Ruins.Records() {
		return
	}
	k := keyed{topic, r.key}
	before, known := o.keys[k]
	switch {
	case !known && len(o.keys) < mostKeys:
		o.keys[k] = e.Partition
	case known && before != e.Partition:
		o.Violate(e.At, Order, "record %v of %s goes to %s/%d, but one with the same key, %x, went to partition %d, and the topic always had %d", e.ID, s.producer.Name, topic, e.Partition, r.key, before, o.counts[topic])
	}
}

// Finish implements [Oracle].
func (o *Outcomes) Finish(end End) {
	if end.Cut {
		return
	}
	for _, s := range o.sources {
		if s == nil || s.dead {
			continue
		}
		for seq := s.pending.base; seq < s.pending.end(); seq++ {
			if !s.pending.at(seq).over {
				o.late(end.At, s, seq, "without an outcome")
			}
		}
	}
}
