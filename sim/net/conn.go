package net

import (
	"fmt"
	"io"
	stdnet "net"
	"os"
	"time"

	"faultline/sim"
	"faultline/sim/machine"
)

var (
	errReset  = fmt.Errorf("sim net: %w", machine.ErrConnReset)
	errGaveUp = fmt.Errorf("sim net: connection lost: %w", machine.ErrTimeout)
)

// Conn is one end of a connection. It implements net.Conn.
type Conn struct {
	// What every segment needs stands together.
	n       *Network
	out     *link
	back    *link // the other direction
	peer    *Conn
	id      uint64
	err     error // broken: reset or given up
	closed  bool  // by our program
	gone    bool  // our host knows this end no longer
	finSeen bool
	writing bool          // a Write or SendFile is under way: others wait for their turn, so that what they send does not mix
	readBy  time.Duration // deadlines in world time, 0: none
	writeBy time.Duration
	unread  int           // bytes in inbox
	offset  int           // read of the first segment
	sent    int           // bytes not yet read by the peer's program
	seq     uint64        // number of the next segment to be sent
	expect  uint64        // number of the next segment to be delivered to the peer
	lastIn  time.Duration // latest planned arrival at the peer
	slow    slowStart
	inbox   queue
	readers []*sim.Task
	writers []*sim.Task
	turns   []*sim.Task // to write

	unacked
	severed bool // nothing is delivered any more; resets are under way
	dialled bool // has a port of its own
	local   *Host
	remote  *Host
	laddr   Addr
	raddr   Addr
}

// Addr is a host and a port.
type Addr struct {
	host string
	port int
}

func (a Addr) Host() string    { return a.host }
func (a Addr) Port() int       { return a.port }
func (a Addr) Network() string { return "tcp" }
func (a Addr) String() string  { return fmt.Sprintf("%s:%d", a.host, a.port) }

func (n *Network) newConn(local, remote *Host, lport, rport int) *Conn {
	n.conns++
	c := &Conn{n: n, id: n.conns, local: local, remote: remote, laddr: Addr{local.name, lport}, raddr: Addr{remote.name, rport}, out: local.link(remote), back: remote.link(local)}
	c.giveUp.Init(c)
	c.again.Init((*retransmission)(c))
	c.restart(n.w.Now())
	local.conns = append(local.conns, c)
	return c
}

func (c *Conn) LocalAddr() stdnet.Addr  { return c.laddr }
func (c *Conn) RemoteAddr() stdnet.Addr { return c.raddr }

// Read implements net.Conn. Bytes that arrived before a close are read first; after a reset they are gone.
func (c *Conn) Read(p []byte) (int, error) {
	w := c.n.w
	if w.Current(); c.unread > 0 || c.finSeen || c.err != nil || c.closed || c.readBy != 0 && w.Now() >= c.readBy {
		w.Yield() // who has to wait lets others run by that
	}
	for {
		switch {
		case c.closed:
			return 0, stdnet.ErrClosed
		case c.err != nil:
			return 0, c.err
		case c.readBy != 0 && w.Now() >= c.readBy:
			return 0, os.ErrDeadlineExceeded
		case len(p) == 0:
			return 0, nil
		case c.unread > 0:
			return c.take(p), nil
		case c.finSeen:
			return 0, io.EOF
		}
		c.readers = append(c.readers, w.Current())
		c.wait("data from", c.readBy, &c.readers)
	}
}

// take moves received bytes to the program and opens the sender's window.
func (c *Conn) take(p []byte) int {
	k := 0
	for k < len(p) && c.unread > 0 {
		s := c.inbox.front()
		m := copy(p[k:], s.buf[c.offset:])
		k += m
		c.offset += m
		c.unread -= m
		if c.offset == len(s.buf) {
			c.inbox.pop()
			c.offset = 0
			c.n.recycle(s)
		}
	}
	if c.peer != nil {
		c.peer.sent -= k
		wake(&c.peer.writers)
	}
	return k
}

// Write implements net.Conn. It returns once all bytes are in the socket buffers, which is no promise that they arrive. Concurrent
// writes do not mix.
func (c *Conn) Write(p []byte) (int, error) {
	if err := c.takeTurn(); err != nil {
		return 0, err
	}
	n, err := c.write(p)
	c.endTurn()
	return n, err
}

func (c *Conn) takeTurn() error {
	w := c.n.w
	for w.Current(); c.writing; {
		switch {
		case c.closed:
			return stdnet.ErrClosed
		case c.err != nil:
			return c.err
		case c.writeBy != 0 && w.Now() >= c.writeBy:
			return os.ErrDeadlineExceeded
		}
		c.turns = append(c.turns, w.Current())
		c.wait("turn to write to", c.writeBy, &c.turns)
	}
	c.writing = true
	return nil
}

func (c *Conn) endTurn() {
	c.writing = false
	wake(&c.turns)
}

func (c *Conn) write(p []byte) (int, error) {
	done := 0
	for {
		s, err := c.room(len(p) - done)
		if err != nil {
			return done, err
		}
		copy(s.buf, p[done:])
		done += len(s.buf)
		c.send(s)
		if done == len(p) {
			return done, nil
		}
	}
}

// SendFile sends n bytes of a file without a copy through the program.
func (c *Conn) SendFile(src machine.File, offset, n int64) (int64, error) {
	if err := c.takeTurn(); err != nil {
		return 0, err
	}
	sent, err := c.sendFile(src, offset, n)
	c.endTurn()
	return sent, err
}

func (c *Conn) sendFile(src machine.File, offset, n int64) (int64, error) {
	done := int64(0)
	for done < n {
		s, err := c.room(int(min(n-done, maxSegment)))
		if err != nil {
			return done, err
		}
		k, err := machine.ReadFull(src, s.buf, offset+done)
		s.buf = s.buf[:k]
		if k > 0 && c.err == nil && !c.closed {
			done += int64(k)
			c.send(s)
		} else {
			c.n.recycle(s)
		}
		if err != nil {
			return done, err
		}
	}
	return done, nil
}

// room waits for window space and returns an empty segment of at most want bytes.
func (c *Conn) room(want int) (*segment, error) {
	w := c.n.w
	w.Yield()
	for {
		switch {
		case c.closed:
			return nil, stdnet.ErrClosed
		case c.err != nil:
			return nil, c.err
		case c.writeBy != 0 && w.Now() >= c.writeBy:
			return nil, os.ErrDeadlineExceeded
		}
		if space := c.n.cfg.Window - c.sent; space > 0 || want == 0 {
			return c.n.segment(min(want, max(space, 0), maxSegment)), nil
		}
		if (c.peer.closed || c.peer.gone) && !c.probed {
			c.probed = true
			c.probe()
		}
		c.writers = append(c.writers, w.Current())
		c.wait("window to", c.writeBy, &c.writers)
	}
}

func (c *Conn) wait(what string, deadline time.Duration, list *[]*sim.Task) {
	w := c.n.w
	t := w.Current()
	if deadline == 0 {
		w.Park(what, c.remote.name)
	} else {
		w.ParkUntil(what, c.remote.name, deadline)
	}
	for i, o := range *list {
		if o == t {
			*list = append((*list)[:i], (*list)[i+1:]...)
			break
		}
	}
}

func wake(list *[]*sim.Task) {
	for _, t := range *list {
		t.Wake()
	}
	*list = (*list)[:0]
}

// send passes data to the network.
func (c *Conn) send(s *segment) {
	c.sent += len(s.buf)
	s.kind = segData
	c.n.w.Record(sim.KindNet, c.out.name, "send", "", uint64(len(s.buf))|c.id<<32, sim.HashBytes(s.buf))
	c.transmit(s)
}

// transmit plans the segment's arrival behind everything sent before.
func (c *Conn) transmit(s *segment) {
	s.to, s.from, s.seq = c.peer, c, c.seq
	c.seq++
	if c.out.trouble && c.local.frozen {
		c.lose(s)
		return
	}
	leave := time.Duration(0)
	if c.slow.window > 0 {
		leave = c.leave(len(s.buf), c.n.w.Now())
	}
	c.plan(s, c.out.arrival(len(s.buf), leave))
}

func (c *Conn) plan(s *segment, when time.Duration) {
	c.lastIn = max(c.lastIn, when)
	c.n.w.Set(&s.timer, c.lastIn, uint64(len(s.buf)))
}

// Close implements net.Conn: the peer reads what was written, then io.EOF. Received bytes not yet read are dropped.
func (c *Conn) Close() error {
	c.n.w.Current()
	if c.closed {
		return stdnet.ErrClosed
	}
	c.closed = true
	wake(&c.readers)
	wake(&c.writers)
	if c.err == nil && !c.gone {
		s := c.n.segment(0)
		s.kind = segFin
		c.n.w.Record(sim.KindNet, c.out.name, "close", "", c.id, 0)
		c.transmit(s)
		if c.finSeen {
			c.vanish()
		}
	}
	c.n.w.Yield()
	return nil
}

// SetDeadline and its kin implement net.Conn; times are by the machine's own wall clock.
func (c *Conn) SetDeadline(t time.Time) error {
	c.SetReadDeadline(t)
	return c.SetWriteDeadline(t)
}

func (c *Conn) SetReadDeadline(t time.Time) error {
	c.readBy = c.worldTime(t)
	wake(&c.readers)
	return nil
}

func (c *Conn) SetWriteDeadline(t time.Time) error {
	c.writeBy = c.worldTime(t)
	wake(&c.writers)
	return nil
}

func (c *Conn) worldTime(t time.Time) time.Duration {
	now := c.n.w.Now()
	c.n.w.Current()
	if t.IsZero() {
		return 0
	}
	return max(1, now+c.local.clock.Span(t.Sub(c.local.clock.Wall(now))))
}

var _ stdnet.Conn = (*Conn)(nil)
