package producer

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"faultline/broker/client"
	"faultline/broker/record"
	"faultline/sim/machine"
)

// sender is the two tasks of one broker: one sends requests, the other takes the answers in the same order. Between them are at most
// MaxInFlight requests.
type sender struct {
	p    *Producer
	node *node

	// Producer.mu guards these.
	wake        machine.Cond  // the sending task: a batch is due, an answer came
	answers     machine.Cond  // the receiving task: a request is under way
	sleepsUntil time.Duration // when the sending task wakes up by itself; 0: it is awake
	flying      []*flight     // oldest first
	free        []*flight
}

// flight is a request under way.
type flight struct {
	req     *kmsg.ProduceRequest
	batches []*batch // in the order of the request
	pending *client.Pending
}

// sender returns the node's sender, and starts it when it is new. Called with the lock held.
func (p *Producer) sender(n *node) *sender {
	i, found := slices.BinarySearchFunc(p.senders, n.broker, func(s *sender, id int32) int { return int(s.node.broker) - int(id) })
	if !found {
		s := &sender{p: p, node: n, wake: p.m.NewCond("producer/sender", p.mu), answers: p.m.NewCond("producer/answers", p.mu)}
		p.senders = slices.Insert(p.senders, i, s)
		p.m.Go("producer/sender", s.send)
		p.m.Go("producer/answers", s.receive)
	}
	return p.senders[i]
}

// send is the sending task.
func (s *sender) send() {
	p := s.p
	p.mu.Lock()
	defer p.mu.Unlock()
	for !p.closed {
		now := p.m.Uptime()
		at := never
		if len(s.flying) < p.cfg.MaxInFlight {
			at = p.acc.next(s.node)
		} else {
			p.m.Mark("mark/producer/requests-at-limit")
		}
		if at > now {
			s.sleepsUntil = at
			if at == never {
				s.wake.Wait()
			} else {
				s.wake.WaitTimeout(at - now)
			}
			s.sleepsUntil = 0
			continue
		}
		f := s.flight()
		f.batches = p.acc.drain(s.node, now, f.batches[:0])
		p.mu.Unlock()
		err := s.launch(f)
		p.mu.Lock()
		if err != nil {
			s.landed(f, nil, err)
			continue
		}
		s.flying = append(s.flying, f)
		if len(s.flying) == 1 {
			s.answers.Signal()
		}
	}
}

func (s *sender) flight() *flight {
	if n := len(s.free); n > 0 {
		f := s.free[n-1]
		s.free = s.free[:n-1]
		return f
	}
	req := kmsg.NewPtrProduceRequest()
	req.Acks = s.p.cfg.Acks
	// The broker should give up waiting before we stop waiting for it: an answer, even a bad one, tells more than a connection cut.
	req.TimeoutMillis = int32(max((s.p.cfg.RequestTimeout-s.p.cfg.RequestTimeout/4)/time.Millisecond, 1))
	return &flight{req: req}
}

// launch encodes the batches and puts the request on the wire. After an error nothing was sent.
func (s *sender) launch(f *flight) error {
	p := s.p
	req := f.req
	req.Topics = req.Topics[:0]
	records, size, packed := 0, 0, 0
	for _, b := range f.batches {
		encoded := b.bytes != nil
		bytes, err := b.encode()
		if err != nil {
			b.err = err // landed ends it; the others go
			continue
		}
		if !encoded {
			records += b.builder.Count()
			size += len(bytes)
			if p.cfg.Compression != record.None {
				packed += b.builder.Size()
			}
		}
		addBatch(req, b, bytes)
	}
	if len(req.Topics) == 0 {
		return notSent(errEncode)
	}
	p.m.Work(machine.Work{Requests: 1, Sent: records, Copied: int64(size), Summed: int64(size), Packed: int64(packed), Codec: int8(p.cfg.Compression)})
	if p.m.Failpoint("fault/producer/send") {
		return notSent(errMisfortune)
	}
	conn, err := p.cluster.Broker(s.node.broker)
	if err != nil {
		return notSent(err)
	}
	p.m.Failpoint("fault/producer/launch-slow")
	f.pending = conn.Start(req)
	return nil
}

// notSent marks an error from before the request as what it is.
func notSent(err error) error {
	if errors.Is(err, client.ErrNotSent) {
		return err
	}
	return fmt.Errorf("%w: %w", client.ErrNotSent, err)
}

func addBatch(req *kmsg.ProduceRequest, b *batch, bytes []byte) {
	part := b.part
	n := len(req.Topics)
	for i := range req.Topics {
		if req.Topics[i].Topic == part.topic.name && req.Topics[i].TopicID == b.topic {
			n = i
			break
		}
	}
	if n == len(req.Topics) {
		if n < cap(req.Topics) {
			req.Topics = req.Topics[:n+1]
			req.Topics[n].Partitions = req.Topics[n].Partitions[:0]
		} else {
			req.Topics = append(req.Topics, kmsg.NewProduceRequestTopic())
		}
		req.Topics[n].Topic, req.Topics[n].TopicID = part.topic.name, b.topic
	}
	entry := kmsg.NewProduceRequestTopicPartition()
	entry.Partition, entry.Records = part.id, bytes
	req.Topics[n].Partitions = append(req.Topics[n].Partitions, entry)
}

// receive is the receiving task.
func (s *sender) receive() {
	p := s.p
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		for len(s.flying) == 0 && !p.closed {
			s.answers.Wait()
		}
		if len(s.flying) == 0 {
			return
		}
		f := s.flying[0]
		p.mu.Unlock()
		resp, err := f.pending.Wait()
		lost := p.m.Failpoint("fault/producer/answer")
		p.mu.Lock()
		if lost && err == nil {
			resp, err = nil, fmt.Errorf("%w: %w", client.ErrUnknown, errMisfortune)
		}
		s.flying = slices.Delete(s.flying, 0, 1)
		s.landed(f, resp, err)
	}
}

// landed settles every batch of a request: err is for all of them; without it, each has its own entry in the answer. Called with the lock held.
func (s *sender) landed(f *flight, resp kmsg.Response, err error) {
	p := s.p
	answer, ok := resp.(*kmsg.ProduceResponse)
	if err == nil && !ok && p.cfg.Acks != AcksNone {
		err = fmt.Errorf("%w: the answer to a produce request is a %T", client.ErrUnknown, resp)
	}
	for _, b := range f.batches {
		part := b.part
		if b.bytes == nil {
			p.acc.finish(b, -1, fmt.Errorf("%s: %w: %w", part.subject, errEncode, b.err))
			p.finish(b)
		} else {
			base, cause := int64(-1), err
			if err == nil && p.cfg.Acks != AcksNone {
				base, cause = outcome(answer, b)
			}
			p.settle(b, base, cause)
		}
		if part.node != s.node {
			p.rouse(part) // its leader is another one by now, whose sender waits for this batch to land
		}
	}
	clear(f.batches)
	f.pending = nil
	s.free = append(s.free, f)
	if s.sleepsUntil > 0 {
		s.sleepsUntil = 0
		s.wake.Signal()
	}
}

// outcome finds the partition's entry in an answer. A missing one says nothing: unknown.
func outcome(answer *kmsg.ProduceResponse, b *batch) (base int64, err error) {
	part := b.part
	for i := range answer.Topics {
		t := &answer.Topics[i]
		if t.Topic != part.topic.name || answer.Version >= 13 && t.TopicID != b.topic {
			continue
		}
		for j := range t.Partitions {
			if e := &t.Partitions[j]; e.Partition == part.id {
				return e.BaseOffset, kerr.ErrorForCode(e.ErrorCode)
			}
		}
	}
	return -1, fmt.Errorf("%w: the answer leaves out %s", client.ErrUnknown, part.subject)
}

// settle decides what becomes of a batch that was in flight: delivered, failed, split, or sent again after the back-off.
func (p *Producer) settle(b *batch, base int64, err error) {
	defer p.renew()
	if errors.Is(err, kerr.DuplicateSequenceNumber) {
		base, err = -1, nil // it is in the log, too long ago for anybody to know where
	}
	if err == nil {
		p.acc.finish(b, base, nil)
		p.finish(b)
		return
	}
	v := judge(err)
	if b.numbered {
		v = p.judgeSequence(b, err, v)
	}
	if v.unknown && v.retry {
		p.m.Mark("mark/producer/outcome-unknown")
	}
	b.unknown = b.unknown || v.unknown
	if v.refresh {
		p.refresh(b.part.topic.name)
	}
	now := p.m.Uptime()
	if v.split {
		if len(b.done) > 1 {
			if serr := p.acc.split(b); serr == nil {
				p.m.Mark("mark/producer/batch-split")
				return
			} else {
				err = serr
			}
		} else {
			err = fmt.Errorf("%w: %w", ErrTooLarge, err)
		}
	}
	b.attempts++
	pause := p.backoff(b.attempts - 1)
	switch {
	case !v.retry || b.attempts > p.cfg.Retries:
		if v.retry {
			p.m.Mark("mark/producer/retries-used-up")
		}
		err = fmt.Errorf("%s: %w", b.part.subject, err)
	case now+pause >= b.created+p.cfg.DeliveryTimeout:
		p.m.Mark("mark/producer/timed-out-retrying")
		err = fmt.Errorf("%s: %w: after %d attempts: %w", b.part.subject, ErrTimedOut, b.attempts, err)
	default:
		if b.unknown {
			p.m.Mark("mark/producer/retry-of-unknown")
		}
		if len(b.part.queue) > 0 {
			p.m.Mark("mark/producer/retry-before-others")
		}
		if p.m.Tracing() {
			p.m.Trace(machine.Event{Kind: machine.ProducerRetry, Subject: b.part.subject, Detail: err.Error(), A: int64(b.attempts)})
		}
		p.acc.requeue(b, now+pause)
		p.expireBy(b.created + p.cfg.DeliveryTimeout)
		return
	}
	p.acc.finish(b, -1, final(err, b.unknown))
	p.finish(b)
}

// judgeSequence judges what a broker says of the number of a batch.
func (p *Producer) judgeSequence(b *batch, err error, v verdict) verdict {
	switch {
	case errors.Is(err, kerr.OutOfOrderSequenceNumber), errors.Is(err, kerr.UnknownProducerID):
		// One before it is missing, so it is not in the log yet. That one is sent again, or was given up.
		p.m.Mark("mark/producer/out-of-order")
		if p.acc.foremost(b) {
			p.acc.gap(b)
		}
		if p.acc.renewing && b.unknown {
			// An attempt without answer may still be on its way, behind one of the missing batch. With a new number it could be there twice.
			return verdict{unknown: true}
		}
		return verdict{retry: true}
	case errors.Is(err, kerr.InvalidProducerEpoch):
		p.m.Mark("mark/producer/fenced")
		p.acc.spoilt = true
		p.acc.gap(b)
		return verdict{retry: true}
	}
	return v
}

// renew goes to the next epoch if that is due and possible, and lets the senders know. Called with the lock held.
func (p *Producer) renew() {
	if p.acc.renew() {
		p.m.Mark("mark/producer/renewed")
		p.keep.Signal()
		p.wakeSenders()
	}
}
