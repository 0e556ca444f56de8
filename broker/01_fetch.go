package broker

import (
	"errors"
	"time"

	"faultline/broker/log"
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
	refused int16      // why it cannot be read; does not change while the fetch waits

	code    int16
	start   int64 // log start, -1: unknown
	visible int64 // high watermark in Kafka's words, -1: unknown
	span    log.Span
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
	enough := c.gather(req)
	if !enough && wait > 0 && !c.b.m.Failpoint("fault/broker/poll-short") { // an answer may come before there is enough
		c.await(req, deadline)
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
				it.p, it.refused = b.lookupLocked(t, rp.Partition)
			}
			if it.refused == 0 {
				it.refused = epochCode(rp.CurrentLeaderEpoch)
			}
			f.items = append(f.items, it)
		}
	}
}

// epochCode checks the leader epoch that a client believes in; -1: none. A partition without replicas has only epoch 0.
func epochCode(epoch int32) int16 {
	if epoch > 0 {
		return codeUnknownLeaderEpoch
	}
	return 0
}

// gather reads what there is now and reports whether it is enough to answer: enough bytes, or an error that the client should hear of.
func (c *conn) gather(req *kmsg.FetchRequest) (enough bool) {
	f := &c.fetch
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
			c.read(it, rp, left, total == 0)
			enough = enough || it.code != 0
			total += it.span.Len
			left -= it.span.Len
		}
	}
	return enough || total >= least
}

// read reads one partition: at most left bytes in the whole, but a first batch whatever its size.
func (c *conn) read(it *fetchItem, rp *kmsg.FetchRequestTopicPartition, left int64, first bool) {
	if it.code = it.refused; it.code != 0 {
		return
	}
	if c.b.m.Failpoint("fault/broker/fetch-refused") { // as if the log were being opened
		it.code = codeNotLeader
		return
	}
	state := it.p.log.State()
	it.start, it.visible = state.Start, state.Visible
	if state.Err != nil {
		it.code = readCode(state.Err)
		c.b.logFailed(it.p, state.Err)
		return
	}
	most := min(int64(rp.PartitionMaxBytes), left)
	switch {
	case rp.FetchOffset < state.Start:
		c.b.m.Mark("mark/broker/fetch-below-start")
		it.code = codeOffsetOutOfRange
		return
	case rp.FetchOffset > state.End:
		c.b.m.Mark("mark/broker/fetch-beyond-end")
		it.code = codeOffsetOutOfRange
		return
	case rp.FetchOffset >= state.Visible:
		if rp.FetchOffset < state.End {
			c.b.m.Mark("mark/broker/fetch-of-unflushed")
		}
		return
	case most <= 0 && !first:
		c.b.m.Mark("mark/broker/fetch-full")
		return
	case c.b.m.Failpoint("fault/broker/fetch-nothing"): // as if the answer were full already
		return
	}
	span, err := it.p.log.Read(rp.FetchOffset, int(max(most, 0)), state.Visible)
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

// await waits until there is enough or the time is up. The logs wake it; it never polls (KAFKA-14334).
func (c *conn) await(req *kmsg.FetchRequest, deadline time.Duration) {
	f, w := &c.fetch, &c.b.waits
	if f.waiter == nil {
		f.waiter = &waiter{woken: c.b.m.NewCond("broker.fetch", w.mu)}
	}
	w.mu.Lock()
	for i := range f.items {
		if p := f.items[i].p; p != nil {
			p.waiters = append(p.waiters, f.waiter)
		}
	}
	f.waiter.fired = true // what came since the first look fired nobody
	for {
		for !f.waiter.fired && !w.stopped {
			left := deadline - c.b.m.Uptime()
			if left <= 0 {
				break
			}
			f.waiter.woken.WaitTimeout(left)
		}
		if !f.waiter.fired {
			if w.stopped {
				c.b.m.Mark("mark/broker/poll-ended-by-stop")
			} else {
				c.b.m.Mark("mark/broker/poll-ended-by-time")
			}
			break
		}
		f.waiter.fired = false
		w.mu.Unlock()
		c.b.m.Failpoint("fault/broker/poll-woken")
		enough := c.gather(req)
		w.mu.Lock()
		if enough {
			c.b.m.Mark("mark/broker/poll-ended-by-append")
		}
		if enough || w.stopped || c.b.m.Uptime() >= deadline {
			break
		}
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
