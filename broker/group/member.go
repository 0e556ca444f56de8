package group

import (
	"bytes"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

type member struct {
	id        string
	instance  *string
	client    Client
	session   time.Duration
	rebalance time.Duration
	protocols []kmsg.JoinGroupRequestProtocol // in the order of its preference

	assignment []byte
	join       *waiter // its JoinGroup that waits for the others
	sync       *waiter // its SyncGroup that waits for the leader's
	isNew      bool    // it never got an answer to a join, so it does not know that it is a member
	unsynced   bool    // it did not send SyncGroup since the last join
}

// waiter is a request that waits.
type waiter struct {
	ref     Ref
	version int16
}

// metadata is what the member said for a protocol.
func (m *member) metadata(protocol string) []byte {
	for i := range m.protocols {
		if m.protocols[i].Name == protocol {
			return m.protocols[i].Metadata
		}
	}
	return nil
}

func (m *member) supports(protocol string) bool {
	for i := range m.protocols {
		if m.protocols[i].Name == protocol {
			return true
		}
	}
	return false
}

// says tells whether the member said the same when it joined last.
func (m *member) says(protocols []kmsg.JoinGroupRequestProtocol) bool {
	if len(m.protocols) != len(protocols) {
		return false
	}
	for i := range protocols {
		if m.protocols[i].Name != protocols[i].Name || !bytes.Equal(m.protocols[i].Metadata, protocols[i].Metadata) {
			return false
		}
	}
	return true
}

// alive starts the member's session anew. While a request of a member waits here its session is not counted: it cannot send heartbeats before it knows
// its generation, or need not.
func (g *group) alive(now Time, m *member) {
	if m.join == nil && m.sync == nil {
		g.arm(forHeartbeat, m.id, now.Up+m.session)
	}
}

// awaitJoin keeps a member's JoinGroup until the join completes.
func (g *group) awaitJoin(now Time, m *member, w *waiter) {
	m.answerJoin(g.c, codeRebalancing) // an earlier one, of a connection that it gave up
	m.join = w
	if !m.isNew {
		g.timers.disarm(forHeartbeat, m.id)
		return
	}
	// A client that goes away while its first join waits leaves a member behind that nobody knows of: no heartbeat will be missed, since none was ever
	// sent, and a later join makes another. So a new member is counted out like any other, only more slowly (KAFKA-9752).
	g.arm(forHeartbeat, m.id, now.Up+g.c.cfg.NewMemberJoinTimeout)
}

func (m *member) answerJoin(c *Coordinator, code int16) {
	if w := m.join; w != nil {
		m.join = nil
		c.refuseJoin(w, m.id, code)
	}
}

func (m *member) answerSync(c *Coordinator, code int16) {
	if w := m.sync; w != nil {
		m.sync = nil
		c.refuseSync(w, code)
	}
}
