package linear

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"faultline/sim/machine"
	"faultline/workloads/history"
	"faultline/workloads/oracle"

	"github.com/cespare/xxhash/v2"
)

// Oracle gathers the operations of a run and judges each partition, znode and committed offset at its end.
//
// It needs every request and every operation on the coordination service of all clients, in world time, and what the services
// trace. What it could not verify is told by [Oracle.Verdicts].
//
// Of a topic with several replicas, appends are judged and that all readers find the same batches, not how fresh a read is: a leader that was deposed may answer with what was so before, until it
// knows. After an unclean election nothing more of the log is verified.
//
// Beyond the atlas (oracle.Ruins): a log is verified up to the moment at which its broker's disk, or any wire, is ruined, or, of several replicas, at which it is freed or the registry is ruined; znodes and committed offsets, unless the
// registry is.
type Oracle struct {
	oracle.Findings
	promise *oracle.Promise
	budget  Budget

	services map[string]bool // machines of brokers and of the coordination service
	senders  map[string]bool // machines with producers
	// senderGone: one of them crashed.
	senderGone bool
	deaf       bool // a misfortune has producers take answers for lost
	logs       map[string]*partition
	byKey      map[placeKey]*partition
	places     []string                           // keys of logs, in the order of their appearance
	retired    []*Log                             // of deleted topics
	states     map[string][]oracle.PartitionState // of replicated topics

	tree

	verdicts []Verdict
}

// partition is a log and the broker that has it.
type partition struct {
	*Log
	broker string
	wiped  bool
}

// New judges by the promise's roles and modes.
func New(p *oracle.Promise) *Oracle {
	o := &Oracle{promise: p, services: map[string]bool{}, senders: map[string]bool{}, logs: map[string]*partition{}, byKey: map[placeKey]*partition{}, states: map[string][]oracle.PartitionState{}}
	for _, list := range [][]string{p.Brokers, p.Coord} {
		for _, m := range list {
			o.services[m] = true
		}
	}
	o.budget.fill()
	o.tree.init(&o.budget)
	return o
}

// Invariants lists what it can report.
func (o *Oracle) Invariants() []string { return []string{Linear, Durable, oracle.CMono} }

// Needs implements [history.Selective].
func (*Oracle) Needs() history.Steps { return history.Sending | history.Requesting }

// Observe takes an event of the run.
func (o *Oracle) Observe(e *history.Event) {
	switch e.Kind {
	case history.Sent:
		o.senders[e.Machine] = true
	case history.KafkaCalled:
		o.kafka(e)
	case history.CoordCalled:
		o.tree.called(e.Machine, e.Coord, int64(e.At))
	case history.Traced:
		switch e.Trace.Kind {
		case machine.LogAppended, machine.LogVisible, machine.HighWatermark:
			return
		}
		if slices.Contains(o.promise.Coord, e.Machine) {
			o.tree.traced(e)
			o.stateTraced(e)
			return
		}
		o.brokerTraced(e)
	case history.FaultInjected:
		if strings.Contains(e.Text, "fault/producer/answer") {
			o.deaf = true
			for _, p := range o.logs {
				p.Deaf()
			}
		}
	case history.MachineCrashed, history.MachineExited, history.MachineWiped:
		o.stopped(e)
	case history.MachineRuined:
		for _, p := range o.logs {
			if o.promise.Ruins.Records() || o.promise.Ruins.Disk(e.Machine) && p.broker == e.Machine && !p.several {
				p.ruin(e.At)
			}
		}
	case history.PartitionRuined:
		if p := o.partition(e.Topic + "/" + strconv.Itoa(int(e.Partition))); p.several {
			p.ruin(e.At)
		}
	}
}

// ruin lets nothing be verified that comes from now on.
func (p *partition) ruin(at time.Duration) {
	if !p.wiped {
		p.wiped = true
		p.Ruined(at)
	}
}

// stopped takes note of a process that is gone, or a disk.
func (o *Oracle) stopped(e *history.Event) {
	switch {
	case slices.Contains(o.promise.Coord, e.Machine):
		o.tree.serverStopped(int64(e.At), e.Kind == history.MachineWiped)
		if o.promise.Ruins.Registry() { // who leads, and since when, is known no more
			for _, p := range o.logs {
				if p.several {
					p.ruin(e.At)
				}
			}
		}
		return
	case !o.services[e.Machine]:
		o.tree.crashes = append(o.tree.crashes, int64(e.At))
	}
	o.senderGone = o.senderGone || o.senders[e.Machine]
	for _, p := range o.logs {
		switch {
		case o.senders[e.Machine]:
			p.Crashed()
		case p.broker != "" && p.broker != e.Machine || !slices.Contains(o.promise.Brokers, e.Machine):
		case e.Kind == history.MachineWiped && !p.several:
			p.ruin(e.At)
		case e.Power:
			p.MayLose(e.At)
		}
	}
}

func (o *Oracle) brokerTraced(e *history.Event) {
	t := &e.Trace
	switch t.Kind {
	case machine.LogOpened:
		p := o.partition(t.Subject)
		if p.broker = e.Machine; o.promise.Ruins.Disk(e.Machine) && !p.several {
			p.ruin(e.At)
		}
	case machine.LogTruncated:
		o.partition(t.Subject).begun.Note(t)
	case machine.LogFailed:
		o.partition(t.Subject).MayLose(e.At)
	case machine.TopicRemoved:
		for _, place := range o.places {
			p := o.logs[place]
			if p.broker == e.Machine && topicOf(place) == t.Subject && !p.wiped && !p.several {
				o.retire(p, e.At)
			}
		}
	}
}

// retire begins a new log of the same name, if the next topic of the name goes by it. Else what is under way may still come to the old one.
func (o *Oracle) retire(p *partition, at time.Duration) {
	if o.promise.Incarnations != nil {
		return
	}
	old := p.Log
	o.retired = append(o.retired, old)
	p.Log = NewLog(old.name, &o.budget)
	p.notBefore, p.crashed, p.deaf, p.several = int64(at), old.crashed, old.deaf, old.several
}

// stateTraced follows who leads the partitions of replicated topics, and their end.
func (o *Oracle) stateTraced(e *history.Event) {
	t := &e.Trace
	topic, ok := oracle.ParseStatePath(t.Subject)
	topic = o.promise.Incarnations.Last(topic)
	if !ok || !o.promise.Replicated(topic) {
		return
	}
	if t.Kind == machine.ZnodeDeleted {
		delete(o.states, topic)
		for _, place := range o.places {
			if p := o.logs[place]; topicOf(place) == topic && !p.wiped {
				o.retire(p, e.At)
			}
		}
		return
	}
	now := oracle.ParseStates(t.Detail)
	for i, was := range o.states[topic] {
		if i >= len(now) || now[i].LeaderEpoch <= was.LeaderEpoch {
			continue
		}
		p := o.partition(topic + "/" + strconv.Itoa(i))
		p.Moved()
		if was.Unclean(&now[i]) {
			p.ruin(e.At)
		}
	}
	o.states[topic] = now
}

// topicOf is the topic of "topic/partition".
func topicOf(place string) string { return place[:strings.LastIndexByte(place, '/')] }

func (o *Oracle) partition(place string) *partition {
	p := o.logs[place]
	if p == nil {
		p = &partition{Log: NewLog(place, &o.budget)}
		p.several = o.promise.Replicated(topicOf(place))
		p.crashed, p.deaf = o.senderGone, o.deaf
		n, _ := strconv.ParseInt(place[strings.LastIndexByte(place, '/')+1:], 10, 32)
		if o.promise.Ruins.Records() || p.several && o.promise.Ruins.Partition(oracle.BaseTopic(topicOf(place)), int32(n)) {
			p.ruin(0)
		}
		o.logs[place] = p
		o.places = append(o.places, place)
	}
	return p
}

// Finish judges everything.
func (o *Oracle) Finish(end oracle.End) {
	o.tree.crashes = append(o.tree.crashes, int64(end.At)) // what is under way is never reported
	for _, l := range o.retired {
		o.conclude(l.Check())
	}
	for _, place := range o.places {
		p := o.logs[place]
		if end.Cut || end.Trouble != "" {
			p.Crashed()
		}
		v := p.Check()
		if p.wiped {
			v.Unverified = strings.TrimPrefix(v.Unverified+"; what came after its broker's disk, or the wire, was ruined", "; ")
		}
		o.conclude(v)
	}
	if o.promise.Ruins.Registry() {
		return // what the service lost or was asked by mistake explains everything
	}
	for _, n := range o.tree.order {
		o.conclude(o.tree.conclude(n))
	}
}

func (o *Oracle) conclude(v Verdict) {
	o.verdicts = append(o.verdicts, v)
	if v.Outcome == Violated {
		text := v.Message
		if !strings.HasPrefix(text, v.Object) {
			text = v.Object + ": " + text
		}
		o.Violate(v.At, v.Invariant, "%s", text)
	}
}

// Verdicts are the verdicts of all objects: partitions in the order of their first use, then paths. Empty before Finish.
func (o *Oracle) Verdicts() []Verdict { return o.verdicts }

// Inconclusive says for which objects, and why, the search had to be given up. A run with such objects has not passed.
func (o *Oracle) Inconclusive() []string {
	var out []string
	for _, v := range o.verdicts {
		if v.Outcome == Inconclusive {
			out = append(out, fmt.Sprintf("linearizability of %s: %s", v.Object, v.Message))
		}
	}
	return out
}

func hashOf(b []byte) uint64 { return xxhash.Sum64(b) }
