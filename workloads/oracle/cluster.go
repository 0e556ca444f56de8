package oracle

import (
	"encoding/json"
	"slices"
	"strconv"
	"time"

	"faultline/sim/machine"
	"faultline/workloads/history"
)

// Cluster follows the partitions that have several replicas, for the oracles that judge them: Agreement, Watermarks, Uncommitted, Acked and Epochs. All of them share one, which is
// shown each event before they are.
type Cluster struct {
	promise *Promise
	reg     *registry
	brokers map[int32]*enrolled
	started map[string]time.Duration // machine -> start of its process
	parts   map[place]*replicas
	numbers map[place]int // one that comes again has the number that it had
	order   []*replicas
	names   *known[replicas]

	onDecided []func(e *history.Event, p *replicas, was, now *PartitionState) // the registry has another state; was nil: the first
	onBegan   []func(e *history.Event, p *replicas)                           // a leader begins, unless the partition is freed
	onTold    []func(e *history.Event, p *replicas, leader bool)              // a broker tells a high watermark, unless the partition is freed
	onTaken   []func(e *history.Event, p *replicas, gone string)              // a broker, by its id, is no replica of the partition any more
	onGone    []func(p *replicas)                                             // the topic was deleted
}

// enrolled is a broker as the registry has it.
type enrolled struct {
	machine    string
	registered time.Duration // when; none: it is not
	enlisted   time.Duration // when it registered last
	cleanSince int64
}

// replicas is a partition with several replicas.
type replicas struct {
	place
	number  int // see byPartition
	topic   *Topic
	leader  string // machine of the broker that began to lead last
	epoch   int64  // in which it does
	told    int64  // the highest high watermark that any leader told
	lost    bool   // an unclean election was decided, and its leader has not begun yet
	unclean int    // elections so far that may have lost records
	set     int64  // version of the topic's state with which what it says of the partition changed last
}

// NewCluster follows no partition yet.
func NewCluster(p *Promise) *Cluster {
	return &Cluster{promise: p, reg: newRegistry(), brokers: map[int32]*enrolled{}, started: map[string]time.Duration{}, parts: map[place]*replicas{}, numbers: map[place]int{}, names: newKnown[replicas]()}
}

// freed tells whether nothing is promised any more of what the partition holds, see [Ruins].
func (c *Cluster) freed(p *replicas) bool { return c.promise.Ruins.of(p.place) }

// part returns the partition, or nil when its topic has one replica, or was deleted.
func (c *Cluster) part(at place) *replicas {
	p := c.parts[at]
	if p == nil && c.promise.Replicated(at.topic) && !c.promise.Incarnations.Dead(at.topic) {
		number, known := c.numbers[at]
		if !known {
			number = len(c.numbers)
			c.numbers[at] = number
		}
		p = &replicas{place: at, number: number, topic: c.promise.topic(at.topic)}
		c.parts[at] = p
		c.order = append(c.order, p)
	}
	return p
}

// state is what the registry has of the partition, or nil.
func (c *Cluster) state(at place) *PartitionState {
	if s := c.reg.states[at.topic]; int(at.partition) < len(s) {
		return &s[at.partition]
	}
	return nil
}

// Needs implements [history.Selective].
func (*Cluster) Needs() history.Steps { return history.Committing }

// Observe takes an event of the run.
func (c *Cluster) Observe(e *history.Event) {
	if e.Kind == history.MachineStarted {
		c.started[e.Machine] = e.At
	}
	if e.Kind != history.Traced {
		return
	}
	t := &e.Trace
	switch t.Kind {
	case machine.LeaderBegan:
		if p := c.bySubject(t.Subject); p != nil {
			for _, fn := range c.onBegan {
				if !c.freed(p) {
					fn(e, p)
				}
			}
			p.told = max(p.told, t.C)
			if t.A >= p.epoch { // one that hears late of its election is past already
				p.leader, p.epoch, p.lost = e.Machine, t.A, false
			}
		}
	case machine.HighWatermark:
		if p := c.bySubject(t.Subject); p != nil {
			for _, fn := range c.onTold {
				if !c.freed(p) {
					fn(e, p, t.C == 1)
				}
			}
			if t.C == 1 {
				p.told = max(p.told, t.A)
			}
		}
	case machine.ZnodeCreated, machine.ZnodeSet, machine.ZnodeDeleted:
		c.znode(e)
	}
}

func (c *Cluster) bySubject(name string) *replicas {
	if p := c.names.get(name); p != nil {
		return p
	}
	at, ok := parsePlace(name)
	if !ok {
		return nil
	}
	p := c.part(at)
	if p != nil {
		c.names.set(name, p)
	}
	return p
}

func (c *Cluster) znode(e *history.Event) {
	t := &e.Trace
	topic, isState := ParseStatePath(t.Subject)
	if !isState {
		name, _ := parseName(t.Subject, topicsRoot)
		was := c.reg.replicas[name]
		c.reg.observe(e)
		c.taken(e, name, was)
		if id, ok := parseName(t.Subject, brokersRoot); ok {
			c.registered(e, id)
		}
		return
	}
	was := c.reg.states[topic]
	if what, _ := c.reg.observe(e); what == noChange || !c.promise.Replicated(topic) {
		return
	}
	if t.Kind == machine.ZnodeDeleted {
		c.order = slices.DeleteFunc(c.order, func(p *replicas) bool {
			if p.place.topic != topic {
				return false
			}
			for _, fn := range c.onGone {
				fn(p)
			}
			delete(c.parts, p.place)
			c.names.delete(p.String())
			return true
		})
		return
	}
	for i := range c.reg.states[topic] {
		p, now := c.part(place{topic, int32(i)}), &c.reg.states[topic][i]
		var before *PartitionState
		if i < len(was) {
			if before = &was[i]; before.Unclean(now) && p.topic.Unclean {
				p.lost = true
				p.unclean++
			}
		}
		if before == nil || before.Leader != now.Leader || before.LeaderEpoch != now.LeaderEpoch || !sameMembers(before, now) {
			p.set = t.A
		}
		for _, fn := range c.onDecided {
			fn(e, p, before, now)
		}
	}
}

// taken tells who was taken out of the replicas of a topic, while it stays.
func (c *Cluster) taken(e *history.Event, topic string, was map[int32][]string) {
	now := c.reg.replicas[topic]
	if now == nil || !c.promise.Replicated(topic) {
		return
	}
	for id := range int32(len(was)) {
		for _, broker := range was[id] {
			if len(now[id]) > 0 && !slices.Contains(now[id], broker) {
				for _, fn := range c.onTaken {
					fn(e, c.part(place{topic, id}), broker)
				}
			}
		}
	}
}

func (c *Cluster) registered(e *history.Event, id string) {
	n, err := strconv.ParseInt(id, 10, 32)
	if err != nil {
		return
	}
	m := c.brokers[int32(n)]
	if m == nil {
		m = &enrolled{}
		c.brokers[int32(n)] = m
	}
	var node struct {
		Host       string `json:"host"`
		CleanSince int64  `json:"clean_since"`
	}
	if e.Trace.Kind == machine.ZnodeDeleted || json.Unmarshal([]byte(e.Trace.Detail), &node) != nil {
		m.registered = none
		return
	}
	m.machine, m.registered, m.enlisted, m.cleanSince = node.Host, e.At, e.At, node.CleanSince
}

// controllerEpochPath is the znode whose version is the controller epoch: a controller's writes check it first.
const controllerEpochPath = "/controller_epoch"

// eachAnswered calls fn for each partition whose leader is told now that the registry took its write of the state, which is still the latest. What the controller on its machine wrote a leader reads
// like any other, and so it does what was there already when another partition of the topic was written.
func (c *Cluster) eachAnswered(e *history.Event, fn func(p *replicas, s *PartitionState)) {
	if e.Coord.Err != nil || len(e.Coord.Ops) > 0 && e.Coord.Ops[0].Path == controllerEpochPath {
		return
	}
	for i := range e.Coord.Ops {
		op := &e.Coord.Ops[i]
		topic, ok := ParseStatePath(op.Path)
		topic = c.promise.Incarnations.Last(topic)
		if !ok || op.Op != "set" || !c.promise.Replicated(topic) {
			continue
		}
		for n, s := range ParseStates(string(op.Data)) {
			at := place{topic, int32(n)}
			if now := c.state(at); now != nil && c.machineOf(s.Leader) == e.Machine && now.LeaderEpoch == s.LeaderEpoch && sameMembers(now, &s) {
				if p := c.part(at); p.set == int64(op.Version)+1 {
					fn(p, &s)
				}
			}
		}
	}
}

// intact tells whether a member of the in-sync replicas has, by what the registry knows, all that it had when it became one. It is on the machine that is returned.
func (c *Cluster) intact(m InSync) (machine string, ok bool) {
	b := c.brokers[m.ID]
	if b == nil || b.registered < 0 || c.former(m) {
		return "", false
	}
	return b.machine, true
}

// former tells whether a member is a broker as it was before its logs may have lost something: its process, or a later one, ended, and no other has registered since that lost nothing.
func (c *Cluster) former(m InSync) bool {
	b := c.brokers[m.ID]
	return b != nil && (b.cleanSince > m.Epoch || c.started[b.machine] > b.enlisted)
}

// machineOf is where a broker was registered last, "": nowhere.
func (c *Cluster) machineOf(id int32) string {
	if b := c.brokers[id]; b != nil {
		return b.machine
	}
	return ""
}
