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

	happened []*partition // where something did since the last look, of those waited for
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
	*req = kmsg.FetchRequest{Version: h.Version, Topics: req.Topics[:0]}
	if err := wire.Decode(req, rest); err != nil {
		return err
	}
	if req.SessionID != 0 {
		c.b.m.Work(machine.Work{Requests: 1, Syscalls: 2})
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
		c.gather(req, nil)
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

// gather reads what there is now and reports whether it is enough to answer: enough bytes, or an error that the client should hear of. It looks at all partitions, or at those only
// where something happened since it looked last.
func (c *conn) gather(req *kmsg.FetchRequest, happened []*partition) (enough bool) {
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
			if happened == nil || it.span.Len > 0 || slices.Contains(happened, it.p) {
				it.span.Release()
				it.span = log.Span{}
				c.read(it, rp, left, total == 0, of >= 0)
			}
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

// await gathers until there is enough or the time is up. The logs wake it; it never polls (KAFKA-14334).
func (c *conn) await(req *kmsg.FetchRequest, deadline time.Duration) {
	f, w := &c.fetch, &c.b.waits
	if f.waiter == nil {
		f.waiter = &waiter{woken: c.b.m.NewCond("broker.fetch", w.mu)}
	}
	of, _ := replicaOf(req)
	w.mu.Lock()
	f.waiter.replica, f.waiter.fired, f.waiter.at = of >= 0, false, f.waiter.at[:0]
	for i := range f.items { // before the first look, so that what comes after it is not missed
		if p := f.items[i].p; p != nil {
			p.waiters = append(p.waiters, f.waiter)
		}
	}
	w.mu.Unlock()
	enough := c.gather(req, nil)
	w.mu.Lock()
	for waited := false; ; waited = true {
		switch {
		case enough && waited:
			c.b.m.Mark("mark/broker/poll-ended-by-append")
		case w.stopped && waited:
			c.b.m.Mark("mark/broker/poll-ended-by-stop")
		}
		if enough || w.stopped || waited && c.b.m.Uptime() >= deadline {
			break
		}
		for !f.waiter.fired && !w.stopped {
			left := deadline - c.b.m.Uptime()
			if left <= 0 {
				break
			}
			f.waiter.woken.WaitTimeout(left)
		}
		if !f.waiter.fired {
			if !w.stopped {
				c.b.m.Mark("mark/broker/poll-ended-by-time")
			}
			break // out of time, or the broker stops
		}
		f.waiter.fired = false
		f.happened, f.waiter.at = f.waiter.at, f.happened[:0]
		w.mu.Unlock()
		c.b.m.Failpoint("fault/broker/poll-woken")
		enough = c.gather(req, f.happened)
		w.mu.Lock()
	}
	for i := range f.items {
		if p := f.items[i].p; p != nil {
			p.leave(f.waiter)
		}
	}
	w.mu.Unlock()
}

// release gives the files back that the fetch reads from.
func (f *fetch) release() {
	for i := range f.items {
		f.items[i].span.Release()
		f.items[i] = fetchItem{}
	}
}
