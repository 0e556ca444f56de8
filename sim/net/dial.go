package net

import (
	"errors"
	"fmt"
	stdnet "net"
	"strconv"
	"time"

	"faultline/sim"
	"faultline/sim/machine"
)

// Listener is an open port. It implements net.Listener.
type Listener struct {
	h         *Host
	port      int
	pending   []*Conn
	acceptors []*sim.Task
	closed    bool
}

// Listen opens a port of the host; 0 picks a free one.
func (h *Host) Listen(port int) (stdnet.Listener, error) {
	h.n.w.Yield()
	if port < 0 || port > 65535 {
		return nil, fmt.Errorf("listen on %s:%d: ports are 0..65535", h.name, port)
	}
	if port == 0 {
		p, err := h.ephemeral()
		if err != nil {
			return nil, fmt.Errorf("listen on %s: %w", h.name, err)
		}
		port = p
	}
	if h.taken(port) {
		return nil, fmt.Errorf("listen on %s:%d: %w", h.name, port, machine.ErrAddressInUse)
	}
	l := &Listener{h: h, port: port}
	h.ports[port] = l
	h.n.w.Record(sim.KindNet, h.name, "listen", "", uint64(port), 0)
	return l, nil
}

const (
	firstEphemeral = 32768 // as Linux
	lastEphemeral  = 60999
)

// ephemeral picks the next port that nothing on this host uses.
func (h *Host) ephemeral() (int, error) {
	for range lastEphemeral - firstEphemeral + 1 {
		h.lastEph++
		if h.lastEph > lastEphemeral {
			h.lastEph = firstEphemeral
		}
		if !h.taken(h.lastEph) {
			return h.lastEph, nil
		}
	}
	return 0, fmt.Errorf("all ports in %d..%d are in use: %w", firstEphemeral, lastEphemeral, machine.ErrAddressInUse)
}

// taken tells whether a listener or a dialled connection has the port. Accepted connections share their listener's and do not keep it.
func (h *Host) taken(port int) bool {
	if h.ports[port] != nil {
		return true
	}
	for _, c := range h.conns {
		if c.dialled && c.laddr.port == port {
			return true
		}
	}
	return false
}

func (l *Listener) Accept() (stdnet.Conn, error) {
	w := l.h.n.w
	w.Yield()
	for {
		if l.closed {
			return nil, stdnet.ErrClosed
		}
		if len(l.pending) > 0 {
			c := l.pending[0]
			l.pending = append(l.pending[:0], l.pending[1:]...)
			return c, nil
		}
		l.acceptors = append(l.acceptors, w.Current())
		w.Park("connection at", l.h.name)
	}
}

// Close implements net.Listener: connections that nobody accepted are reset.
func (l *Listener) Close() error {
	l.h.n.w.Current()
	if l.closed {
		return stdnet.ErrClosed
	}
	l.closed = true
	delete(l.h.ports, l.port)
	for _, c := range l.pending {
		c.sendReset()
		c.vanish()
	}
	l.pending = nil
	wake(&l.acceptors)
	l.h.n.w.Yield()
	return nil
}

func (l *Listener) Addr() stdnet.Addr { return Addr{l.h.name, l.port} }

// Dial connects to "host:port" within the time-out (0: 127 s, as Linux).
func (h *Host) Dial(address string, timeout time.Duration) (stdnet.Conn, error) {
	c, err := h.dial(address, timeout)
	if err != nil {
		return nil, fmt.Errorf("dial %s from %s: %w", address, h.name, err)
	}
	return c, nil
}

func (h *Host) dial(address string, timeout time.Duration) (*Conn, error) {
	w := h.n.w
	w.Yield()
	name, portText, err := stdnet.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	port, err := strconv.Atoi(portText)
	if err != nil || port < 1 || port > 65535 {
		return nil, fmt.Errorf("port %q is not a number in 1..65535", portText)
	}
	to := h.n.hosts[name]
	if to == nil {
		return nil, machine.ErrNoHost
	}
	if timeout <= 0 {
		timeout = 127 * time.Second
	}
	start := w.Now()
	deadline := start + h.clock.Span(timeout)
	retry, wait := start+time.Second, 2*time.Second
	for {
		c, err := h.handshake(to, port, deadline)
		if err == nil || !errors.Is(err, errNoAnswer) {
			return c, err
		}
		w.ParkUntil("answer from", to.name, min(retry, deadline))
		if w.Now() >= deadline {
			return nil, machine.ErrTimeout
		}
		retry, wait = retry+wait, wait*2
	}
}

var errNoAnswer = errors.New("no answer")

// handshake is one attempt to connect.
func (h *Host) handshake(to *Host, port int, deadline time.Duration) (*Conn, error) {
	w := h.n.w
	out, back := h.link(to), to.link(h)
	w.Record(sim.KindNet, out.name, "connect", "", uint64(port), 0)
	w.ParkUntil("handshake with", to.name, min(out.arrival(0, 0), deadline))
	out.pass(deadline)
	l := to.ports[port]
	switch {
	case w.Now() >= deadline:
		return nil, machine.ErrTimeout
	case h.frozen || !out.open() || !back.open() || out.lossy && out.loses() || back.lossy && back.loses():
		return nil, errNoAnswer
	case l != nil && len(l.pending) >= h.n.cfg.Backlog:
		return nil, errNoAnswer
	case l == nil:
		w.ParkUntil("refusal from", to.name, min(w.Now()+back.latency(), deadline))
		back.pass(deadline)
		if w.Now() >= deadline {
			return nil, machine.ErrTimeout
		}
		return nil, machine.ErrConnRefused
	}
	local, err := h.ephemeral()
	if err != nil {
		return nil, err
	}
	c := h.n.newConn(h, to, local, port)
	s := h.n.newConn(to, h, port, local)
	c.dialled = true
	c.peer, s.peer = s, c
	l.pending = append(l.pending, s)
	wake(&l.acceptors)
	w.ParkUntil("handshake with", to.name, min(w.Now()+back.latency(), deadline))
	back.pass(deadline)
	switch {
	case c.err != nil:
		return nil, c.err
	case w.Now() >= deadline: // the peer believes in the connection until the reset arrives
		c.sendReset()
		c.vanish()
		return nil, machine.ErrTimeout
	}
	return c, nil
}

// pass waits for the end of a clog, if there is one, but not beyond the deadline.
func (l *link) pass(deadline time.Duration) {
	w := l.from.n.w
	for l.clogged > 0 && w.Now() < deadline {
		t := w.Current()
		l.waiting = append(l.waiting, t)
		w.ParkUntil("clogged link", l.name, deadline)
		for i, o := range l.waiting {
			if o == t {
				l.waiting = append(l.waiting[:i], l.waiting[i+1:]...)
				break
			}
		}
	}
}
