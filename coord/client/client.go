package client

import (
	"math/rand/v2"
	"net"
	"time"

	"faultline/coord/jute"
	"faultline/sim/machine"
)

// Stat describes a node: zxids and times of creation and last change, versions, owner session of an ephemeral node.
type Stat = jute.Stat

// Client is one session with the coordination service.
type Client struct {
	m   machine.Machine
	cfg Config
	rng *rand.Rand // of the connecting task alone

	lock machine.Mutex
	// Under lock.
	wake     machine.Cond // connecting task: the client ends
	output   machine.Cond // writing task: there is output, or its connection ended
	events   machine.Cond // event task: there is an event, or the client ends
	phase    phase
	session  int64
	password [jute.PasswordLen]byte
	timeout  time.Duration // granted
	lease    time.Duration // Uptime until which the session is surely alive
	zxid     int64         // highest seen
	armed    map[string]watchBits
	pending  []Event  // not yet delivered
	waiting  []*call  // not sent: there is no connection
	free     []*call  // for reuse
	failures int      // to connect, since the last success
	conn     net.Conn // nil: none
	link     link     // of conn
}

// link is the state of one connection.
type link struct {
	out, spare []byte  // requests encoded and not yet written
	flight     []*call // encoded, in order, not answered
	unwritten  int     // how many at the end of flight are in out
	rearms     int     // requests to leave watches again that are not answered
	xid        int32
	heard      time.Duration // when the server was last heard of
	sent       time.Duration // when something was last sent
	pinged     bool          // a ping is not answered
	pingSent   time.Duration
}

// phase is the life of a client.
type phase uint8

const (
	living  phase = iota
	closing       // Close was called
	closed
	expired
)

// Connect starts a client. It returns at once; the first calls wait for the connection.
func Connect(m machine.Machine, cfg Config) *Client {
	if len(cfg.Servers) == 0 {
		panic("coord/client: Config.Servers is empty; give the address of at least one server")
	}
	if cfg.SessionTimeout <= 0 {
		cfg.SessionTimeout = 6 * time.Second
	}
	if cfg.RequestTimeout <= 0 {
		cfg.RequestTimeout = cfg.SessionTimeout
	}
	name := "coord/client"
	if cfg.Name != "" {
		name += "/" + cfg.Name
	}
	c := &Client{m: m, cfg: cfg, rng: m.Rand(name), lock: m.NewMutex(name), armed: map[string]watchBits{}}
	c.wake = m.NewCond(name+"/connect", c.lock)
	c.output = m.NewCond(name+"/output", c.lock)
	c.events = m.NewCond(name+"/events", c.lock)
	m.Go(name+"/connect", c.run)
	if cfg.OnEvent != nil {
		m.Go(name+"/events", c.deliver)
	}
	return c
}

// Session is the session's id, 0 before the first connection. It never changes afterwards.
func (c *Client) Session() int64 {
	c.lock.Lock()
	defer c.lock.Unlock()
	return c.session
}

// SessionTimeout is what the server granted, 0 before the first connection.
func (c *Client) SessionTimeout() time.Duration {
	c.lock.Lock()
	defer c.lock.Unlock()
	return c.timeout
}

// Lease is how much longer the session is surely alive, by this machine's Uptime: nine tenths of the session time-out after the latest
// acknowledged request or ping was SENT. At 0 or below the caller must not act as owner of the session's ephemeral nodes. Uptime is read last,
// after any scheduling point of the call.
func (c *Client) Lease() time.Duration {
	until := c.LeaseUntil()
	return until - c.m.Uptime()
}

// LeaseUntil is the Uptime until which the session is surely alive. It only grows, until Close is called, so a caller on a
// hot path may keep it and compare with Uptime.
func (c *Client) LeaseUntil() time.Duration {
	c.lock.Lock()
	defer c.lock.Unlock()
	return c.lease
}

// extend moves the lease by something that was sent then and is acknowledged now. A tenth of the time-out is the margin for clocks that drift
// apart. Under lock.
func (c *Client) extend(sent time.Duration) {
	if until := sent + c.timeout - c.timeout/10; c.phase == living && until > c.lease {
		c.lease = until
	}
}

// Close ends the session: the server deletes its ephemeral nodes before Close returns nil. The lease ends when Close is called. After an error
// the session, if there is one, ends by its time-out. Calls made earlier are finished first, later ones return ErrClosed.
func (c *Client) Close() error {
	record := c.begin(OpClose, "")
	c.lock.Lock()
	if c.phase == closing || c.phase == closed {
		c.lock.Unlock()
		return c.finish(&record, ErrClosed)
	}
	c.lease = 0
	var err error
	if c.phase == living {
		c.phase = closing
		err = c.closeSession(&record)
		c.end(closed, ErrClosed)
	}
	c.lock.Unlock()
	return c.finish(&record, err)
}

// closeSession asks until the answer is known or the time is up. Under lock.
func (c *Client) closeSession(record *Call) error {
	if c.session == 0 {
		return ErrNotConnected
	}
	deadline := c.m.Uptime() + c.cfg.RequestTimeout
	for {
		call := c.newCall(jute.Request{Op: jute.OpCloseSession})
		c.send(call)
		err := c.await(call, deadline)
		record.Sent = record.Sent || call.sent
		c.recycle(call)
		if err == nil && c.answerLost() {
			err = ErrConnectionLoss
		}
		switch {
		case err == ErrSessionExpired:
			c.m.Mark("mark/session/close-found-done")
			return nil // the answer to an earlier attempt was lost, or it was too late anyway
		case err == ErrConnectionLoss && c.m.Uptime() < deadline:
			// Connecting again tells whether the session is gone; if not it is asked again.
		default:
			return err
		}
	}
}

// answerLost drops the connection as if it had ended before the answer to a close. Under lock, which is released meanwhile.
func (c *Client) answerLost() bool {
	c.lock.Unlock()
	lost := c.m.Failpoint("fault/session/close-lost")
	c.lock.Lock()
	if lost {
		c.drop(c.conn)
	}
	return lost
}

// end makes the client stop for good. Under lock.
func (c *Client) end(as phase, reason error) {
	if c.phase == closed || c.phase == expired {
		return
	}
	c.phase, c.lease = as, 0
	if as == expired {
		c.m.Mark("mark/session/expired")
		c.announce(Event{State: StateExpired})
	}
	c.drop(c.conn)
	for _, call := range c.waiting {
		call.settle(reason)
	}
	c.waiting = nil
	c.wake.Broadcast()
	c.events.Broadcast()
}
