package virtual_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"faultline/sim"
	"faultline/sim/machine"
	"faultline/sim/virtual"
)

const forever = time.Duration(1 << 62)

// write makes a file with the text, synced with its directory or not.
func write(m machine.Machine, name, text string, sync bool) error {
	f, err := m.Disk().Open(name, machine.Create)
	if err != nil {
		return err
	}
	if _, err := machine.WriteFull(f, []byte(text), 0); err != nil {
		return err
	}
	if sync {
		if err := f.Sync(); err != nil {
			return err
		}
		if err := m.Disk().SyncDir(""); err != nil {
			return err
		}
	}
	return f.Close()
}

func read(m machine.Machine, name string) string {
	f, err := m.Disk().Open(name, 0)
	if err != nil {
		return "missing"
	}
	n, _ := f.Size()
	b := make([]byte, n)
	machine.ReadFull(f, b, 0)
	return string(b)
}

func TestProcessCrashKeepsThePageCacheAndPowerLossNeedNot(t *testing.T) {
	seen := map[string]bool{}
	for seed := range uint64(60) {
		w := sim.New(sim.Config{Seed: seed})
		c := virtual.New(w, virtual.Config{})
		a := c.Add("a")
		a.Boot(func(m machine.Machine) error {
			write(m, "synced", "old", true)
			write(m, "loose", "new", false)
			m.Sleep(time.Hour)
			return nil
		})
		w.At(time.Second, func() {
			a.Crash()
			a.Boot(func(m machine.Machine) error {
				require.Equal(t, "old new", read(m, "synced")+" "+read(m, "loose"))
				m.Sleep(time.Hour)
				return nil
			})
		})
		w.At(2*time.Second, func() {
			a.PowerLoss()
			a.Boot(func(m machine.Machine) error {
				require.Equal(t, "old", read(m, "synced"))
				seen[read(m, "loose")] = true
				return nil
			})
		})
		require.Equal(t, sim.Done, w.Run(forever).Kind)
		require.Equal(t, 3, a.Incarnation())
		w.Close()
	}
	require.True(t, seen["missing"] && seen["new"], seen)
}

func TestExitEndsTheProcessAndTellsWhy(t *testing.T) {
	w := sim.New(sim.Config{})
	defer w.Close()
	c := virtual.New(w, virtual.Config{})
	var log []string
	c.OnExit = func(c *virtual.Computer, err error) { log = append(log, fmt.Sprint(c.Name(), " ", err, " ", w.Now())) }
	oops := errors.New("oops")
	c.Add("exits").Boot(func(m machine.Machine) error {
		m.Go("other", func() { m.Sleep(time.Hour); log = append(log, "survived") })
		m.Sleep(time.Second)
		defer func() { m.Sleep(1); log = append(log, "deferred") }()
		m.Exit(oops)
		return nil
	})
	c.Add("returns").Boot(func(m machine.Machine) error { m.Sleep(2 * time.Second); return nil })
	c.Add("panics").Boot(func(m machine.Machine) error {
		m.Go("bad", func() { m.Sleep(3 * time.Second); panic("bad task") })
		m.Sleep(time.Hour)
		return nil
	})
	require.Equal(t, sim.Done, w.Run(forever).Kind)
	require.Len(t, log, 3)
	require.Equal(t, "exits oops 1s", log[0])
	require.Equal(t, "returns <nil> 2s", log[1])
	require.Contains(t, log[2], "panics task panics/bad panicked at 3s: bad task")
}

func TestWorkOccupiesCores(t *testing.T) {
	w := sim.New(sim.Config{})
	defer w.Close()
	c := virtual.New(w, virtual.Config{CPU: virtual.CPU{Cores: 2, Request: time.Second, Copy: 1000}})
	m := c.Add("m")
	var done []time.Duration
	m.Boot(func(m machine.Machine) error {
		for range 3 {
			m.Go("work", func() { m.Work(machine.Work{Requests: 1}); done = append(done, w.Now()) })
		}
		m.Sleep(10 * time.Second)
		m.Work(machine.Work{Copied: 500})
		require.Equal(t, 10500*time.Millisecond, w.Now())
		return nil
	})
	w.At(5*time.Second, func() { m.SlowCPU(1) })
	require.Equal(t, sim.Done, w.Run(forever).Kind)
	require.Equal(t, []time.Duration{time.Second, time.Second, 2 * time.Second}, done)
}

func TestDriftingClockTimesOutEarlyInWorldTime(t *testing.T) {
	w := sim.New(sim.Config{})
	defer w.Close()
	c := virtual.New(w, virtual.Config{})
	m := c.Add("m")
	m.DriftClock(50_000)
	m.Boot(func(m machine.Machine) error {
		before := m.Now()
		m.Sleep(105 * time.Second)
		require.InDelta(t, 100, w.Now().Seconds(), 0.001)
		require.InDelta(t, 105, m.Now().Sub(before).Seconds(), 0.001)
		return nil
	})
	require.Equal(t, sim.Done, w.Run(forever).Kind)
}

func TestFailpointsFireByTheSeedAndOnlyWhenArmed(t *testing.T) {
	count := func(seed uint64, armed bool) (n int) {
		w := sim.New(sim.Config{Seed: seed})
		defer w.Close()
		c := virtual.New(w, virtual.Config{})
		if armed {
			require.NoError(t, c.Arm("fault/test/site", virtual.Misfortune{Chance: 0.3, Fail: true, Delay: time.Millisecond}))
		}
		c.Add("m").Boot(func(m machine.Machine) error {
			for range 1000 {
				if m.Failpoint("fault/test/site") {
					n++
				}
				require.False(t, m.Failpoint("fault/test/other"))
			}
			return nil
		})
		w.Run(forever)
		return n
	}
	require.Zero(t, count(1, false))
	require.InDelta(t, 300, count(1, true), 60)
	require.Equal(t, count(1, true), count(1, true))
	require.NotEqual(t, count(1, true), count(2, true))
}

func TestAFailpointIsDisarmedAndArmedAnew(t *testing.T) {
	w := sim.New(sim.Config{Seed: 3})
	defer w.Close()
	c := virtual.New(w, virtual.Config{})
	arm := func(chance float64) {
		require.NoError(t, c.Arm("fault/test/site", virtual.Misfortune{Chance: chance, Fail: true}))
	}
	c.Add("m").Boot(func(m machine.Machine) error {
		fired := func() (out [20]bool) {
			for i := range out {
				out[i] = m.Failpoint("fault/test/site")
			}
			return out
		}
		arm(0)
		require.Zero(t, fired())
		arm(0.5)
		first := fired()
		arm(0)
		arm(0)
		require.Zero(t, fired())
		arm(0.5)
		require.NotEqual(t, first, fired(), "the stream goes on")
		c.Disarm()
		require.Zero(t, fired())
		return nil
	})
	require.Equal(t, sim.Done, w.Run(forever).Kind)
}

func TestMarksAreCountedAndChangeNothing(t *testing.T) {
	run := func(counted, marking bool) (virtual.Passages, uint64) {
		w := sim.New(sim.Config{Seed: 7})
		defer w.Close()
		c := virtual.New(w, virtual.Config{})
		var counts virtual.Passages
		if counted {
			counts = c.CountPassages()
		}
		require.NoError(t, c.Arm("fault/test/site", virtual.Misfortune{Chance: 0.5, Delay: time.Millisecond}))
		for _, name := range []string{"a", "b"} {
			c.Add(name).Boot(func(m machine.Machine) error {
				m.Go("doomed", func() {
					defer m.Mark("mark/test/dead")
					m.Sleep(time.Hour)
				})
				for range 100 {
					if marking {
						m.Mark("mark/test/turn")
					}
					m.Failpoint("fault/test/site")
					m.Failpoint("fault/test/unarmed")
				}
				return nil
			})
		}
		w.Run(forever)
		return counts, w.Hash()
	}
	counts, hash := run(true, true)
	require.Equal(t, &virtual.Passage{Passed: 200}, counts["mark/test/turn"])
	require.Equal(t, &virtual.Passage{Passed: 200}, counts["fault/test/unarmed"])
	require.NotContains(t, counts, "mark/test/dead", "a killed process sets no mark")
	site := counts["fault/test/site"]
	require.EqualValues(t, 200, site.Passed)
	require.InDelta(t, 100, site.Fired, 40)
	for _, other := range [][2]bool{{true, false}, {false, true}, {false, false}} {
		_, h := run(other[0], other[1])
		require.Equal(t, hash, h)
	}
}

func TestPassingCostsNoMemory(t *testing.T) {
	for _, counted := range []bool{false, true} {
		w := sim.New(sim.Config{})
		defer w.Close()
		c := virtual.New(w, virtual.Config{})
		if counted {
			c.CountPassages()
		}
		require.NoError(t, c.Arm("fault/test/other", virtual.Misfortune{Chance: 0.5}))
		allocs := -1.0
		c.Add("m").Boot(func(m machine.Machine) error {
			allocs = testing.AllocsPerRun(100, func() {
				m.Failpoint("fault/test/site")
				m.Mark("mark/test/turn")
			})
			return nil
		})
		w.Run(forever)
		require.Zero(t, allocs)
	}
}

func TestRandomStreamsDifferByIncarnation(t *testing.T) {
	w := sim.New(sim.Config{})
	defer w.Close()
	a := virtual.New(w, virtual.Config{}).Add("a")
	var draws []uint64
	boot := func() {
		a.Boot(func(m machine.Machine) error { draws = append(draws, m.Rand("id").Uint64()); return nil })
	}
	boot()
	w.At(time.Second, boot)
	require.Equal(t, sim.Done, w.Run(forever).Kind)
	require.NotEqual(t, draws[0], draws[1])
}

// What a failpoint that is not armed and a mark cost, as nearly all of them are nearly always.
func BenchmarkPassing(b *testing.B) {
	for _, c := range []struct {
		name           string
		armed, counted bool
	}{{"idle", false, false}, {"others-armed", true, false}, {"counted", false, true}} {
		b.Run(c.name, func(b *testing.B) {
			w := sim.New(sim.Config{})
			defer w.Close()
			cluster := virtual.New(w, virtual.Config{})
			if c.armed {
				for i := range 20 {
					require.NoError(b, cluster.Arm(fmt.Sprintf("fault/test/other-%d", i), virtual.Misfortune{Chance: 0.5}))
				}
			}
			if c.counted {
				cluster.CountPassages()
			}
			b.ReportAllocs()
			cluster.Add("m").Boot(func(m machine.Machine) error {
				for b.Loop() {
					m.Failpoint("fault/test/site")
					m.Mark("mark/test/turn")
				}
				return nil
			})
			w.Run(forever)
		})
	}
}
