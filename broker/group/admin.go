package group

import (
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Describe tells about a group. One that doesn't exist is Dead.
func (c *Coordinator) Describe(id string) kmsg.DescribeGroupsResponseGroup {
	resp := kmsg.NewDescribeGroupsResponseGroup()
	resp.Group = id
	if resp.ErrorCode = c.refuse(id); resp.ErrorCode != 0 {
		return resp
	}
	g := c.find(id)
	if g == nil {
		resp.State = Dead.String()
		return resp
	}
	resp.State, resp.ProtocolType = g.state.String(), g.protocolType
	if g.state == Stable {
		resp.Protocol = g.protocol
	}
	for _, m := range g.members {
		d := kmsg.DescribeGroupsResponseGroupMember{MemberID: m.id, InstanceID: m.instance, ClientID: m.client.ID, ClientHost: m.client.Host}
		if g.state == Stable {
			d.ProtocolMetadata, d.MemberAssignment = m.metadata(g.protocol), m.assignment
		}
		resp.Members = append(resp.Members, d)
	}
	return resp
}

// classic is the type of all groups here (KIP-848 has another).
const classic = "classic"

// List tells of the groups that are in one of the states and of one of the types, in whatever case these are written; none given: of all. The code is an error for the whole partition.
func (c *Coordinator) List(states, types []string) (groups []kmsg.ListGroupsResponseGroup, code int16) {
	if c.phase != isServing {
		return nil, c.refuse("")
	}
	among := func(list []string, s string) bool {
		return len(list) == 0 || slices.ContainsFunc(list, func(l string) bool { return strings.EqualFold(l, s) })
	}
	for _, g := range c.sorted() {
		if among(states, g.state.String()) && among(types, classic) {
			groups = append(groups, kmsg.ListGroupsResponseGroup{Group: g.id, ProtocolType: g.protocolType, GroupState: g.state.String(), GroupType: classic})
		}
	}
	return groups, 0
}

// DeleteGroup deletes a group that has no members, with its offsets. It is answered, when that is in the log, with a kmsg.DeleteGroupsResponse that has this group only.
func (c *Coordinator) DeleteGroup(now Time, ref Ref, id string, version int16) {
	answer := func(code int16) {
		resp := kmsg.NewPtrDeleteGroupsResponse()
		resp.Version = version
		g := kmsg.NewDeleteGroupsResponseGroup()
		g.Group, g.ErrorCode = id, code
		resp.Groups = append(resp.Groups, g)
		c.reply(ref, resp)
	}
	g := c.find(id)
	code := c.refuse(id)
	switch {
	case code != 0:
	case g == nil:
		code = codeGroupNotFound
	case g.state == Dead:
		code = codeNotAvailable
	case g.state != Empty:
		code = codeNonEmpty
	}
	if code != 0 {
		answer(code)
		return
	}
	// Until it is known to be gone it is neither here nor there.
	g.become(now, Dead, "deleted")
	for _, id := range slices.Clone(g.promised) {
		g.keepPromise(id)
	}
	c.append(append(g.tombstones(g.partitions()), g.tombstone()), func(now Time, ok bool) {
		if !ok {
			g.become(now, Empty, "could not be deleted")
			answer(codeNotAvailable)
			return
		}
		delete(c.groups, id)
		answer(0)
	}, answer)
}
