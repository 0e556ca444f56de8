package virtual_test

import (
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"faultline/sim"
	"faultline/sim/machine"
	"faultline/sim/virtual"
)

// The rows of the fault table for clocks and machines, one test each, on the smallest world that shows it. Those that need a cluster are in workloads/trial.

func world(t *testing.T) (*sim.World, *virtual.Cluster) {
	w := sim.New(sim.Config{Seed: 1})
	t.Cleanup(w.Close)
	return w, virtual.New(w, virtual.Config{CPU: virtual.CPU{Cores: 1, Request: 10 * time.Millisecond}})
}

func TestFaultMemoryOfARestartedProcessIsGone(t *testing.T) {
	w, c := world(t)
	a := c.Add("a")
	type memory struct{ counted int }
	var seen []int
	main := func(m machine.Machine) error {
		p := &memory{} // a process has nothing but what its main makes or reads from disk
		for {
			p.counted++
			seen = append(seen, p.counted)
			m.After(1500*time.Millisecond, "late", func() { p.counted += 100 }) // timers of a dead process never fire
			m.Sleep(time.Second)
		}
	}
	a.Boot(main)
	w.At(2500*time.Millisecond, func() {
		a.Crash()
		a.Boot(main)
	})
	w.Run(4 * time.Second)
	require.Equal(t, []int{1, 2, 103, 1, 2}, seen)
}

func TestFaultPauseHoldsTheProcessAndNotItsClocks(t *testing.T) {
	w, c := world(t)
	a := c.Add("a")
	var woke, at time.Duration
	a.Boot(func(m machine.Machine) error {
		m.Sleep(time.Second)
		woke, at = m.Uptime(), w.Now()
		return nil
	})
	w.At(500*time.Millisecond, a.Pause)
	w.At(5*time.Second, a.Resume)
	w.Run(forever)
	require.Equal(t, 5*time.Second, at)
	require.Equal(t, 5*time.Second, woke, "a lease of a second is long over by its own clock")
}

func TestFaultFreezeHoldsTheWholeMachine(t *testing.T) {
	w, c := world(t)
	a, b := c.Add("a"), c.Add("b")
	var got []byte
	var gotAt, dialled time.Duration
	a.Boot(func(m machine.Machine) error {
		l, err := m.Listen(7)
		require.NoError(t, err)
		conn, err := l.Accept()
		require.NoError(t, err)
		buf := make([]byte, 5)
		_, err = io.ReadFull(conn, buf)
		got, gotAt = buf, w.Now()
		return err
	})
	b.Boot(func(m machine.Machine) error {
		conn, err := m.Dial("a:7", time.Second)
		require.NoError(t, err)
		m.Sleep(time.Second) // a is frozen now
		_, err = conn.Write([]byte("hello"))
		require.NoError(t, err)
		_, err = m.Dial("a:7", time.Second)
		require.ErrorIs(t, err, machine.ErrTimeout, "nobody answers, not even to refuse")
		dialled = w.Now()
		m.Sleep(time.Hour)
		return nil
	})
	w.At(500*time.Millisecond, func() { a.Pause(); a.Freeze() })
	w.At(5*time.Second, func() { a.Thaw(); a.Resume() })
	w.Run(time.Minute)
	require.Equal(t, "hello", string(got))
	require.Greater(t, gotAt, 5*time.Second, "what was sent meanwhile is sent again after the thaw")
	require.Less(t, gotAt, 9*time.Second)
	require.Less(t, dialled, 5*time.Second)
}

func TestFaultSlowCPU(t *testing.T) {
	w, c := world(t)
	a := c.Add("a")
	var took []time.Duration
	a.Boot(func(m machine.Machine) error {
		for range 3 {
			start := w.Now()
			m.Work(machine.Work{Requests: 1})
			took = append(took, w.Now()-start)
			m.Sleep(time.Second)
		}
		return nil
	})
	w.At(500*time.Millisecond, func() { a.SlowCPU(20) })
	w.At(1500*time.Millisecond, func() { a.SlowCPU(1) })
	w.Run(forever)
	require.Equal(t, []time.Duration{10 * time.Millisecond, 200 * time.Millisecond, 10 * time.Millisecond}, took)
}

func TestFaultClockOffsetAndJumpsForwardAndBack(t *testing.T) {
	w, c := world(t)
	a := c.Add("a")
	a.JumpClock(-2 * time.Second) // before it starts: it is off
	var wall, up []time.Duration
	a.Boot(func(m machine.Machine) error {
		for range 4 {
			wall, up = append(wall, m.Now().Sub(sim.Epoch)), append(up, m.Uptime())
			m.Sleep(time.Second)
		}
		return nil
	})
	w.At(500*time.Millisecond, func() { a.JumpClock(time.Hour) })
	w.At(1500*time.Millisecond, func() { a.JumpClock(-2 * time.Hour) })
	w.Run(forever)
	require.Equal(t, []time.Duration{-2 * time.Second, time.Hour - time.Second, -time.Hour, -time.Hour + time.Second}, wall)
	require.Equal(t, []time.Duration{0, time.Second, 2 * time.Second, 3 * time.Second}, up, "timers and leases do not notice")
}

func TestFaultClockDrift(t *testing.T) {
	w, c := world(t)
	fast, slow := c.Add("fast"), c.Add("slow")
	fast.DriftClock(50_000)
	slow.DriftClock(-50_000)
	at := map[string]time.Duration{}
	for _, a := range []*virtual.Computer{fast, slow} {
		a.Boot(func(m machine.Machine) error {
			m.Sleep(10 * time.Second)
			require.GreaterOrEqual(t, m.Uptime(), 10*time.Second)
			require.Less(t, m.Uptime(), 10*time.Second+2, "by its own clock nobody sleeps too long")
			at[m.Name()] = w.Now().Round(time.Millisecond)
			return nil
		})
	}
	w.Run(forever)
	require.Equal(t, map[string]time.Duration{"fast": 9524 * time.Millisecond, "slow": 10526 * time.Millisecond}, at)
}

func TestFaultReplacedDiskIsEmpty(t *testing.T) {
	w, c := world(t)
	a := c.Add("a")
	var found string
	a.Boot(func(m machine.Machine) error {
		require.NoError(t, write(m, "synced", "old", true))
		m.Sleep(time.Hour)
		return nil
	})
	w.At(time.Second, func() {
		require.Panics(t, a.ReplaceDisk, "a process has it open")
		a.PowerLoss()
		a.ReplaceDisk()
		a.Boot(func(m machine.Machine) error {
			found = read(m, "synced")
			return write(m, "synced", "new", true)
		})
	})
	require.Equal(t, sim.Done, w.Run(forever).Kind)
	require.Equal(t, "missing", found)
}
