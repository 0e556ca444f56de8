package group

import (
	"slices"
	"strings"
	"time"
)

// State is where a group is in its life.
type State int8

const (
	Empty               State = iota // no members; it may have offsets
	PreparingRebalance               // waits for its members to join
	CompletingRebalance              // has a new generation; waits for the leader's assignment
	Stable                           // every member can have its assignment
	Dead                             // is being deleted
)

// String is Kafka's name of the state.
func (s State) String() string {
	return [...]string{"Empty", "PreparingRebalance", "CompletingRebalance", "Stable", "Dead"}[s]
}

type group struct {
	c  *Coordinator
	id string

	state        State
	since        int64  // wall time of the last change of state, ms
	protocolType string // empty: it was only ever used to store offsets
	protocol     string // of the generation
	generation   int32
	leader       string // member id
	members      []*member
	byID         map[string]*member
	static       map[string]*member // by instance

	promised []string // member ids that clients were told to join with
	initial  *delay   // while the first rebalance of an empty group waits for more
	storing  bool     // the generation's assignment is on its way to the log
	timers   timers
	offsets  map[partition]*offset
}

func byID(a, b *group) int { return strings.Compare(a.id, b.id) }

func (c *Coordinator) newGroup(id string) *group {
	return &group{c: c, id: id, byID: map[string]*member{}, static: map[string]*member{}, timers: timers{}, offsets: map[partition]*offset{}}
}

func (g *group) become(now Time, s State, reason string) {
	g.c.effects = append(g.c.effects, Effect{Kind: Changed, Change: Change{
		Group: g.id, From: g.state, To: s, Generation: g.generation, Members: len(g.members), Reason: reason}})
	g.state, g.since = s, now.Wall
}

// check tells whether a request comes from a member: 0, or the error for it.
func (g *group) check(id string, instance *string) int16 {
	if instance != nil {
		switch m := g.static[*instance]; {
		case m == nil:
			return codeUnknownMember
		case m.id != id:
			return codeFenced // another process goes by this name since (KIP-345)
		}
	}
	if g.byID[id] == nil {
		return codeUnknownMember
	}
	return 0
}

// rebalanceTimeout is the longest of the members'.
func (g *group) rebalanceTimeout() time.Duration {
	var longest time.Duration
	for _, m := range g.members {
		longest = max(longest, m.rebalance)
	}
	return longest
}

// waiting counts the members that wait for the join to complete.
func (g *group) waiting() int {
	n := 0
	for _, m := range g.members {
		if m.join != nil {
			n++
		}
	}
	return n
}

// admit makes a member of the group.
func (g *group) admit(m *member) {
	g.members = append(g.members, m)
	g.byID[m.id] = m
	if m.instance != nil {
		g.static[*m.instance] = m
	}
	if g.leader == "" {
		g.leader = m.id
	}
	g.tell(Came, m.id, g.generation, nil)
}

// remove takes a member out of the group and answers what it waits for. Follow it by removed.
func (g *group) remove(id string, code int16) {
	g.timers.disarm(forHeartbeat, id)
	if m := g.byID[id]; m != nil {
		m.answerJoin(g.c, code)
		m.answerSync(g.c, code)
		delete(g.byID, id)
		if m.instance != nil {
			delete(g.static, *m.instance)
		}
		g.members = slices.DeleteFunc(g.members, func(o *member) bool { return o == m })
		g.tell(Went, id, g.generation, nil)
	}
	if g.leader == id {
		g.leader = ""
		if len(g.members) > 0 {
			g.leader = g.members[0].id
		}
	}
}

// removed draws the consequences of a removal. In a rebalance it may have been the one that the others wait for.
func (g *group) removed(now Time, reason string) {
	switch g.state {
	case Stable, CompletingRebalance:
		g.prepareRebalance(now, reason)
	case PreparingRebalance:
		g.tryCompleteJoin(now)
	}
}
