package broker

import (
	"fmt"
	"time"

	"faultline/broker/group"
	"faultline/broker/log"
	"faultline/broker/record"
	"faultline/sim/machine"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// offsetsTopic keeps the committed offsets and the members of consumer groups. The leader of a group's partition is its coordinator.
const offsetsTopic = "__consumer_offsets"

// shard is the groups of one partition of the offsets topic, for as long as this broker leads it in one leader epoch.
type shard struct {
	b     *Broker
	p     *partition
	epoch int32
	// before is the last connection that was there when it began. What comes by that one, or an earlier one, may have been sent before another broker coordinated.
	before int64

	mu      machine.Mutex
	moved   machine.Cond // an answer, an append to make, an earlier timer, or the end
	co      *group.Coordinator
	ref     group.Ref
	answers map[group.Ref]kmsg.Response
	appends []group.Effect // to be made, in this order
	over    bool
	// latest is the connection by which a member committed last. What comes later by an earlier one was held up on its way, on a connection that the member has given up: taken now, it
	// would set back what came after it.
	latest map[string]int64
}

// arrangeShards begins to coordinate the groups of partitions that this broker leads now, and ends it for others.
func (b *Broker) arrangeShards(t *topic) {
	b.mu.Lock()
	parts := append([]*partition(nil), t.local...)
	b.mu.Unlock()
	for id, p := range parts {
		var leading bool
		var epoch int32
		if p != nil && p.log != nil {
			p.mu.Lock()
			leading, epoch = p.leader != nil || !p.replicated, p.epoch
			p.mu.Unlock()
		}
		b.mu.Lock()
		s := b.shards[int32(id)]
		if s != nil && leading && s.p == p && s.epoch == epoch {
			b.mu.Unlock()
			continue
		}
		delete(b.shards, int32(id))
		var begun *shard
		if leading && !b.stopping {
			begun = b.newShard(p, epoch)
			b.shards[int32(id)] = begun
			b.spawn("broker.groups", begun.run)
			b.spawn("broker.groups.append", begun.keepAppending)
		}
		b.mu.Unlock()
		if s != nil {
			s.end()
		}
	}
}

// newShard is called with the lock held.
func (b *Broker) newShard(p *partition, epoch int32) *shard {
	mu := b.m.NewMutex("broker.groups")
	s := &shard{b: b, p: p, epoch: epoch, before: b.accepted, mu: mu, moved: b.m.NewCond("broker.groups.moved", mu), answers: map[group.Ref]kmsg.Response{}, latest: map[string]int64{}}
	cfg := group.Defaults(func() string {
		b.mu.Lock()
		defer b.mu.Unlock()
		return newTopicID(b.rng).String()
	})
	cfg.MinSession = b.cfg.MinGroupSession
	cfg.InitialDelay = b.cfg.GroupDelay
	cfg.Retention, cfg.RetentionCheck = b.cfg.OffsetsRetention, b.cfg.OffsetsCheck
	if p.replicated {
		cfg.Grace = b.cfg.SessionTimeout
	}
	s.co = group.New(cfg)
	return s
}

func (b *Broker) now() group.Time {
	return group.Time{Up: b.m.Uptime(), Wall: b.m.Now().UnixMilli()}
}

// end gives the groups up: whoever waits is told to look for another coordinator.
func (s *shard) end() {
	s.mu.Lock()
	s.co.Unload()
	s.enact()
	s.over = true
	s.moved.Broadcast()
	s.mu.Unlock()
}

// enact takes the effects of the last calls. Call with mu.
func (s *shard) enact() {
	for _, e := range s.co.Effects() {
		switch e.Kind {
		case group.Reply:
			s.answers[e.Ref] = e.Response
		case group.Append:
			s.appends = append(s.appends, e)
		default:
			s.trace(&e)
		}
	}
	s.moved.Broadcast()
}

// trace tells what became of a group.
func (s *shard) trace(e *group.Effect) {
	t := machine.Event{Subject: e.Change.Group, Detail: e.Member, A: int64(e.Change.Generation), C: int64(s.epoch)}
	switch e.Kind {
	case group.Changed:
		t.Kind, t.Detail, t.B = machine.GroupChanged, e.Change.To.String(), int64(e.Change.Members)
	case group.Came:
		t.Kind = machine.GroupCame
	case group.Went:
		t.Kind = machine.GroupWent
		delete(s.latest, e.Member)
	case group.Given, group.Stored, group.Expired:
		if !s.b.m.Tracing() {
			return
		}
		for _, at := range e.Seats {
			t.Kind, t.Subject = machine.GroupGiven, fmt.Sprintf("%s/%s/%d", e.Change.Group, at.Topic, at.Partition)
			if e.Kind != group.Given {
				t.Kind, t.A, t.B = machine.GroupStored, at.Offset, int64(e.Change.Generation)
				if e.Kind == group.Expired {
					t.Kind = machine.GroupExpired
				}
				t.Detail = e.Member
				if at.ID != (group.TopicID{}) {
					t.Detail += " " + topicID(at.ID).String()
				}
			}
			s.b.m.Trace(t)
		}
		return
	}
	s.b.m.Trace(t)
}

// overtaken tells whether a member's commit comes by a connection before that of its last one. Call with mu.
func (s *shard) overtaken(member string, conn int64) bool {
	if member == "" {
		return false // of no member: several clients may commit so
	}
	if conn < s.latest[member] {
		s.b.m.Mark("mark/broker/commit-overtaken")
		return true
	}
	s.latest[member] = conn
	return false
}

// ask hands the coordinator a request and waits for its answer. nil: this broker does not surely lead any more.
func (s *shard) ask(call func(co *group.Coordinator, now group.Time, ref group.Ref)) kmsg.Response {
	until := s.b.leaseUntil()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.leads(until) {
		return nil
	}
	s.ref++
	ref := s.ref
	call(s.co, s.b.now(), ref)
	s.enact()
	for s.answers[ref] == nil {
		s.moved.Wait()
	}
	resp := s.answers[ref]
	delete(s.answers, ref)
	return resp
}

// leaseUntil is the Uptime until which this broker's registration is surely there. It is a scheduling point.
func (b *Broker) leaseUntil() time.Duration {
	b.mu.Lock()
	client := b.session.client
	b.mu.Unlock()
	if client == nil {
		return 0
	}
	return client.LeaseUntil()
}

// leads tells whether this broker may still answer as coordinator: after the lease somebody else may be one, and a member must not be told that all is well by
// one that the others have left. A deposed one that has its lease hears of that before the next one's grace is over.
func (s *shard) leads(until time.Duration) bool {
	if s.b.m.Uptime() < until {
		return true
	}
	s.b.m.Mark("mark/broker/coordinator-without-lease")
	return false
}

// run loads the groups and then keeps their timers.
func (s *shard) run() {
	if err := s.load(); err != nil {
		s.b.logFailed(s.p, err)
		s.end() // as long as the log cannot be read nobody is told anything; another leader may
		return
	}
	s.b.mu.Lock()
	partitions := int64(len(s.b.topics[offsetsTopic].replicas))
	s.b.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.co.Loaded(s.b.now())
	s.b.m.Trace(machine.Event{Kind: machine.GroupsLoaded, Subject: s.p.name, A: partitions, C: int64(s.epoch)})
	s.enact() // what was found in the log is told at once
	topics := s.co.Topics()
	s.mu.Unlock()
	gone := s.b.unregistered(topics)
	s.mu.Lock()
	for _, topic := range gone { // deleted while nobody coordinated
		s.co.TopicDeleted(topic)
	}
	s.enact()
	for !s.over {
		at, armed := s.co.Next()
		if left := at - s.b.m.Uptime(); !armed {
			s.moved.Wait()
		} else if left > 0 {
			s.moved.WaitTimeout(left)
		} else {
			s.co.Tick(s.b.now())
			s.enact()
		}
	}
}

// unregistered are those of the topics that the registry does not have, or has no more: another topic has the name. They were deleted, for there was one when an offset of it was committed. What this broker knows of
// topics may be older than the commits that it loaded.
func (b *Broker) unregistered(topics []group.Named) (gone []group.Named) {
	b.mu.Lock()
	cl := b.session.client
	b.mu.Unlock()
	for _, t := range topics {
		where := topicsPath + "/" + t.Name
		if t.ID != (group.TopicID{}) {
			where = idPath(t.Name, topicID(t.ID))
		}
		if _, found, err := cl.Exists(where, false); err == nil && !found {
			gone = append(gone, t)
		}
	}
	return gone
}

// load feeds the coordinator what earlier ones wrote: all of the log up to where it ended when this leadership began.
func (s *shard) load() error {
	var buf []byte
	var it record.Iterator
	for at, end := s.p.log.Start(), s.p.log.End(); at < end; {
		span, err := s.p.log.Read(at, 1<<20, end)
		if err != nil || span.Len == 0 {
			return err
		}
		buf = append(buf[:0], make([]byte, span.Len)...)
		_, err = machine.ReadFull(span.File, buf, span.Pos)
		at = span.Next
		span.Release()
		if err != nil {
			return err
		}
		for rest := buf; len(rest) > 0; {
			var b record.Batch
			if b, rest, err = record.Next(rest); err != nil {
				return err
			}
			s.mu.Lock()
			for it.Reset(b); it.Next(); {
				r := group.Record{Key: append([]byte(nil), it.Record.Key...)}
				if it.Record.Value != nil {
					r.Value = append([]byte{}, it.Record.Value...)
				}
				if s.co.Load(r) != nil {
					s.b.m.Mark("mark/broker/malformed-group-record")
				}
			}
			s.mu.Unlock()
			if err := it.Err(); err != nil {
				return err
			}
		}
	}
	return nil
}

// keepAppending writes what the coordinator wants in the log, and tells it when that is committed.
func (s *shard) keepAppending() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		for len(s.appends) == 0 && !s.over {
			s.moved.Wait()
		}
		if s.over {
			return
		}
		list := s.appends
		s.appends = nil
		s.mu.Unlock()
		errs := s.write(list)
		s.mu.Lock()
		for i, e := range list {
			if s.over {
				return
			}
			s.co.Appended(s.b.now(), e.Token, errs[i] == nil)
			s.enact()
		}
	}
}

// groupCommitWait bounds how long a coordinator waits for its records to be committed (Kafka's offsets.commit.timeout.ms).
const groupCommitWait = 5 * time.Second

// write appends and waits until everything is committed. After one failure the later ones fail, too: what is in the log must be in order.
func (s *shard) write(list []group.Effect) []error {
	b, p := s.b, s.p
	errs := make([]error, len(list))
	next := make([]int64, len(list))
	var failed error
	for i, e := range list {
		if failed == nil {
			next[i], failed = s.append(e.Records)
		}
		errs[i] = failed
	}
	b.appended(p, s.epoch)
	if !p.replicated {
		p.log.RequestFlush()
	}
	for i := range list {
		if errs[i] == nil {
			errs[i] = p.await(b.m, next[i], s.epoch, groupCommitWait)
		}
	}
	return errs
}

func (s *shard) append(records []group.Record) (next int64, err error) {
	if _, code := s.p.mayAppend(-1); code != 0 {
		return 0, errNotLeading
	}
	var batch record.Builder
	batch.Reset(record.None)
	for _, r := range records {
		batch.Add(s.b.m.Now().UnixMilli(), r.Key, r.Value, nil)
	}
	bytes, err := batch.Finish()
	if err != nil {
		return 0, fmt.Errorf("records of a group: %w", err)
	}
	done, err := s.p.log.Append(bytes, log.AppendOptions{LeaderEpoch: s.epoch})
	if err != nil {
		s.b.logFailed(s.p, err)
	}
	return done.Next, err
}

// shardOf finds the coordinator of a group here, or the code that sends the client elsewhere.
func (b *Broker) shardOf(id string) (*shard, int16) {
	b.mu.Lock()
	defer b.mu.Unlock()
	t := b.topics[offsetsTopic]
	if t == nil {
		return nil, codeNotCoordinator
	}
	if s := b.shards[group.PartitionOf(id, int32(len(t.replicas)))]; s != nil {
		return s, 0
	}
	return nil, codeNotCoordinator
}

// forgetTopic takes the offsets of a deleted topic from all groups: another one of its name begins anew (KAFKA-2000).
func (b *Broker) forgetTopic(name string, id topicID) {
	for _, s := range b.allShards() {
		s.mu.Lock()
		s.co.TopicDeleted(group.Named{Name: name, ID: group.TopicID(id)})
		s.enact()
		s.mu.Unlock()
	}
}
