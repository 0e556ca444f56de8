package broker

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"time"

	"faultline/broker/client"
	"faultline/broker/log"
	"faultline/broker/replica"
	"faultline/sim/machine"

	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	replicaWait    = 500 * time.Millisecond // a follower's fetch waits at most so long for records
	replicaBackoff = 50 * time.Millisecond  // after a failure
)

// fetcher is the task that copies the partitions that one other broker leads.
type fetcher struct {
	b      *Broker
	leader int32
	// Guarded by the broker's lock.
	parts []*following
	conn  *client.Conn

	// Of the task, for reuse.
	ready []*following
	addr  string // of the connection
	req   kmsg.FetchRequest
}

// following is a partition that a fetcher copies.
type following struct {
	p         *partition
	epoch     int32         // leader epoch
	notBefore time.Duration // Uptime: after a failure
}

// arrangeFetchers gives each partition that is followed here to the fetcher for its leader. The lock is held.
func (b *Broker) arrangeFetchers() {
	want := map[int32][]*following{}
	for _, name := range b.names {
		t := b.topics[name]
		for id, p := range t.local {
			if p == nil || p.log == nil || !p.replicated || id >= len(t.states) || p.leads() {
				continue
			}
			s := &t.states[id]
			if s.Leader == replica.NoLeader || s.Leader == b.cfg.ID {
				continue
			}
			fl := &following{p: p, epoch: s.LeaderEpoch}
			if f := b.fetchers[s.Leader]; f != nil {
				if i := slices.IndexFunc(f.parts, func(o *following) bool { return o.p == p && o.epoch == fl.epoch }); i >= 0 {
					fl = f.parts[i]
				}
			}
			want[s.Leader] = append(want[s.Leader], fl)
		}
	}
	for _, f := range b.fetchersLocked() {
		f.parts = want[f.leader]
	}
	for _, s := range b.liveLocked() {
		if len(want[s.id]) > 0 && b.fetchers[s.id] == nil {
			f := &fetcher{b: b, leader: s.id, parts: want[s.id]}
			b.fetchers[s.id] = f
			b.spawn("broker.fetcher", f.run)
		}
	}
}

// fetchersLocked lists the fetchers by leader. The lock is held.
func (b *Broker) fetchersLocked() []*fetcher {
	out := make([]*fetcher, 0, len(b.fetchers))
	for _, f := range b.fetchers { // order: sorted below
		out = append(out, f)
	}
	slices.SortFunc(out, func(x, y *fetcher) int { return cmp.Compare(x.leader, y.leader) })
	return out
}

// hangUp ends a fetch under way. The lock is held.
func (f *fetcher) hangUp() {
	if f.conn != nil {
		f.conn.Close()
		f.conn = nil
	}
}

func (f *fetcher) run() {
	b := f.b
	b.mu.Lock()
	defer b.mu.Unlock()
	for !b.stopping && len(f.parts) > 0 {
		now := b.m.Uptime()
		ready := f.ready[:0]
		var next time.Duration
		for _, fl := range f.parts {
			if fl.notBefore <= now {
				ready = append(ready, fl)
			} else if next == 0 || fl.notBefore < next {
				next = fl.notBefore
			}
		}
		f.ready = ready
		i, live := slices.BinarySearchFunc(b.live, f.leader, func(l liveBroker, id int32) int { return cmp.Compare(l.id, id) })
		switch {
		case !live:
			f.hangUp()
			b.changed.Wait() // for it to come back, or for another leader
			continue
		case len(ready) == 0:
			b.changed.WaitTimeout(next - now)
			continue
		}
		if f.conn == nil {
			f.addr = net.JoinHostPort(b.live[i].host, strconv.Itoa(int(b.live[i].port)))
		}
		epoch := b.epoch
		b.mu.Unlock()
		err := f.fetch(epoch, ready)
		b.mu.Lock()
		if err != nil {
			b.m.Mark("mark/broker/replica-fetch-failed")
			f.hangUp()
			for _, fl := range ready {
				fl.notBefore = b.m.Uptime() + replicaBackoff
			}
		}
	}
	f.hangUp()
	if b.fetchers[f.leader] == f {
		delete(b.fetchers, f.leader)
	}
}

// fetch does one request. An error is one of the connection.
func (f *fetcher) fetch(epoch int64, ready []*following) error {
	b := f.b
	b.mu.Lock()
	conn := f.conn
	b.mu.Unlock()
	if conn == nil {
		var err error
		conn, err = client.Dial(b.m, f.addr, client.Config{ClientID: fmt.Sprintf("replica-%d", b.cfg.ID), Serial: true, Transient: true, Spare: &b.frames, DialTimeout: b.cfg.ReplicaLag, RequestTimeout: b.cfg.ReplicaLag})
		if err != nil {
			return err
		}
		b.mu.Lock()
		if b.stopping {
			b.mu.Unlock()
			conn.Close()
			return errStopping
		}
		f.conn = conn
		b.mu.Unlock()
	}
	resp, err := conn.Request(f.request(epoch, ready))
	if err != nil {
		return err
	}
	answer := resp.(*kmsg.FetchResponse)
	if answer.ErrorCode != 0 {
		return fmt.Errorf("fetch from broker %d: error %d", f.leader, answer.ErrorCode)
	}
	told := 0
	for i := range answer.Topics {
		rt := &answer.Topics[i]
		for j := range rt.Partitions {
			rp := &rt.Partitions[j]
			for _, fl := range ready {
				if fl.p.topic.id == rt.TopicID && fl.p.id == rp.Partition {
					told++
					f.take(fl, rp)
				}
			}
		}
	}
	if told < len(ready) {
		return fmt.Errorf("fetch from broker %d: it told of %d partitions, asked for were %d", f.leader, told, len(ready))
	}
	return nil
}

// fetchWait is how long a follower's fetch waits for records. It must show up well within the time after which it counts as lagging, be there records or not: else
// the in-sync replicas of an idle partition come and go (KAFKA-7152).
func fetchWait(lag time.Duration) time.Duration { return min(replicaWait, lag/3) }

func (f *fetcher) request(epoch int64, ready []*following) *kmsg.FetchRequest {
	req := &f.req
	topics := req.Topics[:0]
	*req = kmsg.NewFetchRequest()
	req.ReplicaState.ID, req.ReplicaState.Epoch = f.b.cfg.ID, epoch
	most := int32(f.b.cfg.ReplicaFetchBytes)
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes = int32(fetchWait(f.b.cfg.ReplicaLag).Milliseconds()), 1, 10*most
	for _, fl := range ready {
		n := len(topics)
		if n == 0 || topics[n-1].TopicID != fl.p.topic.id {
			rt := kmsg.NewFetchRequestTopic()
			if n < cap(topics) {
				rt.Partitions = topics[:n+1][n].Partitions[:0]
			}
			rt.TopicID = fl.p.topic.id
			topics = append(topics, rt)
			n++
		}
		rp := kmsg.NewFetchRequestTopicPartition()
		rp.Partition, rp.CurrentLeaderEpoch, rp.PartitionMaxBytes = fl.p.id, fl.epoch, most
		rp.LastFetchedEpoch, rp.LogStartOffset, rp.FetchOffset = fl.p.log.Reach()
		topics[n-1].Partitions = append(topics[n-1].Partitions, rp)
	}
	req.Topics = topics
	return req
}

// take applies the answer for one partition. The log refuses it when the broker has another role by now.
func (f *fetcher) take(fl *following, rp *kmsg.FetchResponseTopicPartition) {
	b, p := f.b, fl.p
	var err error
	var state log.State
	diverging := rp.DivergingEpoch.Epoch >= 0 || rp.DivergingEpoch.EndOffset >= 0
	switch {
	case rp.ErrorCode == codeOffsetOutOfRange && p.log.End() < rp.LogStartOffset:
		b.m.Mark("mark/broker/replica-restarted")
		err = p.log.Restart(rp.LogStartOffset, fl.epoch)
	case rp.ErrorCode != 0:
		b.m.Mark("mark/broker/replica-fetch-refused")
		fl.notBefore = b.m.Uptime() + replicaBackoff
		return
	case diverging:
		b.m.Mark("mark/broker/replica-diverged")
		err = f.cut(fl, replica.Divergence{Epoch: rp.DivergingEpoch.Epoch, End: rp.DivergingEpoch.EndOffset}, rp.LogStartOffset)
	case len(rp.RecordBatches) > 0:
		var done log.Appended
		done, err = p.log.Append(rp.RecordBatches, log.AppendOptions{LeaderEpoch: fl.epoch, Copy: true})
		state.Start, state.End = done.Start, done.Next
	}
	if err != nil {
		fl.notBefore = b.m.Uptime() + replicaBackoff
		if !errors.Is(err, log.ErrOldEpoch) {
			b.logFailed(p, err)
		}
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.leader == nil && p.epoch == fl.epoch {
		if state.End == 0 { // nothing was appended
			state = p.log.State()
		}
		if hw := min(rp.HighWatermark, state.End); !diverging && hw > p.hw {
			p.setHW(b.m, hw)
		} else if p.hw > state.End {
			p.setHW(b.m, state.End)
		}
		if p.hw < state.Start {
			p.setHW(b.m, state.Start) // what lies below is committed, or it would not be gone
		}
	}
}

// cut removes what the leader, whose log starts at first, does not have. What a leader answers that was deposed meanwhile, and may not know it, does not count.
func (f *fetcher) cut(fl *following, d replica.Divergence, first int64) error {
	p := fl.p
	to, anew := p.log.CutPoint(d, first)
	p.mu.Lock()
	if p.epoch != fl.epoch || p.retired {
		p.mu.Unlock()
		return log.ErrOldEpoch
	}
	if p.hw > to {
		f.b.m.Trace(machine.Event{Kind: machine.HighWatermark, Subject: p.name, A: to, B: int64(fl.epoch)})
		p.hw = to
		p.show()
	}
	p.mu.Unlock()
	if anew {
		return p.log.Restart(to, fl.epoch)
	}
	return p.log.Truncate(to, fl.epoch)
}
