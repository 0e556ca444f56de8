package oracle

import (
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"faultline/sim/machine"
	"faultline/workloads/history"
)

// BudgetCaps judges what a run may cost: BUDGET. Caps that the promise does not set are not judged.
//
// Verified:
//   - the rebalance attempts of a group's members together stay within Promise.RebalancesPerChange for each change of its members, of
//     brokers or of topics (and for each disturbance: a pause or a lost connection starts a rebalance without any change). In a group that a broker coordinates it is the rebalances
//     that its coordinator begins, for each process that comes or goes, each other coordinator, each change of a topic and each fault;
//   - such a group does not rebalance when there was none of these for Promise.OwnedWithin: a member whose process lives is not counted out, and none joins without need;
//   - no machine sends more than Promise.RequestsPerSecond requests to brokers within any second, by the tap;
//   - of the produce requests with acks=1, 99 of 100 take no longer than Promise.Produce from the request to the answer, by the tap.
//
// Beyond the atlas ([Ruins]): what is asked of a broker whose disk a fault has hit, or asked by such a broker, does not count from then on: whoever meets bytes that cannot be asks again. The rebalances of a group that a broker
// coordinates are not judged once its partition of the offsets topic is freed. Nothing is when a wire or the registry is ruined.
//
// Not verified: the latency of records (Delivery judges Promise.Late), requests that a crash interrupted.
type BudgetCaps struct {
	Findings
	promise *Promise
	reg     *registry
	calm    *calm
	coords  coordinators
	groups  map[string]*rebalances
	sent    map[string]*queue[time.Duration] // machine -> when its requests of the last second began
	toldTo  map[string]time.Duration         // machine -> no further report before
	shocks  int                              // disturbances so far
	blows   int                              // of them, faults that began

	produced, slow int           // produce requests with acks=1; those that took longer than they may
	slowest        time.Duration // of them
	slowestAt      string        // its machine
}

// rebalances counts one group's attempts.
type rebalances struct {
	attempts, changes int
	told              int               // attempts at the last report
	changed           time.Duration     // last change
	actors            map[actorKey]bool // processes of a coordinator group that joined, and did not leave
}

// NewBudget makes the oracle.
func NewBudget(p *Promise) *BudgetCaps {
	b := &BudgetCaps{promise: p, reg: newRegistry(), calm: newCalm(p), groups: map[string]*rebalances{},
		sent: map[string]*queue[time.Duration]{}, toldTo: map[string]time.Duration{}}
	b.Free(p.Ruins.Records)
	return b
}

// Invariants implements [Oracle].
func (b *BudgetCaps) Invariants() []string { return []string{Budget} }

// Needs implements [history.Selective].
func (*BudgetCaps) Needs() history.Steps { return history.Requesting }

// Observe implements [Oracle].
func (b *BudgetCaps) Observe(e *history.Event) {
	switch e.Kind {
	case history.Traced:
		switch t := &e.Trace; t.Kind {
		case machine.ConsumerRebalance, machine.ConsumerLeft:
			if g := b.promise.group(t.Subject); g != nil && g.Coordinated {
				b.cameOrWent(e, b.group(t.Subject))
			} else if t.Kind == machine.ConsumerRebalance {
				b.rebalance(e)
			}
			return
		case machine.GroupsLoaded: // another coordinator
			at, _ := parsePlace(t.Subject)
			b.coords.observe(e)
			for i := range b.promise.Groups {
				if g := &b.promise.Groups[i]; g.Coordinated && b.coords.of(at.partition, g.Name) {
					b.group(g.Name).change(e.At)
				}
			}
			return
		case machine.GroupChanged:
			if b.coords.observe(e) && t.Detail == "PreparingRebalance" {
				b.rebalance(e)
			}
			return
		}
		switch what, at := b.reg.observe(e); what {
		case memberChange:
			b.group(at.group).change(e.At)
		case brokerChange, topicChange:
			for i := range b.promise.Groups {
				if g := &b.promise.Groups[i]; !g.Coordinated || what == topicChange && g.reads(at.topic) {
					b.group(g.Name).change(e.At)
				}
			}
		}
	case history.KafkaCalled:
		if b.excused(e) {
			return
		}
		if b.promise.RequestsPerSecond > 0 && e.Kafka.Sent {
			b.request(e)
		}
		if b.promise.Produce > 0 && e.Kafka.Sent {
			b.produce(e)
		}
	default:
		if b.calm.observe(e) {
			b.shocks++
		}
		switch e.Kind {
		case history.FaultInjected:
			b.blows++
		case history.MachineCrashed, history.MachineExited:
			for _, g := range b.groups { // order: no matter
				if key := (actorKey{e.Machine, e.Incarnation}); g.actors[key] {
					delete(g.actors, key)
					g.change(e.At)
				}
			}
		}
	}
}

// cameOrWent notes the first join of a process, and its leaving.
func (b *BudgetCaps) cameOrWent(e *history.Event, g *rebalances) {
	key := actorKey{e.Machine, e.Incarnation}
	if joins := e.Trace.Kind == machine.ConsumerRebalance; joins != g.actors[key] {
		g.actors[key] = joins
		g.change(e.At)
	}
}

func (g *rebalances) change(at time.Duration) {
	g.changes++
	g.changed = at
}

func (b *BudgetCaps) group(name string) *rebalances {
	g := b.groups[name]
	if g == nil {
		g = &rebalances{actors: map[actorKey]bool{}}
		b.groups[name] = g
	}
	return g
}

func (b *BudgetCaps) rebalance(e *history.Event) {
	g := b.group(e.Trace.Subject)
	g.attempts++
	limit := b.promise.RebalancesPerChange
	of := b.promise.group(e.Trace.Subject)
	coordinated := of != nil && of.Coordinated
	if limit <= 0 || coordinated && b.coords.freed(b.promise, of.Name) {
		return
	}
	shocks := b.shocks
	if coordinated {
		shocks = b.blows
		if quiet := max(b.calm.since, g.changed); b.promise.OwnedWithin > 0 && b.calm.now() && e.At > quiet+b.promise.OwnedWithin && g.told == 0 {
			g.told = g.attempts
			b.Violate(e.At, Budget, "group %s rebalances, though nothing disturbs since %v and nobody came or went since %v: a member that lives was counted out, or joined without need", e.Trace.Subject, b.calm.since, g.changed)
		}
	}
	if cap := limit * (g.changes + shocks + 1); g.attempts > cap && g.attempts >= 2*g.told {
		g.told = g.attempts
		b.Violate(e.At, Budget, "group %s made %d rebalance attempts for %d changes of members, brokers and topics and %d disturbances; the limit is %d for each",
			e.Trace.Subject, g.attempts, g.changes, shocks, limit)
	}
}

// excused tells whether a call met, or was made by, a machine whose disk may give back anything.
func (b *BudgetCaps) excused(e *history.Event) bool {
	ruins := b.promise.Ruins
	if !ruins.Any() {
		return false
	}
	host, _, _ := strings.Cut(e.Kafka.Broker, ":")
	return ruins.Touched(e.Machine) || ruins.Touched(host)
}

// request counts one in the window of a second that ends with its begin. Requests end in another order than they begin, so the
// window's begins are kept sorted.
func (b *BudgetCaps) request(e *history.Event) {
	q := b.sent[e.Machine]
	if q == nil {
		q = &queue[time.Duration]{}
		b.sent[e.Machine] = q
	}
	start := e.Kafka.Start
	i := q.end()
	q.push()
	for ; i > q.base && *q.at(i - 1) > start; i-- {
		*q.at(i) = *q.at(i - 1)
	}
	*q.at(i) = start
	last := *q.at(q.end() - 1)
	for q.n > 0 && *q.at(q.base) <= last-time.Second {
		q.dropBelow(q.base + 1)
	}
	if q.n > b.promise.RequestsPerSecond && last >= b.toldTo[e.Machine] {
		b.toldTo[e.Machine] = last + time.Second
		b.Violate(e.At, Budget, "%s sent %d requests to brokers in the second before %v; the limit is %d", e.Machine, q.n, last, b.promise.RequestsPerSecond)
	}
}

// produce counts a produce request that asks for an answer and not for a flush.
func (b *BudgetCaps) produce(e *history.Event) {
	req, ok := e.Kafka.Req.(*kmsg.ProduceRequest)
	if !ok || req.Acks != 1 {
		return
	}
	b.produced++
	took := e.Kafka.End - e.Kafka.Start
	if took > b.promise.Produce {
		b.slow++
	}
	if took > b.slowest {
		b.slowest, b.slowestAt = took, e.Machine
	}
}

// Finish implements [Oracle].
func (b *BudgetCaps) Finish(end End) {
	if b.slow > 1+b.produced/100 {
		b.Violate(end.At, Budget, "%d of %d produce requests with acks=1 took longer than %v, allowed is one in a hundred; the slowest, of %s, took %v",
			b.slow, b.produced, b.promise.Produce, b.slowestAt, b.slowest)
	}
}

// New makes all oracles of this package that judge by the history, in the order in which they are told. disk may be nil.
func New(p *Promise, disk Disk) ([]Oracle, *Delivery) {
	d := NewDelivery(p, disk)
	coordinated := func(list ...Oracle) []Oracle { // those that judge such groups only
		if !slices.ContainsFunc(p.Groups, func(g Group) bool { return g.Coordinated }) {
			return nil
		}
		return list
	}
	return slices.Concat([]Oracle{d, NewOwnership(p)}, coordinated(NewMembers(p)),
		[]Oracle{NewOffsets(p, disk), NewSessions(p), NewWatches(p), NewSequential(p), NewAsked(p), NewLocks(p), NewTerms(p), NewLiveness(p, d), NewOutcomes(p), NewRefusals(p), NewBudget(p)},
		coordinated(NewReasons(p), NewRejoins(p), NewExpiry(p)), []Oracle{NewPauses()}, coordinated(NewShares(p))), d
}
