package client

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"time"

	"faultline/broker/wire"
	"faultline/sim/machine"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Conn is a connection to one broker. Any number of tasks may use it at once: requests go out in the order of the
// Start calls, the broker answers in that order, and a reader task hands each answer to whoever waits for it.
//
// After a time-out or any other failure the connection is closed for good and all its pending requests fail.
type Conn struct {
	m    machine.Machine
	cfg  Config
	addr string
	nc   net.Conn

	// writing is held while a request is encoded and written, so it is never taken under mu.
	writing     machine.Mutex
	out         []byte        // the frame being written
	wrote       int           // bytes of the one before it
	correlation int32         // of the next request
	writeBy     time.Duration // uptime of the write deadline that is set

	mu       machine.Mutex
	pending  fifo       // written or being written, unanswered; oldest first
	free     []*Pending // for reuse: each owns a condition
	err      error      // why the connection is closed
	closed   atomic.Bool
	versions []versions         // what the broker speaks, by key; nil until it said so
	fetched  kmsg.FetchResponse // of a serial connection, the latest

	// Who reads has these. A frame that is kept costs its own bytes only.
	calls  *wire.Calls // of in
	in     *bufio.Reader
	head   []byte // room for a length
	buf    []byte // for the next frame
	latest []byte // of a transient connection: the frame that the answer refers to, until the next request starts
}

// Dial connects to a broker ("host:port") and asks it for the versions that it speaks. Its errors are ErrNotSent.
func Dial(m machine.Machine, addr string, cfg Config) (*Conn, error) {
	cfg = cfg.withDefaults()
	begin := m.Uptime()
	if m.Failpoint("fault/client/dial") {
		return nil, notSent(machine.ErrConnRefused)
	}
	nc, err := m.Dial(addr, cfg.DialTimeout)
	if err != nil {
		return nil, notSent(err)
	}
	c := &Conn{
		m: m, cfg: cfg, addr: addr, nc: nc,
		writing: m.NewMutex("client.conn.writing"),
		mu:      m.NewMutex("client.conn"),
	}
	c.calls, c.head = wire.NewCalls(nc), make([]byte, 0, 4)
	c.in = bufio.NewReaderSize(c.calls, 16<<10)
	c.buf = c.head
	if !cfg.Serial {
		m.Go("client.reader", c.read)
	}
	left := max(cfg.DialTimeout-(m.Uptime()-begin), time.Millisecond)
	if m.Failpoint("fault/client/negotiate") {
		c.fail(errMisfortune)
	}
	if err := stripped(c.negotiate(left)); err != nil {
		m.Mark("mark/client/lost-while-negotiating")
		c.fail(err)
		return nil, notSent(fmt.Errorf("ask %s for its versions: %w", addr, err))
	}
	return c, nil
}

// Request sends req and waits for the answer: Start and Wait.
func (c *Conn) Request(req kmsg.Request) (kmsg.Response, error) {
	return c.Start(req).Wait()
}

// Fetch requests records. The answer refers to the frame's memory; who has no more use for either may give that to Config.Spare.
func (c *Conn) Fetch(req *kmsg.FetchRequest) (answer *kmsg.FetchResponse, frame []byte, err error) {
	resp, frame, err := c.Start(req).wait()
	if err != nil {
		return nil, nil, err
	}
	answer, ok := resp.(*kmsg.FetchResponse)
	if !ok {
		return nil, nil, fmt.Errorf("fetch from %s: the answer is a %T", c.addr, resp)
	}
	return answer, frame, nil
}

// Start puts req on the wire and returns without waiting for the answer. It blocks only as long as other writers and a full
// socket make it. It sets the request's version. req must not be changed before Wait returns.
//
// Requests that one task starts one after the other reach the broker in that order.
// Whoever starts a request must wait for it, once.
func (c *Conn) Start(req kmsg.Request) *Pending {
	timeout := c.cfg.RequestTimeout
	if f, ok := req.(*kmsg.FetchRequest); ok {
		timeout += time.Duration(f.MaxWaitMillis) * time.Millisecond
	}
	return c.start(req, timeout, true)
}

func (c *Conn) start(req kmsg.Request, timeout time.Duration, pickVersion bool) *Pending {
	start := c.m.Uptime()
	c.writing.Lock()
	defer c.writing.Unlock()

	var refused error
	if pickVersion {
		var v int16
		if v, refused = c.version(req); refused == nil {
			req.SetVersion(v)
		}
	}
	if refused == nil && c.m.Failpoint("fault/client/start") { // the connection ends before anything is written
		c.fail(errMisfortune)
	}
	correlation := c.correlation
	if refused == nil {
		c.correlation = (c.correlation + 1) & 0x7fffffff
		if c.cfg.Transient {
			c.buf, c.latest = c.cfg.Spare.Keep(c.latest, c.head), nil
		}
		if c.wrote > cap(c.out) {
			c.out = c.cfg.Spare.Take(c.wrote)
		}
		c.out = wire.AppendRequest(c.out[:0], correlation, c.cfg.ClientID, req)
		c.m.Work(machine.Work{Requests: 1, Moved: int64(len(c.out)), Syscalls: 1})
		c.extendWriteDeadline()
	}

	c.mu.Lock()
	p := c.take()
	p.req, p.version, p.correlation = req, req.GetVersion(), correlation
	p.start, p.deadline = start, start+timeout
	if refused == nil {
		refused = c.err
	}
	if refused != nil {
		p.over, p.err, p.end = true, notSent(refused), c.m.Uptime()
		c.mu.Unlock()
		return p
	}
	produce, ok := req.(*kmsg.ProduceRequest)
	p.silent = ok && produce.Acks == 0
	p.sent = true
	c.pending.push(p) // before it is written, so that a quick answer or a failure finds it
	c.mu.Unlock()

	out := c.out
	if c.m.Failpoint("fault/client/write-cut") { // the connection ends amid the request
		out = out[:len(out)/2]
	}
	n, err := c.nc.Write(out)
	if err == nil && n < len(c.out) {
		err = errMisfortune
	}
	if c.wrote = len(c.out); cap(c.out) > 4<<20 {
		c.out = nil
	}
	c.out = c.cfg.Spare.Keep(c.out, nil)
	if err == nil && !p.silent {
		return p
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		if n == 0 && !p.over {
			c.m.Mark("mark/client/nothing-written")
			p.sent = false
		}
		c.failLocked(fmt.Errorf("write to %s: %w", c.addr, cause(err)))
		return p
	}
	if !p.over {
		c.pending.remove(p)
		p.over, p.end = true, c.m.Uptime()
	}
	return p
}

// extendWriteDeadline gives the coming write at least half the request time-out. Setting a deadline costs a timer, so it is not
// done for each request.
func (c *Conn) extendWriteDeadline() {
	now := c.m.Uptime()
	if c.writeBy-now >= c.cfg.RequestTimeout/2 {
		return
	}
	c.writeBy = now + c.cfg.RequestTimeout
	_ = c.nc.SetWriteDeadline(c.m.Now().Add(c.cfg.RequestTimeout)) // fails only when closed: the write tells
}

// read is the reader task. A serial connection has none: who waits for the answer reads it.
func (c *Conn) read() {
	for {
		frame, err := c.frame()
		if err == nil {
			c.mu.Lock()
			err = c.answerLocked(frame)
			c.mu.Unlock()
		}
		if err != nil {
			c.fail(err)
			return
		}
	}
}

// frame reads the next one. Its memory is the connection's until it is answered.
func (c *Conn) frame() ([]byte, error) {
	frame, err := c.cfg.Spare.Read(c.in, c.buf, 4, c.cfg.MaxResponseBytes)
	if err == io.EOF {
		err = fmt.Errorf("closed by the broker: %w", machine.ErrConnReset)
	}
	if err != nil {
		return nil, fmt.Errorf("read from %s: %w", c.addr, cause(err))
	}
	if c.m.Failpoint("fault/client/answer") { // the connection ends before it
		return nil, errMisfortune
	}
	c.m.Work(machine.Work{Requests: 1, Moved: int64(len(frame)), Syscalls: c.calls.Take()})
	return frame, nil
}

// answerLocked hands a response frame to its request. The lock is held.
func (c *Conn) answerLocked(frame []byte) error {
	kept, err := c.decodeLocked(frame)
	if err != nil {
		return fmt.Errorf("%w: %s: %w", ErrProtocol, c.addr, err)
	}
	switch {
	case kept:
		c.buf = c.head // a frame that has room there has nothing to refer to
	case c.cfg.Transient:
		c.buf, c.latest = c.head, frame
	default:
		c.buf = frame
	}
	return nil
}

// decodeLocked reads a response frame into the answer to its request. kept: that refers to the frame's memory.
func (c *Conn) decodeLocked(frame []byte) (kept bool, err error) {
	correlation, body, err := wire.ResponseCorrelation(frame)
	if err != nil {
		return false, err
	}
	p := c.pending.first()
	if p == nil || p.correlation != correlation || p.silent {
		if c.err != nil {
			return false, c.err // failed meanwhile: the queue is gone
		}
		return false, fmt.Errorf("answer to request %d, which is not the next in line", correlation)
	}
	resp := c.blank(p.req)
	resp.SetVersion(p.version)
	if isUnsupportedApiVersions(resp, body) {
		resp.SetVersion(0)
	}
	kept = !copies(resp) && !c.cfg.Transient
	if kept && len(frame) < cap(frame)/2 {
		body = append([]byte(nil), body...) // a small answer must not pin a large buffer
		kept = false
		err = decode(resp, body, true)
	} else {
		err = decode(resp, body, kept)
	}
	if err != nil {
		return false, err
	}
	named(p.req, resp)
	c.pending.pop()
	p.resp, p.over, p.end = resp, true, c.m.Uptime()
	if kept {
		p.kept = frame
	}
	if !c.cfg.Serial {
		p.woken.Signal()
	}
	return kept, nil
}

// blank is what an answer is decoded into.
func (c *Conn) blank(req kmsg.Request) kmsg.Response {
	if _, ok := req.(*kmsg.FetchRequest); ok && c.cfg.Serial {
		return &c.fetched
	}
	return req.ResponseKind()
}

func decode(resp kmsg.Response, body []byte, unsafe bool) error {
	if f, ok := resp.(*kmsg.FetchResponse); ok {
		return wire.DecodeFetched(f, body)
	}
	return wire.DecodeResponse(resp, body, unsafe)
}

// copies tells whether decoding copies everything out of the frame: there are strings and numbers only.
func copies(resp kmsg.Response) bool {
	switch resp.(type) {
	case *kmsg.ProduceResponse, *kmsg.ListOffsetsResponse, *kmsg.MetadataResponse, *kmsg.ApiVersionsResponse,
		*kmsg.CreateTopicsResponse, *kmsg.DeleteTopicsResponse, *kmsg.DescribeConfigsResponse:
		return true
	}
	return false
}

// fail closes the connection for the reason, unless it is closed already.
func (c *Conn) fail(reason error) {
	c.mu.Lock()
	c.failLocked(reason)
	c.mu.Unlock()
}

func (c *Conn) failLocked(reason error) {
	if c.err != nil {
		return
	}
	c.err = reason
	c.closed.Store(true)
	now := c.m.Uptime()
	for p := c.pending.pop(); p != nil; p = c.pending.pop() {
		p.over, p.end = true, now
		if p.sent {
			c.m.Mark("mark/client/lost-with-request-under-way")
			p.err = unknown(reason)
		} else {
			p.err = notSent(reason)
		}
		p.woken.Signal()
	}
	_ = c.nc.Close() // nobody can do anything about an error here
}

// Broker is the address that was dialled.
func (c *Conn) Broker() string { return c.addr }

// Err tells why the connection is closed; nil while it is usable.
func (c *Conn) Err() error {
	if !c.closed.Load() {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Close closes the connection. Its pending requests fail with ErrUnknown and ErrClosed.
func (c *Conn) Close() error {
	c.fail(ErrClosed)
	return nil
}

// cause maps what net.Conn says to the machine's errors.
func cause(err error) error {
	var ne net.Error
	if errors.As(err, &ne) && ne.Timeout() && !errors.Is(err, machine.ErrTimeout) {
		return fmt.Errorf("%w: %w", machine.ErrTimeout, err)
	}
	return err
}
