package oracle

import (
	"slices"
	"time"

	"faultline/sim/machine"
	"faultline/workloads/history"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Rejoins judges that a member of a coordinator group asks to join again only for a reason (BUDGET): each such request may put the whole group through a rebalance, which makes others' requests fail, and where these are
// a reason for them it never settles (numaflow 3355).
//
// Verified: a process that has its assignment begins another join only when, since it began the last one,
//   - an answer told it that a rebalance is under way (a heartbeat, a join or a sync; that a commit has to wait for it is no news to who takes part in it), or that it is no member, or not in this generation, or replaced;
//   - or it was given less than it said that it has: what it gives up is free in the next round (KIP-429);
//   - or it left, or its application was at work on one record for about as long as it may be, or longer (KIP-62).
//
// That a coordinator moved, is loading, cannot be reached or could not store a commit is no reason: the membership stands.
//
// Not judged are leaders, who also join to have new partitions given to somebody. Beyond the atlas ([Ruins]) nothing is judged once a wire or the registry is ruined; what is on the brokers' disks is no reason to join.
type Rejoins struct {
	Findings
	groups map[string]*Group
	actors map[actorKey]*rejoiner
}

// rejoiner is what one process was told.
type rejoiner struct {
	synced     time.Duration // when it got its assignment; none: it has none
	generation int64
	reason     bool // to join again, since it began to join last
	leads      bool
	said       []place       // what it told that it owns
	worked     time.Duration // when it was last through with a record
}

// NewRejoins makes the oracle.
func NewRejoins(p *Promise) *Rejoins {
	o := &Rejoins{groups: map[string]*Group{}, actors: map[actorKey]*rejoiner{}}
	for i := range p.Groups {
		if g := &p.Groups[i]; g.Coordinated {
			o.groups[g.Name] = g
		}
	}
	o.Free(p.Ruins.Records)
	return o
}

// Invariants implements [Oracle].
func (o *Rejoins) Invariants() []string { return []string{Budget} }

// Needs implements [history.Selective].
func (*Rejoins) Needs() history.Steps { return history.Processing | history.Requesting }

// Observe implements [Oracle].
func (o *Rejoins) Observe(e *history.Event) {
	switch e.Kind {
	case history.Traced:
		o.traced(e)
	case history.KafkaCalled:
		if a := o.actors[actorKey{e.Machine, e.Incarnation}]; a != nil {
			a.called(e.Kafka)
		}
	case history.Processed:
		if g := o.groups[e.Group]; g != nil {
			if a := o.actors[actorKey{e.Machine, e.Incarnation}]; a != nil {
				a.reason = a.reason || a.slow(g, e.Machine, e.At)
				a.worked = e.At
			}
		}
	case history.MachineCrashed, history.MachineExited:
		delete(o.actors, actorKey{e.Machine, e.Incarnation})
	}
}

// slow tells whether the application may have been at work on one record for too long.
func (a *rejoiner) slow(g *Group, machine string, now time.Duration) bool {
	within := g.rebalance(machine)
	return now-a.worked > within-within/10
}

func (o *Rejoins) traced(e *history.Event) {
	t := &e.Trace
	switch t.Kind {
	case machine.ConsumerRebalance, machine.ConsumerSynced:
	default:
		return
	}
	g := o.groups[t.Subject]
	if g == nil {
		return
	}
	key := actorKey{e.Machine, e.Incarnation}
	a := o.actors[key]
	if a == nil {
		a = &rejoiner{synced: none}
		o.actors[key] = a
	}
	if t.Kind == machine.ConsumerSynced {
		a.synced, a.generation, a.worked = e.At, t.A, e.At
		return
	}
	if a.synced >= 0 && !a.reason && !a.leads && !a.slow(g, e.Machine, e.At) {
		o.Violate(e.At, Budget, "%s on %s asks to join group %s again, though it has its assignment in generation %d since %v, and nothing told it that there is another one to come",
			t.Detail, e.Machine, t.Subject, a.generation, a.synced)
	}
	a.synced, a.reason = none, false
}

// called learns from what a process was answered.
func (a *rejoiner) called(c *history.KafkaCall) {
	var told []int16
	switch resp := c.Resp.(type) {
	case *kmsg.JoinGroupResponse:
		told = append(told, resp.ErrorCode)
		a.leads = resp.ErrorCode == 0 && resp.LeaderID == resp.MemberID
		if req, ok := c.Req.(*kmsg.JoinGroupRequest); ok {
			a.said = saidToOwn(req)
		}
	case *kmsg.SyncGroupResponse:
		told = append(told, resp.ErrorCode)
		given, ok := givenBy(resp.MemberAssignment)
		a.reason = a.reason || !ok || slices.ContainsFunc(a.said, func(p place) bool { return !slices.Contains(given, p) })
	case *kmsg.HeartbeatResponse:
		told = append(told, resp.ErrorCode)
	case *kmsg.LeaveGroupResponse:
		a.reason = true
	case *kmsg.OffsetCommitResponse:
		for i := range resp.Topics {
			for j := range resp.Topics[i].Partitions {
				if code := resp.Topics[i].Partitions[j].ErrorCode; code != kerr.RebalanceInProgress.Code {
					told = append(told, code)
				}
			}
		}
	case *kmsg.OffsetFetchResponse:
		told = append(told, resp.ErrorCode)
		for i := range resp.Groups {
			told = append(told, resp.Groups[i].ErrorCode)
		}
	case nil:
		_, left := c.Req.(*kmsg.LeaveGroupRequest)
		a.reason = a.reason || left
	}
	for _, code := range told {
		switch code {
		case kerr.RebalanceInProgress.Code, kerr.UnknownMemberID.Code, kerr.IllegalGeneration.Code, kerr.FencedInstanceID.Code:
			a.reason = true
		}
	}
}

// saidToOwn lists the partitions that a member keeps through a rebalance, as its join tells.
func saidToOwn(r *kmsg.JoinGroupRequest) (said []place) {
	for i := range r.Protocols {
		m := kmsg.NewConsumerMemberMetadata()
		if m.ReadFrom(r.Protocols[i].Metadata) != nil {
			continue
		}
		for j := range m.OwnedPartitions {
			for _, n := range m.OwnedPartitions[j].Partitions {
				said = append(said, place{m.OwnedPartitions[j].Topic, n})
			}
		}
	}
	return said
}

// givenBy lists the partitions of an assignment.
func givenBy(b []byte) (given []place, ok bool) {
	a := kmsg.NewConsumerMemberAssignment()
	if len(b) > 0 && a.ReadFrom(b) != nil {
		return nil, false
	}
	for i := range a.Topics {
		for _, n := range a.Topics[i].Partitions {
			given = append(given, place{a.Topics[i].Topic, n})
		}
	}
	return given, true
}

// Finish has nothing to judge: joins are judged when they begin.
func (o *Rejoins) Finish(End) {}
