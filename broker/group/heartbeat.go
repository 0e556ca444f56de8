package group

import "github.com/twmb/franz-go/pkg/kmsg"

// Heartbeat keeps a member's session and tells it of a rebalance. It is answered with kmsg.HeartbeatResponse.
func (c *Coordinator) Heartbeat(now Time, ref Ref, r *kmsg.HeartbeatRequest) {
	resp := kmsg.NewPtrHeartbeatResponse()
	resp.Version = r.Version
	// Also while it loads: an answer that says all is well would keep a member going that is none any more, for all that is known yet.
	if resp.ErrorCode = c.refuse(r.Group); resp.ErrorCode == 0 {
		resp.ErrorCode = c.find(r.Group).heartbeat(now, r)
	}
	c.reply(ref, resp)
}

func (g *group) heartbeat(now Time, r *kmsg.HeartbeatRequest) int16 {
	switch {
	case g == nil:
		return codeUnknownMember
	case g.state == Dead:
		return codeNotAvailable
	}
	if code := g.check(r.MemberID, r.InstanceID); code != 0 {
		return code
	}
	if r.Generation != g.generation {
		return codeIllegalGeneration
	}
	g.alive(now, g.byID[r.MemberID])
	if g.state == PreparingRebalance {
		return codeRebalancing
	}
	return 0
}
