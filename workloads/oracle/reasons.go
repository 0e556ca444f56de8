package oracle

import (
	"time"

	"faultline/sim/machine"
	"faultline/workloads/history"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Reasons judges that a broker that coordinates a group disturbs it only for a reason (BUDGET), and counts only those whom it can reach (LIVE). What the present coordinator traces is held
// against what the group's processes did and were answered.
//
// Verified:
//   - BUDGET: a rebalance of a stable group begins only when a member came or went just then, or when a process of the group has asked to join and was not answered yet (or was never: its
//     request may still arrive, see afterlife);
//   - BUDGET: who is answered that it is no member, and did not leave, was counted out by the same coordinator no sooner than a session after the last request for which it was counted as one; but
//     in a rebalance, and if it has not synced since then also after it, no sooner than its own rebalance time-out after the group began to wait for joins, or for syncs. A static member is waited for in a rebalance only for its
//     sync: as long as its session lasts it may join when it likes (KIP-345);
//   - OWN1: an answer that proves a membership is good for a while, whoever gave it: who was told by this coordinator or by one before, in a heartbeat or a sync of a generation whose assignment it knows, that it is a member, and did
//     not leave, is counted out by none before the shorter of its session and the rebalance time-out has passed since it sent that request. Until then it may act as owner;
//   - LIVE: a member comes in by a member id that some client was told before (KIP-394). Of one that nobody knows of nothing is ever heard, and the others wait for it;
//   - LIVE: a generation is made of those who asked to join: who did not, though its session lasted, is none of its members. What it is given stands still;
//   - BUDGET: a static member that stops does not leave: it may be back within its session (KIP-345).
//
// Not judged are the second and the third of a static member's process that was replaced (Members judges who acts), the fourth of static ones and of clients that join without an id (Group.Old), and the fifth of static ones.
//
// Beyond the atlas ([Ruins]) a group is not judged any more when its partition of the offsets topic is freed (with one replica: the disk of a broker that coordinated it): a record that changed may say anything. Nothing is when a
// wire or the registry is ruined.
//
// Not verified: how long a rebalance takes (Members, OWNALL); rebalances that begin before the last one has ended (BudgetCaps counts them).
type Reasons struct {
	Findings
	promise *Promise
	coords  coordinators
	groups  map[string]*reasons
}

// reasons is what is known of a group.
type reasons struct {
	group    *Group
	state    string
	came     bool                     // a member came or went since the last change of state
	joining  map[actorKey]*joining    // processes that have asked to join
	left     map[actorKey]bool        // processes that leave
	told     map[string]bool          // member ids that clients know
	heard    map[string]time.Duration // by member id: when a request was sent of which the answer said that it is a member
	synced   map[string]syncing       // by member id: the last sync that was answered with its assignment
	proved   map[string]time.Duration // by member id: when a request was sent whose answer let it act as owner, by whatever coordinator
	went     map[string]departure     // by member id
	last     string                   // who went with the last event; empty: nobody. A static member comes by another id in the same moment when its process is replaced
	entrants entrants
	waits    time.Duration // since when the group waits for joins or, later, for syncs; none: not since it has this coordinator
}

// joining is what a process asked. lost is since when nobody will answer it; none: somebody may.
type joining struct{ lost time.Duration }

// syncing is when a sync was sent, in which generation.
type syncing struct {
	at         time.Duration
	generation int32
}

// departure is when a member went, and since when its group waited for it then; none: it did not.
type departure struct {
	at, waits time.Duration
}

// afterlife is how long a request may still arrive after who sent it has given it up, or is gone: it may lie in the connection of a broker that is paused or cut off.
const afterlife = 5 * time.Second

// NewReasons makes the oracle.
func NewReasons(p *Promise) *Reasons {
	o := &Reasons{promise: p, groups: map[string]*reasons{}}
	for i := range p.Groups {
		if g := &p.Groups[i]; g.Coordinated {
			o.groups[g.Name] = &reasons{group: g, joining: map[actorKey]*joining{}, left: map[actorKey]bool{}, told: map[string]bool{}, heard: map[string]time.Duration{}, synced: map[string]syncing{}, proved: map[string]time.Duration{}, went: map[string]departure{}, waits: none, entrants: newEntrants()}
		}
	}
	o.Free(p.Ruins.Records)
	return o
}

// Invariants implements [Oracle].
func (o *Reasons) Invariants() []string { return []string{Budget, Live, Own1} }

// Needs implements [history.Selective].
func (*Reasons) Needs() history.Steps { return history.Requesting }

// Observe implements [Oracle].
func (o *Reasons) Observe(e *history.Event) {
	switch e.Kind {
	case history.Traced:
		o.traced(e)
	case history.KafkaCalled:
		o.called(e)
	case history.MachineCrashed, history.MachineExited:
		for _, g := range o.groups { // order: each on its own
			g.gaveUp(e)
		}
	}
}

// accuse is Violate of a promise to a group.
func (o *Reasons) accuse(g *reasons, at time.Duration, invariant, format string, args ...any) {
	if !o.coords.freed(o.promise, g.group.Name) {
		o.Violate(at, invariant, format, args...)
	}
}

func (o *Reasons) traced(e *history.Event) {
	t := &e.Trace
	switch t.Kind {
	case machine.ConsumerRebalance:
		if g := o.groups[t.Subject]; g != nil {
			g.joining[actorKey{e.Machine, e.Incarnation}] = &joining{none}
		}
	case machine.ConsumerLeft:
		if g := o.groups[t.Subject]; g != nil {
			g.left[actorKey{e.Machine, e.Incarnation}] = true
		}
	case machine.GroupsLoaded:
		loaded(&o.coords, e, o.groups, func(g *reasons) {
			g.state, g.came, g.waits = "", false, none
			clear(g.heard)
			clear(g.went)
			g.entrants.begin()
		})
	case machine.GroupChanged, machine.GroupCame, machine.GroupWent:
		if g := o.groups[t.Subject]; g != nil && o.coords.observe(e) {
			o.coordinated(e, g)
		}
	}
}

func (o *Reasons) coordinated(e *history.Event, g *reasons) {
	t := &e.Trace
	last := g.last
	g.last = ""
	switch t.Kind {
	case machine.GroupCame:
		g.came = true
		delete(g.went, t.Detail)
		if g.group.Static && last != "" && g.went[last].at == e.At {
			delete(g.went, last)
		}
		g.entrants.members[t.Detail] = true
		if g.state != "" && !g.group.Old && !g.group.Static && !g.told[t.Detail] {
			o.accuse(g, e.At, Live, "%s is a member of group %s, though nobody was told that member id: a client that joins must learn it first, or each of its tries makes another", t.Detail, g.group.Name)
		}
	case machine.GroupWent:
		g.came, g.last = true, t.Detail
		g.entrants.went(t.Detail)
		g.went[t.Detail] = departure{e.At, g.waits}
		if last, synced := g.synced[t.Detail]; g.state == "Stable" && synced && last.at >= g.waits-skew || g.group.Static && g.state == "PreparingRebalance" {
			g.went[t.Detail] = departure{e.At, none}
		}
	case machine.GroupChanged:
		if g.state == "Stable" && t.Detail == "PreparingRebalance" && !g.came && !g.asked(e.At) {
			o.accuse(g, e.At, Budget, "group %s was stable in generation %d and begins a rebalance, though nobody came, went, or asked to join", g.group.Name, t.A)
		}
		g.state, g.came = t.Detail, false
		if t.Detail == "PreparingRebalance" || t.Detail == "CompletingRebalance" {
			g.waits = e.At
		}
		if t.Detail == "CompletingRebalance" && !g.group.Static {
			g.entrants.made(e.At, t.A)
		}
	}
}

// asked reports whether a request to join may be about to arrive.
func (g *reasons) asked(now time.Duration) bool {
	for _, j := range g.joining { // order: any will do
		if j.lost < 0 || now <= j.lost+afterlife {
			return true
		}
	}
	return false
}

// gaveUp notes that nobody waits for the answer to a process's join any more.
func (g *reasons) gaveUp(e *history.Event) {
	if j := g.joining[actorKey{e.Machine, e.Incarnation}]; j != nil && j.lost < 0 {
		j.lost = e.At
	}
}

func (o *Reasons) called(e *history.Event) {
	switch req := e.Kafka.Req.(type) {
	case *kmsg.JoinGroupRequest:
		g := o.groups[req.Group]
		if g == nil {
			return
		}
		resp, ok := e.Kafka.Resp.(*kmsg.JoinGroupResponse)
		if !ok {
			g.gaveUp(e)
			o.joined(e, g, req.MemberID, false)
			return
		}
		delete(g.joining, actorKey{e.Machine, e.Incarnation})
		if resp.ErrorCode == kerr.MemberIDRequired.Code || resp.ErrorCode == 0 {
			g.told[resp.MemberID] = true
		}
		member := req.MemberID
		if resp.ErrorCode == 0 {
			member = resp.MemberID
		}
		o.joined(e, g, member, resp.ErrorCode == 0)
		o.answered(e, g, member, resp.ErrorCode)
	case *kmsg.SyncGroupRequest:
		if resp, ok := e.Kafka.Resp.(*kmsg.SyncGroupResponse); ok {
			if g := o.groups[req.Group]; g != nil && resp.ErrorCode == 0 {
				g.synced[req.MemberID] = syncing{e.Kafka.Start, req.Generation}
				g.proved[req.MemberID] = e.Kafka.Start
			}
			o.answered(e, o.groups[req.Group], req.MemberID, resp.ErrorCode)
		}
	case *kmsg.HeartbeatRequest:
		if resp, ok := e.Kafka.Resp.(*kmsg.HeartbeatResponse); ok {
			if g := o.groups[req.Group]; g != nil && resp.ErrorCode == 0 {
				if last, synced := g.synced[req.MemberID]; synced && last.generation == req.Generation {
					g.proved[req.MemberID] = max(g.proved[req.MemberID], e.Kafka.Start)
				}
			}
			o.answered(e, o.groups[req.Group], req.MemberID, resp.ErrorCode)
		}
	case *kmsg.LeaveGroupRequest:
		if g := o.groups[req.Group]; g != nil {
			if g.group.Static && g.left[actorKey{e.Machine, e.Incarnation}] {
				o.accuse(g, e.At, Budget, "%s stops, and leaves group %s, though its member is a static one, which may be back within its session: what it had goes to others meanwhile", e.Machine, g.group.Name)
			}
			g.forget(req.MemberID)
			for i := range req.Members {
				g.forget(req.Members[i].MemberID)
			}
		}
	}
}

// forget takes note that a member leaves.
func (g *reasons) forget(member string) {
	delete(g.heard, member)
	delete(g.proved, member)
}

// answered judges an answer to a member.
func (o *Reasons) answered(e *history.Event, g *reasons, member string, code int16) {
	if g == nil || member == "" {
		return
	}
	switch code {
	case 0, kerr.RebalanceInProgress.Code:
		if at, gone := g.went[member]; !gone || at.at > e.Kafka.Start { // else it is of an earlier coordinator
			g.heard[member] = max(g.heard[member], e.Kafka.Start)
		}
	case kerr.UnknownMemberID.Code:
		at, gone := g.went[member]
		heard, was := g.heard[member]
		proved, owned := g.proved[member]
		g.forget(member)
		if !gone || g.left[actorKey{e.Machine, e.Incarnation}] {
			return
		}
		margin := func(d time.Duration) time.Duration {
			return d - time.Duration(2*o.promise.Drift*float64(d)) - 10*skew
		}
		session, rebalance := g.group.session(e.Machine), g.group.rebalance(e.Machine)
		patient := at.at >= heard+margin(session) || at.waits >= 0 && at.at >= at.waits+margin(rebalance)
		if was && !patient {
			o.accuse(g, e.At, Budget, "%s on %s is no member of group %s since %v, though the coordinator heard what it sent at %v; its session is %v, and a rebalance waits for it %v",
				member, e.Machine, g.group.Name, at.at, heard, session, rebalance)
		}
		if lease := min(session, rebalance); owned && at.at < proved+margin(lease) {
			o.accuse(g, e.At, Own1, "%s on %s is no member of group %s since %v, though what it sent at %v was answered that it is one, and it may act as owner for %v from then on",
				member, e.Machine, g.group.Name, at.at, proved, lease)
		}
	}
}

// Finish has nothing to judge: all is judged when it happens.
func (o *Reasons) Finish(End) {}
