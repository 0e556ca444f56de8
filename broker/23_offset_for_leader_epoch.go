package broker

import (
	"github.com/twmb/franz-go/pkg/kmsg"
)

// offsetForLeaderEpoch answers where leader epochs end in the logs that are led here (KIP-101, KIP-279): a reader whose position lies behind the end of the epoch that it read last
// has read what is gone (KIP-320). The answer is the largest epoch that is not above the one asked for, and the offset behind its last record; -1, -1: the log does not tell.
func (c *conn) offsetForLeaderEpoch(req *kmsg.OffsetForLeaderEpochRequest) (*kmsg.OffsetForLeaderEpochResponse, error) {
	b := c.b
	resp := kmsg.NewPtrOffsetForLeaderEpochResponse()
	for i := range req.Topics {
		rt := &req.Topics[i]
		pt := kmsg.NewOffsetForLeaderEpochResponseTopic()
		pt.Topic = rt.Topic
		for j := range rt.Partitions {
			rp := &rt.Partitions[j]
			pp := kmsg.NewOffsetForLeaderEpochResponseTopicPartition()
			pp.Partition, pp.LeaderEpoch, pp.EndOffset = rp.Partition, -1, noOffset
			p, code := b.ledIn(rt.Topic, rp.Partition, rp.CurrentLeaderEpoch)
			if code == 0 {
				if err := p.log.State().Err; err != nil {
					b.logFailed(p, err)
					code = readCode(err)
				}
			}
			if pp.ErrorCode = code; code == 0 {
				pp.LeaderEpoch, pp.EndOffset = p.log.EpochEnd(rp.LeaderEpoch)
			}
			pt.Partitions = append(pt.Partitions, pp)
		}
		resp.Topics = append(resp.Topics, pt)
	}
	return resp, nil
}
