package coord

import (
	"net"
	"time"

	"faultline/coord/jute"
	"faultline/coord/tree"
	"faultline/sim/machine"
)

// conn is a client's connection.
type conn struct {
	net net.Conn

	// Of the commit task alone.
	id      int64  // session, 0: none yet
	gone    bool   // lost, closed, or its session moved: nothing of it is executed any more
	staged  []byte // output of the batch
	touched bool   // in Server.touched
	wrote   bool   // staged has the reply to a transaction
	end     ending // what happens after the batch

	// Under Server.lock.
	session    int64        // as id: what the reader touches
	wake       machine.Cond // writer: there is output, or an end
	room       machine.Cond // reader: queue or out shrank, or an end
	queued     int          // requests in the queue
	unread     int          // bytes of these
	out, spare []byte
	finishing  bool // close when out is written
	dead       bool // close now
}

// ending is what becomes of a connection when the batch is durable.
type ending uint8

const (
	staysOpen   ending = iota
	closesAfter        // after its output
	closesNow
)

// request is something for the commit task: from a client, or about a connection or session.
type request struct {
	kind    requestKind
	from    *conn
	session int64 // fromTimer
	size    int   // bytes it counts for in from.unread

	connect     jute.ConnectRequest // fromNew, without its Password, which is here
	password    [jute.PasswordLen]byte
	hasPassword bool // it had the right length

	xid       int32 // fromClient, and all below
	op        jute.OpCode
	malformed bool
	step      [1]tree.Step // reads use its Path
	steps     []tree.Step  // multi
	watch     bool
	watches   *jute.SetWatches
}

type requestKind uint8

const (
	fromClient requestKind = iota
	fromNew                // a connection's first packet
	fromLost               // the connection ended
	fromTimer              // a session is late
)

func newConn(s *Server, nc net.Conn) *conn {
	return &conn{net: nc, wake: s.m.NewCond("coord/write", s.lock), room: s.m.NewCond("coord/read", s.lock)}
}

// kill ends a connection's tasks without more output. Under lock.
func (c *conn) kill() {
	if !c.dead {
		c.dead = true
		c.wake.Broadcast()
		c.room.Broadcast()
		c.net.Close()
	}
}

// read is the task that queues what a client sends.
func (s *Server) read(c *conn) {
	s.readAll(c)
	s.lock.Lock()
	c.kill()
	s.forget(c)
	s.enqueue(request{kind: fromLost, from: c})
	s.lock.Unlock()
}

func (s *Server) readAll(c *conn) {
	packets := jute.NewPacketReader(c.net, jute.MaxPacket)
	if c.net.SetReadDeadline(s.m.Now().Add(s.cfg.maxTimeout())) != nil {
		return
	}
	packet, err := packets.Next()
	if err != nil {
		return
	}
	first := request{kind: fromNew, from: c, size: len(packet)}
	if first.connect.Decode(packet) != nil || c.net.SetReadDeadline(time.Time{}) != nil {
		return
	}
	first.hasPassword = len(first.connect.Password) == jute.PasswordLen
	copy(first.password[:], first.connect.Password)
	first.connect.Password = nil // it aliases the packet
	s.lock.Lock()
	ok := s.enqueue(first)
	s.lock.Unlock()
	var in jute.Request
	for ok {
		packets.Shrink()
		if packet, err = packets.Next(); err != nil || s.m.Failpoint("fault/coord/request") {
			return
		}
		err = in.Decode(packet)
		if err != nil && len(packet) < 8 {
			return
		}
		r := request{kind: fromClient, from: c, size: len(packet) + 64, xid: in.Xid, op: in.Op, malformed: err != nil, watch: in.Watch, watches: in.Watches}
		r.step[0] = tree.Step{Op: in.Op, Path: in.Path, Data: string(in.Data), Flags: in.Flags, Version: in.Version}
		if in.Op == jute.OpMulti {
			r.steps = make([]tree.Step, len(in.Steps))
			for i, p := range in.Steps {
				r.steps[i] = tree.Step{Op: p.Op, Path: p.Path, Data: string(p.Data), Flags: p.Flags, Version: p.Version}
			}
		}
		s.lock.Lock()
		if ok = s.enqueue(r); ok {
			s.expiry.Touch(c.session, s.m.Uptime())
			if c.queued >= maxQueued || c.unread > maxUnread || len(c.out) > maxUnsent {
				s.m.Mark("mark/coord/client-held-back")
			}
			for !c.dead && (c.queued >= maxQueued || c.unread > maxUnread || len(c.out) > maxUnsent) {
				c.room.Wait()
			}
		}
		s.lock.Unlock()
	}
}

// enqueue hands a request to the commit task; false: the connection or the server ends. Under lock.
func (s *Server) enqueue(r request) bool {
	if s.stopping || r.kind <= fromNew && r.from.dead {
		return false
	}
	if r.from != nil {
		r.from.queued++
		r.from.unread += r.size
	}
	s.queue = append(s.queue, r)
	if len(s.queue) == 1 {
		s.work.Signal()
	}
	return true
}

// write is the task that sends a connection's output, and closes it at its end.
func (s *Server) write(c *conn) {
	s.lock.Lock()
	for {
		for len(c.out) == 0 && !c.finishing && !c.dead {
			c.wake.Wait()
		}
		if c.dead || len(c.out) == 0 {
			break
		}
		buf := c.out
		c.out, c.spare = c.spare[:0], nil
		s.lock.Unlock()
		if s.m.Failpoint("fault/coord/write") {
			c.net.Close()
		}
		_, err := c.net.Write(buf)
		s.lock.Lock()
		if cap(buf) <= 64<<10 {
			c.spare = buf[:0]
		}
		c.room.Signal()
		if err != nil {
			break
		}
	}
	c.kill()
	s.lock.Unlock()
}
