package broker

import (
	"slices"

	"faultline/broker/controller"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// electLeaders gives partitions back to their preferred leaders now, not when the controller's time has come. Only the controller does that, and no unclean elections: the topic's setting decides about them.
func (c *conn) electLeaders(req *kmsg.ElectLeadersRequest) (*kmsg.ElectLeadersResponse, error) {
	b := c.b
	resp := kmsg.NewPtrElectLeadersResponse()
	b.mu.Lock()
	view, topics := b.view()
	cl, epoch := b.session.client, b.control.epoch
	controls := b.control.session == b.session.number && b.control.session > 0
	b.mu.Unlock()
	asked := req.Topics
	if asked == nil {
		for _, t := range view.Topics {
			rt := kmsg.ElectLeadersRequestTopic{Topic: t.Name}
			for _, p := range t.Partitions {
				rt.Partitions = append(rt.Partitions, p.ID)
			}
			asked = append(asked, rt)
		}
	}
	switch {
	case req.ElectionType != 0:
		resp.ErrorCode = codeInvalidRequest
	case !controls:
		resp.ErrorCode = codeNotController
	}
	var writes []controller.Write
	if resp.ErrorCode == 0 {
		writes = slices.DeleteFunc(view.Prefer(), func(w controller.Write) bool {
			return !slices.ContainsFunc(asked, func(rt kmsg.ElectLeadersRequestTopic) bool {
				return rt.Topic == w.Topic && slices.Contains(rt.Partitions, w.Partition)
			})
		})
	}
	failed := b.enact(cl, epoch, topics, writes)
	for _, rt := range asked {
		pt := kmsg.NewElectLeadersResponseTopic()
		pt.Topic = rt.Topic
		for _, id := range rt.Partitions {
			pp := kmsg.NewElectLeadersResponseTopicPartition()
			pp.Partition = id
			chosen := slices.ContainsFunc(writes, func(w controller.Write) bool { return w.Topic == rt.Topic && w.Partition == id })
			if pp.ErrorCode = resp.ErrorCode; pp.ErrorCode == 0 {
				pp.ErrorCode = electCode(topics[rt.Topic], id, chosen, failed)
			}
			pt.Partitions = append(pt.Partitions, pp)
		}
		resp.Topics = append(resp.Topics, pt)
	}
	return resp, nil
}

// electCode says what became of an election.
func electCode(t *topic, id int32, chosen, failed bool) int16 {
	switch {
	case t == nil || id < 0 || int(id) >= len(t.states):
		return codeUnknownTopicOrPartition
	case chosen && failed:
		return codeRequestTimedOut // it may have been written; the client asks again
	case chosen:
		return 0
	case t.states[id].Leader == t.replicas[id][0]:
		return codeElectionNotNeeded
	}
	return codePreferredNotAvailable
}
