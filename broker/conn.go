package broker

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"net"
	"time"

	"faultline/broker/wire"
	"faultline/sim/machine"

	"github.com/twmb/franz-go/pkg/kmsg"
)

var (
	errMisfortune = errors.New("connection dropped by a failpoint")
	errStopping   = errors.New("the broker stops")
)

// conn is a client's connection. All fields belong to its task.
type conn struct {
	clientID []byte // of the request that is handled; part of its frame
	b        *Broker
	number   int64 // in the order in which they were accepted
	nc       net.Conn
	calls    *wire.Calls // of r
	r        *bufio.Reader
	frame    []byte        // for a request, unless it is large; what is decoded from it refers to it
	out      []byte        // the response being built
	idleBy   time.Duration // uptime of the deadline that is set
	replies  *replies      // produce responses that wait; nil until there is one

	spare      *reply // for the next produce request
	produceReq kmsg.ProduceRequest
	fetchReq   kmsg.FetchRequest
	fetch      fetch
	grew       []*partition // the request made them longer, and nobody was told yet
	committed  []*partition // more of them is committed, likewise
}

// accept is the task that takes connections.
func (b *Broker) accept() {
	for {
		nc, err := b.listener.Accept()
		refused := b.m.Failpoint("fault/broker/accept") // as if there were too many
		b.mu.Lock()
		stopping, ready := b.stopping, b.serving && len(b.conns) < b.cfg.MaxConnections && !refused
		if err == nil && !b.serving {
			b.m.Mark("mark/broker/refused-while-starting")
		}
		if err == nil && ready && !stopping {
			b.accepted++
			calls := wire.NewCalls(nc)
			c := &conn{b: b, number: b.accepted, nc: nc, calls: calls, r: bufio.NewReaderSize(calls, 4<<10), frame: make([]byte, 0, 512)}
			b.conns = append(b.conns, c)
			b.m.Go("broker.conn", c.serve)
		}
		b.mu.Unlock()
		switch {
		case stopping:
			if err == nil {
				nc.Close()
			}
			return
		case errors.Is(err, net.ErrClosed):
			b.fail(fmt.Errorf("listen: %w", err))
			return
		case err != nil:
			b.m.Sleep(10 * time.Millisecond) // out of descriptors, say: connections that end will help
		case !ready:
			nc.Close() // at once, so that the client tries another broker
		}
	}
}

// serve is the connection's task.
func (c *conn) serve() {
	err := c.requests()
	// What was handled is answered, unless the client is gone.
	graceful := errors.Is(err, errStopping)
	if !graceful {
		c.nc.Close()
	}
	if c.replies != nil {
		c.replies.finish()
	}
	c.nc.Close()
	c.b.forget(c)
}

func (b *Broker) forget(c *conn) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, o := range b.conns {
		if o == c {
			last := len(b.conns) - 1
			copy(b.conns[i:], b.conns[i+1:])
			b.conns[last] = nil
			b.conns = b.conns[:last]
			break
		}
	}
	b.changed.Broadcast()
}

// requests handles requests until the connection ends. It never returns nil.
func (c *conn) requests() error {
	for {
		if err := c.extendDeadline(); err != nil {
			return err
		}
		if c.b.m.Failpoint("fault/broker/idle") { // the connection ends between requests
			return errMisfortune
		}
		frame, err := c.b.frames.Read(c.r, c.frame, wire.MinRequest, c.b.cfg.MaxRequestBytes)
		if err != nil {
			if c.b.isStopping() {
				return errStopping
			}
			return err
		}
		if c.b.m.Failpoint("fault/broker/request") {
			return errMisfortune
		}
		if err := c.handle(frame); err != nil {
			return err
		}
		c.frame = c.b.frames.Keep(frame, c.frame)
		if cap(c.out) > 4<<20 {
			c.out = nil
		}
	}
}

// extendDeadline gives the connection at least nine tenths of the idle time-out from now. Setting a deadline costs a timer, so it is not done
// for each request.
func (c *conn) extendDeadline() error {
	now := c.b.m.Uptime()
	if c.idleBy-now >= c.b.cfg.IdleTimeout*9/10 {
		return nil
	}
	c.idleBy = now + c.b.cfg.IdleTimeout
	c.b.mu.Lock()
	defer c.b.mu.Unlock()
	if c.b.stopping {
		return errStopping // Stop sets a deadline of its own, which must stay
	}
	return c.nc.SetDeadline(c.b.m.Now().Add(c.b.cfg.IdleTimeout))
}

func (b *Broker) isStopping() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.stopping
}

// handle handles one request. An error ends the connection.
func (c *conn) handle(frame []byte) error {
	h, rest, err := wire.ParseHeader(frame)
	if err != nil {
		return err
	}
	a := findAPI(h.Key)
	if a == nil || h.Version < a.least || h.Version > a.most {
		if h.Key == kmsg.ApiVersions.Int16() {
			return c.unsupportedApiVersions(h) // it asks in order to find out
		}
		return fmt.Errorf("request key %d version %d is not supported", h.Key, h.Version)
	}
	// Produce and fetch have paths of their own, with memory that the connection keeps.
	switch h.Key {
	case 0:
		return c.produce(h, rest)
	case 1:
		return c.fetchRecords(h, rest)
	}
	c.b.m.Work(machine.Work{Served: 1, Moved: int64(len(frame)), Syscalls: c.calls.Take() + 1})
	c.clientID = h.ClientID
	if a.keeps {
		rest = bytes.Clone(rest) // the frame's memory is that of the next request, too
	}
	req := kmsg.RequestForKey(h.Key)
	req.SetVersion(h.Version)
	if err := wire.Decode(req, rest); err != nil {
		return err
	}
	resp, err := a.handle(c, req)
	if err != nil {
		return err
	}
	return c.reply(h.Correlation, resp)
}

// reply sends a response, after those of earlier requests.
func (c *conn) reply(correlation int32, resp kmsg.Response) error {
	if err := c.drain(); err != nil {
		return err
	}
	if c.b.m.Failpoint("fault/broker/reply") {
		return errMisfortune
	}
	c.out = wire.AppendResponse(c.out[:0], correlation, resp)
	if c.b.m.Failpoint("fault/broker/reply-cut") {
		_, _ = c.nc.Write(c.out[:len(c.out)/2])
		return errMisfortune
	}
	_, err := c.nc.Write(c.out)
	return err
}

// drain waits until the answers of all earlier requests are written.
func (c *conn) drain() error {
	if c.replies == nil {
		return nil
	}
	return c.replies.drain()
}
