package group

import (
	"bytes"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// firstVersions of JoinGroup that know something.
const (
	versionMemberIDRequired = 4 // the client can be told to join with an id (KIP-394)
	versionSkipAssignment   = 9 // the leader can be told to leave the assignment as it is (KIP-814)
)

// Join lets a client into its group, or back into it, and waits until the group has a new generation. It is answered with kmsg.JoinGroupResponse.
func (c *Coordinator) Join(now Time, ref Ref, from Client, r *kmsg.JoinGroupRequest) {
	w := &waiter{ref, r.Version}
	session := ms(r.SessionTimeoutMillis)
	code := c.refuse(r.Group)
	if code == 0 && (session < c.cfg.MinSession || session > c.cfg.MaxSession) {
		code = codeInvalidSession
	}
	g := c.find(r.Group)
	if code == 0 && g == nil {
		g = c.newGroup(r.Group)
		switch {
		case r.MemberID != "":
			code = codeUnknownMember
		case !g.agrees(r, nil):
			code = codeInconsistentProtocol
		default:
			c.groups[r.Group] = g
		}
	}
	if code != 0 {
		c.refuseJoin(w, r.MemberID, code)
		return
	}
	g.join(now, w, from, r)
	g.tryCompleteJoin(now)
}

func ms(n int32) time.Duration { return time.Duration(n) * time.Millisecond }

// rebalanceTimeout is how long the others may be made to wait for this member. Old versions don't tell; then it is the session, as it used to be. Taken for zero, each
// join would throw out all who have not joined at that instant (brod 465).
func rebalanceTimeout(r *kmsg.JoinGroupRequest) time.Duration {
	if r.RebalanceTimeoutMillis <= 0 {
		return ms(r.SessionTimeoutMillis)
	}
	return ms(r.RebalanceTimeoutMillis)
}

func (g *group) join(now Time, w *waiter, from Client, r *kmsg.JoinGroupRequest) {
	self := g.byID[r.MemberID]
	if r.MemberID == "" && r.InstanceID != nil {
		self = g.static[*r.InstanceID] // a static member that restarted
	}
	promised := slices.Contains(g.promised, r.MemberID)
	switch {
	case g.state == Dead:
		g.c.refuseJoin(w, r.MemberID, codeNotAvailable)
	case g.full(self):
		if self != nil {
			g.remove(self.id, codeMaxSize)
		}
		g.c.refuseJoin(w, "", codeMaxSize)
	case !g.agrees(r, self):
		g.c.refuseJoin(w, r.MemberID, codeInconsistentProtocol)
	case r.MemberID == "" && self != nil:
		g.replace(now, w, from, r, self)
	case r.MemberID == "" && r.InstanceID == nil && r.Version >= versionMemberIDRequired:
		// A client that retries a join whose answer was lost must be known as the same: let in at once, each try would leave a ghost behind
		// that the others wait for (KIP-394).
		id := g.newID(from.ID)
		g.promised = append(g.promised, id)
		g.arm(forPromised, id, now.Up+ms(r.SessionTimeoutMillis))
		g.c.refuseJoin(w, id, codeMemberIDRequired)
	case r.MemberID == "":
		name := from.ID
		if r.InstanceID != nil {
			name = *r.InstanceID
		}
		g.enter(now, w, from, r, g.newID(name))
	case promised && r.InstanceID == nil:
		g.enter(now, w, from, r, r.MemberID)
	default:
		if code := g.check(r.MemberID, r.InstanceID); code != 0 {
			g.c.refuseJoin(w, r.MemberID, code)
			return
		}
		g.rejoin(now, w, from, r, self)
	}
}

func (g *group) newID(name string) string { return name + "-" + g.c.cfg.NewID() }

// full tells whether there is no place for a member. One that is in the group has its place, but when a rebalance finds the group too large (the limit was lowered) it is
// for those that come first.
func (g *group) full(self *member) bool {
	limit := g.c.cfg.MaxSize
	switch {
	case limit == 0 || g.state == Empty:
		return false
	case g.state == PreparingRebalance:
		return (self == nil || self.join == nil) && g.waiting() >= limit
	}
	return self == nil && len(g.members) >= limit
}

// agrees tells whether a client speaks a protocol that all members speak, apart from itself.
func (g *group) agrees(r *kmsg.JoinGroupRequest, self *member) bool {
	if r.ProtocolType == "" || len(r.Protocols) == 0 {
		return false
	}
	if len(g.members) == 0 {
		return true
	}
	if r.ProtocolType != g.protocolType {
		return false
	}
	return slices.ContainsFunc(r.Protocols, func(p kmsg.JoinGroupRequestProtocol) bool {
		return !slices.ContainsFunc(g.members, func(m *member) bool { return m != self && !m.supports(p.Name) })
	})
}

// tell keeps what a join says about its member.
func (m *member) tell(from Client, r *kmsg.JoinGroupRequest) {
	m.client, m.session, m.rebalance = from, ms(r.SessionTimeoutMillis), rebalanceTimeout(r)
	m.protocols = slices.Clone(r.Protocols)
	for i := range m.protocols {
		m.protocols[i].Metadata = bytes.Clone(m.protocols[i].Metadata) // which is the request's buffer
	}
}

// enter lets a new member in.
func (g *group) enter(now Time, w *waiter, from Client, r *kmsg.JoinGroupRequest, id string) {
	g.keepPromise(id)
	if len(g.members) == 0 {
		g.protocolType = r.ProtocolType
	}
	m := &member{id: id, instance: r.InstanceID, isNew: true}
	m.tell(from, r)
	g.admit(m)
	if g.initial != nil {
		g.initial.grew = true
	}
	g.awaitJoin(now, m, w)
	if g.state != PreparingRebalance {
		g.prepareRebalance(now, "member "+id+" joined")
	}
}

// rejoin is the join of a member.
func (g *group) rejoin(now Time, w *waiter, from Client, r *kmsg.JoinGroupRequest, m *member) {
	same := m.says(r.Protocols)
	switch {
	case g.state == CompletingRebalance && same:
		g.answerAgain(now, w, m) // it did not get the answer to its join
		return
	case g.state == Stable && same && m.id != g.leader:
		g.answerAgain(now, w, m)
		return
	}
	// Something changed: what the member says, or, when it is the leader, something that only the leader sees, such as the number of partitions.
	m.tell(from, r)
	g.awaitJoin(now, m, w)
	if g.state != PreparingRebalance {
		g.prepareRebalance(now, "member "+m.id+" joined again")
	}
}

func (g *group) answerAgain(now Time, w *waiter, m *member) {
	g.alive(now, m)
	g.c.reply(w.ref, g.joined(w, m, g.leader))
}

// keepPromise forgets a member id that was given out, because it came back or never will.
func (g *group) keepPromise(id string) bool {
	i := slices.Index(g.promised, id)
	if i < 0 {
		return false
	}
	g.promised = slices.Delete(g.promised, i, i+1)
	g.timers.disarm(forPromised, id)
	return true
}

// forget gives up waiting for a client that was given a member id.
func (g *group) forget(now Time, id string) {
	g.keepPromise(id)
	g.tryCompleteJoin(now)
}

// joined is the answer to the join of a member: the generation and, for the leader, what it needs to make an assignment.
func (g *group) joined(w *waiter, m *member, leader string) *kmsg.JoinGroupResponse {
	resp := newJoinResponse(w, m.id)
	resp.Generation, resp.LeaderID = g.generation, leader
	resp.ProtocolType, resp.Protocol = kmsg.StringPtr(g.protocolType), kmsg.StringPtr(g.protocol)
	if m.id == leader {
		for _, o := range g.members {
			resp.Members = append(resp.Members, kmsg.JoinGroupResponseMember{MemberID: o.id, InstanceID: o.instance, ProtocolMetadata: o.metadata(g.protocol)})
		}
	}
	return resp
}

func newJoinResponse(w *waiter, member string) *kmsg.JoinGroupResponse {
	resp := kmsg.NewPtrJoinGroupResponse()
	resp.Version, resp.MemberID = w.version, member
	return resp
}

func (c *Coordinator) refuseJoin(w *waiter, member string, code int16) {
	resp := newJoinResponse(w, member)
	resp.ErrorCode = code
	c.reply(w.ref, resp)
}
