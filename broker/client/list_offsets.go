package client

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Offset asks the broker at the other end, which leads a partition, for the first offset whose record's timestamp (ms since 1970) is at least ts, and that timestamp: -1, -1 when there is none yet. A ts of -1 or -2 asks
// for the end and the start. epoch is the leader's as the caller knows it, by which old and new leaders are told apart (KIP-320), -1: it does not know. Errors are those of [Conn.Request], the broker's error
// codes, and ErrProtocol.
func (c *Conn) Offset(topic string, partition, epoch int32, ts int64) (offset, timestamp int64, err error) {
	req := kmsg.NewPtrListOffsetsRequest()
	t := kmsg.NewListOffsetsRequestTopic()
	t.Topic = topic
	p := kmsg.NewListOffsetsRequestTopicPartition()
	p.Partition, p.CurrentLeaderEpoch, p.Timestamp = partition, epoch, ts
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	resp, err := c.Request(req)
	if err != nil {
		return -1, -1, err
	}
	for _, t := range resp.(*kmsg.ListOffsetsResponse).Topics {
		for _, p := range t.Partitions {
			if t.Topic != topic || p.Partition != partition {
				continue
			}
			if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
				return -1, -1, err
			}
			return p.Offset, p.Timestamp, nil
		}
	}
	return -1, -1, fmt.Errorf("%w: the answer leaves the partition out", ErrProtocol)
}
