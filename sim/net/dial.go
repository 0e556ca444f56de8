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
		port = h.ephemeral()
	}
	if h.ports[port] != nil {
		return nil, fmt.Errorf("listen on %s:%d: %w", h.name, port, machine.ErrAddressInUse)
	}
	l := &Listener{h: h, port: port}
	h.ports[port] = l
	h.n.w.Record(sim.KindNet, h.name, "listen", "", uint64(port), 0)
	return l, nil
}

// ephemeral picks the next port that nothing on this host uses.
func (h *Host) ephemeral() int {
	for {
		h.lastEph++
		if h.lastEph > 60999 {
			h.lastEph = 32768
		}
		if h.ports[h.lastEph] == nil {
			return h.lastEph
		}
	}
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
	w.ParkUntil("handshake with", to.name, min(out.arrival(0), deadline))
	l := to.ports[port]
	switch {
	case w.Now() >= deadline:
		return nil, machine.ErrTimeout
	case !out.open() || !back.open() || l != nil && len(l.pending) >= h.n.cfg.Backlog:
		return nil, errNoAnswer
	case l == nil:
		w.ParkUntil("refusal from", to.name, w.Now()+back.latency())
		return nil, machine.ErrConnRefused
	}
	c := h.n.newConn(h, to, h.ephemeral(), port)
	s := h.n.newConn(to, h, port, c.laddr.port)
	c.peer, s.peer = s, c
	l.pending = append(l.pending, s)
	wake(&l.acceptors)
	w.ParkUntil("handshake with", to.name, w.Now()+back.latency())
	if c.err != nil {
		return nil, c.err
	}
	return c, nil
}
