package host

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"faultline/sim/machine"
)

func newMachine(t testing.TB, o Options) *Machine {
	if o.Root == "" {
		o.Root = t.TempDir()
	}
	m, err := New(o)
	require.NoError(t, err)
	t.Cleanup(m.Shutdown)
	return m
}

func TestShutdownEndsEveryTaskAndFreesThePort(t *testing.T) {
	m := newMachine(t, Options{OnExit: func(error) { t.Error("a shutdown is no exit") }})
	var ticks atomic.Int64
	var port int
	require.True(t, m.Do("setup", func() {
		l, err := m.Listen(0)
		require.NoError(t, err)
		port = l.Addr().(*net.TCPAddr).Port
		m.Go("acceptor", func() {
			for {
				if _, err := l.Accept(); err != nil {
					return
				}
			}
		})
		m.Go("ticker", func() {
			for {
				m.Sleep(time.Microsecond)
				ticks.Add(1)
			}
		})
		held := m.NewMutex("held")
		held.Lock()
		m.Go("locker", func() { held.Lock() })
	}))
	m.Shutdown()
	before := ticks.Load()
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	require.NoError(t, err)
	l.Close()
	require.Equal(t, before, ticks.Load())
	require.False(t, m.Do("late", func() { t.Error("runs") }))
	m.Shutdown() // again does nothing
}

func TestCallsAfterShutdownEndTheirGoroutine(t *testing.T) {
	m := newMachine(t, Options{})
	f, err := m.Disk().Open("f", machine.Create)
	require.NoError(t, err)
	m.Shutdown()
	for name, call := range map[string]func(){
		"now":    func() { m.Now() },
		"disk":   func() { _, _ = m.Disk().Open("g", machine.Create) },
		"file":   func() { _, _ = f.Pwrite([]byte("x"), 0) },
		"dial":   func() { _, _ = m.Dial("127.0.0.1:1", 0) },
		"listen": func() { _, _ = m.Listen(0) },
		"go":     func() { m.Go("late", func() {}) },
		"exit":   func() { m.Exit(nil) },
	} {
		returned, ended := false, make(chan struct{})
		go func() {
			defer close(ended)
			call()
			returned = true
		}()
		<-ended
		require.False(t, returned, name)
	}
	_, err = os.Stat(filepath.Join(m.disk.root, "g"))
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestOnlyTheFirstExitCounts(t *testing.T) {
	reasons := make(chan error, 10)
	m := newMachine(t, Options{OnExit: func(err error) { reasons <- err }})
	m.Do("main", func() {
		for i := range 10 {
			m.Go("quitter", func() { m.Exit(fmt.Errorf("reason %d", i)) })
		}
	})
	require.ErrorContains(t, <-reasons, "reason")
	m.Shutdown()
	require.Empty(t, reasons)
}

func TestPanicIsReportedWithTheTasksOwnStack(t *testing.T) {
	reasons := make(chan error, 1)
	m := newMachine(t, Options{OnExit: func(err error) { reasons <- err }})
	cause := errors.New("cause")
	m.Go("faulty", func() { panicking(cause) })
	err := <-reasons
	require.ErrorIs(t, err, cause)
	var p *Panic
	require.ErrorAs(t, err, &p)
	require.Equal(t, "faulty", p.Task)
	require.Contains(t, string(p.Stack), "host.panicking")
}

func panicking(err error) { panic(err) }

func TestHostsAndAddressesGiveMachinesOfOneComputerTheSamePort(t *testing.T) {
	hosts := map[string]string{"one": "127.0.0.2", "two": "127.0.0.3"}
	one := newMachine(t, Options{Name: "one", Address: "127.0.0.2", Hosts: hosts})
	two := newMachine(t, Options{Name: "two", Address: "127.0.0.3", Hosts: hosts})
	l, err := one.Listen(0)
	if err != nil {
		t.Skip("this computer has one loopback address only")
	}
	port := l.Addr().(*net.TCPAddr).Port
	k, err := two.Listen(port)
	require.NoError(t, err)
	for name, l := range map[string]net.Listener{"one": l, "two": k} {
		c, err := one.Dial(fmt.Sprintf("%s:%d", name, port), time.Minute)
		require.NoError(t, err)
		s, err := l.Accept()
		require.NoError(t, err)
		require.Equal(t, c.LocalAddr().String(), s.RemoteAddr().String())
	}
}

func TestNamesAreLoopbackAndAddressesAreDialedAsTheyAre(t *testing.T) {
	m := newMachine(t, Options{Name: "broker-1"})
	l, err := m.Listen(0)
	require.NoError(t, err)
	port := l.Addr().(*net.TCPAddr).Port
	for _, host := range []string{"broker-1", "anything", "127.0.0.1", "localhost"} {
		c, err := m.Dial(fmt.Sprintf("%s:%d", host, port), time.Minute)
		require.NoError(t, err, host)
		require.NoError(t, c.Close())
	}
	_, err = m.Dial(fmt.Sprintf("[::1]:%d", port), time.Minute)
	require.Error(t, err)
}

func TestErrorsOfTheSystemAreTheSeamsToo(t *testing.T) {
	for _, c := range []struct {
		errno error
		want  error
	}{
		{syscall.EIO, machine.ErrIO}, {syscall.ENOSPC, machine.ErrNoSpace}, {syscall.EDQUOT, machine.ErrNoSpace},
		{syscall.ECONNREFUSED, machine.ErrConnRefused}, {syscall.EADDRINUSE, machine.ErrAddressInUse},
		{syscall.ECONNRESET, machine.ErrConnReset}, {syscall.EPIPE, machine.ErrConnReset}, {syscall.ETIMEDOUT, machine.ErrTimeout},
	} {
		err := netError(diskError(&os.PathError{Op: "op", Path: "path", Err: c.errno}))
		require.ErrorIs(t, err, c.want)
		require.ErrorIs(t, err, c.errno)
		require.ErrorContains(t, err, "path")
	}
	require.NoError(t, netError(diskError(nil)))
}

func TestTracesAreSeen(t *testing.T) {
	var seen []machine.Event
	m := newMachine(t, Options{OnTrace: func(e machine.Event) { seen = append(seen, e) }})
	require.True(t, m.Tracing())
	m.Trace(machine.Event{Kind: machine.BrokerUp, A: 7})
	require.Equal(t, []machine.Event{{Kind: machine.BrokerUp, A: 7}}, seen)
	require.False(t, newMachine(t, Options{}).Tracing())
}

func TestRootMustBeUsable(t *testing.T) {
	name := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(name, nil, 0o644))
	_, err := New(Options{Name: "m", Root: name})
	require.ErrorContains(t, err, "root directory")
}
