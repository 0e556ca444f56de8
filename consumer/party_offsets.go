package consumer

import (
	"errors"
	"fmt"
	"slices"
	"time"

	broker "faultline/broker/client"
	"faultline/consumer/assign"
	"faultline/consumer/member"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

var (
	errNoMember = errors.New("this is no member of any generation")
	errParted   = errors.New("the claim ended before its commit was sent")
)

// ask sends a request about offsets to the coordinator. fill completes it as the member is at that moment, and may call it off; the ticket says what that was.
func (p *party) ask(req kmsg.Request, fill func() error) (kmsg.Response, member.Ticket, error) {
	g := p.g
	conn := p.coordinator(&p.steady, g.cfg.RequestTimeout)
	if conn == nil {
		return nil, member.Ticket{}, broker.ErrNotSent
	}
	g.mu.Lock()
	ticket := p.m.Ticket(g.m.Uptime())
	addr := p.m.Coordinator()
	err := fill()
	g.mu.Unlock()
	if err != nil {
		return nil, ticket, err
	}
	resp, err := conn.Request(req)
	if err != nil {
		g.mu.Lock()
		p.m.Disconnected(g.m.Uptime(), addr)
		p.changed()
		g.mu.Unlock()
	}
	return resp, ticket, err
}

// answered draws from the error code of an answer what it says of the membership.
func (p *party) answered(t member.Ticket, err error) {
	g := p.g
	g.mu.Lock()
	defer g.mu.Unlock()
	p.m.Answered(g.m.Uptime(), t, err)
	p.changed()
}

// again waits before another attempt at something that the coordinator did not do, and tells whether there may be one: while the condition holds.
func (p *party) again(failures int, may func() bool) bool {
	g := p.g
	g.mu.Lock()
	defer g.mu.Unlock()
	until := g.m.Uptime() + g.spread(min(findBackoff<<min(failures, 10), findBackoffMax))
	for {
		now := g.m.Uptime()
		if !may() || g.closing && now >= g.closeBy {
			return false
		}
		if now >= until {
			return true
		}
		g.wake.WaitTimeout(until - now)
	}
}

// committedAt is a committed offset, -1: none, and the leader epoch in which the records before it were read, -1: not known. Who led in an older one, and does not know that it leads no
// more, may not have that offset.
type committedAt struct {
	topic  topicID
	offset int64
	epoch  int32
}

// committedOffsets asks the coordinator where to go on. -1: nothing was committed. Partitions whose topic is not there, or not known to the coordinator, are left out. It goes on until it knows of the others, or the partitions are not to
// be taken any more, or the coordinator has to be found anew before.
func (p *party) committedOffsets(partitions []assign.Partition) (map[assign.Partition]committedAt, bool) {
	for failures := 0; ; failures++ {
		offsets, err := p.fetchOffsets(partitions)
		if err == nil && p.g.m.Failpoint("fault/consumer/read-offset") {
			err = errMisfortune
		}
		if err == nil {
			for _, part := range partitions {
				if at, there := offsets[part]; there && at.epoch >= 0 {
					p.cluster.AtLeast(part.Topic, at.topic, part.Partition, at.epoch)
				}
			}
			return offsets, true
		}
		if !p.again(failures, func() bool { return p.m.Taking() && p.m.Coordinator() != "" && !p.g.closing }) {
			return nil, false
		}
	}
}

func (p *party) fetchOffsets(partitions []assign.Partition) (map[assign.Partition]committedAt, error) {
	req := kmsg.NewPtrOffsetFetchRequest()
	group := kmsg.NewOffsetFetchRequestGroup()
	req.Group, group.Group = p.g.cfg.Group, p.g.cfg.Group
	ids := map[string]topicID{}
	asked := 0
	for _, part := range partitions {
		if _, known := ids[part.Topic]; !known {
			topic, err := p.cluster.Topic(part.Topic)
			if err != nil {
				continue
			}
			ids[part.Topic] = topic.ID
		}
		if n := len(group.Topics); n == 0 || group.Topics[n-1].Topic != part.Topic {
			t, tg := kmsg.NewOffsetFetchRequestTopic(), kmsg.NewOffsetFetchRequestGroupTopic()
			t.Topic, tg.Topic, tg.TopicID = part.Topic, part.Topic, ids[part.Topic]
			req.Topics, group.Topics = append(req.Topics, t), append(group.Topics, tg)
		}
		t, tg := &req.Topics[len(req.Topics)-1], &group.Topics[len(group.Topics)-1]
		t.Partitions, tg.Partitions = append(t.Partitions, part.Partition), append(tg.Partitions, part.Partition)
		asked++
	}
	if asked == 0 {
		return nil, nil
	}
	req.Groups = append(req.Groups, group)
	resp, ticket, err := p.ask(req, func() error { return nil })
	if err != nil {
		return nil, err
	}
	r, ok := resp.(*kmsg.OffsetFetchResponse)
	if !ok {
		return nil, errRefused
	}
	code := r.ErrorCode
	if len(r.Groups) == 1 {
		code = r.Groups[0].ErrorCode
	}
	if err := kerr.ErrorForCode(code); err != nil {
		p.answered(ticket, err)
		return nil, err
	}
	out := map[assign.Partition]committedAt{}
	note := func(topic string, partition int32, offset int64, epoch int32, code int16) {
		switch code {
		case 0:
			out[assign.Partition{Topic: topic, Partition: partition}] = committedAt{ids[topic], offset, epoch}
		case kerr.UnknownTopicID.Code: // one of the two lags behind
			p.cluster.Invalidate(topic)
			asked--
		}
	}
	for _, g := range r.Groups {
		for _, t := range g.Topics {
			for _, o := range t.Partitions {
				note(t.Topic, o.Partition, o.Offset, o.LeaderEpoch, o.ErrorCode)
			}
		}
	}
	for _, t := range r.Topics {
		for _, o := range t.Partitions {
			note(t.Topic, o.Partition, o.Offset, o.LeaderEpoch, o.ErrorCode)
		}
	}
	if len(out) < asked {
		return nil, fmt.Errorf("offset fetch of group %q: %w: %d of %d partitions", p.g.cfg.Group, errRefused, len(out), asked)
	}
	return out, nil
}

// commit writes the targets by the coordinator. The generation that goes along fences it: who has lost the partitions, and does not know, is refused. When nobody knows what became of a
// request it is sent again, as long as the claims stand; a refusal is final.
func (p *party) commit(targets []target) error {
	g := p.g
	var failed error
	for failures := 0; ; failures++ {
		var gone error
		if targets, gone = g.dueOf(targets); gone != nil {
			failed = gone
		}
		if len(targets) == 0 {
			return failed
		}
		g.m.Failpoint("fault/consumer/commit-slow")
		deleted, refused, err := p.commitOnce(targets)
		if err == nil && g.m.Failpoint("fault/consumer/commit-lost") {
			err = errMisfortune
		}
		if errors.Is(err, errParted) {
			continue
		}
		if refused {
			return fmt.Errorf("%s and %d more: %w: %w", targets[0].c.subject, len(targets)-1, ErrNotCommitted, err)
		}
		if err == nil {
			for _, t := range targets {
				if slices.Contains(deleted, t.c) {
					g.m.Mark("mark/consumer/commit-to-deleted-topic")
					failed = fmt.Errorf("%s: %w: the coordinator does not know the topic", t.c.subject, ErrNotCommitted)
					continue
				}
				g.committed(t)
			}
			if len(deleted) > 0 {
				targets = slices.DeleteFunc(targets, func(t target) bool { return slices.Contains(deleted, t.c) })
			}
			continue
		}
		if by := p.commitBy(targets); by != member.Never {
			p.findFor() // the task that would is at work here
		}
		if !p.again(failures, func() bool { return p.m.Err() == nil && !p.parted && g.m.Uptime() < p.commitBy(targets) }) {
			g.m.Mark("mark/consumer/commit-given-up")
			return fmt.Errorf("%s and %d more: %w: %w", targets[0].c.subject, len(targets)-1, ErrNotCommitted, err)
		}
	}
}

// commitBy is how long a commit may be tried: the last one of a claim must not hold up the rebalance for longer than the others wait.
func (p *party) commitBy(targets []target) time.Duration {
	by := member.Never
	for _, t := range targets {
		if t.c.last {
			by = min(by, t.c.until)
		}
	}
	return by
}

// commitOnce sends one commit. refused: the coordinator has made up its mind. deleted: claims whose topic it does not know, though it took the others.
func (p *party) commitOnce(targets []target) (deleted []*claim, refused bool, err error) {
	g := p.g
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group, req.RetentionTimeMillis = g.cfg.Group, -1
	if g.cfg.Instance != "" {
		req.InstanceID = &g.cfg.Instance
	}
	for _, t := range targets {
		if n := len(req.Topics); n == 0 || req.Topics[n-1].Topic != t.c.topic || req.Topics[n-1].TopicID != t.c.id {
			rt := kmsg.NewOffsetCommitRequestTopic()
			rt.Topic, rt.TopicID = t.c.topic, t.c.id
			req.Topics = append(req.Topics, rt)
		}
		rp := kmsg.NewOffsetCommitRequestTopicPartition()
		rp.Partition, rp.Offset, rp.LeaderEpoch = t.c.partition, t.next, t.epoch
		rt := &req.Topics[len(req.Topics)-1]
		rt.Partitions = append(rt.Partitions, rp)
	}
	resp, ticket, err := p.ask(req, func() error {
		// The coordinator may have been dialled for long. By now the member may be in another generation, in which the partition is its own again, or somebody else's: the generation fences what is under way, not what is still to be sent.
		if slices.ContainsFunc(targets, func(t target) bool { return t.c.gone && !t.c.last }) {
			g.m.Mark("mark/consumer/commit-parted-from-claim")
			return errParted
		}
		if req.Generation, req.MemberID = p.m.Generation(), p.m.ID(); req.Generation < 0 {
			return errNoMember
		}
		return nil
	})
	if err != nil {
		return nil, errors.Is(err, errNoMember), err
	}
	r, ok := resp.(*kmsg.OffsetCommitResponse)
	if !ok || len(r.Topics) == 0 {
		return nil, false, errRefused
	}
	for _, t := range r.Topics {
		for _, o := range t.Partitions {
			if o.ErrorCode == kerr.UnknownTopicID.Code {
				p.cluster.Invalidate(t.Topic)
				for _, x := range targets {
					if x.c.id == t.TopicID && x.c.partition == o.Partition {
						deleted = append(deleted, x.c)
					}
				}
				continue
			}
			if err := kerr.ErrorForCode(o.ErrorCode); err != nil {
				p.answered(ticket, err)
				return nil, !passes(err), err
			}
		}
	}
	return deleted, false, nil
}

// passes tells whether a coordinator's error may be over at the next attempt.
func passes(err error) bool {
	for _, e := range []error{kerr.NotCoordinator, kerr.CoordinatorNotAvailable, kerr.CoordinatorLoadInProgress, kerr.RequestTimedOut, kerr.NotEnoughReplicas, kerr.UnknownTopicOrPartition} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
