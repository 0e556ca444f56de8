package group

import "github.com/twmb/franz-go/pkg/kmsg"

const versionLeaveMany = 3 // of LeaveGroup: a list of members instead of one

// Leave takes members out of their group. It is answered with kmsg.LeaveGroupResponse.
func (c *Coordinator) Leave(now Time, ref Ref, r *kmsg.LeaveGroupRequest) {
	resp := kmsg.NewPtrLeaveGroupResponse()
	resp.Version = r.Version
	g := c.find(r.Group)
	resp.ErrorCode = c.refuse(r.Group)
	if resp.ErrorCode == 0 && g != nil && g.state == Dead {
		resp.ErrorCode = codeNotAvailable
	}
	switch {
	case resp.ErrorCode != 0:
	case r.Version < versionLeaveMany:
		resp.ErrorCode = g.leave(now, r.MemberID, nil)
	default:
		for i := range r.Members {
			m := &r.Members[i]
			resp.Members = append(resp.Members, kmsg.LeaveGroupResponseMember{
				MemberID: m.MemberID, InstanceID: m.InstanceID, ErrorCode: g.leave(now, m.MemberID, m.InstanceID)})
		}
	}
	c.reply(ref, resp)
}

func (g *group) leave(now Time, id string, instance *string) int16 {
	switch {
	case g == nil:
		return codeUnknownMember
	case g.keepPromise(id):
		g.tryCompleteJoin(now)
		return 0
	}
	if id == "" && instance != nil && g.static[*instance] != nil {
		id = g.static[*instance].id // an administrator removes it by its name
	}
	if code := g.check(id, instance); code != 0 {
		return code
	}
	g.remove(id, codeUnknownMember)
	g.removed(now, "member "+id+" left")
	return 0
}
