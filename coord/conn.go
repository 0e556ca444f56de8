package coord

import (
	"net"
	"time"

	"faultline/coord/jute"
	"faultline/coord/replica"
	"faultline/coord/tree"
	"faultline/sim/machine"
)

// conn is a client's connection.
type conn struct {
	net net.Conn

	// Of the commit task alone.
	id         int64 // session, 0: none yet
	seat       int64 // of the session here
	gone       bool  // closed, or its session moved: nothing of it is executed any more
	lost       bool  // its reader has ended
	fifo       []*request
	under      int    // how many at the front of fifo are in the outbox
	busy       bool   // in Server.busy
	staged     []byte // output
	touched    bool   // in Server.touched
	wrote      bool   // staged has the reply to a transaction
	end        ending // what happens after release
	freed      int    // requests that are done
	freedBytes int    // of these

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

// request is something of a client or its connection for the commit task.
type request struct {
	kind requestKind
	from *conn
	size int // bytes it counts for in from.unread

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

	round   uint64          // a read: served when this is confirmed
	command replica.Command // a write, once it is in the outbox
}

type requestKind uint8

const (
	fromClient requestKind = iota
	fromNew                // a connection's first packet
	fromLost               // the connection ended
)

// writes tells that the request goes through the replicated log.
func (r *request) writes() bool {
	switch r.op {
	case jute.OpCreate, jute.OpCreate2, jute.OpSetData, jute.OpDelete, jute.OpCheck, jute.OpMulti, jute.OpCloseSession:
		return !r.malformed
	}
	return false
}

// confirms tells that the request must see what is acknowledged, or confirms that its session lives.
func (r *request) confirms() bool {
	switch r.op {
	case jute.OpExists, jute.OpGetData, jute.OpGetChildren, jute.OpGetChildren2, jute.OpGetACL, jute.OpSync, jute.OpSetWatches, jute.OpSetWatches2, jute.OpPing:
		return !r.malformed
	}
	return false
}

// newRequest takes a request for reuse or makes one. Under lock.
func (s *Server) newRequest(kind requestKind, c *conn) *request {
	if n := len(s.unused); n > 0 {
		r := s.unused[n-1]
		s.unused = s.unused[:n-1]
		r.kind, r.from = kind, c
		return r
	}
	return &request{kind: kind, from: c}
}

// reuse takes back what is done. Under lock.
func (s *Server) reuse() {
	for i, r := range s.over {
		s.over[i] = nil
		if len(s.unused) < 256 {
			*r = request{}
			s.unused = append(s.unused, r)
		}
	}
	s.over = s.over[:0]
}

func newConn(s *Server, nc net.Conn) *conn {
	return &conn{net: nc, wake: s.m.NewCond("coord/write", s.lock), room: s.m.NewCond("coord/read", s.lock)}
}

// pop removes the first request.
func (c *conn) pop() {
	n := copy(c.fifo, c.fifo[1:])
	c.fifo[n] = nil
	c.fifo = c.fifo[:n]
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
	s.enqueue(s.newRequest(fromLost, c))
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
	var ask jute.ConnectRequest
	if ask.Decode(packet) != nil || c.net.SetReadDeadline(time.Time{}) != nil {
		return
	}
	s.lock.Lock()
	first := s.newRequest(fromNew, c)
	first.size, first.hasPassword = len(packet)+64, len(ask.Password) == jute.PasswordLen
	copy(first.password[:], ask.Password)
	ask.Password = nil // it aliases the packet
	first.connect = ask
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
		s.lock.Lock()
		r := s.newRequest(fromClient, c)
		r.size, r.xid, r.op, r.malformed, r.watch, r.watches = len(packet)+64, in.Xid, in.Op, err != nil, in.Watch, in.Watches
		if in.Op == jute.OpMulti {
			r.steps = make([]tree.Step, len(in.Steps))
			for i, p := range in.Steps {
				r.steps[i] = tree.Step{Op: p.Op, Path: p.Path, Data: string(p.Data), Flags: p.Flags, Version: p.Version}
			}
		} else {
			r.step[0] = tree.Step{Op: in.Op, Path: in.Path, Data: string(in.Data), Flags: in.Flags, Version: in.Version}
		}
		if ok = s.enqueue(r); ok {
			if s.expiry != nil {
				s.expiry.Touch(c.session, s.m.Uptime())
			}
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
func (s *Server) enqueue(r *request) bool {
	if s.stopping || r.kind <= fromNew && r.from.dead {
		return false
	}
	r.from.queued++
	r.from.unread += r.size
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
