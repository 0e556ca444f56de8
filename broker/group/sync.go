package group

import (
	"bytes"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Sync gives a member its assignment. It waits for the leader's, which brings the assignments of all, and for these to be in the log. It is answered with kmsg.SyncGroupResponse.
func (c *Coordinator) Sync(now Time, ref Ref, r *kmsg.SyncGroupRequest) {
	w := &waiter{ref, r.Version}
	code := c.refuse(r.Group)
	if code == codeLoading {
		code = codeRebalancing // the rebalance that it belongs to is forgotten: it has to join again
	}
	g := c.find(r.Group)
	if code == 0 {
		code = g.mayToSync(now, r)
	}
	if code != 0 {
		c.refuseSync(w, code)
		return
	}
	m := g.byID[r.MemberID]
	g.synced(m)
	if g.state == Stable {
		g.alive(now, m)
		c.reply(ref, g.assigned(w, m))
		return
	}
	m.answerSync(c, codeRebalancing) // an earlier one, of a connection that it gave up
	m.sync = w
	g.timers.disarm(forHeartbeat, m.id)
	if m.id == g.leader && !g.storing {
		g.store(now, r.GroupAssignment)
	}
}

func (g *group) mayToSync(now Time, r *kmsg.SyncGroupRequest) int16 {
	switch {
	case g == nil:
		return codeUnknownMember
	case g.state == Dead:
		return codeNotAvailable
	}
	if code := g.check(r.MemberID, r.InstanceID); code != 0 {
		return code
	}
	switch {
	case r.Generation != g.generation:
		return codeIllegalGeneration
	case r.ProtocolType != nil && *r.ProtocolType != g.protocolType, r.Protocol != nil && *r.Protocol != g.protocol:
		return codeInconsistentProtocol
	case g.state == Empty:
		return codeUnknownMember
	case g.state == PreparingRebalance:
		g.alive(now, g.byID[r.MemberID]) // it is to join again, and has the time of a session for that, as after a heartbeat
		return codeRebalancing
	}
	return 0
}

// synced notes that a member sent SyncGroup. Only that ends the wait for it: a member whose SyncGroup is missing may well go on sending heartbeats, and when it is the leader all the others
// would wait for ever (KAFKA-12890).
func (g *group) synced(m *member) {
	m.unsynced = false
	if !slices.ContainsFunc(g.members, func(m *member) bool { return m.unsynced }) {
		g.timers.disarm(forSync, "")
	}
}

// syncTimedOut throws out the members that did not send SyncGroup in time.
func (g *group) syncTimedOut(now Time) {
	for _, m := range slices.Clone(g.members) {
		if m.unsynced {
			g.remove(m.id, codeUnknownMember)
		}
	}
	g.prepareRebalance(now, "members did not sync")
}

// store puts the leader's assignment into the log. It is given out when it lasts: a member must never own partitions in a generation in which the next coordinator, which knows
// only the log, gives them to another. A second one for the same generation is not taken.
func (g *group) store(now Time, given []kmsg.SyncGroupRequestGroupAssignment) {
	assignments := map[string][]byte{}
	for i := range given {
		if g.byID[given[i].MemberID] != nil {
			assignments[given[i].MemberID] = bytes.Clone(given[i].MemberAssignment) // which is the request's buffer
		}
	}
	g.storing = true
	generation := g.generation
	record := g.record(now.Wall, func(m *member) []byte { return assignments[m.id] })
	g.c.append([]Record{record}, func(now Time, ok bool) {
		if g.state != CompletingRebalance || g.generation != generation {
			return // the group is past it; whoever waited was told
		}
		if !ok {
			for _, m := range g.members {
				if m.sync != nil {
					m.answerSync(g.c, codeNotAvailable)
					g.alive(now, m)
				}
			}
			g.prepareRebalance(now, "the assignment could not be stored")
			return
		}
		g.storing = false
		g.become(now, Stable, "assigned")
		for _, m := range g.members {
			m.assignment = assignments[m.id]
			g.give(m)
		}
		for _, m := range g.members {
			if w := m.sync; w != nil {
				m.sync = nil
				g.c.reply(w.ref, g.assigned(w, m))
				g.alive(now, m)
			}
		}
	}, nil)
}

func (g *group) assigned(w *waiter, m *member) *kmsg.SyncGroupResponse {
	resp := newSyncResponse(w)
	resp.ProtocolType, resp.Protocol = kmsg.StringPtr(g.protocolType), kmsg.StringPtr(g.protocol)
	resp.MemberAssignment = m.assignment
	return resp
}

func newSyncResponse(w *waiter) *kmsg.SyncGroupResponse {
	resp := kmsg.NewPtrSyncGroupResponse()
	resp.Version = w.version
	return resp
}

func (c *Coordinator) refuseSync(w *waiter, code int16) {
	resp := newSyncResponse(w)
	resp.ErrorCode = code
	c.reply(w.ref, resp)
}
