package group

import (
	"bytes"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// loading is what the log said of a group so far.
type loading struct {
	metadata *kmsg.GroupMetadataValue
	offsets  map[partition]*committed
}

// Load takes one record of the partition. All of them must come, in order, from the start to the end of the log as it was when the leadership began: a tail left out takes acknowledged
// commits back (KAFKA-5600). A later record of a key replaces an earlier one. Records of unknown kinds are passed over. Error: ErrMalformed; the record has no effect.
func (c *Coordinator) Load(r Record) error {
	if c.phase != isLoading {
		return nil
	}
	r.Value = bytes.Clone(r.Value) // members' metadata and assignments go on pointing into it
	e, known, err := Decode(r)
	if err != nil || !known {
		return err
	}
	l := c.loaded[e.Group]
	if l == nil {
		l = &loading{offsets: map[partition]*committed{}}
		c.loaded[e.Group] = l
	}
	where := partition{e.Topic, e.Partition}
	switch v := e.Offset; {
	case e.Topic == "":
		l.metadata = e.Metadata
	case v == nil:
		delete(l.offsets, where)
	default:
		at := &committed{topic: v.TopicID, offset: v.Offset, epoch: -1, metadata: v.Metadata, time: v.CommitTimestamp, expires: -1}
		if v.Version >= 3 {
			at.epoch = v.LeaderEpoch
		}
		if v.Version == offsetValueExpiringVersion {
			at.expires = v.ExpireTimestamp
		}
		l.offsets[where] = at
	}
	return nil
}

// Loaded ends the loading: requests are served from now on. The members of a group that was stable have a whole session to be heard of, and the grace.
func (c *Coordinator) Loaded(now Time) {
	if c.phase != isLoading {
		return
	}
	c.phase, c.sure = isServing, now.Up+c.cfg.Grace
	ids := make([]string, 0, len(c.loaded))
	// order: sorted below
	for id := range c.loaded {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	for _, id := range ids {
		if l := c.loaded[id]; l.metadata != nil || len(l.offsets) > 0 {
			c.restore(now, id, l)
		}
	}
	c.loaded = nil
	c.retention = now.Up + c.cfg.RetentionCheck
	c.wake(c.retention)
}

func (c *Coordinator) restore(now Time, id string, l *loading) {
	g := c.newGroup(id)
	c.groups[id] = g
	// order: each goes to its own place
	for p, at := range l.offsets {
		g.offsets[p] = &offset{at: at, last: at.topic}
	}
	var seats []Seat
	for _, p := range g.partitions() {
		seats = append(seats, Seat{p.topic, g.offsets[p].at.topic, p.n, g.offsets[p].at.offset})
	}
	g.tell(Stored, "", -1, seats)
	v := l.metadata
	if v == nil {
		return
	}
	g.protocolType, g.generation = v.ProtocolType, v.Generation
	if v.Protocol != nil {
		g.protocol = *v.Protocol
	}
	for i := range v.Members {
		g.restoreMember(&v.Members[i])
	}
	if len(g.members) == 0 {
		g.protocol = ""
		g.become(now, Empty, "loaded")
	} else {
		g.become(now, Stable, "loaded")
	}
	g.since = v.CurrentStateTimestamp // not since it was loaded: else a group whose coordinator moves often enough would keep its offsets for ever
	for _, m := range g.members {
		g.give(m)
	}
	if v.Leader != nil && g.byID[*v.Leader] != nil {
		g.leader = *v.Leader
	}
	for _, m := range g.members {
		g.arm(forHeartbeat, m.id, now.Up+m.session+c.cfg.Grace)
	}
	if limit := c.cfg.MaxSize; limit > 0 && len(g.members) > limit {
		g.prepareRebalance(now, "the group is larger than allowed")
	}
}

func (g *group) restoreMember(v *kmsg.GroupMetadataValueMember) {
	if g.byID[v.MemberID] != nil || v.InstanceID != nil && g.static[*v.InstanceID] != nil {
		return // not of our making
	}
	m := &member{
		id: v.MemberID, instance: v.InstanceID, client: Client{v.ClientID, v.ClientHost},
		session: ms(v.SessionTimeoutMillis), rebalance: ms(v.RebalanceTimeoutMillis),
		protocols:  []kmsg.JoinGroupRequestProtocol{{Name: g.protocol, Metadata: v.Subscription}},
		assignment: v.Assignment,
	}
	if m.rebalance <= 0 {
		m.rebalance = m.session
	}
	g.admit(m)
}
