package client

import (
	"fmt"
	"io"
	"net"
	"time"

	"faultline/coord/jute"
	"faultline/sim/machine"
)

const (
	minBackoff = 100 * time.Millisecond
	maxBackoff = time.Second
	// maxReply bounds what a server can make the client allocate; a list of children may be longer than a request.
	maxReply = 64 << 20
)

// run is the task that connects, and then reads the connection.
func (c *Client) run() {
	servers := append([]string(nil), c.cfg.Servers...)
	c.rng.Shuffle(len(servers), func(i, j int) { servers[i], servers[j] = servers[j], servers[i] })
	for next := 0; ; next++ {
		conn, packets := c.open(servers[next%len(servers)])
		if conn != nil {
			c.receive(conn, packets)
		}
		if !c.backOff() {
			return
		}
	}
}

// backOff waits before the next attempt, longer after every failure, and at least half of minBackoff so that a server that takes connections and
// drops them is not stormed. false: the client has ended.
func (c *Client) backOff() bool {
	c.lock.Lock()
	defer c.lock.Unlock()
	d := min(minBackoff<<min(c.failures, 10), maxBackoff, max(c.cfg.SessionTimeout/6, minBackoff))
	c.failures++
	until := c.m.Uptime() + d/2 + time.Duration(c.rng.Int64N(int64(d/2)+1))
	for c.phase == living || c.phase == closing {
		left := until - c.m.Uptime()
		if left <= 0 {
			return true
		}
		c.wake.WaitTimeout(left)
	}
	return false
}

// open connects to a server and agrees on the session. nil: no connection.
func (c *Client) open(server string) (net.Conn, *jute.PacketReader) {
	// Short of a third of the time-out for all servers together: that much is left when a connection counts as lost.
	if c.m.Failpoint("fault/session/dial") {
		return nil, nil
	}
	conn, err := c.m.Dial(server, max(c.cfg.SessionTimeout/3/time.Duration(1+len(c.cfg.Servers)), 2*minBackoff))
	if err != nil {
		return nil, nil
	}
	packets := jute.NewPacketReader(conn, maxReply)
	if err := c.shake(conn, packets); err != nil {
		conn.Close()
		return nil, nil
	}
	return conn, packets
}

// shake exchanges the connection's first packets and makes it the client's connection.
func (c *Client) shake(conn net.Conn, packets *jute.PacketReader) error {
	c.lock.Lock()
	if c.phase != living && c.phase != closing {
		c.lock.Unlock()
		return ErrClosed
	}
	ask := jute.ConnectRequest{LastZxid: c.zxid, Timeout: int32(c.cfg.SessionTimeout.Milliseconds()), SessionID: c.session,
		Password: append([]byte(nil), c.password[:]...), HasReadOnly: true}
	c.lock.Unlock()
	b, mark := jute.BeginPacket(nil)
	b = jute.EndPacket(ask.Append(b), mark)
	if err := conn.SetDeadline(c.m.Now().Add(max(c.cfg.SessionTimeout/3, 2*minBackoff))); err != nil {
		return err
	}
	sent := c.m.Uptime()
	if _, err := conn.Write(b); err != nil {
		return err
	}
	packet, err := packets.Next()
	if err == nil && c.m.Failpoint("fault/session/welcome") { // the connection ends before the answer
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return err
	}
	var answer jute.ConnectReply
	if err := answer.Decode(packet); err != nil {
		return err
	}
	if err := conn.SetDeadline(time.Time{}); err != nil {
		return err
	}
	c.lock.Lock()
	defer c.lock.Unlock()
	switch {
	case c.phase != living && c.phase != closing:
		return ErrClosed
	case answer.Timeout <= 0 && ask.SessionID == 0:
		return fmt.Errorf("%s refused a new session", conn.RemoteAddr())
	case answer.Timeout <= 0:
		c.m.Mark("mark/session/refused")
		if c.phase == closing {
			c.end(closed, ErrSessionExpired)
		} else {
			c.end(expired, ErrSessionExpired)
		}
		return ErrSessionExpired
	case len(answer.Password) != jute.PasswordLen || ask.SessionID != 0 && answer.SessionID != ask.SessionID:
		return fmt.Errorf("%s answered with session %#x to %#x", conn.RemoteAddr(), answer.SessionID, ask.SessionID)
	}
	c.failures = 0
	if c.session != 0 {
		c.m.Mark("mark/session/reconnected")
	}
	c.session, c.timeout = answer.SessionID, time.Duration(answer.Timeout)*time.Millisecond
	copy(c.password[:], answer.Password)
	c.conn = conn
	now := c.m.Uptime()
	c.link = link{out: c.link.out[:0], spare: c.link.spare, flight: c.link.flight[:0], heard: now, sent: now}
	c.extend(sent)
	c.announce(Event{State: StateConnected})
	c.rearm()
	waiting := c.waiting
	c.waiting = nil
	for _, call := range waiting {
		c.encode(call)
	}
	c.m.Go("coord/client/write", func() { c.write(conn) })
	c.m.After(c.silence(), "coord/client/watchdog", func() { c.watchdog(conn) })
	return nil
}

// silence is how long a connection may be silent before it counts as lost: two thirds of the time-out, while a ping is sent after each third. The
// last third is for finding another server.
func (c *Client) silence() time.Duration { return c.timeout * 2 / 3 }

// watchdog ends a connection that is silent for too long.
func (c *Client) watchdog(conn net.Conn) {
	early := c.m.Failpoint("fault/session/watchdog")
	c.lock.Lock()
	defer c.lock.Unlock()
	if c.conn != conn {
		return
	}
	left := c.link.heard + c.silence() - c.m.Uptime()
	if left <= 0 || early {
		c.m.Mark("mark/session/silent-too-long")
		c.drop(conn)
		return
	}
	c.m.After(left, "coord/client/watchdog", func() { c.watchdog(conn) })
}

// drop ends a connection. What was sent is unknown now; what was not yet written waits for the next connection. Under lock.
func (c *Client) drop(conn net.Conn) {
	if conn == nil || c.conn != conn {
		return
	}
	c.conn = nil
	written := len(c.link.flight) - c.link.unwritten
	for i, call := range c.link.flight {
		if i < written {
			c.m.Mark("mark/session/lost-with-request-under-way")
			call.settle(ErrConnectionLoss)
		} else {
			c.m.Mark("mark/session/unwritten-waits")
			call.sent = false
			c.waiting = append(c.waiting, call)
		}
		c.link.flight[i] = nil
	}
	c.link.flight = c.link.flight[:0]
	c.output.Broadcast()
	if c.phase == living || c.phase == closing {
		c.announce(Event{State: StateDisconnected})
	}
	conn.Close()
}

// write is the task that writes a connection's requests, and pings when nothing was sent for a third of the time-out.
func (c *Client) write(conn net.Conn) {
	c.lock.Lock()
	defer c.lock.Unlock()
	for c.conn == conn {
		l := &c.link
		if len(l.out) > 0 {
			buf, requests := l.out, l.unwritten
			l.out, l.spare, l.unwritten = l.spare[:0], nil, 0
			l.sent = c.m.Uptime()
			c.lock.Unlock()
			c.m.Work(machine.Work{Requests: requests, Moved: int64(len(buf)), Syscalls: 1})
			if c.m.Failpoint("fault/session/write") { // the connection ends before it
				conn.Close()
			}
			_, err := conn.Write(buf)
			c.lock.Lock()
			if c.conn != conn {
				return
			}
			if cap(buf) <= 64<<10 {
				l.spare = buf[:0]
			}
			if err != nil {
				c.drop(conn)
				return
			}
			continue
		}
		if l.pinged {
			c.output.Wait()
			continue
		}
		if left := l.sent + c.timeout/3 - c.m.Uptime(); left > 0 {
			c.output.WaitTimeout(left)
			continue
		}
		c.lock.Unlock()
		skip := c.m.Failpoint("fault/session/slow-ping")
		c.lock.Lock()
		if c.conn != conn {
			return
		}
		l.sent = c.m.Uptime()
		if !skip {
			l.pinged, l.pingSent = true, l.sent
			l.out = appendRequest(l.out, &jute.Request{Xid: jute.XidPing, Op: jute.OpPing})
		}
	}
}

func appendRequest(b []byte, r *jute.Request) []byte {
	b, mark := jute.BeginPacket(b)
	return jute.EndPacket(r.Append(b), mark)
}

// receive reads a connection to its end.
func (c *Client) receive(conn net.Conn, packets *jute.PacketReader) {
	for {
		packets.Shrink()
		packet, err := packets.Next()
		if err == nil && c.m.Failpoint("fault/session/packet") { // the connection ends before it
			err = io.ErrUnexpectedEOF
		}
		c.lock.Lock()
		if c.conn == conn {
			if err == nil {
				err = c.packet(packet)
			}
			if err != nil {
				c.drop(conn)
			}
		} else if err == nil {
			err = io.ErrClosedPipe
		}
		c.lock.Unlock()
		if err != nil {
			return
		}
	}
}

// packet handles what the server sent. Under lock.
func (c *Client) packet(packet []byte) error {
	l := &c.link
	l.heard = c.m.Uptime()
	var reply jute.Reply
	body, err := reply.DecodeHeader(packet)
	if err != nil {
		return err
	}
	switch reply.Xid {
	case jute.XidEvent:
		var e jute.Event
		if err := e.DecodeBody(body); err != nil {
			return err
		}
		c.fired(e)
		return nil
	case jute.XidPing:
		if l.pinged {
			l.pinged = false
			c.extend(l.pingSent)
			c.output.Signal()
		}
		return nil
	case jute.XidSetWatches:
		if reply.Code != jute.OK {
			return fmt.Errorf("the server refused to set watches again: %s", reply.Code)
		}
		if l.rearms--; l.rearms == 0 {
			c.heard(Heard{Kind: HeardWatches, Zxid: reply.Zxid})
		}
		return nil
	}
	written := len(l.flight) - l.unwritten
	if written == 0 || l.flight[0].request.Xid != reply.Xid {
		return fmt.Errorf("the server answered request %d, which is not the next one", reply.Xid)
	}
	call := l.flight[0]
	if err := reply.DecodeBody(body, call.request.Op); err != nil {
		return err
	}
	copy(l.flight, l.flight[1:])
	l.flight[len(l.flight)-1] = nil
	l.flight = l.flight[:len(l.flight)-1]
	reply.Data = append([]byte(nil), reply.Data...)
	c.zxid = max(c.zxid, reply.Zxid)
	c.extend(call.sentAt)
	c.heardAnswer(&call.request, &reply)
	c.arm(&call.request, reply.Code)
	call.reply = reply
	call.settle(errorOf(reply.Code))
	return nil
}
