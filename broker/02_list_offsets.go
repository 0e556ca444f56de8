package broker

import (
	"math"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Timestamps that ask for a place instead of a time.
const (
	tsLatest              = -1 // first offset that is not visible
	tsEarliest            = -2 // log start
	tsMax                 = -3 // record with the largest timestamp (KIP-734)
	tsEarliestLocal       = -4 // log start on this disk (KIP-405): there is no other
	tsLatestTiered        = -5 // nothing is tiered (KIP-1005)
	noOffset              = -1
	onlyEpoch       int32 = 0 // of leaders that never change
)

// listOffsets finds offsets by time, and the ends of logs. A leader that does not know yet how much the one before has shown refuses what would lie at or behind the end that it
// knows: else a reader that begins at the end would begin further back than one before it (KIP-207).
func (c *conn) listOffsets(req *kmsg.ListOffsetsRequest) (*kmsg.ListOffsetsResponse, error) {
	b := c.b
	resp := kmsg.NewPtrListOffsetsResponse()
	for i := range req.Topics {
		rt := &req.Topics[i]
		pt := kmsg.NewListOffsetsResponseTopic()
		pt.Topic = rt.Topic
		for j := range rt.Partitions {
			rp := &rt.Partitions[j]
			pp := kmsg.NewListOffsetsResponseTopicPartition()
			pp.Partition = rp.Partition
			pp.Offset, pp.Timestamp, pp.LeaderEpoch = noOffset, -1, -1
			p, code := b.ledIn(rt.Topic, rp.Partition, rp.CurrentLeaderEpoch)
			if code == 0 && b.m.Failpoint("fault/broker/offsets-refused") { // as if the log were being opened
				code = codeNotLeader
			}
			if code == 0 {
				pp.Offset, pp.Timestamp, code = b.offsetAt(p, rp.Timestamp)
			}
			if code == codeOffsetNotAvailable {
				b.m.Mark("mark/broker/end-not-known-yet")
				if req.Version < 5 {
					code = codeLeaderNotAvailable
				}
			}
			if pp.ErrorCode = code; pp.Offset >= 0 {
				pp.LeaderEpoch = p.log.EpochAt(max(pp.Offset-1, p.log.Start()))
			}
			pt.Partitions = append(pt.Partitions, pp)
		}
		resp.Topics = append(resp.Topics, pt)
	}
	return resp, nil
}

// epochCode checks the leader epoch that a client believes in; -1: none.
func (s *standing) epochCode(epoch int32) int16 {
	switch {
	case epoch < 0:
	case epoch < s.epoch:
		return codeFencedLeaderEpoch
	case epoch > s.epoch:
		return codeUnknownLeaderEpoch
	}
	return 0
}

// offsetAt looks up one timestamp or place.
func (b *Broker) offsetAt(p *partition, ts int64) (offset, timestamp int64, code int16) {
	state := p.log.State()
	if state.Err != nil {
		b.logFailed(p, state.Err)
		return noOffset, -1, readCode(state.Err)
	}
	var err error
	end, settled := p.latest()
	switch {
	case ts == tsLatest && settled:
		return end, -1, 0
	case ts == tsLatest:
		return noOffset, -1, codeOffsetNotAvailable
	case ts == tsEarliest || ts == tsEarliestLocal:
		return state.Start, -1, 0
	case ts == tsLatestTiered:
		return noOffset, -1, 0
	case ts == tsMax:
		offset, timestamp, err = newest(func(ts int64) (int64, int64, error) { return p.log.OffsetForTime(ts, end) })
	case ts >= 0:
		offset, timestamp, err = p.log.OffsetForTime(ts, end)
	default:
		return noOffset, -1, codeUnsupportedVersion
	}
	if err != nil {
		b.logFailed(p, err)
		return noOffset, -1, readCode(err)
	}
	if offset < 0 && !settled {
		return noOffset, -1, codeOffsetNotAvailable
	}
	return offset, timestamp, 0
}

// newest finds the first record with the largest timestamp by a search that finds the first one at or after a time: each hit raises the lower bound to the
// hit's own time, each miss lowers the upper one. -1, -1: there is no record.
func newest(find func(ts int64) (offset, timestamp int64, err error)) (offset, timestamp int64, err error) {
	offset, timestamp, err = find(math.MaxInt64)
	if err != nil || offset >= 0 {
		return offset, timestamp, err
	}
	offset, timestamp, err = find(0)
	if err != nil || offset < 0 {
		return -1, -1, err
	}
	// No record is at or after none. The step doubles until the first miss: most logs end soon after the last hit.
	none, step := int64(math.MaxInt64), int64(1)
	for timestamp < none-1 {
		probe := timestamp + min(step, max((none-timestamp)/2, 1))
		o, ts, err := find(probe)
		if err != nil {
			return -1, -1, err
		}
		if o < 0 {
			none, step = probe, 1<<62
			continue
		}
		offset, timestamp = o, ts
		if step < 1<<62 {
			step *= 2
		}
	}
	return offset, timestamp, nil
}
