package linear

import (
	"strconv"

	"faultline/workloads/history"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// kafka takes the appends and reads out of a finished request.
func (o *Oracle) kafka(e *history.Event) {
	c := e.Kafka
	switch req := c.Req.(type) {
	case *kmsg.ProduceRequest:
		if c.Sent || c.Err == nil {
			resp, _ := c.Resp.(*kmsg.ProduceResponse)
			o.produced(e.Machine, c, req, resp)
		}
	case *kmsg.FetchRequest:
		if resp, ok := c.Resp.(*kmsg.FetchResponse); ok {
			o.fetched(e.Machine, c, resp)
		}
	case *kmsg.ListOffsetsRequest:
		if resp, ok := c.Resp.(*kmsg.ListOffsetsResponse); ok {
			o.listed(e.Machine, c, req, resp)
		}
	}
}

func (o *Oracle) produced(who string, c *history.KafkaCall, req *kmsg.ProduceRequest, resp *kmsg.ProduceResponse) {
	for i := range req.Topics {
		t := &req.Topics[i]
		for j := range t.Partitions {
			p := &t.Partitions[j]
			code, base, answered := produceResult(resp, t.Topic, p.Partition)
			if answered && code != 0 && definite(code) {
				continue
			}
			l := o.at(t.Topic, p.Partition)
			// More than one batch in a request is appended as one; here they count as one after the other.
			eachBatch(p.Records, func(b Batch) {
				if answered && code == 0 && base >= 0 && req.Acks != 0 {
					b.Base = base
					base = b.Next()
					call := c.Start
					if numbered(p.Records) {
						var known bool
						if call, known = l.Again(call, b); known {
							return
						}
					}
					l.AppendAcked(who, call, c.End, req.Acks, b)
					return
				}
				l.AppendUnknown(who, c.Start, req.Acks, b)
			})
		}
	}
}

func produceResult(resp *kmsg.ProduceResponse, topic string, partition int32) (code int16, base int64, ok bool) {
	if resp == nil {
		return 0, -1, false
	}
	for i := range resp.Topics {
		if resp.Topics[i].Topic != topic {
			continue
		}
		for j := range resp.Topics[i].Partitions {
			if p := &resp.Topics[i].Partitions[j]; p.Partition == partition {
				return p.ErrorCode, p.BaseOffset, true
			}
		}
	}
	return 0, -1, false
}

// definite tells whether a produce error says that nothing was appended: the request was refused before. After the others (time-out, storage error,
// unknown server error, ...) the batch may be in the log.
func definite(code int16) bool {
	switch code {
	case 2, // CORRUPT_MESSAGE
		3,   // UNKNOWN_TOPIC_OR_PARTITION
		5,   // LEADER_NOT_AVAILABLE
		6,   // NOT_LEADER_OR_FOLLOWER
		10,  // MESSAGE_TOO_LARGE
		17,  // INVALID_TOPIC_EXCEPTION
		18,  // RECORD_LIST_TOO_LARGE
		19,  // NOT_ENOUGH_REPLICAS
		21,  // INVALID_REQUIRED_ACKS
		29,  // TOPIC_AUTHORIZATION_FAILED
		32,  // INVALID_TIMESTAMP
		35,  // UNSUPPORTED_VERSION
		42,  // INVALID_REQUEST
		43,  // UNSUPPORTED_FOR_MESSAGE_FORMAT
		44,  // POLICY_VIOLATION
		76,  // UNSUPPORTED_COMPRESSION_TYPE
		87,  // INVALID_RECORD
		100: // UNKNOWN_TOPIC_ID
		return true
	}
	return false
}

func (o *Oracle) fetched(who string, c *history.KafkaCall, resp *kmsg.FetchResponse) {
	if resp.ErrorCode != 0 {
		return
	}
	for i := range resp.Topics {
		t := &resp.Topics[i]
		for j := range t.Partitions {
			p := &t.Partitions[j]
			if p.ErrorCode != 0 || p.HighWatermark < 0 {
				continue
			}
			l := o.at(t.Topic, p.Partition)
			l.Read(who, c.Start, c.End, p.HighWatermark)
			l.logStart = max(l.logStart, p.LogStartOffset)
			eachBatch(p.RecordBatches, func(b Batch) {
				l.Saw(who, c.Start, c.End, b)
				if b.Next() > p.HighWatermark && int64(c.Start) >= l.notBefore && !l.ruined {
					l.find(int64(c.End), Linear, "%s got records up to %d with a high watermark of %d", who, b.Next()-1, p.HighWatermark)
				}
			})
		}
	}
}

func (o *Oracle) listed(who string, c *history.KafkaCall, req *kmsg.ListOffsetsRequest, resp *kmsg.ListOffsetsResponse) {
	for i := range resp.Topics {
		t := &resp.Topics[i]
		for j := range t.Partitions {
			p := &t.Partitions[j]
			if p.ErrorCode == 0 && p.Offset >= 0 && asksLatest(req, t.Topic, p.Partition) {
				o.at(t.Topic, p.Partition).Read(who, c.Start, c.End, p.Offset)
			}
		}
	}
}

func asksLatest(req *kmsg.ListOffsetsRequest, topic string, partition int32) bool {
	const latest = -1
	for i := range req.Topics {
		if req.Topics[i].Topic != topic {
			continue
		}
		for j := range req.Topics[i].Partitions {
			if p := &req.Topics[i].Partitions[j]; p.Partition == partition {
				return p.Timestamp == latest
			}
		}
	}
	return false
}

// at is the log of a partition. It is on the path of every request, so no string is made.
func (o *Oracle) at(topic string, partition int32) *partition {
	k := placeKey{topic, partition}
	p := o.byKey[k]
	if p == nil {
		p = o.partition(topic + "/" + strconv.Itoa(int(partition)))
		o.byKey[k] = p
	}
	return p
}

type placeKey struct {
	topic     string
	partition int32
}
