package member

import (
	"errors"
	"fmt"
	"time"

	"faultline/consumer/assign"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// span is how long the member is surely one after it sent what the coordinator agreed to. A tenth is the margin for clocks that drift apart.
func (m *Member) span() time.Duration {
	d := min(m.cfg.Session, m.cfg.Rebalance)
	return d - d/10
}

// proved notes that it was a member when the coordinator got what was sent then.
func (m *Member) proved(sent time.Duration) { m.lease = max(m.lease, sent+m.span()) }

// provedUnsynced is proved for one whose SyncGroup the coordinator has not got: it is counted out when that does not come within the rebalance time-out, whatever else is heard of it. That time began
// when the first of its joins was there that were sent since one was answered, or later.
func (m *Member) provedUnsynced(sent time.Duration) {
	m.lease = max(m.lease, min(sent+m.span(), m.asked+m.cfg.Rebalance-m.cfg.Rebalance/10))
}

func (m *Member) instance() *string {
	if m.cfg.Instance == "" {
		return nil
	}
	return &m.cfg.Instance
}

// JoinRequest is what Join asks to send now.
func (m *Member) JoinRequest(now time.Duration) *kmsg.JoinGroupRequest {
	m.attempts++
	m.joining, m.sent = true, now
	if !m.asking {
		m.asking, m.asked = true, now
	}
	self := assign.Member{Topics: m.cfg.Topics, Owned: m.owned, Generation: m.ownedIn}
	if !m.cooperative {
		self.Owned = m.had
	}
	if len(self.Owned) == 0 {
		self.Generation = -1
	}
	m.said = self.Owned
	r := kmsg.NewPtrJoinGroupRequest()
	r.Group, r.MemberID, r.InstanceID, r.ProtocolType = m.cfg.Group, m.id, m.instance(), assign.ProtocolType
	r.SessionTimeoutMillis, r.RebalanceTimeoutMillis = int32(m.cfg.Session.Milliseconds()), int32(m.cfg.Rebalance.Milliseconds())
	for _, a := range m.cfg.Assignors {
		p := kmsg.NewJoinGroupRequestProtocol()
		p.Name, p.Metadata = a.Name(), a.Metadata(self)
		r.Protocols = append(r.Protocols, p)
	}
	return r
}

// Attempts is how many joins were sent.
func (m *Member) Attempts() int { return m.attempts }

// Joined says how the join went.
func (m *Member) Joined(now time.Duration, r *kmsg.JoinGroupResponse, err error) {
	m.joining = false
	if err != nil {
		m.unreachable(now)
		return
	}
	switch err := kerr.ErrorForCode(r.ErrorCode); {
	case err == nil:
	case errors.Is(err, kerr.MemberIDRequired): // come again with this id (KIP-394)
		m.id = r.MemberID
		return
	case errors.Is(err, kerr.InconsistentGroupProtocol), errors.Is(err, kerr.InvalidGroupID), errors.Is(err, kerr.InvalidSessionTimeout), errors.Is(err, kerr.GroupMaxSizeReached):
		m.fatal(err)
		return
	default:
		m.refused(now, err)
		return
	}
	a, ok := assign.ByName(protocolOf(r))
	if !ok {
		m.fatal(fmt.Errorf("the group chose assignor %q, which this member did not offer", protocolOf(r)))
		return
	}
	if now >= m.lease {
		m.giveUpAll() // the group may have been through a generation without it
	}
	m.failures, m.notBefore = 0, 0
	m.known = m.known && m.id == r.MemberID
	m.id, m.generation, m.protocol = r.MemberID, r.Generation, a
	m.leads, m.skip, m.plan = r.LeaderID == r.MemberID, r.SkipAssignment, nil
	m.rest = m.skip && m.cooperative
	m.stage, m.rejoin = joined, false
	m.provedUnsynced(m.sent)
	m.asking = false
	m.members, m.divided = nil, nil
	if m.leads {
		if m.members, err = a.Members(r.Members); err != nil {
			m.fatal(err)
		}
	}
}

func protocolOf(r *kmsg.JoinGroupResponse) string {
	if r.Protocol == nil {
		return ""
	}
	return *r.Protocol
}

// giveUpAll has it give up what it owns before anything else.
func (m *Member) giveUpAll() {
	m.lost, m.lease = len(m.owned) > 0, 0
	m.had = nil
}

// Members are those for whom the leader has to plan, with the assignor that the group chose.
func (m *Member) Members() ([]assign.Member, *assign.Assignor) { return m.members, m.protocol }

// Planned gives the leader's plan, which divides so many partitions of each topic. whole: it gives every one to somebody.
func (m *Member) Planned(plan assign.Plan, counts map[string]int32, whole bool) {
	if m.stage != joined {
		return
	}
	m.plan, m.divided, m.rest = plan.Encode(), counts, !whole
	for i := range m.plan {
		if a := &m.plan[i]; a.MemberID == m.id {
			a.MemberAssignment = assign.Note(a.MemberAssignment, counts)
		}
	}
}

// SyncRequest is what Sync asks to send now.
func (m *Member) SyncRequest(now time.Duration) *kmsg.SyncGroupRequest {
	m.sent = now
	r := kmsg.NewPtrSyncGroupRequest()
	r.Group, r.Generation, r.MemberID, r.InstanceID = m.cfg.Group, m.generation, m.id, m.instance()
	r.ProtocolType, r.Protocol = kmsg.StringPtr(assign.ProtocolType), kmsg.StringPtr(m.protocol.Name())
	r.GroupAssignment = m.plan
	return r
}

// Synced says how the sync went. It reports whether the member knows its assignment.
func (m *Member) Synced(now time.Duration, r *kmsg.SyncGroupResponse, err error) bool {
	if m.stage != joined {
		return false // a heartbeat told meanwhile that it is no member
	}
	if err != nil {
		m.unreachable(now)
		return false
	}
	if err := kerr.ErrorForCode(r.ErrorCode); err != nil {
		m.refused(now, err)
		return false
	}
	target, err := assign.ParseAssignment(r.MemberAssignment)
	if err != nil {
		m.rejoin = true
		m.fail(now)
		return false
	}
	if now >= m.lease {
		m.giveUpAll()
	}
	m.proved(m.sent)
	m.target, m.stage, m.known = target, synced, true
	m.shrank = m.cooperative && len(without(m.said, target)) > 0
	m.plan, m.members = nil, nil
	if m.leads && m.skip { // the plan is that of its process before it
		known := false
		m.divided, known = assign.Noted(r.MemberAssignment)
		m.rest = m.rest || !known
	}
	return true
}

// unreachable: the coordinator did not answer a join or a sync.
func (m *Member) unreachable(now time.Duration) {
	m.rejoin = true
	if m.stage == joined {
		m.stage = out // of the old generation it may still own something; of the new one it knows nothing
	}
	m.coordinator = ""
	m.fail(now)
}

// refused draws the consequences of an error that a coordinator answered.
func (m *Member) refused(now time.Duration, err error) {
	switch {
	case errors.Is(err, kerr.FencedInstanceID) && m.known:
		m.fatal(errFenced)
		return
	case errors.Is(err, kerr.FencedInstanceID):
		// The id may be in no log yet, when a coordinator took over that knows only the one before. So it asks for another, and the last who asks has it.
		m.id = ""
		m.lose()
		return
	case errors.Is(err, kerr.UnknownMemberID):
		m.id = ""
		m.lose()
		return
	case errors.Is(err, kerr.IllegalGeneration):
		m.lose()
		return
	case errors.Is(err, kerr.NotCoordinator), errors.Is(err, kerr.CoordinatorNotAvailable):
		m.coordinator = ""
	case errors.Is(err, kerr.RebalanceInProgress):
		m.rejoin = true
		if m.stage == joined {
			m.stage = out
		}
		return
	}
	m.rejoin = m.rejoin || m.stage == joined
	if m.stage == joined {
		m.stage = out
	}
	m.fail(now)
}

// LeaveRequest is what Leave asks to send.
func (m *Member) LeaveRequest() *kmsg.LeaveGroupRequest {
	r := kmsg.NewPtrLeaveGroupRequest()
	one := kmsg.NewLeaveGroupRequestMember()
	one.MemberID, one.InstanceID = m.id, m.instance()
	r.Group, r.MemberID, r.Members = m.cfg.Group, m.id, append(r.Members, one)
	return r
}

// Left says that the coordinator was told, or could not be: then the session tells it.
func (m *Member) Left() {
	m.left, m.id, m.lease = true, "", 0
	m.reset()
}
