package member

import (
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Ticket remembers what a request was sent for: its answer may come when the member is somewhere else.
type Ticket struct {
	attempts    int
	generation  int32
	coordinator string
	sent        time.Duration
	counts      bool // the member was in a generation and no join was under way
}

// Ticket is one for a request that is sent now.
func (m *Member) Ticket(now time.Duration) Ticket {
	return Ticket{m.attempts, m.generation, m.coordinator, now, m.stage != out && !m.joining}
}

func (m *Member) current(t Ticket) bool {
	return t.counts && t.attempts == m.attempts && t.generation == m.generation && !m.joining && m.stage != out
}

// HeartbeatDue is when the next heartbeat is to be sent; Never as long as there is nobody to send one to. While a join waits they go on: they tell whether the coordinator still
// lives.
func (m *Member) HeartbeatDue() time.Duration {
	if m.id == "" || m.coordinator == "" || m.away || m.err != nil || m.stage == out && !m.joining {
		return Never
	}
	return m.beat
}

// HeartbeatRequest is one to send now.
func (m *Member) HeartbeatRequest(now time.Duration) (*kmsg.HeartbeatRequest, Ticket) {
	m.beat = now + m.cfg.Heartbeat
	r := kmsg.NewPtrHeartbeatRequest()
	r.Group, r.Generation, r.MemberID, r.InstanceID = m.cfg.Group, m.generation, m.id, m.instance()
	return r, m.Ticket(now)
}

// Heartbeaten says how a heartbeat went.
func (m *Member) Heartbeaten(now time.Duration, t Ticket, r *kmsg.HeartbeatResponse, err error) {
	if err != nil {
		m.Disconnected(now, t.coordinator)
		return
	}
	err = kerr.ErrorForCode(r.ErrorCode)
	if m.moved(now, t, err) || !m.current(t) {
		return
	}
	switch {
	case err == nil && m.stage == joined && now < m.lease:
		m.provedUnsynced(t.sent)
	case err == nil && m.stage != joined:
		m.proved(t.sent)
	case errors.Is(err, kerr.RebalanceInProgress):
		m.rejoin = true
	case errors.Is(err, kerr.UnknownMemberID), errors.Is(err, kerr.IllegalGeneration), errors.Is(err, kerr.FencedInstanceID):
		m.refused(now, err)
	}
}

// moved reports whether the answer says that the coordinator is somewhere else.
func (m *Member) moved(now time.Duration, t Ticket, err error) bool {
	if !errors.Is(err, kerr.NotCoordinator) && !errors.Is(err, kerr.CoordinatorNotAvailable) {
		return false
	}
	m.Disconnected(now, t.coordinator)
	return true
}

// Answered says what the coordinator answered to another request of the member, such as a commit. Only what it says of the membership counts. That a rebalance is under
// way, or that a commit failed, is no reason to join again: a heartbeat tells when it is time.
func (m *Member) Answered(now time.Duration, t Ticket, err error) {
	if m.moved(now, t, err) || !m.current(t) {
		return
	}
	if errors.Is(err, kerr.UnknownMemberID) || errors.Is(err, kerr.IllegalGeneration) || errors.Is(err, kerr.FencedInstanceID) {
		m.refused(now, err)
	}
}
