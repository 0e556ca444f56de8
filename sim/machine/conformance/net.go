package conformance

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	stdnet "net"
	"os"
	"time"

	"github.com/stretchr/testify/require"

	"faultline/sim/machine"
)

// dialable is the address by which any machine reaches a listener of m.
func dialable(m machine.Machine, l stdnet.Listener) string {
	_, port, err := stdnet.SplitHostPort(l.Addr().String())
	if err != nil {
		panic(err)
	}
	return stdnet.JoinHostPort(m.Name(), port)
}

// pair is a connection from alpha to beta, both ends.
func pair(t *T, alpha, beta machine.Machine) (client, server stdnet.Conn) {
	l, err := beta.Listen(0)
	require.NoError(t, err)
	client, err = alpha.Dial(dialable(beta, l), long)
	require.NoError(t, err, "the listener's backlog takes it")
	server, err = l.Accept()
	require.NoError(t, err)
	require.NoError(t, l.Close())
	return client, server
}

func send(t *T, c stdnet.Conn, s string) {
	n, err := c.Write([]byte(s))
	require.NoError(t, err)
	require.Equal(t, len(s), n)
}

func receive(t *T, c stdnet.Conn, want string) {
	p := make([]byte, len(want))
	_, err := io.ReadFull(c, p)
	require.NoError(t, err)
	require.Equal(t, want, string(p))
}

var netTests = []test{
	{name: "port 0 picks a free port", body: func(t *T, m, _ machine.Machine) {
		l, err := m.Listen(0)
		require.NoError(t, err)
		k, err := m.Listen(0)
		require.NoError(t, err)
		require.NotEqual(t, dialable(m, l), dialable(m, k))
		c, err := m.Dial(dialable(m, k), 0)
		require.NoError(t, err)
		s, err := k.Accept()
		require.NoError(t, err)
		send(t, c, "hello")
		receive(t, s, "hello")
	}},
	{name: "a port has one listener at a time", body: func(t *T, m, _ machine.Machine) {
		l, err := m.Listen(0)
		require.NoError(t, err)
		port := portOf(l)
		_, err = m.Listen(port)
		require.ErrorIs(t, err, machine.ErrAddressInUse)
		require.NoError(t, l.Close())
		l, err = m.Listen(port)
		require.NoError(t, err)
		require.Equal(t, port, portOf(l))
	}},
	{name: "nobody listens: refused", body: func(t *T, alpha, beta machine.Machine) {
		l, err := beta.Listen(0)
		require.NoError(t, err)
		address := dialable(beta, l)
		require.NoError(t, l.Close())
		_, err = alpha.Dial(address, long)
		require.ErrorIs(t, err, machine.ErrConnRefused)
		require.ErrorContains(t, err, address)
	}},
	{name: "no such host", body: func(t *T, m, _ machine.Machine) {
		_, err := m.Dial("no..such..host:1", long)
		require.ErrorIs(t, err, machine.ErrNoHost)
		_, err = m.Dial("no-port", long)
		require.Error(t, err)
	}},
	{name: "closing a listener wakes who accepts", body: func(t *T, m, _ machine.Machine) {
		l, err := m.Listen(0)
		require.NoError(t, err)
		c := newCrew(m)
		c.Go("acceptor", func() {
			if _, err := l.Accept(); !isClosed(err) {
				t.Errorf("accept: %v", err)
			}
		})
		m.Sleep(short)
		require.NoError(t, l.Close())
		c.Wait()
		_, err = l.Accept()
		require.ErrorIs(t, err, stdnet.ErrClosed)
	}},
	{name: "addresses are of both ends", body: func(t *T, alpha, beta machine.Machine) {
		c, s := pair(t, alpha, beta)
		require.Equal(t, c.LocalAddr().String(), s.RemoteAddr().String())
		require.Equal(t, c.RemoteAddr().String(), s.LocalAddr().String())
	}},
	{name: "a server serves many", body: func(t *T, alpha, beta machine.Machine) {
		l, err := beta.Listen(0)
		require.NoError(t, err)
		beta.Go("server", func() {
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				beta.Go("echo", func() {
					in, out := bufio.NewReader(conn), bufio.NewWriter(conn)
					for {
						line, err := in.ReadString('\n')
						if err != nil {
							_ = conn.Close()
							return
						}
						_, _ = out.WriteString(line)
						_ = out.Flush()
					}
				})
			}
		})
		c := newCrew(alpha)
		for i := range 10 {
			c.Go("client", func() {
				conn, err := alpha.Dial(dialable(beta, l), long)
				if err != nil {
					t.Error(err)
					return
				}
				in := bufio.NewReader(conn)
				for k := range 20 {
					line := string(rune('a'+i)) + string(rune('a'+k)) + "\n"
					if _, err := conn.Write([]byte(line)); err != nil {
						t.Error(err)
						return
					}
					if got, err := in.ReadString('\n'); err != nil || got != line {
						t.Errorf("client %d: %q, %v", i, got, err)
					}
				}
				if err := conn.Close(); err != nil {
					t.Error(err)
				}
			})
		}
		c.Wait()
	}},
}

func isClosed(err error) bool   { return errors.Is(err, stdnet.ErrClosed) }
func isDeadline(err error) bool { return errors.Is(err, os.ErrDeadlineExceeded) }

func portOf(l stdnet.Listener) int {
	_, port, err := stdnet.SplitHostPort(l.Addr().String())
	if err != nil {
		panic(err)
	}
	n := 0
	for _, c := range port {
		n = n*10 + int(c-'0')
	}
	return n
}

var streamTests = []test{
	{name: "both ways at once", body: func(t *T, alpha, beta machine.Machine) {
		c, s := pair(t, alpha, beta)
		send(t, c, "ping")
		send(t, s, "pong")
		receive(t, c, "pong")
		receive(t, s, "ping")
	}},
	{name: "a stream has no message borders", body: func(t *T, alpha, beta machine.Machine) {
		c, s := pair(t, alpha, beta)
		for range 100 {
			send(t, c, "0123456789")
		}
		for range 1000 / 8 {
			p := make([]byte, 8)
			_, err := io.ReadFull(s, p)
			require.NoError(t, err)
		}
	}},
	{name: "close lets the peer read what was written, then EOF", body: func(t *T, alpha, beta machine.Machine) {
		c, s := pair(t, alpha, beta)
		send(t, c, "last words")
		require.NoError(t, c.Close())
		alpha.Sleep(short)
		got, err := io.ReadAll(s)
		require.NoError(t, err)
		require.Equal(t, "last words", string(got))
		_, err = s.Read(make([]byte, 1))
		require.Equal(t, io.EOF, err)
	}},
	{name: "writing to one who has closed fails in the end", body: func(t *T, alpha, beta machine.Machine) {
		c, s := pair(t, alpha, beta)
		require.NoError(t, s.Close())
		var err error
		for i := 0; err == nil && i < 1000; i++ {
			_, err = c.Write([]byte("anybody?"))
			alpha.Sleep(short / 5)
		}
		require.ErrorIs(t, err, machine.ErrConnReset)
	}},
	{name: "a closed connection is closed", body: func(t *T, alpha, beta machine.Machine) {
		c, _ := pair(t, alpha, beta)
		require.NoError(t, c.Close())
		_, err := c.Read(make([]byte, 1))
		require.ErrorIs(t, err, stdnet.ErrClosed)
		_, err = c.Write([]byte("x"))
		require.ErrorIs(t, err, stdnet.ErrClosed)
		require.ErrorIs(t, c.Close(), stdnet.ErrClosed)
	}},
	{name: "close wakes who reads and who writes", body: func(t *T, alpha, beta machine.Machine) {
		c, _ := pair(t, alpha, beta)
		crew := newCrew(alpha)
		crew.Go("reader", func() {
			if _, err := c.Read(make([]byte, 1)); !isClosed(err) {
				t.Errorf("read: %v", err)
			}
		})
		crew.Go("writer", func() {
			var err error
			for err == nil {
				_, err = c.Write(make([]byte, 1<<16))
			}
			if !isClosed(err) {
				t.Errorf("write: %v", err)
			}
		})
		alpha.Sleep(4 * short)
		require.NoError(t, c.Close())
		crew.Wait()
	}},
	{name: "a read deadline passes and can be lifted", body: func(t *T, alpha, beta machine.Machine) {
		c, s := pair(t, alpha, beta)
		start := alpha.Uptime()
		require.NoError(t, c.SetReadDeadline(alpha.Now().Add(short)))
		_, err := c.Read(make([]byte, 1))
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		require.GreaterOrEqual(t, alpha.Uptime()-start, short-time.Millisecond, "the wall clock is rounded")
		_, err = c.Read(make([]byte, 1))
		require.ErrorIs(t, err, os.ErrDeadlineExceeded, "it stays passed")
		send(t, c, "still good")
		receive(t, s, "still good")
		require.NoError(t, c.SetDeadline(time.Time{}))
		send(t, s, "go on")
		receive(t, c, "go on")
		require.NoError(t, c.SetDeadline(alpha.Now().Add(-time.Second)))
		_, err = c.Write([]byte("x"))
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	}},
	{name: "a new deadline reaches who already waits", body: func(t *T, alpha, beta machine.Machine) {
		c, _ := pair(t, alpha, beta)
		crew := newCrew(alpha)
		crew.Go("reader", func() {
			if _, err := c.Read(make([]byte, 1)); !isDeadline(err) {
				t.Errorf("read: %v", err)
			}
		})
		alpha.Sleep(short)
		require.NoError(t, c.SetReadDeadline(alpha.Now().Add(short)))
		crew.Wait()
	}},
	{name: "a write deadline ends a write that nobody reads", body: func(t *T, alpha, beta machine.Machine) {
		c, _ := pair(t, alpha, beta)
		require.NoError(t, c.SetWriteDeadline(alpha.Now().Add(10*short)))
		var err error
		for err == nil {
			_, err = c.Write(make([]byte, 1<<16))
		}
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	}},
	{name: "big transfers arrive byte for byte", body: func(t *T, alpha, beta machine.Machine) {
		const total = 4 << 20
		c, s := pair(t, alpha, beta)
		beta.Go("sender", func() {
			out := bufio.NewWriterSize(s, 30_000)
			for i := range total / 8 {
				var word [8]byte
				binary.BigEndian.PutUint64(word[:], uint64(i)*0x9e3779b97f4a7c15)
				_, _ = out.Write(word[:])
			}
			_ = out.Flush()
			_ = s.Close()
		})
		in := bufio.NewReaderSize(c, 10_000)
		var word [8]byte
		for i := range total / 8 {
			if _, err := io.ReadFull(in, word[:]); err != nil {
				require.NoError(t, err)
			}
			if got := binary.BigEndian.Uint64(word[:]); got != uint64(i)*0x9e3779b97f4a7c15 {
				require.Equal(t, uint64(i)*0x9e3779b97f4a7c15, got, "word %d", i)
			}
		}
		_, err := in.ReadByte()
		require.Equal(t, io.EOF, err)
	}},
	{name: "concurrent writes do not mix", body: func(t *T, alpha, beta machine.Machine) {
		const writers, each, size = 8, 50, 3000
		c, s := pair(t, alpha, beta)
		for i := range writers {
			alpha.Go("writer", func() {
				for range each {
					if _, err := c.Write(bytes.Repeat([]byte{byte('a' + i)}, size)); err != nil {
						t.Error(err)
					}
				}
			})
		}
		p := make([]byte, size)
		for range writers * each {
			_, err := io.ReadFull(s, p)
			require.NoError(t, err)
			require.Equal(t, size, bytes.Count(p, p[:1]), "a message of one letter")
		}
	}},
}

var sendFileTests = []test{
	{name: "sends the bytes it is told", body: func(t *T, alpha, beta machine.Machine) {
		c, s := pair(t, alpha, beta)
		f := create(t, alpha.Disk(), "f", "0123456789")
		n, err := alpha.SendFile(c, f, 2, 5)
		require.NoError(t, err)
		require.EqualValues(t, 5, n)
		n, err = alpha.SendFile(c, f, 0, 0)
		require.NoError(t, err)
		require.Zero(t, n)
		send(t, c, "|")
		receive(t, s, "23456|")
	}},
	{name: "a file that ends before is an error", body: func(t *T, alpha, beta machine.Machine) {
		c, s := pair(t, alpha, beta)
		f := create(t, alpha.Disk(), "f", "0123456789")
		n, err := alpha.SendFile(c, f, 8, 5)
		require.Error(t, err)
		require.EqualValues(t, 2, n)
		receive(t, s, "89")
	}},
	{name: "a connection that is closed is an error", body: func(t *T, alpha, beta machine.Machine) {
		c, _ := pair(t, alpha, beta)
		f := create(t, alpha.Disk(), "f", "0123456789")
		require.NoError(t, c.Close())
		_, err := alpha.SendFile(c, f, 0, 10)
		require.ErrorIs(t, err, stdnet.ErrClosed)
	}},
	{name: "one open file serves many connections", body: func(t *T, alpha, beta machine.Machine) {
		const size = 1 << 20
		f := create(t, alpha.Disk(), "f", "")
		all := make([]byte, size)
		for i := range all {
			all[i] = byte(i * 31 >> 5)
		}
		_, err := machine.WriteFull(f, all, 0)
		require.NoError(t, err)
		crew := newCrew(alpha)
		for i := range 4 {
			c, s := pair(t, alpha, beta)
			from := i * 1000
			crew.Go("sender", func() {
				if n, err := alpha.SendFile(c, f, int64(from), size-int64(from)); err != nil || n != size-int64(from) {
					t.Errorf("sent %d: %v", n, err)
				}
				if err := c.Close(); err != nil {
					t.Error(err)
				}
			})
			crew.Go("receiver", func() {
				got, err := io.ReadAll(s)
				if err != nil || !bytes.Equal(all[from:], got) {
					t.Errorf("received %d bytes, or others: %v", len(got), err)
				}
			})
		}
		crew.Wait()
	}},
	{name: "a write deadline ends it", body: func(t *T, alpha, beta machine.Machine) {
		c, _ := pair(t, alpha, beta)
		f := create(t, alpha.Disk(), "f", "")
		require.NoError(t, f.Truncate(64<<20))
		require.NoError(t, c.SetWriteDeadline(alpha.Now().Add(10*short)))
		n, err := alpha.SendFile(c, f, 0, 64<<20)
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		require.Less(t, n, int64(64<<20))
	}},
}
