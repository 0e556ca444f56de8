package group

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// replace gives the place of a static member to a new process of the same group.instance.id, under a new member id (KIP-345). In a stable group it gets what the old one had,
// without a rebalance; the old one, should it still run, is fenced from now on.
func (g *group) replace(now Time, w *waiter, from Client, r *kmsg.JoinGroupRequest, m *member) {
	old, leader := m.id, g.leader
	topics, known := g.topicsOf(m)
	g.rename(now, m, g.newID(*r.InstanceID))
	m.tell(from, r)
	if g.state == Stable && g.vote() == g.protocol && g.wantsSame(m, topics, known) {
		g.storeReplaced(now, w, m, leader)
		return
	}
	// Whoever was told of the old member id, such as the leader that is at work on an assignment, must be told of the new one.
	g.awaitJoin(now, m, w)
	if g.state != PreparingRebalance {
		g.prepareRebalance(now, "static member "+*m.instance+" is now "+m.id+", was "+old)
	}
}

// rename fences a static member's old process.
func (g *group) rename(now Time, m *member, id string) {
	m.answerJoin(g.c, codeFenced)
	m.answerSync(g.c, codeFenced)
	g.timers.disarm(forHeartbeat, m.id)
	delete(g.byID, m.id)
	if g.leader == m.id {
		g.leader = id
	}
	g.tell(Went, m.id, g.generation, nil)
	m.id = id
	g.byID[id] = m
	g.tell(Came, id, g.generation, nil)
	g.alive(now, m)
}

// wantsSame tells whether a static member came back with the subscription it had. Its metadata may differ otherwise: a process that restarted owns nothing.
func (g *group) wantsSame(m *member, topics []string, known bool) bool {
	now, ok := g.topicsOf(m)
	return ok == known && slices.Equal(now, topics)
}

// storeReplaced answers when the new member id is in the log: the next coordinator must know it.
func (g *group) storeReplaced(now Time, w *waiter, m *member, leader string) {
	id := m.id
	g.c.append([]Record{g.record(now.Wall, func(m *member) []byte { return m.assignment })}, func(now Time, ok bool) {
		switch {
		case g.byID[id] != m:
			code := codeUnknownMember
			if m.instance != nil && g.static[*m.instance] != nil {
				code = codeFenced // by a third one
			}
			g.c.refuseJoin(w, id, code)
		case !ok:
			g.c.refuseJoin(w, "", codeNotAvailable) // it asks again without an id, and is renamed again
		default:
			g.give(m)
			g.c.reply(w.ref, g.resumed(w, m, leader))
			g.alive(now, m)
		}
	}, func(code int16) { g.c.refuseJoin(w, id, code) })
}

// resumed answers the join of a process that takes over in a stable group. When it took over from the leader it must not make an assignment, which nobody would be given. A client that
// cannot be told so is told that the old process leads.
func (g *group) resumed(w *waiter, m *member, leader string) *kmsg.JoinGroupResponse {
	if w.version < versionSkipAssignment {
		return g.joined(w, m, leader)
	}
	resp := g.joined(w, m, g.leader)
	resp.SkipAssignment = m.id == g.leader
	return resp
}
