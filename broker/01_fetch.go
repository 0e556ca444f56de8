package broker

import (
	"errors"
	"slices"
	"time"

	"faultline/broker/log"
	"faultline/broker/replica"
	"faultline/broker/wire"
	"faultline/sim/machine"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// fetch is the fetch that a connection handles.
type fetch struct {
	items  []fetchItem // the partitions asked for, in the order of the request
	waiter *waiter
	cuts   []cut
}

// fetchItem is one partition of it.
type fetchItem struct {
	p       *partition // nil: not here
	refused int16      // why it cannot be read, whoever leads

	code    int16
	start   int64 // log start, -1: unknown
	visible int64 // high watermark in Kafka's words, -1: unknown
	span    log.Span

	parted bool // the log of the replica that asks is not the beginning of this one:
	where  replica.Divergence
}

// fetchRecords reads record batches, waiting for them if need be.
//
// Fetch sessions (KIP-227) are refused: each request names all its partitions. Byte limits are soft by one batch (KIP-74): the first partition
// that has something gives at least one batch, however large, so that a reader always gets on.
func (c *conn) fetchRecords(h wire.Header, rest []byte) error {
	req := &c.fetchReq
	req.Version = h.Version
	if err := wire.DecodeFetch(req, rest); err != nil {
		return err
	}
	if req.SessionID != 0 {
		c.b.m.Work(machine.Work{Served: 1, Syscalls: c.calls.Take() + 1})
		resp := kmsg.NewPtrFetchResponse()
		resp.Version, resp.ErrorCode = h.Version, codeFetchSessionIDNotFound
		return c.reply(h.Correlation, resp)
	}
	f := &c.fetch
	c.resolve(req)
	defer f.release()

	wait := min(max(time.Duration(req.MaxWaitMillis)*time.Millisecond, 0), c.b.cfg.MaxFetchWait)
	deadline := c.b.m.Uptime() + wait
	c.noteReplica(req)
	if wait > 0 && !c.b.m.Failpoint("fault/broker/poll-short") { // an answer may come before there is enough
		c.await(req, deadline)
	} else {
		c.gather(req)
	}
	if err := c.drain(); err != nil {
		return err
	}
	if c.b.m.Failpoint("fault/broker/fetch-reply") {
		return errMisfortune
	}
	return c.sendFetch(h, req)
}

// resolve finds the request's partitions.
func (c *conn) resolve(req *kmsg.FetchRequest) {
	b, f := c.b, &c.fetch
	f.items = f.items[:0]
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range req.Topics {
		rt := &req.Topics[i]
		var t *topic
		missing := codeUnknownTopicOrPartition
		if req.Version >= 13 {
			t, missing = b.byID[rt.TopicID], codeUnknownTopicID
		} else {
			t = b.topics[rt.Topic]
		}
		for j := range rt.Partitions {
			rp := &rt.Partitions[j]
			it := fetchItem{start: -1, visible: -1, refused: missing}
			if t != nil {
				it.p, it.refused = b.placeLocked(t, rp.Partition) // whether it is led here shows when it is read
			}
			f.items = append(f.items, it)
		}
	}
}

// replicaOf is the replica that asks, -1: a consumer does.
func replicaOf(req *kmsg.FetchRequest) (id int32, epoch int64) {
	if req.Version >= 15 {
		return req.ReplicaState.ID, req.ReplicaState.Epoch
	}
	return req.ReplicaID, -1
}

// noteReplica tells the leaders how far the replica that asks has got: it has everything below the offset that it asks for, unless its log parts from the leader's.
func (c *conn) noteReplica(req *kmsg.FetchRequest) {
	id, epoch := replicaOf(req)
	if id < 0 {
		return
	}
	b, i, knocks := c.b, 0, false
	for ti := range req.Topics {
		for pi := range req.Topics[ti].Partitions {
			it, rp := &c.fetch.items[i], &req.Topics[ti].Partitions[pi]
			i++
			if it.refused != 0 || !it.p.replicated {
				continue
			}
			it.p.mu.Lock()
			if it.p.leader != nil && (it.p.epoch == rp.CurrentLeaderEpoch || rp.CurrentLeaderEpoch < 0) { // only a leader's log is one to compare with
				var known bool
				it.where, it.parted, known = it.p.log.Diverges(rp.FetchOffset, rp.LastFetchedEpoch)
				if known && !it.parted && it.p.epoch == rp.CurrentLeaderEpoch {
					now := b.m.Uptime()
					if it.p.leader.Fetched(id, epoch, rp.FetchOffset, now) {
						it.p.lift(b.m)
						c.committed = append(c.committed, it.p)
					}
					knocks = it.p.leader.Knocks(id, b.cfg.ReplicaLag, now) || knocks
				}
			}
			it.p.mu.Unlock()
		}
	}
	c.tellGrown()
	if knocks {
		b.mu.Lock()
		if b.registeredLocked(replica.Member{ID: id, Epoch: epoch}) {
			b.knocked = true
			b.changed.Broadcast()
		}
		b.mu.Unlock()
	}
}

// gather reads what there is now and reports whether it is enough to answer: enough bytes, or an error that the client should hear of.
func (c *conn) gather(req *kmsg.FetchRequest) (enough bool) {
	f := &c.fetch
	of, _ := replicaOf(req)
	left := int64(min(int(max(req.MaxBytes, 0)), c.b.cfg.MaxFetchBytes))
	least := min(int64(req.MinBytes), left)
	total := int64(0)
	i := 0
	for ti := range req.Topics {
		for pi := range req.Topics[ti].Partitions {
			it, rp := &f.items[i], &req.Topics[ti].Partitions[pi]
			i++
			it.span.Release()
			it.span = log.Span{}
			c.read(it, rp, left, total == 0, of >= 0)
			enough = enough || it.code != 0 || it.parted
			total += it.span.Len
			left -= it.span.Len
		}
	}
	return enough || total >= least
}

// read reads one partition: at most left bytes in the whole, but a first batch whatever its size.
func (c *conn) read(it *fetchItem, rp *kmsg.FetchRequestTopicPartition, left int64, first, toReplica bool) {
	if it.code = it.refused; it.code != 0 {
		return
	}
	hw, code := it.p.readable(rp.CurrentLeaderEpoch)
	if it.code = code; code != 0 {
		return
	}
	if c.b.m.Failpoint("fault/broker/fetch-refused") { // as if the log were being opened
		it.code = codeNotLeader
		return
	}
	nothing := c.b.m.Failpoint("fault/broker/fetch-nothing") // as if the answer were full already
	most := min(int64(rp.PartitionMaxBytes), left)
	state, span, err := it.p.log.Look(rp.FetchOffset, int(max(most, 0)), func(state log.State) (below int64, ok bool) {
		it.start, it.visible = state.Start, state.Visible
		if it.p.replicated {
			it.visible = hw
		}
		below = it.visible
		if toReplica {
			below = state.End
		}
		switch {
		case state.Err != nil, it.parted:
			return 0, false
		case rp.FetchOffset < state.Start:
			c.b.m.Mark("mark/broker/fetch-below-start")
			it.code = codeOffsetOutOfRange
			return 0, false
		case rp.FetchOffset > state.End:
			c.b.m.Mark("mark/broker/fetch-beyond-end")
			it.code = codeOffsetOutOfRange
			return 0, false
		case rp.FetchOffset >= below:
			if rp.FetchOffset < state.End {
				c.b.m.Mark("mark/broker/fetch-of-unflushed")
			}
			return 0, false
		case most <= 0 && !first:
			c.b.m.Mark("mark/broker/fetch-full")
			return 0, false
		}
		return below, !nothing
	})
	if state.Err != nil {
		it.code = readCode(state.Err)
		c.b.logFailed(it.p, state.Err)
		return
	}
	if err != nil {
		it.code = readCode(err)
		c.b.logFailed(it.p, err)
		return
	}
	if span.Len > most {
		if !first {
			c.b.m.Mark("mark/broker/fetch-batch-waits")
			span.Release() // it has to wait for its turn
			return
		}
		c.b.m.Mark("mark/broker/fetch-batch-above-limit")
	}
	it.span = span
}

// readCode is the code for an error of Log.Read.
func readCode(err error) int16 {
	switch {
	case errors.Is(err, log.ErrOffsetOutOfRange):
		return codeOffsetOutOfRange
	case errors.Is(err, log.ErrClosed):
		return codeNotLeader
	}
	return codeStorageError
}

// await gathers until there is enough or the time is up. It looks when there is something to see, and then whenever it is told of more; it never polls (KAFKA-14334).
func (c *conn) await(req *kmsg.FetchRequest, deadline time.Duration) {
	b, f, w := c.b, &c.fetch, &c.b.waits
	to := consumers
	if of, _ := replicaOf(req); of >= 0 {
		to = followers
	}
	slept, told := false, 0
	w.mu.Lock()
	for news := c.due(req, to); ; news = f.told(to) != told {
		if !news {
			c.sleep(to, deadline)
			slept = true
		}
		told = f.told(to)
		stopped, late := w.stopped, b.m.Uptime() >= deadline
		w.mu.Unlock()
		if slept {
			b.m.Failpoint("fault/broker/poll-woken")
		}
		enough := c.gather(req)
		switch {
		case !slept:
		case enough:
			b.m.Mark("mark/broker/poll-ended-by-append")
		case stopped:
			b.m.Mark("mark/broker/poll-ended-by-stop")
		case late:
			b.m.Mark("mark/broker/poll-ended-by-time")
		}
		if enough || stopped || late {
			return
		}
		w.mu.Lock()
	}
}

// due tells whether there is something to see of any partition: records, or why there are none. It takes no lock, so it can look with that of waits.
func (c *conn) due(req *kmsg.FetchRequest, to audience) bool {
	i := 0
	for ti := range req.Topics {
		for pi := range req.Topics[ti].Partitions {
			it, rp := &c.fetch.items[i], &req.Topics[ti].Partitions[pi]
			i++
			if it.refused != 0 || it.parted {
				return true
			}
			hw, code := it.p.readable(rp.CurrentLeaderEpoch)
			s := it.p.log.State()
			below := hw
			switch {
			case to == followers:
				below = s.End
			case !it.p.replicated:
				below = s.Visible
			}
			if code != 0 || s.Err != nil || rp.FetchOffset < max(below, s.Start) || rp.FetchOffset > s.End {
				return true
			}
		}
	}
	return req.MinBytes <= 0
}

// told counts what was told of the request's partitions. The lock of waits is held.
func (f *fetch) told(to audience) int {
	n := 0
	for i := range f.items {
		if p := f.items[i].p; p != nil {
			n += p.told[to]
		}
	}
	return n
}

// sleep waits until it is told of one of the partitions, the time is up, or the broker stops. The lock of waits is held, so nothing is missed that was not there at a look with it.
func (c *conn) sleep(to audience, deadline time.Duration) {
	f, w := &c.fetch, &c.b.waits
	if f.waiter == nil {
		f.waiter = &waiter{woken: c.b.m.NewCond("broker.fetch", w.mu)}
	}
	f.waiter.fired = false
	for i := range f.items {
		if p := f.items[i].p; p != nil {
			p.waiting[to] = append(p.waiting[to], f.waiter)
		}
	}
	for left := deadline - c.b.m.Uptime(); left > 0 && !f.waiter.fired && !w.stopped; left = deadline - c.b.m.Uptime() {
		f.waiter.woken.WaitTimeout(left)
	}
	for i := range f.items {
		if p := f.items[i].p; p != nil {
			p.waiting[to] = slices.DeleteFunc(p.waiting[to], func(o *waiter) bool { return o == f.waiter })
		}
	}
}

// release gives the files back that the fetch reads from.
func (f *fetch) release() {
	for i := range f.items {
		f.items[i].span.Release()
		f.items[i] = fetchItem{}
	}
}
