package coord_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"faultline/coord"
	"faultline/coord/client"
	"faultline/sim"
	"faultline/sim/machine"
	"faultline/sim/virtual"
)

func TestEnsembleServesOneTree(t *testing.T) {
	for _, n := range []int{3, 5} {
		x := newWorldOf(t, sim.Config{Seed: uint64(n)}, n)
		x.up()
		done := 0
		for i := range 6 {
			x.on(fmt.Sprint("c", i), client.Config{}, func(m machine.Machine, c *client.Client) {
				_, err := c.Create(fmt.Sprint("/c", i), []byte("mine"), client.Ephemeral)
				require.NoError(t, err)
				for j := range 20 {
					_, err := c.Set(fmt.Sprint("/c", i), fmt.Append(nil, j), int32(j))
					require.NoError(t, err)
					data, _, err := c.Get(fmt.Sprint("/c", i), false)
					require.NoError(t, err)
					require.Equal(t, fmt.Sprint(j), string(data))
				}
				done++
				m.Sleep(time.Hour)
			})
		}
		x.run(10 * time.Second)
		require.Equal(t, 6, done)
		require.Len(t, x.follow.nodes, 7)
		require.Zero(t, x.follow.expired)
	}
}

func TestSessionSurvivesTheLeader(t *testing.T) {
	for seed := range uint64(20) {
		x := newWorldOf(t, sim.Config{Seed: seed}, 3)
		x.up()
		done := 0
		for i := range 3 {
			x.on(fmt.Sprint("c", i), client.Config{SessionTimeout: 4 * time.Second}, func(m machine.Machine, c *client.Client) {
				_, err := c.Create(fmt.Sprint("/c", i), []byte("mine"), client.Ephemeral)
				require.NoError(t, err)
				for range 100 {
					if _, _, err := c.Get("/", false); err != nil && !errors.Is(err, client.ErrConnectionLoss) {
						require.NoError(t, err)
					}
					m.Sleep(100 * time.Millisecond)
				}
				done++
				m.Sleep(time.Hour)
			})
		}
		for i := range 3 {
			at := time.Duration(2+3*i) * time.Second
			x.w.At(at, func() { x.servers[i].PowerLoss() })
			x.w.At(at+2*time.Second, func() { x.start(i) })
		}
		x.run(20 * time.Second)
		require.Equal(t, 3, done, "seed %d", seed)
		require.Zero(t, x.follow.expired, "seed %d", seed)
	}
}

// TestMinorityServesNothing cuts a minority off, with the leader in it or not, and a client with each part: one goes on, the other gets no answer,
// neither to reads nor to writes, and sees what it missed when it is back.
func TestMinorityServesNothing(t *testing.T) {
	for seed := range uint64(12) {
		n := 3 + 2*int(seed%2)
		x := newWorldOf(t, sim.Config{Seed: seed}, n)
		leader := 0
		x.c.OnEvent = func(c *virtual.Computer, e *machine.Event) {
			require.NoError(t, x.follow.event(c, e, x.w.Now()))
			for i, s := range x.servers {
				if e.Kind == machine.CoordLeads && s == c {
					leader = i
				}
			}
		}
		x.up()
		var heals []func()
		var lonely *virtual.Computer
		cut := false
		x.w.At(3*time.Second, func() {
			var minority []int
			for i := range n {
				if (i+int(seed/2))%n == leader || len(minority) == n/2 {
					continue
				}
				minority = append(minority, i)
			}
			if seed%3 == 0 {
				minority[0] = leader
			}
			cut = true
			inside := func(c *virtual.Computer) bool {
				for _, i := range minority {
					if x.servers[i] == c {
						return true
					}
				}
				return c == lonely
			}
			for _, a := range x.c.Computers() {
				for _, b := range x.c.Computers() {
					if inside(a) != inside(b) {
						heals = append(heals, x.c.Net.Block(a.Name(), b.Name()))
					}
				}
			}
		})
		served, refused, after := 0, 0, ""
		lonely = x.on("lonely", client.Config{SessionTimeout: 4 * time.Second, RequestTimeout: time.Second}, func(m machine.Machine, c *client.Client) {
			for !cut {
				_, _, _ = c.Get("/", false)
				m.Sleep(10 * time.Millisecond)
			}
			for x.w.Now() < 8*time.Second {
				start := x.w.Now()
				_, _, err := c.Get("/", false)
				if err == nil && start > 3*time.Second {
					served++
				}
				if _, err := c.Set("/", []byte("lonely"), client.AnyVersion); err == nil {
					served++
				}
				refused++
				m.Sleep(10 * time.Millisecond)
			}
			for after == "" {
				if data, _, err := c.Get("/", false); err == nil {
					after = string(data)
				} else if errors.Is(err, client.ErrSessionExpired) {
					c = client.Connect(m, client.Config{Servers: x.addresses(), SessionTimeout: 4 * time.Second, RequestTimeout: time.Second})
				}
				m.Sleep(10 * time.Millisecond)
			}
		})
		going := 0
		x.on("going", client.Config{SessionTimeout: 4 * time.Second}, func(m machine.Machine, c *client.Client) {
			for x.w.Now() < 8*time.Second {
				if _, err := c.Set("/", []byte("going"), client.AnyVersion); err == nil && x.w.Now() > 6*time.Second {
					going++
				}
				m.Sleep(10 * time.Millisecond)
			}
			m.Sleep(time.Hour)
		})
		x.w.At(8500*time.Millisecond, func() {
			for _, heal := range heals {
				heal()
			}
		})
		x.run(20 * time.Second)
		require.Zero(t, served, "seed %d", seed)
		require.GreaterOrEqual(t, refused, 2, "seed %d: two requests, each with its time-out, take two of the five seconds", seed)
		require.Greater(t, going, 50, "seed %d", seed)
		require.NotEmpty(t, after, "seed %d", seed)
		require.Equal(t, x.follow.nodes["/"].data, after)
	}
}

// TestEnsembleLosesPowerAtEveryMoment takes the power of all servers at once every few hundred microseconds of a run that elects, writes and rolls its logs,
// and again while they recover: what was acknowledged is there, and nothing but what was asked for.
func TestEnsembleLosesPowerAtEveryMoment(t *testing.T) {
	points := 150
	if raceDetector {
		points = 10
	}
	for i := range points {
		x := newWorldOf(t, sim.Config{Seed: uint64(i)}, 3)
		x.cfg.SnapshotEvery = 4
		x.up()
		acked := -1
		lose := func() {
			for _, s := range x.servers {
				s.PowerLoss()
			}
		}
		x.on("a", client.Config{RequestTimeout: 500 * time.Millisecond}, func(m machine.Machine, c *client.Client) {
			for n := 0; n < 12; n++ {
				err := errors.New("")
				for err != nil {
					if errors.Is(err, client.ErrSessionExpired) {
						c = client.Connect(m, client.Config{Servers: x.addresses(), RequestTimeout: 500 * time.Millisecond})
					}
					_, err = c.Set("/", fmt.Append(nil, n), client.AnyVersion)
				}
				data, _, err := c.Get("/", false)
				for err != nil {
					data, _, err = c.Get("/", false)
				}
				require.Equal(t, fmt.Sprint(n), string(data))
				acked = n
			}
			m.Sleep(time.Hour)
		})
		at := 400*time.Millisecond + time.Duration(i)*2*time.Millisecond
		x.w.At(at, lose)
		x.w.At(at+time.Millisecond, x.up)
		x.w.At(at+time.Millisecond+time.Duration(i%37)*100*time.Microsecond, lose)
		x.w.At(at+5*time.Millisecond, x.up)
		x.w.At(at+600*time.Millisecond+time.Duration(i%31)*700*time.Microsecond, lose)
		x.w.At(at+700*time.Millisecond, x.up)
		x.run(20 * time.Second)
		require.Equal(t, 11, acked, "point %d", i)
		require.Equal(t, "11", x.follow.nodes["/"].data)
		for _, s := range x.servers {
			require.LessOrEqual(t, len(s.Disk().Files()), 8, "old files stay: %v", s.Disk().Files())
		}
		x.w.Close()
	}
}

// A server that was away for longer than the others keep their logs gets the state as a whole.
func TestServerThatLagsGetsASnapshot(t *testing.T) {
	x := newWorldOf(t, sim.Config{Seed: 1}, 3)
	x.cfg.SnapshotEvery = 5
	x.up()
	x.on("a", client.Config{Servers: nil}, func(m machine.Machine, c *client.Client) {
		for i := range 200 {
			for {
				if _, err := c.Create(fmt.Sprint("/n", i), nil, client.Persistent); err == nil || errors.Is(err, client.ErrNodeExists) {
					break
				}
			}
		}
		m.Sleep(time.Hour)
	})
	x.w.At(100*time.Millisecond, x.servers[2].PowerLoss)
	x.w.At(10*time.Second, func() { x.start(2) })
	// Now the third must carry the state on: one of the others goes.
	x.w.At(15*time.Second, x.servers[0].PowerLoss)
	seen := 0
	x.w.At(16*time.Second, func() {
		x.on("b", client.Config{}, func(m machine.Machine, c *client.Client) {
			for seen == 0 {
				if names, _, err := c.Children("/", false); err == nil {
					seen = len(names)
				}
			}
			m.Sleep(time.Hour)
		})
	})
	x.run(25 * time.Second)
	require.Equal(t, 200, seen)
}

func TestConfigOfEnsembles(t *testing.T) {
	x := newWorld(t, 1)
	for _, c := range []struct {
		cfg  coord.Config
		want string
	}{
		{coord.Config{Peers: []string{"a:1", "b:1"}}, "an ensemble of 2 servers: allowed are 1, 3 and 5"},
		{coord.Config{Peers: []string{"a:1", "b:1", "c:1"}, ID: 4}, "server 4 of 3"},
		{coord.Config{Peers: []string{"a:1", "b", "c:1"}}, `peer 2 is at "b": give host and port`},
		{coord.Config{Peers: []string{"a:0", "b:1", "c:1"}}, "give the number of a port"},
	} {
		x.zk.Boot(func(m machine.Machine) error {
			_, err := coord.Start(m, c.cfg)
			require.ErrorContains(t, err, c.want)
			return nil
		})
		x.run(time.Second)
	}
	// A server keeps its place.
	x.up()
	x.run(time.Second)
	x.zk.Crash()
	x.zk.Boot(func(m machine.Machine) error {
		_, err := coord.Start(m, coord.Config{Peers: []string{"zk:2888", "b:1", "c:1"}})
		require.ErrorContains(t, err, "it belongs to server 1 of 1, this is server 1 of 3")
		return nil
	})
	x.run(time.Second)
}
