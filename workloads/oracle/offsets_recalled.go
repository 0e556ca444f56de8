package oracle

import (
	"time"

	"faultline/workloads/history"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// acknowledged is a commit that a consumer was told of.
type acknowledged struct {
	at    time.Duration
	value int64
}

// recalled holds what a group coordinator says is committed against what it, or an earlier one, acknowledged before it was asked.
func (o *Offsets) recalled(e *history.Event) {
	switch resp := e.Kafka.Resp.(type) {
	case *kmsg.OffsetCommitResponse:
		req, ok := e.Kafka.Req.(*kmsg.OffsetCommitRequest)
		for i := range resp.Topics {
			for j := range resp.Topics[i].Partitions {
				if ok && i < len(req.Topics) && j < len(req.Topics[i].Partitions) && resp.Topics[i].Partitions[j].ErrorCode == 0 {
					o.acknowledged(e, req.Group, req.Topics[i].Topic, &req.Topics[i].Partitions[j])
				}
			}
		}
	case *kmsg.OffsetFetchResponse:
		for i := range resp.Groups {
			for j := range resp.Groups[i].Topics {
				t := &resp.Groups[i].Topics[j]
				for k := range t.Partitions {
					if p := &t.Partitions[k]; p.ErrorCode == 0 {
						o.recall(e, seat{resp.Groups[i].Group, place{t.Topic, p.Partition}}, p.Offset)
					}
				}
			}
		}
	}
}

func (o *Offsets) acknowledged(e *history.Event, group, topic string, c *kmsg.OffsetCommitRequestTopicPartition) {
	p := o.seat(seat{group, place{topic, c.Partition}})
	if p == nil || !p.group.Coordinated || p.expired > 0 && e.Kafka.Start < p.expired {
		return
	}
	if len(p.acks) > 64 { // no answer is so old
		p.acks = append(p.acks[:0], p.acks[len(p.acks)-32:]...)
	}
	p.acks = append(p.acks, acknowledged{e.At, c.Offset})
}

func (o *Offsets) recall(e *history.Event, at seat, offset int64) {
	p := o.seat(at)
	if p == nil || !p.group.Coordinated || o.loose(at.place) {
		return
	}
	if offset >= 0 && len(p.counted) > 0 && !p.counted[offset] {
		o.Violate(e.At, CMono, "%s asked for the committed offset of %v at %v and was told %d, of which no coordinator ever said that it counts", e.Machine, at, e.Kafka.Start, offset)
	}
	least := acknowledged{value: none}
	for _, a := range p.acks {
		if a.at < e.Kafka.Start-skew {
			least = a
		}
	}
	if offset < least.value && (p.back() < 0 || offset < p.back()) {
		o.Violate(e.At, CMono, "%s asked for the committed offset of %v at %v and was told %s, though %d was acknowledged at %v", e.Machine, at, e.Kafka.Start, offsetText(offset), least.value, least.at)
		p.acks = nil // told once
	}
}

// counts notes that a committed offset counts.
func (p *progress) counts(offset int64) {
	if p.counted == nil {
		p.counted = map[int64]bool{}
	}
	p.counted[offset] = true
}
