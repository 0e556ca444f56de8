package conformance

import (
	"time"

	"github.com/stretchr/testify/require"

	"faultline/sim/machine"
)

const (
	short = 5 * time.Millisecond // long enough to be told from nothing
	long  = 5 * time.Minute      // never reached
)

var timeTests = []test{
	{name: "uptime goes forward only", body: func(t *T, m, _ machine.Machine) {
		last := m.Uptime()
		for range 100 {
			m.Sleep(0)
			now := m.Uptime()
			require.GreaterOrEqual(t, now, last)
			last = now
		}
		require.NotZero(t, m.Now().Year())
	}},
	{name: "sleep lasts at least as long as asked", body: func(t *T, m, _ machine.Machine) {
		start := m.Uptime()
		m.Sleep(short)
		require.GreaterOrEqual(t, m.Uptime()-start, short)
		m.Sleep(0)
		m.Sleep(-short)
	}},
	{name: "after runs a task later", body: func(t *T, m, _ machine.Machine) {
		mu := m.NewMutex("mu")
		ran := m.NewCond("ran", mu)
		start := m.Uptime()
		var at time.Duration
		timer := m.After(short, "later", func() {
			m.Sleep(0) // it may block: it is a task
			mu.Lock()
			at = m.Uptime()
			ran.Broadcast()
			mu.Unlock()
		})
		mu.Lock()
		for at == 0 {
			ran.Wait()
		}
		mu.Unlock()
		require.GreaterOrEqual(t, at-start, short)
		require.False(t, timer.Stop(), "it has run")
	}},
	{name: "a stopped timer does not run", body: func(t *T, m, _ machine.Machine) {
		mu := m.NewMutex("mu")
		ran := false
		timer := m.After(long, "never", func() {
			mu.Lock()
			ran = true
			mu.Unlock()
		})
		soon := m.After(4*short, "soon", func() {
			mu.Lock()
			ran = true
			mu.Unlock()
		})
		require.True(t, timer.Stop())
		require.False(t, timer.Stop(), "it is stopped")
		stopped := soon.Stop()
		m.Sleep(10 * short)
		mu.Lock()
		defer mu.Unlock()
		require.Equal(t, !stopped, ran)
	}},
	{name: "after nothing runs at once", body: func(t *T, m, _ machine.Machine) {
		c := newCrew(m)
		for _, d := range []time.Duration{0, -short} {
			gate := m.NewMutex("gate")
			cond := m.NewCond("gate", gate)
			ran := false
			m.After(d, "now", func() {
				gate.Lock()
				ran = true
				cond.Signal()
				gate.Unlock()
			})
			c.Go("wait", func() {
				gate.Lock()
				for !ran {
					cond.Wait()
				}
				gate.Unlock()
			})
		}
		c.Wait()
	}},
}

var taskTests = []test{
	{name: "tasks run and see what the starter did before", body: func(t *T, m, _ machine.Machine) {
		c := newCrew(m)
		results := make([]int, 100)
		for i := range results {
			results[i] = -1
			c.Go("worker", func() {
				if i%3 == 0 {
					m.Sleep(0)
				}
				if results[i] == -1 {
					results[i] = i
				}
			})
		}
		c.Wait()
		for i, r := range results {
			require.Equal(t, i, r)
		}
	}},
	{name: "tasks start tasks", body: func(t *T, m, _ machine.Machine) {
		c := newCrew(m)
		depth := 0
		var dive func(n int)
		dive = func(n int) {
			depth = n
			if n < 50 {
				c.Go("deeper", func() { dive(n + 1) })
			}
		}
		dive(1)
		c.Wait()
		require.Equal(t, 50, depth)
	}},
	{name: "machines have names and random streams", body: func(t *T, a, b machine.Machine) {
		require.NotEmpty(t, a.Name())
		require.NotEqual(t, a.Name(), b.Name())
		draw := func(m machine.Machine, purpose string) (v [4]uint64) {
			r := m.Rand(purpose)
			for i := range v {
				v[i] = r.Uint64()
			}
			return v
		}
		one := draw(a, "conformance/one")
		require.NotEqual(t, one, draw(a, "conformance/two"))
		require.NotEqual(t, one, draw(b, "conformance/one"))
	}},
	{name: "work, traces, failpoints and marks return", body: func(t *T, m, _ machine.Machine) {
		m.Work(machine.Work{})
		m.Work(machine.Work{Requests: 1, Sent: 1, Records: 2, Received: 3, Copied: 3, Summed: 4, Syscalls: 5})
		m.Trace(machine.Event{Kind: machine.BrokerUp, A: 1})
		_ = m.Tracing()
		require.False(t, m.Failpoint("fault/conformance/none"), "nobody switched it on")
		m.Mark("mark/conformance/none")
	}},
	{name: "marks may be set by many tasks", body: func(t *T, m, _ machine.Machine) {
		c := newCrew(m)
		for range 20 {
			c.Go("marking", func() {
				for range 20 {
					m.Mark("mark/conformance/many")
					m.Sleep(0)
				}
			})
		}
		c.Wait()
	}},
}

var lockTests = []test{
	{name: "a mutex excludes", body: func(t *T, m, _ machine.Machine) {
		mu := m.NewMutex("mu")
		c := newCrew(m)
		inside, sum := 0, 0
		for range 20 {
			c.Go("worker", func() {
				for range 20 {
					mu.Lock()
					inside++
					before := sum
					m.Sleep(0)
					sum = before + 1
					if inside != 1 {
						t.Errorf("%d tasks hold the lock", inside)
					}
					inside--
					mu.Unlock()
				}
			})
		}
		c.Wait()
		require.Equal(t, 400, sum)
	}},
	{name: "signal wakes a waiter, one at a time is enough", body: func(t *T, m, _ machine.Machine) {
		mu := m.NewMutex("mu")
		more := m.NewCond("more", mu)
		c := newCrew(m)
		items, taken := 0, 0
		for range 10 {
			c.Go("taker", func() {
				mu.Lock()
				for items == 0 {
					more.Wait()
				}
				items--
				taken++
				mu.Unlock()
			})
		}
		for range 10 {
			m.Sleep(0)
			mu.Lock()
			items++
			more.Signal()
			mu.Unlock()
		}
		c.Wait()
		require.Equal(t, 10, taken)
	}},
	{name: "broadcast wakes all", body: func(t *T, m, _ machine.Machine) {
		mu := m.NewMutex("mu")
		open := m.NewCond("open", mu)
		c := newCrew(m)
		waiting, isOpen := 0, false
		for range 10 {
			c.Go("waiter", func() {
				mu.Lock()
				waiting++
				for !isOpen {
					open.Wait()
				}
				waiting--
				mu.Unlock()
			})
		}
		for n := 0; n < 10; {
			m.Sleep(0)
			mu.Lock()
			n = waiting
			mu.Unlock()
		}
		mu.Lock()
		isOpen = true
		open.Broadcast()
		mu.Unlock()
		c.Wait()
		require.Zero(t, waiting)
	}},
	{name: "signals without waiters are not kept", body: func(t *T, m, _ machine.Machine) {
		mu := m.NewMutex("mu")
		cond := m.NewCond("cond", mu)
		cond.Signal()
		cond.Broadcast()
		mu.Lock()
		require.False(t, cond.WaitTimeout(short))
		mu.Unlock()
	}},
	{name: "a wait with a time-out tells why it ended and holds the lock", body: func(t *T, m, _ machine.Machine) {
		mu := m.NewMutex("mu")
		cond := m.NewCond("cond", mu)
		c := newCrew(m)
		held := 0
		mu.Lock()
		start := m.Uptime()
		require.False(t, cond.WaitTimeout(short))
		require.GreaterOrEqual(t, m.Uptime()-start, short)
		require.False(t, cond.WaitTimeout(0))
		c.Go("rival", func() {
			mu.Lock()
			held++
			cond.Signal()
			mu.Unlock()
		})
		for held == 0 {
			require.True(t, cond.WaitTimeout(long), "nobody else signals")
		}
		held++
		m.Sleep(0)
		held--
		mu.Unlock()
		c.Wait()
		require.Equal(t, 1, held)
	}},
	{name: "a signal is not lost on a waiter whose time runs out", body: func(t *T, m, _ machine.Machine) {
		mu := m.NewMutex("mu")
		cond := m.NewCond("cond", mu)
		c := newCrew(m)
		tokens, taken := 0, 0
		for i := range 8 {
			c.Go("impatient", func() {
				mu.Lock()
				for tokens == 0 {
					cond.WaitTimeout(time.Duration(i%3+1) * time.Millisecond)
				}
				tokens--
				taken++
				mu.Unlock()
			})
			c.Go("patient", func() {
				mu.Lock()
				for tokens == 0 {
					cond.Wait()
				}
				tokens--
				taken++
				mu.Unlock()
			})
		}
		for range 16 {
			m.Sleep(time.Millisecond)
			mu.Lock()
			tokens++
			cond.Broadcast()
			mu.Unlock()
		}
		c.Wait()
		require.Equal(t, 16, taken)
	}},
}
