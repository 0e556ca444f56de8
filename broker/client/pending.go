package client

import (
	"fmt"
	"time"

	"faultline/sim/machine"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Pending is a request under way.
type Pending struct {
	c           *Conn
	woken       machine.Cond
	req         kmsg.Request
	version     int16
	correlation int32
	silent      bool // no answer will come
	start       time.Duration
	deadline    time.Duration

	sent bool // set by who starts it

	// Set under the connection's lock.
	over bool
	end  time.Duration
	resp kmsg.Response
	kept []byte // the memory that resp refers to, where it is the answer's own
	err  error
}

// Wait returns the answer. A produce request with acks=0 has none: nil, nil as soon as it is written.
// The answer and every byte that it refers to (record batches) belong to the caller. p must not be used afterwards.
func (p *Pending) Wait() (kmsg.Response, error) {
	resp, _, err := p.wait()
	return resp, err
}

// wait also returns the memory that the answer refers to; nil when that is not the answer's alone.
func (p *Pending) wait() (kmsg.Response, []byte, error) {
	c := p.c
	hasty := c.m.Failpoint("fault/client/wait") // as if the time were over
	var frame []byte
	var broken error
	if c.cfg.Serial && p.sent && !p.silent && !hasty {
		_ = c.nc.SetReadDeadline(c.m.Now().Add(p.deadline - c.m.Uptime())) // fails only when closed: the read tells
		frame, broken = c.frame()
	}
	c.mu.Lock()
	if frame != nil && !p.over {
		broken = c.answerLocked(frame)
	}
	if broken != nil && c.m.Uptime() < p.deadline {
		c.failLocked(broken)
	}
	for !p.over {
		left := p.deadline - c.m.Uptime()
		if left <= 0 || hasty {
			c.m.Mark("mark/client/timed-out")
			c.failLocked(fmt.Errorf("%s to %s: no answer for %v: %w",
				kmsg.NameForKey(p.req.Key()), c.addr, p.deadline-p.start, machine.ErrTimeout))
			break
		}
		p.woken.WaitTimeout(left)
	}
	call := Call{
		Broker: c.addr, Req: p.req, Resp: p.resp, Err: p.err, Sent: p.sent,
		Start: p.start, End: p.end,
	}
	kept := p.kept
	*p = Pending{c: c, woken: p.woken}
	c.free = append(c.free, p)
	c.mu.Unlock()
	if c.cfg.Tap != nil {
		call.Machine = c.m.Name()
		c.cfg.Tap.Done(call)
	}
	return call.Resp, kept, call.Err
}

// take returns a blank Pending. The lock is held.
func (c *Conn) take() *Pending {
	if n := len(c.free); n > 0 {
		p := c.free[n-1]
		c.free = c.free[:n-1]
		return p
	}
	return &Pending{c: c, woken: c.m.NewCond("client.answer", c.mu)}
}

// fifo is a queue of requests.
type fifo struct {
	items []*Pending
	head  int
}

func (q *fifo) push(p *Pending) {
	if q.head > 0 && len(q.items) == cap(q.items) {
		n := copy(q.items, q.items[q.head:])
		clear(q.items[n:])
		q.items, q.head = q.items[:n], 0
	}
	q.items = append(q.items, p)
}

func (q *fifo) first() *Pending {
	if q.head == len(q.items) {
		return nil
	}
	return q.items[q.head]
}

func (q *fifo) pop() *Pending {
	p := q.first()
	if p == nil {
		return nil
	}
	q.items[q.head] = nil
	q.head++
	if q.head == len(q.items) {
		q.items, q.head = q.items[:0], 0
	}
	return p
}

func (q *fifo) remove(p *Pending) {
	for i := q.head; i < len(q.items); i++ {
		if q.items[i] == p {
			q.items = append(q.items[:i], q.items[i+1:]...)
			return
		}
	}
}
