package host

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"syscall"
	"time"

	"faultline/sim/machine"
)

const loopback = "127.0.0.1"

// seamError is an error of the operating system that is also one of the seam's own.
type seamError struct{ err, is error }

func (e *seamError) Error() string   { return e.err.Error() }
func (e *seamError) Unwrap() []error { return []error{e.err, e.is} }

// netError adds the seam's own errors to those of the operating system.
func netError(err error) error {
	var is error
	var dns *net.DNSError
	var timeout net.Error
	switch {
	case err == nil:
		return nil
	case errors.Is(err, syscall.ECONNREFUSED):
		is = machine.ErrConnRefused
	case errors.Is(err, syscall.EADDRINUSE):
		is = machine.ErrAddressInUse
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		is = machine.ErrConnReset
	case errors.As(err, &dns) && !dns.IsTimeout:
		is = machine.ErrNoHost
	case errors.As(err, &timeout) && timeout.Timeout():
		is = machine.ErrTimeout
	default:
		return err
	}
	return &seamError{err, is}
}

// resolve replaces the host name of a "host:port" address as Options.Hosts says.
func (m *Machine) resolve(address string) (string, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return "", err
	}
	if _, err := netip.ParseAddr(host); err == nil || host == "localhost" || host == "" {
		return address, nil
	}
	if m.o.Hosts == nil {
		return net.JoinHostPort(loopback, port), nil
	}
	if ip, ok := m.o.Hosts[host]; ok {
		return net.JoinHostPort(ip, port), nil
	}
	return address, nil
}

func (m *Machine) Listen(port int) (net.Listener, error) {
	m.alive()
	l, err := net.Listen("tcp", net.JoinHostPort(m.o.Address, strconv.Itoa(port)))
	if err != nil {
		return nil, netError(err)
	}
	m.keep(l)
	return &listener{Listener: l, m: m}, nil
}

func (m *Machine) Dial(address string, timeout time.Duration) (net.Conn, error) {
	m.alive()
	real, err := m.resolve(address)
	if err != nil {
		return nil, fmt.Errorf("dial %q from %s: %w", address, m.o.Name, err)
	}
	d := net.Dialer{Timeout: timeout}
	c, err := d.DialContext(m.dead, "tcp", real)
	m.alive()
	if err != nil {
		return nil, netError(fmt.Errorf("dial %s from %s: %w", address, m.o.Name, err))
	}
	return m.conn(c), nil
}

// listener ends its callers with the machine.
type listener struct {
	net.Listener
	m *Machine
}

func (l *listener) Accept() (net.Conn, error) {
	l.m.alive()
	c, err := l.Listener.Accept()
	l.m.alive()
	if err != nil {
		return nil, netError(err)
	}
	return l.m.conn(c), nil
}

func (l *listener) Close() error {
	l.m.alive()
	l.m.drop(l.Listener)
	return l.Listener.Close()
}

// conn ends its callers with the machine.
type conn struct {
	c *net.TCPConn
	m *Machine
}

func (m *Machine) conn(c net.Conn) net.Conn {
	m.keep(c)
	return &conn{c.(*net.TCPConn), m}
}

func (c *conn) Read(p []byte) (int, error) {
	c.m.alive()
	n, err := c.c.Read(p)
	c.m.alive()
	return n, netError(err)
}

func (c *conn) Write(p []byte) (int, error) {
	c.m.alive()
	n, err := c.c.Write(p)
	c.m.alive()
	return n, netError(err)
}

func (c *conn) LocalAddr() net.Addr  { return c.c.LocalAddr() }
func (c *conn) RemoteAddr() net.Addr { return c.c.RemoteAddr() }

func (c *conn) SetDeadline(t time.Time) error {
	c.m.alive()
	return c.c.SetDeadline(t)
}

func (c *conn) SetReadDeadline(t time.Time) error {
	c.m.alive()
	return c.c.SetReadDeadline(t)
}

func (c *conn) SetWriteDeadline(t time.Time) error {
	c.m.alive()
	return c.c.SetWriteDeadline(t)
}

func (c *conn) Close() error {
	c.m.alive()
	c.m.drop(c.c)
	return c.c.Close()
}

func (m *Machine) SendFile(dst net.Conn, src machine.File, offset, n int64) (int64, error) {
	m.alive()
	to, ok := dst.(*conn)
	if !ok {
		return 0, fmt.Errorf("send %s: the connection is a %T, not one of this machine", src.Name(), dst)
	}
	from, ok := src.(*file)
	if !ok {
		return 0, fmt.Errorf("send %s: the file is a %T, not one of this machine", src.Name(), src)
	}
	sent, err := sendFile(to.c, from.f, offset, n)
	m.alive()
	if err != nil {
		err = fmt.Errorf("send %s: %d of %d bytes at %d: %w", src.Name(), sent, n, offset, netError(diskError(err)))
	}
	return sent, err
}
