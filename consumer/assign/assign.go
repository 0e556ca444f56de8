package assign

import (
	"cmp"
	"slices"
	"strings"
)

// Partition names one partition of a topic.
type Partition struct {
	Topic     string
	Partition int32
}

// Compare orders by topic and number.
func (p Partition) Compare(o Partition) int {
	return cmp.Or(strings.Compare(p.Topic, o.Topic), cmp.Compare(p.Partition, o.Partition))
}

// Member is what the leader of a group knows of a member.
type Member struct {
	ID       string
	Instance string // group.instance.id of a static member (KIP-345), empty: dynamic
	Topics   []string

	// Owned are the partitions that the member says it has, since Generation (-1: it doesn't know). A claim is no proof: see claims.
	Owned      []Partition
	Generation int32
}

// compare is the order in which members take their turns: static ones by their instance, so that one that restarts under a new member id
// gets what it had; then the others by id.
func (m *Member) compare(o *Member) int {
	switch {
	case m.Instance != "" && o.Instance != "":
		return cmp.Or(strings.Compare(m.Instance, o.Instance), strings.Compare(m.ID, o.ID))
	case m.Instance != "":
		return -1
	case o.Instance != "":
		return 1
	}
	return strings.Compare(m.ID, o.ID)
}

// Share is what one member gets: partitions sorted by topic and number.
type Share struct {
	Member     string
	Partitions []Partition
}

// Plan has a share for each member, also for those that get nothing, sorted by member id.
type Plan []Share

// Of is the share of a member.
func (p Plan) Of(member string) []Partition {
	i, ok := slices.BinarySearchFunc(p, member, func(s Share, id string) int { return strings.Compare(s.Member, id) })
	if !ok {
		return nil
	}
	return p[i].Partitions
}

// Assignor is a way to divide partitions. Use one of the four values of this package.
type Assignor struct {
	name        string
	cooperative bool
	claims      where
	divide      func(*ledger)
}

// Name is the protocol name by which members agree on an assignor.
func (a *Assignor) Name() string { return a.name }

// Cooperative tells whether members keep their partitions while the group rebalances and give up only those that the new plan takes from
// them, after which they must join again. With the others (eager) a member gives up everything before it joins.
func (a *Assignor) Cooperative() bool { return a.cooperative }

// All are the assignors, in the order of their names.
func All() []*Assignor { return []*Assignor{CooperativeSticky, Range, RoundRobin, Sticky} }

// ByName finds an assignor by its protocol name.
func ByName(name string) (*Assignor, bool) {
	for _, a := range All() {
		if a.name == name {
			return a, true
		}
	}
	return nil, false
}

// Assign divides the partitions 0..counts[topic]-1 of every topic that somebody subscribes to. A topic that is not in counts does not exist (yet).
// When two members have one id the first counts.
func (a *Assignor) Assign(members []Member, counts map[string]int32) Plan {
	l := newLedger(members, counts)
	a.divide(l)
	return l.plan()
}
