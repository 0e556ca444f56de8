package broker

import (
	"errors"
	"time"

	"faultline/broker/wire"
	"faultline/sim/machine"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// replies are the answered-later produce requests of one connection. A task of its own waits for each one's flush and writes the response, in order.
type replies struct {
	c *conn

	mu    machine.Mutex
	ready machine.Cond // for the task: something to write, or the end
	room  machine.Cond // for the connection: one was written

	queue    []*reply // oldest first
	unsent   int      // queued or being written
	free     []*reply
	finished bool  // no more will come
	ended    bool  // the task is over
	err      error // a write failed

	out []byte // the task's
}

// reply is a produce response that may still wait for flushes.
type reply struct {
	correlation int32
	resp        kmsg.ProduceResponse
	waits       []flushWait
	deadline    time.Duration
}

// flushWait is one partition of it.
type flushWait struct {
	p                *partition
	next             int64 // to be committed up to there
	epoch            int32 // of the leader that appended
	topic, partition int   // its place in the response
}

var (
	errConnFailed    = errors.New("a response could not be written")
	errSilentFailure = errors.New("a produce request without acknowledgement failed")
)

// later returns the connection's replies, starting their task at the first call.
func (c *conn) later() *replies {
	if c.replies == nil {
		m := c.b.m
		mu := m.NewMutex("broker.replies")
		r := &replies{c: c, mu: mu, ready: m.NewCond("broker.reply.ready", mu), room: m.NewCond("broker.reply.room", mu)}
		c.replies = r
		m.Go("broker.replies", r.run)
	}
	return c.replies
}

// push queues a reply, waiting while there are too many, and returns another to fill in (nil: make one).
func (r *replies) push(p *reply) (*reply, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.unsent >= r.c.b.cfg.MaxInFlight && r.err == nil {
		r.c.b.m.Mark("mark/broker/too-many-in-flight")
		r.room.Wait()
	}
	if r.err != nil {
		return p, r.err
	}
	r.queue = append(r.queue, p)
	r.unsent++
	r.ready.Signal()
	n := len(r.free)
	if n == 0 {
		return nil, nil
	}
	spare := r.free[n-1]
	r.free = r.free[:n-1]
	return spare, nil
}

// drain waits until everything is written.
func (r *replies) drain() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.unsent > 0 && r.err == nil {
		r.room.Wait()
	}
	return r.err
}

// finish ends the task when it has written what there is, and waits for its end.
func (r *replies) finish() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.finished = true
	r.ready.Signal()
	for !r.ended {
		r.room.Wait()
	}
}

func (r *replies) run() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		for len(r.queue) == 0 && !r.finished {
			r.ready.Wait()
		}
		if len(r.queue) == 0 || r.err != nil {
			r.ended = true
			r.room.Broadcast()
			return
		}
		p := r.queue[0]
		n := copy(r.queue, r.queue[1:])
		r.queue[n] = nil
		r.queue = r.queue[:n]
		r.mu.Unlock()
		err := r.send(p)
		r.mu.Lock()
		r.unsent--
		r.free = append(r.free, p)
		if err != nil {
			r.err = errConnFailed
			r.c.nc.Close() // ends the connection's task too
		}
		r.room.Broadcast()
	}
}

// send waits for the reply's flushes and writes it.
func (r *replies) send(p *reply) error {
	b := r.c.b
	for _, w := range p.waits {
		left := max(p.deadline-b.m.Uptime(), time.Nanosecond)
		if b.m.Failpoint("fault/broker/ack-hasty") {
			left = time.Nanosecond // as if the client's time were over
		}
		if err := w.p.await(b.m, w.next, w.epoch, left); err != nil {
			if errors.Is(err, machine.ErrTimeout) {
				b.m.Mark("mark/broker/ack-timed-out")
			}
			b.logFailed(w.p, err)
			rp := &p.resp.Topics[w.topic].Partitions[w.partition]
			rp.ErrorCode, rp.BaseOffset, rp.LogStartOffset = flushCode(err), -1, -1
		}
	}
	if b.m.Failpoint("fault/broker/produce-reply") {
		return errMisfortune
	}
	r.out = wire.AppendResponse(r.out[:0], p.correlation, &p.resp)
	_, err := r.c.nc.Write(r.out)
	return err
}
