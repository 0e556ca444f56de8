package oracle

import (
	"strconv"
	"strings"

	"faultline/sim/machine"
	"faultline/workloads/history"
)

// Epochs judges who decides who leads (GEN), by the transactions that the coordination service traces and by what brokers say.
//
// Verified, whenever a topic's state changes in the registry:
//   - a partition's leader epoch never goes back, and rises with every other leader; so does the controller epoch not go back;
//   - what only the controller decides (leader, leader epoch) carries the controller epoch that is current at this moment, and none is above it;
//   - what a leader changes, its in-sync replicas, keeps the leader in sync, and the leader is registered and has not lost its logs' tails since it became one;
//   - in-sync replicas and those that are eligible are replicas of the partition, each listed once.
//
// Verified of brokers: a leader epoch has one leader, which begins it once in a life, and not again after a power loss, unless its log was closed regularly before; a controller epoch has one controller.
//
// Not verified: who sent a transaction, that the decision was a good one (Acknowledged, Agreement). Once the registry is ruined nothing is judged, and of a partition
// that is freed not what a leader that lost its tail does: it may not know.
type Epochs struct {
	Findings
	recordless
	cluster    *Cluster
	controller int64 // epoch, by the version of its node; none: not known
	elected    map[int64]int64
	began      map[led]begun
	power      map[string]int // power losses of a machine
}

// led is a leader epoch of a partition.
type led struct {
	place
	epoch int64
}

// begun is who leads in it.
type begun struct {
	machine string
	power   int // power losses of it before
}

// NewEpochs judges the partitions that c follows.
func NewEpochs(c *Cluster) *Epochs {
	o := &Epochs{cluster: c, controller: none, elected: map[int64]int64{}, began: map[led]begun{}, power: map[string]int{}}
	o.Free(c.promise.Ruins.Registry)
	c.onDecided = append(c.onDecided, o.decided)
	c.onBegan = append(c.onBegan, o.leads)
	c.onGone = append(c.onGone, func(p *replicas) {
		for k := range o.began { // order: no matter
			if k.place == p.place {
				delete(o.began, k)
			}
		}
	})
	return o
}

// Invariants lists what it can report.
func (o *Epochs) Invariants() []string { return []string{Gen} }

// Observe takes an event of the run.
func (o *Epochs) Observe(e *history.Event) {
	switch {
	case e.Kind == history.MachineCrashed && e.Power:
		o.power[e.Machine]++
	case e.Kind == history.Traced && e.Trace.Kind == machine.LogOpened && e.Trace.C == 1:
		o.intact(e)
	case e.Kind == history.Traced && e.Trace.Subject == controllerEpochPath:
		switch e.Trace.Kind {
		case machine.ZnodeCreated:
			o.controller = 0
		case machine.ZnodeSet:
			o.controller = max(o.controller, e.Trace.A)
		}
	case e.Kind == history.Traced && e.Trace.Kind == machine.ControllerElected:
		t := &e.Trace
		if other, known := o.elected[t.B]; known && other != t.A {
			o.Violate(e.At, Gen, "brokers %d and %d are both controllers in epoch %d", other, t.A, t.B)
		}
		o.elected[t.B] = t.A
	}
}

// intact notes that a log was opened that had been closed regularly: no power loss took anything from it.
func (o *Epochs) intact(e *history.Event) {
	at, _ := parsePlace(e.Trace.Subject)
	for k, was := range o.began { // order: no matter
		if k.place == at && was.machine == e.Machine {
			was.power = o.power[e.Machine]
			o.began[k] = was
		}
	}
}

func (o *Epochs) decided(e *history.Event, p *replicas, was, now *PartitionState) {
	tell := func(format string, args ...any) {
		o.Violate(e.At, Gen, "the state of "+p.place.String()+" "+format, args...)
	}
	ctl := int64(now.ControllerEpoch)
	if o.controller >= 0 && ctl > o.controller {
		tell("is of controller epoch %d, the controller's is %d", ctl, o.controller)
	}
	o.members(p, now, tell)
	switch {
	case was == nil:
		if o.controller >= 0 && ctl != o.controller {
			tell("is made in controller epoch %d, the controller's is %d by now", ctl, o.controller)
		}
		return
	case now.ControllerEpoch < was.ControllerEpoch:
		tell("goes back from controller epoch %d to %d", was.ControllerEpoch, ctl)
	case now.LeaderEpoch < was.LeaderEpoch:
		tell("goes back from leader epoch %d to %d", was.LeaderEpoch, now.LeaderEpoch)
	case now.Leader != was.Leader && now.LeaderEpoch == was.LeaderEpoch:
		tell("names another leader, %d after %d, in the same leader epoch %d", now.Leader, was.Leader, now.LeaderEpoch)
	case now.LeaderEpoch != was.LeaderEpoch && o.controller >= 0 && ctl != o.controller:
		tell("gets leader epoch %d from controller epoch %d, the controller's is %d by now", now.LeaderEpoch, ctl, o.controller)
	case now.LeaderEpoch != was.LeaderEpoch || now.ControllerEpoch != was.ControllerEpoch || sameMembers(was, now):
	default: // the leader's doing, or the controller's that takes somebody out
		i := findMember(now.ISR, now.Leader)
		if now.Leader >= 0 && i < 0 {
			tell("has its leader %d not in sync", now.Leader)
		}
		if joins(was, now) && now.Leader >= 0 && i >= 0 && !o.cluster.freed(p) {
			if b := o.cluster.brokers[now.Leader]; b != nil && b.registered >= 0 && b.cleanSince > now.ISR[i].Epoch {
				tell("is changed by its leader %d, which became one with registration %d and has lost its tail since, by registration %d", now.Leader, now.ISR[i].Epoch, b.cleanSince)
			}
		}
	}
}

// members holds lists of replicas against the assignment.
func (o *Epochs) members(p *replicas, s *PartitionState, tell func(string, ...any)) {
	assigned := o.cluster.reg.replicas[p.place.topic][p.partition]
	seen := map[int32]bool{}
	for _, list := range [][]InSync{s.ISR, s.ELR} {
		for _, m := range list {
			if seen[m.ID] {
				tell("lists broker %d twice", m.ID)
			}
			seen[m.ID] = true
			if len(assigned) > 0 && !containsID(assigned, m.ID) {
				tell("lists broker %d, which is no replica", m.ID)
			}
		}
	}
	if len(s.ISR) == 0 {
		tell("has nobody in sync")
	}
}

func containsID(ids []string, id int32) bool {
	return strings.Contains(","+strings.Join(ids, ",")+",", ","+strconv.Itoa(int(id))+",")
}

func sameMembers(a, b *PartitionState) bool {
	return len(a.ISR) == len(b.ISR) && len(a.ELR) == len(b.ELR) && !joins(a, b)
}

// joins tells whether somebody is in sync in next who was not.
func joins(was, next *PartitionState) bool {
	for _, m := range next.ISR {
		if findMember(was.ISR, m.ID) < 0 {
			return true
		}
	}
	return false
}

// leads notes that a broker begins to lead.
func (o *Epochs) leads(e *history.Event, p *replicas) {
	k := led{p.place, e.Trace.A}
	now := begun{e.Machine, o.power[e.Machine]}
	switch was, known := o.began[k]; {
	case known && was.machine != now.machine:
		o.Violate(e.At, Gen, "%s and %s both lead %s in epoch %d", was.machine, now.machine, p.place, k.epoch)
	case known && was.power != now.power:
		o.Violate(e.At, Gen, "%s leads %s again in epoch %d after a power loss", now.machine, p.place, k.epoch)
	}
	o.began[k] = now
}

// Finish has nothing to judge: decisions are judged when they are made.
func (o *Epochs) Finish(End) {}
