package conformance

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"faultline/sim/machine"
)

var errEnough = errors.New("enough")

var exitTests = []test{
	{name: "exit does not return and gives the reason", run: func(t testing.TB, arm Arm) {
		returned := false
		err := arm.Run(func(m, _ machine.Machine) {
			m.Exit(errEnough)
			returned = true
		})
		require.ErrorIs(t, err, errEnough)
		require.False(t, returned)
		require.NoError(t, arm.Run(func(m, _ machine.Machine) { m.Exit(nil) }))
	}},
	{name: "the end unwinds every task out of whatever blocks it", run: func(t testing.TB, arm Arm) {
		type fate struct {
			started, went, deferred, leaked bool
		}
		fates := map[string]*fate{}
		err := arm.Run(func(m, beta machine.Machine) {
			running := 0
			mu := m.NewMutex("mu")
			cond := m.NewCond("cond", mu)
			held := m.NewMutex("held")
			held.Lock()
			l, err := m.Listen(0)
			if err != nil {
				t.Error(err)
				return
			}
			conn, err := m.Dial(dialable(m, l), long)
			if err != nil {
				t.Error(err)
				return
			}
			blocked := map[string]func(){
				"sleep": func() { m.Sleep(long) },
				"lock":  func() { held.Lock() },
				"wait":  func() { mu.Lock(); cond.Wait() },
				"wait a while": func() {
					other := m.NewMutex("other")
					other.Lock()
					m.NewCond("other", other).WaitTimeout(long)
				},
				"read": func() { _, _ = conn.Read(make([]byte, 1)) },
				"write": func() {
					for {
						if _, err := conn.Write(make([]byte, 1<<16)); err != nil {
							return
						}
					}
				},
				"accept": func() {
					for {
						if _, err := l.Accept(); err != nil {
							return
						}
					}
				},
				"busy": func() {
					for {
						m.Sleep(short / 10)
					}
				},
			}
			for name, block := range blocked {
				f := &fate{}
				fates[name] = f
				m.Go(name, func() {
					defer func() { f.deferred = true }()
					defer func() {
						m.Sleep(0)
						f.leaked = true
					}()
					f.started = true
					mu.Lock()
					running++
					mu.Unlock()
					block()
					f.went = true
				})
			}
			for n := 0; n < len(blocked); {
				m.Sleep(short)
				mu.Lock()
				n = running
				mu.Unlock()
			}
			m.Exit(errEnough)
		})
		require.ErrorIs(t, err, errEnough)
		require.Len(t, fates, 8)
		for name, f := range fates {
			require.Equal(t, fate{started: true, deferred: true}, *f, name)
		}
	}},
	{name: "timers of a dead process do not run", run: func(t testing.TB, arm Arm) {
		const delay = 20 * short
		ran, inTime := false, false
		require.ErrorIs(t, arm.Run(func(m, _ machine.Machine) {
			start := m.Uptime()
			m.After(delay, "late", func() { ran = true })
			inTime = m.Uptime()-start < delay/2 // a real computer may be busy
			m.Exit(errEnough)
		}), errEnough)
		require.NoError(t, arm.Run(func(m, _ machine.Machine) { m.Sleep(2 * delay) }))
		require.False(t, ran && inTime)
	}},
	{name: "dead tasks cannot touch the disk", run: func(t testing.TB, arm Arm) {
		require.ErrorIs(t, arm.Run(func(m, _ machine.Machine) {
			f, err := m.Disk().Open("file", machine.Create)
			if err != nil {
				t.Error(err)
				return
			}
			if _, err := f.Pwrite([]byte("kept"), 0); err != nil {
				t.Error(err)
			}
			m.Go("deferring", func() {
				defer func() { _ = m.Disk().Remove("file") }()
				defer func() { _ = f.Truncate(0) }()
				defer func() { _, _ = f.Pwrite([]byte("lost"), 0) }()
				m.Sleep(long)
			})
			m.Sleep(short)
			m.Exit(errEnough)
		}), errEnough)
		require.NoError(t, run(t, arm, func(t *T, m, _ machine.Machine) {
			f, err := m.Disk().Open("file", 0)
			require.NoError(t, err)
			require.Equal(t, "kept", content(t, f))
		}))
	}},
	{name: "a panic crashes the process and is reported", run: func(t testing.TB, arm Arm) {
		cleaned, went := false, false
		err := arm.Run(func(m, _ machine.Machine) {
			m.Go("bystander", func() {
				defer func() { cleaned = true }()
				m.Sleep(long)
				went = true
			})
			m.Sleep(short)
			m.Go("faulty", func() { panic("boom") })
			m.Sleep(long)
			went = true
		})
		require.ErrorContains(t, err, "boom")
		require.True(t, cleaned)
		require.False(t, went)
	}},
	{name: "the disk outlives the process", run: func(t testing.TB, arm Arm) {
		for i := range 3 {
			require.NoError(t, run(t, arm, func(t *T, m, beta machine.Machine) {
				for _, m := range []machine.Machine{m, beta} {
					f, err := m.Disk().Open("log", machine.Create)
					require.NoError(t, err)
					size, err := f.Size()
					require.NoError(t, err)
					require.EqualValues(t, i, size)
					_, err = f.Pwrite([]byte{byte('0' + i)}, size)
					require.NoError(t, err)
					require.Equal(t, "012"[:i+1], content(t, f))
				}
			}))
		}
	}},
	{name: "peers of a dead process notice, and its port is free again", body: func(t *T, alpha, beta machine.Machine) {
		l, err := beta.Listen(0)
		require.NoError(t, err)
		address := dialable(beta, l)
		beta.Go("server", func() {
			if c, err := l.Accept(); err == nil {
				_, _ = c.Read(make([]byte, 1))
				beta.Exit(errEnough)
			}
		})
		c, err := alpha.Dial(address, long)
		require.NoError(t, err)
		send(t, c, "!")
		_, err = c.Read(make([]byte, 1))
		require.Error(t, err)
		for i := 0; !errors.Is(err, machine.ErrConnRefused) && i < 100; i++ {
			_, err = alpha.Dial(address, long)
			alpha.Sleep(short) // the real computer may close the connection before the port
		}
		require.ErrorIs(t, err, machine.ErrConnRefused)
	}},
}
