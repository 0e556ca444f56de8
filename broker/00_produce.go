package broker

import (
	"encoding/binary"
	"errors"
	"strings"
	"time"

	"faultline/broker/log"
	"faultline/broker/record"
	"faultline/broker/wire"
	"faultline/sim/machine"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// maxAckWait bounds what a client may ask for as time-out of acks=all.
const maxAckWait = 5 * time.Minute

// produce appends record batches.
//
// Acks 1 is answered when the records are in the page cache: they survive a crash of the broker's process, not of its machine. Acks -1 (all) is
// answered when they are committed - every in-sync replica has them, or, where there is one replica, they are flushed - and so visible to consumers. Acks 0 is not answered; an error closes the connection, which is the only
// way to tell.
//
// Codes that leave open whether the records are in the log: KAFKA_STORAGE_ERROR and REQUEST_TIMED_OUT. All others say that they are not.
func (c *conn) produce(h wire.Header, rest []byte) error {
	b := c.b
	b.m.Work(machine.Work{Served: 1, Moved: int64(len(rest)), Syscalls: c.calls.Take() + 1})
	req := &c.produceReq
	*req = kmsg.ProduceRequest{Version: h.Version, Topics: req.Topics[:0]}
	if err := wire.Decode(req, rest); err != nil {
		return err
	}
	out := c.spare
	if out == nil {
		out = &reply{}
	}
	c.spare = out
	out.correlation = h.Correlation
	out.waits = out.waits[:0]
	resp := &out.resp
	*resp = kmsg.ProduceResponse{Version: h.Version, Topics: resp.Topics[:0]}

	failed := false
	for i := range req.Topics {
		rt := &req.Topics[i]
		pt := nextTopic(&resp.Topics)
		pt.TopicID = rt.TopicID
		for j := range rt.Partitions {
			rp := &rt.Partitions[j]
			if b.m.Failpoint("fault/broker/produce-next") { // the connection drops amid the request's partitions
				c.tellGrown()
				return errMisfortune
			}
			pp := kmsg.NewProduceResponseTopicPartition()
			pp.Partition = rp.Partition
			pp.BaseOffset, pp.LogAppendTime, pp.LogStartOffset = -1, -1, -1
			var p *partition
			p, pp.ErrorCode = b.produceTarget(req, rt, rp.Partition)
			if p != nil {
				pt.Topic = p.topic.name // the response may outlive the request's memory
			}
			if pp.ErrorCode == 0 {
				pp.ErrorCode = checkRecords(rp.Records)
			}
			if pp.ErrorCode == 0 {
				var epoch int32
				var done log.Appended
				var err error
				if epoch, pp.ErrorCode = p.mayAppend(req.Acks); pp.ErrorCode == 0 {
					b.m.Failpoint("fault/broker/append-late") // the role may be another one by the time of the append
					done, err = p.log.Append(rp.Records, log.AppendOptions{LeaderEpoch: epoch})
					pp.ErrorCode = appendCode(err)
				}
				if err != nil {
					b.markRefusal(err)
					b.logFailed(p, err)
				} else if pp.ErrorCode == 0 {
					if p.replicated {
						c.grew = append(c.grew, p)
						if p.grew(b.m, epoch) {
							c.committed = append(c.committed, p)
						}
					}
					pp.BaseOffset, pp.LogStartOffset = done.Base, done.Start
					if req.Acks == -1 {
						if !p.replicated {
							p.log.RequestFlush()
						}
						out.waits = append(out.waits, flushWait{p: p, next: done.Next, epoch: epoch, topic: i, partition: j})
					}
				}
			}
			failed = failed || pp.ErrorCode != 0
			pt.Partitions = append(pt.Partitions, pp)
		}
		if pt.Topic == "" {
			pt.Topic = strings.Clone(rt.Topic)
		}
	}
	c.tellGrown() // in one go, so that a follower gets all of it by one fetch
	switch {
	case req.Acks == 0 && failed:
		b.m.Mark("mark/broker/produce-failed-in-silence")
		return errSilentFailure
	case req.Acks == 0:
		return nil
	case len(out.waits) == 0:
		return c.reply(h.Correlation, resp)
	}
	wait := min(max(time.Duration(req.TimeoutMillis)*time.Millisecond, 0), maxAckWait)
	out.deadline = b.m.Uptime() + wait
	next, err := c.later().push(out)
	c.spare = next
	return err
}

// tellGrown wakes followers, which wait for any record, and consumers, which wait for committed ones.
func (c *conn) tellGrown() {
	c.b.waits.grown(followers, c.grew...)
	c.b.waits.grown(consumers, c.committed...)
	c.grew, c.committed = c.grew[:0], c.committed[:0]
}

// produceTarget finds the partition, or the code that refuses.
func (b *Broker) produceTarget(req *kmsg.ProduceRequest, rt *kmsg.ProduceRequestTopic, id int32) (*partition, int16) {
	switch {
	case req.Acks < -1 || req.Acks > 1:
		return nil, codeInvalidRequiredAcks
	case req.TransactionID != nil:
		return nil, codeInvalidRequest // there is no transaction coordinator that could have let it begin
	}
	if b.m.Failpoint("fault/broker/produce-refused") { // as if the log were being opened
		return nil, codeNotLeader
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if req.Version >= 13 {
		t := b.byID[rt.TopicID]
		if t == nil {
			return nil, codeUnknownTopicID
		}
		return b.lookupLocked(t, id)
	}
	return b.lookupLocked(b.topics[rt.Topic], id)
}

// markRefusal tells refusals of the log apart.
func (b *Broker) markRefusal(err error) {
	switch {
	case errors.Is(err, log.ErrFenced):
		b.m.Mark("mark/broker/append-to-fenced-log")
	case errors.Is(err, machine.ErrNoSpace):
		b.m.Mark("mark/broker/append-without-space")
	case errors.Is(err, log.ErrTooLarge):
		b.m.Mark("mark/broker/append-too-large")
	case errors.Is(err, record.ErrCorrupt), errors.Is(err, record.ErrPartial):
		b.m.Mark("mark/broker/append-corrupt")
	}
}

// checkRecords refuses what the log would not understand or this broker does not keep its promise for: message formats before v2. Broken batches are left to the log, which checks everything else.
func checkRecords(p []byte) int16 {
	if len(p) == 0 {
		return codeInvalidRecord
	}
	for len(p) > 16 {
		if p[16] != record.Magic {
			if p[16] < record.Magic {
				return codeUnsupportedFormat
			}
			return codeCorruptMessage
		}
		if len(p) < record.HeaderBytes {
			break
		}
		size := record.PrefixBytes + int64(int32(binary.BigEndian.Uint32(p[8:])))
		if size < record.HeaderBytes || size > int64(len(p)) {
			break
		}
		p = p[size:]
	}
	return 0
}

// nextTopic appends a blank topic, reusing the memory of an earlier response's partitions.
func nextTopic(topics *[]kmsg.ProduceResponseTopic) *kmsg.ProduceResponseTopic {
	s := *topics
	if len(s) < cap(s) {
		s = s[:len(s)+1]
		s[len(s)-1] = kmsg.ProduceResponseTopic{Partitions: s[len(s)-1].Partitions[:0]}
	} else {
		s = append(s, kmsg.ProduceResponseTopic{})
	}
	*topics = s
	return &s[len(s)-1]
}
