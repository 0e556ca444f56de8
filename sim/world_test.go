package sim_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"faultline/sim"
)

const forever = time.Duration(1 << 62)

// run lets a world live to its end with one first task.
func run(t *testing.T, cfg sim.Config, main func(w *sim.World)) (*sim.World, sim.Outcome) {
	w := sim.New(cfg)
	t.Cleanup(w.Close)
	w.Go(nil, "main", func() { main(w) })
	return w, w.Run(forever)
}

func TestClockJumpsToTheNextTimer(t *testing.T) {
	w, o := run(t, sim.Config{}, func(w *sim.World) {
		w.ParkUntil("sleep", "", time.Hour)
		w.Go(nil, "other", func() { w.ParkUntil("sleep", "", 3*time.Hour) })
	})
	require.Equal(t, sim.Done, o.Kind)
	require.Equal(t, 3*time.Hour, w.Now())
}

func TestRunStopsAtItsDeadlineAndGoesOn(t *testing.T) {
	w := sim.New(sim.Config{})
	defer w.Close()
	woke := false
	w.Go(nil, "sleeper", func() { w.ParkUntil("sleep", "", time.Minute); woke = true })
	require.Equal(t, sim.Deadline, w.Run(time.Second).Kind)
	require.Equal(t, time.Second, w.Now())
	require.False(t, woke)
	require.Equal(t, sim.Done, w.Run(forever).Kind)
	require.True(t, woke)
}

func TestTimersOfOneInstantFireInTheOrderOfSetting(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := sim.New(sim.Config{})
		defer w.Close()
		type set struct{ when, n int }
		var want []set
		var got []int
		var timers []*sim.Timer
		for n, when := range rapid.SliceOf(rapid.IntRange(0, 20)).Draw(t, "when") {
			want = append(want, set{when, n})
			timers = append(timers, w.At(time.Duration(when), func() { got = append(got, n) }))
		}
		gone := map[int]bool{}
		for n := range timers {
			if rapid.Bool().Draw(t, "unset") {
				require.True(t, w.Unset(timers[n]))
				require.False(t, w.Unset(timers[n]))
				gone[n] = true
			}
		}
		w.Run(forever)
		slices.SortStableFunc(want, func(a, b set) int { return a.when - b.when })
		expect := []int(nil)
		for _, s := range want {
			if !gone[s.n] {
				expect = append(expect, s.n)
			}
		}
		require.Equal(t, expect, got)
	})
}

func TestMutexExcludesUnderEveryPolicy(t *testing.T) {
	for _, p := range []sim.Policy{sim.Random, sim.FIFO, sim.PCT} {
		for seed := range uint64(50) {
			inside, entered := 0, 0
			_, o := run(t, sim.Config{Seed: seed, Policy: p}, func(w *sim.World) {
				m := w.NewMutex("m")
				for i := range 5 {
					w.Go(nil, fmt.Sprint("t", i), func() {
						for range 10 {
							m.Lock()
							inside++
							w.Yield()
							require.Equal(t, 1, inside)
							entered++
							inside--
							m.Unlock()
						}
					})
				}
			})
			require.Equal(t, sim.Done, o.Kind)
			require.Equal(t, 50, entered)
		}
	}
}

// A lost update needs one preemption between read and write: the checking policies must find it, and soon.
func TestPoliciesFindALostUpdate(t *testing.T) {
	for _, p := range []sim.Policy{sim.Random, sim.PCT} {
		found := 0
		for seed := range uint64(100) {
			x := 0
			run(t, sim.Config{Seed: seed, Policy: p, Steps: 10}, func(w *sim.World) {
				for range 2 {
					w.Go(nil, "add", func() { v := x; w.Yield(); x = v + 1 })
				}
			})
			if x == 1 {
				found++
			}
		}
		require.Greater(t, found, 10, p)
	}
}

func TestCondSignalsAndTimesOut(t *testing.T) {
	for seed := range uint64(50) {
		_, o := run(t, sim.Config{Seed: seed}, func(w *sim.World) {
			m := w.NewMutex("m")
			c := w.NewCond("c", m)
			ready := false
			w.Go(nil, "setter", func() {
				w.ParkUntil("sleep", "", time.Second)
				m.Lock()
				ready = true
				c.Signal()
				m.Unlock()
			})
			m.Lock()
			require.False(t, c.WaitUntil(time.Millisecond))
			require.Equal(t, time.Millisecond, w.Now())
			for !ready {
				require.True(t, c.WaitUntil(time.Hour))
			}
			require.Equal(t, time.Second, w.Now())
			m.Unlock()
		})
		require.Equal(t, sim.Done, o.Kind)
	}
}

func TestBroadcastWakesAll(t *testing.T) {
	woken := 0
	_, o := run(t, sim.Config{Seed: 3}, func(w *sim.World) {
		m := w.NewMutex("m")
		c := w.NewCond("c", m)
		go4 := false
		for range 4 {
			w.Go(nil, "waiter", func() {
				m.Lock()
				for !go4 {
					c.Wait()
				}
				woken++
				m.Unlock()
			})
		}
		w.ParkUntil("sleep", "", time.Second)
		m.Lock()
		go4 = true
		c.Broadcast()
		m.Unlock()
	})
	require.Equal(t, sim.Done, o.Kind)
	require.Equal(t, 4, woken)
}

func TestKillUnwindsAndNothingDeferredTouchesTheWorld(t *testing.T) {
	w := sim.New(sim.Config{Seed: 1})
	defer w.Close()
	g := &sim.Group{Name: "victim"}
	var log []string
	m := w.NewMutex("m")
	w.Go(g, "holder", func() {
		defer func() { log = append(log, "unwound") }()
		defer func() { w.ParkUntil("sleep", "", time.Hour); log = append(log, "slept in a deferred call") }()
		m.Lock()
		defer m.Unlock()
		defer func() { w.Go(g, "late", func() { log = append(log, "ran after death") }) }()
		w.ParkUntil("sleep", "", time.Hour)
		log = append(log, "went on")
	})
	w.At(time.Second, func() {
		w.KillGroup(g)
		w.Go(g, "never", func() { log = append(log, "started after death") })
	})
	o := w.Run(forever)
	require.Equal(t, sim.Done, o.Kind)
	require.Equal(t, time.Second, w.Now())
	require.Equal(t, []string{"unwound"}, log)
}

func TestKillOfATaskThatNeverRan(t *testing.T) {
	w := sim.New(sim.Config{})
	defer w.Close()
	ran := false
	w.Kill(w.Go(nil, "never", func() { ran = true }))
	require.Equal(t, sim.Done, w.Run(forever).Kind)
	require.False(t, ran)
}

//go:noinline
func deepBug(n int) int {
	if n == 0 {
		var p *int
		return *p
	}
	return deepBug(n-1) + 1
}

func TestPanicIsReportedWithTheTasksOwnStack(t *testing.T) {
	_, o := run(t, sim.Config{}, func(w *sim.World) {
		w.ParkUntil("sleep", "", time.Second)
		deepBug(3)
	})
	require.Equal(t, sim.Panicked, o.Kind)
	require.Contains(t, o.Err.Error(), "task main panicked at 1s")
	require.Equal(t, 4, strings.Count(o.Err.Error(), "deepBug("), o.Err)
}

func TestStuckNamesEachWaitingTask(t *testing.T) {
	_, o := run(t, sim.Config{}, func(w *sim.World) {
		a, b := w.NewMutex("lock a"), w.NewMutex("lock b")
		w.ParkUntil("sleep", "", time.Second)
		take := func(first, second *sim.Mutex) func() {
			return func() {
				first.Lock()
				w.ParkUntil("sleep", "", 2*time.Second)
				second.Lock()
			}
		}
		w.Go(&sim.Group{Name: "p"}, "ab", take(a, b))
		w.Go(&sim.Group{Name: "q"}, "ba", take(b, a))
	})
	require.Equal(t, sim.Stuck, o.Kind)
	require.Len(t, o.Waiting, 2)
	require.Equal(t, "p/ab", o.Waiting[0].Task)
	require.Equal(t, "lock lock b", o.Waiting[0].On)
	require.Equal(t, 2*time.Second, o.Waiting[0].Since)
	require.Contains(t, o.Waiting[0].Stack, "TestStuckNamesEachWaitingTask")
	require.Equal(t, "q/ba", o.Waiting[1].Task)
}

func TestLivelockNamesTheTasks(t *testing.T) {
	_, o := run(t, sim.Config{MaxInstant: 1000}, func(w *sim.World) {
		for _, name := range []string{"ping", "pong"} {
			w.Go(nil, name, func() {
				for {
					w.GiveWay()
				}
			})
		}
	})
	require.Equal(t, sim.Livelock, o.Kind)
	require.Len(t, o.Waiting, 2)
	require.Contains(t, o.String(), "ping")
	require.Contains(t, o.String(), "pong")
}

func TestLivelockOfOneTaskAlone(t *testing.T) {
	_, o := run(t, sim.Config{MaxInstant: 1000}, func(w *sim.World) {
		for {
			w.Yield()
		}
	})
	require.Equal(t, sim.Livelock, o.Kind)
	require.Contains(t, o.String(), "main")
}

func TestPauseHoldsTasksWhileTimersGoOn(t *testing.T) {
	w := sim.New(sim.Config{})
	defer w.Close()
	g := &sim.Group{Name: "p"}
	var at []time.Duration
	w.Go(g, "ticker", func() {
		for range 3 {
			w.ParkUntil("sleep", "", w.Now()+time.Second)
			at = append(at, w.Now())
		}
	})
	w.At(1500*time.Millisecond, func() { w.Pause(g) })
	w.At(10*time.Second, func() { w.Resume(g) })
	require.Equal(t, sim.Done, w.Run(forever).Kind)
	require.Equal(t, []time.Duration{time.Second, 10 * time.Second, 11 * time.Second}, at)
}

func TestStreamsAreIndependent(t *testing.T) {
	w := sim.New(sim.Config{Seed: 9})
	a := w.Stream("net/latency", "a>b")
	first := a.Uint64()
	b := w.Stream("net/latency", "a>c")
	require.NotEqual(t, first, b.Uint64())
	require.Equal(t, first, w.Stream("net/latency", "a>b").Uint64(), "a stream starts anew at each call")
	require.NotEqual(t, first, sim.New(sim.Config{Seed: 10}).Stream("net/latency", "a>b").Uint64())
	require.NotEqual(t, first, w.Stream("net/latenc", "ya>b").Uint64(), "purpose and entity are apart")
}

func TestTraceShowsEveryEvent(t *testing.T) {
	var all []sim.Entry
	w := sim.New(sim.Config{Trace: func(e *sim.Entry) { all = append(all, *e) }})
	defer w.Close()
	w.Go(nil, "main", func() {
		for i := range 3000 {
			w.Record(sim.KindState, "m", "tick", "", uint64(i), 0)
		}
	})
	w.Run(forever)
	require.Len(t, all, int(w.Events()))
	for i, e := range all {
		require.EqualValues(t, i+1, e.Seq)
	}
	ticks := slices.DeleteFunc(all, func(e sim.Entry) bool { return e.Kind != sim.KindState })
	require.Len(t, ticks, 3000)
	require.Contains(t, ticks[2999].String(), "m tick 2999 0")
}

func TestHashSeesOrderAndContent(t *testing.T) {
	hash := func(events ...string) uint64 {
		w := sim.New(sim.Config{})
		defer w.Close()
		for _, e := range events {
			w.Record(sim.KindState, "m", e, "", 0, 0)
		}
		return w.Hash()
	}
	require.NotEqual(t, hash("a", "b"), hash("b", "a"))
	require.NotEqual(t, hash("a"), hash("a", "a"))
	require.NotEqual(t, hash("a", "b"), hash("ab"))
	require.Equal(t, hash("a", "b"), hash("a", "b"))
}

func TestClockOffsetDriftAndSpans(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var c sim.Clock
		now, up := time.Duration(0), time.Duration(0)
		for range rapid.IntRange(1, 10).Draw(t, "steps") {
			ppm := rapid.Int64Range(-50_000, 50_000).Draw(t, "ppm")
			c.Drift(now, ppm)
			require.Equal(t, up, c.Uptime(now), "a change of rate is no jump")
			wall := c.Wall(now)
			c.Jump(time.Duration(rapid.Int64Range(-1e12, 1e12).Draw(t, "jump")))
			require.Equal(t, up, c.Uptime(now), "the monotonic clock does not jump")
			_ = wall
			d := time.Duration(rapid.Int64Range(0, int64(100*time.Hour)).Draw(t, "span"))
			world := c.Span(d)
			require.GreaterOrEqual(t, c.Uptime(now+world)-up, d, "never early")
			require.LessOrEqual(t, c.Uptime(now+world)-up, d+2, "nor late")
			now += world
			require.InDelta(t, float64(now), float64(c.World(c.Uptime(now))), 2, "World is the inverse of Uptime")
			require.LessOrEqual(t, c.World(c.Uptime(now-world/2)), now-world/2+2, "also for the past")
			require.GreaterOrEqual(t, c.Uptime(now), up)
			up = c.Uptime(now)
		}
	})
}

func TestWorldsRunInParallel(t *testing.T) {
	want := map[uint64]uint64{}
	for seed := range uint64(8) {
		w := sim.New(sim.Config{Seed: seed})
		echo(w, 3, 20)
		want[seed] = w.Hash()
	}
	for seed := range uint64(8) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			w := sim.New(sim.Config{Seed: seed})
			defer w.Close()
			echo(w, 3, 20)
			require.Equal(t, want[seed], w.Hash())
		})
	}
}

func TestHaltAndLater(t *testing.T) {
	w := sim.New(sim.Config{})
	defer w.Close()
	var log []string
	w.Go(nil, "main", func() {
		w.Later(func() { log = append(log, "later") })
		w.Yield()
		log = append(log, "task")
		w.Halt()
		w.Yield()
		log = append(log, "after the halt")
	})
	require.Equal(t, sim.Halted, w.Run(forever).Kind)
	require.Equal(t, []string{"later", "task"}, log)
	require.Equal(t, sim.Done, w.Run(forever).Kind)
	require.Equal(t, "after the halt", log[2])
}

func TestPanicHandlerKeepsTheWorldAlive(t *testing.T) {
	w := sim.New(sim.Config{})
	defer w.Close()
	var got error
	w.OnPanic = func(_ *sim.Task, err error) { got = err }
	w.Go(nil, "bad", func() { panic(errors.New("oops")) })
	w.Go(nil, "good", func() { w.ParkUntil("sleep", "", time.Second) })
	require.Equal(t, sim.Done, w.Run(forever).Kind)
	require.ErrorContains(t, got, "oops")
	require.Equal(t, time.Second, w.Now())
}
