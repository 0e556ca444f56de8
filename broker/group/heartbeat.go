package group

import "github.com/twmb/franz-go/pkg/kmsg"

// Heartbeat keeps a member's session and tells it of a rebalance. It is answered with kmsg.HeartbeatResponse.
func (c *Coordinator) Heartbeat(now Time, ref Ref, r *kmsg.HeartbeatRequest) {
	resp := kmsg.NewPtrHeartbeatResponse()
	resp.Version = r.Version
	switch code := c.refuse(r.Group); code {
	case 0:
		resp.ErrorCode = c.find(r.Group).heartbeat(now, r)
	case codeLoading: // nothing is known to be wrong, and sessions start anew with the end of loading
	default:
		resp.ErrorCode = code
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
