package controller_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"faultline/broker/controller"
	"faultline/broker/replica"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// rec is a record of the model: the epoch it was appended in and a value of its own.
type rec struct{ epoch, value int }

// node is a broker of the model with one replica of one partition.
type node struct {
	id           int32
	up           bool
	epoch, since int64 // of its registration
	registered   bool
	clean        bool // it went down regularly
	log          []rec
	flushed      int
	epochs       replica.Epochs
	hw           int
	known        *replica.State // what it has read of the registry
	version      int32
	leader       *replica.Leader
	proposal     *entry // under way to the registry
}

// entry is a state and the version of the registry's entry that it shall replace.
type entry struct {
	replica.State
	version int32
}

// cluster is one partition with its replicas, a registry and a controller, driven by steps that a test draws.
type cluster struct {
	t         *rapid.T
	nodes     []*node
	epochs    map[int32]int64 // versions of the registrations
	state     *replica.State
	version   int32
	now       time.Duration
	values    int
	committed []rec // below the highest HW that any leader had
	pending   []entry
	least     int
	story     []string
	rumours   bool // leaders may take a broker for registered that is not, any more or yet
}

const lag = 10 * time.Second

func (c *cluster) node(id int32) *node { return c.nodes[id-1] }

func (c *cluster) view() *controller.View {
	v := &controller.View{Epoch: 1}
	p := controller.Partition{State: c.state}
	for _, n := range c.nodes {
		p.Replicas = append(p.Replicas, n.id)
		if n.registered {
			v.Brokers = append(v.Brokers, controller.Broker{ID: n.id, Epoch: n.epoch, CleanSince: n.since})
		}
	}
	v.Topics = []controller.Topic{{Name: "t", LeastISR: c.least, Partitions: []controller.Partition{p}}}
	return v
}

// decided puts decisions on their way to the registry.
func (c *cluster) decided(list []controller.Write) {
	for _, w := range list {
		c.pending = append(c.pending, entry{w.State, c.version})
	}
}

// register makes the broker's entry anew, as at a start or after its session ended.
func (c *cluster) register(n *node) {
	c.epochs[n.id]++
	n.epoch, n.registered = c.epochs[n.id], true
	if !n.clean {
		n.since = n.epoch
	}
	n.clean = true // as long as the process lives
}

// registered is what a leader knows of that: it may have heard of it or not.
func (c *cluster) registered(m replica.Member) bool {
	n := c.node(m.ID)
	return n.registered && n.epoch == m.Epoch || c.rumours && rapid.Bool().Draw(c.t, "rumour")
}

func (c *cluster) write(w *entry) bool {
	if w.version != c.version {
		return false
	}
	s := w.State.Clone()
	c.state = &s
	c.version++
	return true
}

// learn lets a broker read the registry.
func (c *cluster) learn(n *node) {
	if c.state == nil || n.version == c.version {
		return
	}
	s := c.state.Clone()
	old := n.known
	n.known, n.version = &s, c.version
	switch {
	case !s.Leads(n.id, n.since):
		n.leader, n.proposal = nil, nil
	case old == nil || old.LeaderEpoch != s.LeaderEpoch || n.leader == nil:
		n.leader = replica.Lead(n.id, []int32{1, 2, 3}, s, c.least, int64(len(n.log)), int64(n.hw), c.now)
		n.proposal = nil
	default:
		n.leader.Confirm(s)
		n.proposal = nil
	}
	c.lift(n)
}

// lift checks what a leader takes for committed.
func (c *cluster) lift(n *node) {
	if n.leader == nil {
		return
	}
	n.hw = int(n.leader.HW())
	for i, r := range n.log[:n.hw] {
		if i < len(c.committed) {
			require.Equal(c.t, c.committed[i], r, "offset %d was committed otherwise; leader %d in epoch %d\n%s", i, n.id, n.known.LeaderEpoch, c)
			continue
		}
		c.committed = append(c.committed, r)
	}
}

func (c *cluster) produce(n *node) {
	if !n.up || n.leader == nil {
		return
	}
	c.values++
	n.epochs.Begin(n.known.LeaderEpoch, int64(len(n.log)))
	n.log = append(n.log, rec{int(n.known.LeaderEpoch), c.values})
	n.leader.Appended(int64(len(n.log)))
	c.lift(n)
}

// fetch is one fetch of a follower from the broker that it takes for its leader.
func (c *cluster) fetch(n *node) {
	if !n.up || n.known == nil || n.known.Leader == n.id || n.known.Leader == replica.NoLeader {
		return
	}
	l := c.node(n.known.Leader)
	if !l.up || l.leader == nil || l.known.LeaderEpoch != n.known.LeaderEpoch {
		return // fenced
	}
	end, last := int64(len(n.log)), n.epochs.Latest()
	if d, yes := l.epochs.Diverges(end, last, 0, int64(len(l.log))); yes || end > int64(len(l.log)) {
		if !yes {
			d = replica.Divergence{Epoch: last, End: int64(len(l.log))}
		}
		to, _ := n.epochs.Cut(d, 0, 0, end)
		n.log = n.log[:to]
		n.flushed, n.hw = min(n.flushed, int(to)), min(n.hw, int(to))
		n.epochs.TruncateEnd(to)
		return
	}
	l.leader.Fetched(n.id, n.epoch, end, c.now)
	c.lift(l)
	for _, r := range l.log[end:min(len(l.log), int(end)+2)] {
		n.epochs.Begin(int32(r.epoch), int64(len(n.log)))
		n.log = append(n.log, r)
	}
	n.hw = max(n.hw, min(l.hw, len(n.log)))
}

// down ends a process: cleanly, or with the loss of a part of what was not flushed.
func (c *cluster) down(n *node, clean bool) {
	if !n.up {
		return
	}
	if !clean && !c.covered(n) {
		return
	}
	n.up, n.clean, n.leader, n.known, n.version, n.proposal = false, clean, nil, nil, -1, nil
	if clean {
		n.flushed = len(n.log)
		return
	}
	to := len(n.log) // with one in-sync replica allowed, only a crash of the process is survived: the page cache is still there
	if c.least > 1 {
		to = rapid.IntRange(n.flushed, len(n.log)).Draw(c.t, "kept")
	}
	n.log = n.log[:to]
	n.flushed, n.hw = to, min(n.hw, to)
	n.epochs.TruncateEnd(int64(to))
}

// covered tells whether another good copy counts: a member of the ISR or the ELR that lost nothing, in the registry and in every entry that is under way to it. That is
// what the system promises to survive.
func (c *cluster) covered(n *node) bool {
	if c.state == nil {
		return true
	}
	entries := []*replica.State{c.state}
	for i := range c.pending {
		if c.pending[i].version == c.version {
			entries = append(entries, &c.pending[i].State)
		}
	}
	for _, o := range c.nodes {
		if o.proposal != nil && o.proposal.version == c.version {
			entries = append(entries, &o.proposal.State)
		}
	}
	return !slices.ContainsFunc(entries, func(s *replica.State) bool {
		return !slices.ContainsFunc(slices.Concat(s.ISR, s.ELR), func(m replica.Member) bool { return m.ID != n.id && c.good(m) })
	})
}

// good tells whether the member has everything that is committed.
func (c *cluster) good(m replica.Member) bool {
	o := c.node(m.ID)
	intact := o.clean && (o.epoch == m.Epoch || o.since <= m.Epoch)
	return intact && len(o.log) >= len(c.committed) && slices.Equal(o.log[:len(c.committed)], c.committed)
}

func (c *cluster) String() string {
	out := strings.Join(c.story, "\n") + fmt.Sprintf("\nregistry v%d %+v, at least %d in sync, committed %v\n", c.version, c.state, c.least, c.committed)
	for _, n := range c.nodes {
		out += fmt.Sprintf("%d up=%v reg=%v epoch=%d since=%d hw=%d flushed=%d log=%v known=%+v\n", n.id, n.up, n.registered, n.epoch, n.since, n.hw, n.flushed, n.log, n.known)
	}
	return out
}

func (c *cluster) step() {
	t := c.t
	n := c.nodes[rapid.IntRange(0, 2).Draw(t, "broker")]
	step := rapid.SampledFrom([]string{"produce", "produce", "fetch", "fetch", "fetch", "learn", "learn and fetch", "learn and fetch", "propose", "write", "decide", "write decision", "crash", "stop", "start", "expire", "wait", "flush", "prefer"}).Draw(t, "step")
	before := c.String()
	before = before[strings.LastIndex(before, "\nregistry"):]
	defer func() {
		after := c.String()
		if after = after[strings.LastIndex(after, "\nregistry"):]; after != before || step == "propose" || step == "decide" {
			c.story = append(c.story, fmt.Sprintf("%s %d: v%d logs %v %v %v", step, n.id, c.version, c.nodes[0].log, c.nodes[1].log, c.nodes[2].log))
		}
	}()
	switch step {
	case "produce":
		c.produce(n)
	case "fetch":
		c.fetch(n)
	case "learn":
		if n.up {
			c.learn(n)
		}
	case "learn and fetch":
		if n.up {
			c.learn(n)
			c.fetch(n)
		}
	case "propose":
		if n.up && n.leader != nil && n.proposal == nil {
			if s, ok := n.leader.Propose(lag, 0, c.now, c.registered); ok {
				n.proposal = &entry{s, n.version}
			}
		}
	case "write": // fenced by the registration
		if n.up && n.proposal != nil && n.registered {
			if c.write(n.proposal) && rapid.Bool().Draw(t, "answer lost") {
				return // it hears of it when it reads the registry
			}
			n.proposal = nil
			n.leader.Refused()
			c.learn(n)
		}
	case "decide":
		c.decided(c.view().Decide())
	case "prefer":
		c.decided(c.view().Prefer())
	case "write decision":
		if len(c.pending) > 0 {
			c.write(&c.pending[0])
			c.pending = c.pending[1:]
		}
	case "crash":
		c.down(n, false)
	case "stop":
		if n.up {
			c.down(n, true)
			n.registered = false
		}
	case "start":
		if !n.up {
			n.up = true
			c.register(n)
		}
	case "expire":
		if n.registered {
			n.registered = false
			if n.up && rapid.Bool().Draw(t, "at once") {
				c.register(n)
			}
		} else if n.up {
			c.register(n)
		}
	case "wait":
		c.now += time.Duration(rapid.IntRange(1, 12).Draw(t, "seconds")) * time.Second
	case "flush":
		n.flushed = len(n.log)
	}
}

// heal lets everything run until it rests, and checks that nothing committed is gone and all replicas agree.
func (c *cluster) heal() {
	c.rumours = false
	for range 30 {
		for _, n := range c.nodes {
			if !n.up {
				n.up = true
				c.register(n)
			} else if !n.registered {
				c.register(n)
			}
		}
		for _, w := range c.view().Decide() {
			c.write(&entry{w.State, c.version})
		}
		for _, n := range c.nodes {
			c.learn(n)
			for range 20 {
				c.fetch(n)
			}
		}
		for _, n := range c.nodes {
			if n.leader == nil {
				continue
			}
			if n.proposal != nil { // it never got there
				n.leader.Refused()
				n.proposal = nil
			}
			if s, ok := n.leader.Propose(lag, 0, c.now, c.registered); ok {
				require.True(c.t, c.write(&entry{s, n.version}))
				c.learn(n)
			}
		}
		c.now += time.Second
	}
	require.NotNil(c.t, c.state)
	require.NotEqual(c.t, replica.NoLeader, c.state.Leader, "no leader\n%s", c)
	require.Len(c.t, c.state.ISR, 3, "not all in sync\n%s", c)
	leader := c.node(c.state.Leader)
	require.GreaterOrEqual(c.t, len(leader.log), len(c.committed), "committed %v\n%s", c.committed, c)
	require.True(c.t, slices.Equal(c.committed, leader.log[:len(c.committed)]), "a committed record is gone: %v\n%s", c.committed, c)
	for _, n := range c.nodes {
		require.True(c.t, slices.Equal(leader.log, n.log), "replicas differ\n%s", c)
	}
	require.Equal(c.t, len(leader.log), leader.hw, "not all is committed\n%s", c)
	require.Empty(c.t, c.view().Decide(), "no rest")
}

// Whatever happens to three replicas, as long as one that counts has everything that is committed: no committed record is lost or changed, and
// when the trouble is over all replicas are in sync and the same.
func TestNothingCommittedIsLost(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := &cluster{t: t, rumours: true, epochs: map[int32]int64{}, version: -1, least: rapid.IntRange(1, 2).Draw(t, "least in-sync replicas")}
		for id := range int32(3) {
			n := &node{id: id + 1, up: true, version: -1}
			c.nodes = append(c.nodes, n)
			c.register(n)
		}
		for range rapid.IntRange(1, 120).Draw(t, "steps") {
			c.step()
		}
		c.heal()
	})
}
