package coord_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"faultline/coord/client"
	"faultline/sim"
	"faultline/sim/machine"
	"faultline/sim/virtual"
)

// A server that comes back without what it acknowledged has forgotten its votes, too. As soon as a leader counts on it, it ends with an error that says so; the others go on.
func TestAServerThatLostItsDiskDoesNotGoOn(t *testing.T) {
	for seed := range uint64(5) {
		x := newWorldOf(t, sim.Config{Seed: seed}, 3)
		leader, why := 0, map[string]error{}
		x.c.OnEvent = func(c *virtual.Computer, e *machine.Event) {
			for i, s := range x.servers {
				if e.Kind == machine.CoordLeads && s == c {
					leader = i
				}
			}
		}
		x.c.OnExit = func(c *virtual.Computer, err error) { why[c.Name()] = err }
		x.up()
		done := 0
		x.on("a", client.Config{SessionTimeout: 4 * time.Second}, func(m machine.Machine, c *client.Client) {
			for i := range 100 {
				for {
					if _, err := c.Create(fmt.Sprint("/n", i), nil, client.Persistent); err == nil || errors.Is(err, client.ErrNodeExists) {
						break
					}
				}
				m.Sleep(100 * time.Millisecond)
				done++
			}
			m.Sleep(time.Hour)
		})
		var robbed *virtual.Computer
		x.w.At(5*time.Second, func() {
			i := (leader + 1) % 3
			robbed = x.servers[i]
			robbed.PowerLoss()
			robbed.ReplaceDisk()
			x.start(i)
		})
		x.run(30 * time.Second)
		require.Equal(t, 100, done, "seed %d", seed)
		require.Len(t, why, 1, "seed %d", seed)
		require.ErrorContains(t, why[robbed.Name()], "does not have what it acknowledged", "seed %d", seed)
	}
}

// Two of three lost their disks, which is more than an ensemble survives. They may elect one of themselves; it ends, too, when it hears of the third what it does not have.
func TestServersThatLostTheirDisksDoNotLead(t *testing.T) {
	for seed := range uint64(10) {
		x := newWorldOf(t, sim.Config{Seed: seed}, 3)
		why := map[string]error{}
		x.c.OnExit = func(c *virtual.Computer, err error) { why[c.Name()] = err }
		x.up()
		x.on("a", client.Config{SessionTimeout: 4 * time.Second}, func(m machine.Machine, c *client.Client) {
			for i := range 20 {
				_, _ = c.Create(fmt.Sprint("/n", i), nil, client.Persistent)
			}
			m.Sleep(time.Hour)
		})
		x.w.At(5*time.Second, func() {
			for i := range 2 {
				x.servers[i].PowerLoss()
				x.servers[i].ReplaceDisk()
				x.start(i)
			}
		})
		x.run(60 * time.Second)
		require.NotEmpty(t, why, "seed %d", seed)
		for name, err := range why {
			require.ErrorContains(t, err, "does not have what it acknowledged", "seed %d, %s", seed, name)
		}
	}
}

// A server that loses its disk in its first life counts that one as its first, too: the log has commands of a life with its number that it never sent. It must not take them for those that it is asked for now, and its state for the
// agreed one. The others' leader is new, so nobody counts on what it acknowledged. (swarm-replicas, seed 703.)
func TestAServerThatLostItsFirstLifeDoesNotTakeItsCommandsForItsOwn(t *testing.T) {
	stopped := 0
	for seed := range uint64(10) {
		x := newWorldOf(t, sim.Config{Seed: seed}, 3)
		first := map[string]string{}
		x.c.OnEvent = func(c *virtual.Computer, e *machine.Event) {
			if e.Kind != machine.ZnodeCreated {
				return
			}
			was, ok := first[e.Subject]
			if first[e.Subject] = fmt.Sprint(e.Detail, e.B); ok {
				require.Equal(t, was, first[e.Subject], "seed %d: %s by %s", seed, e.Subject, c.Name())
			}
		}
		x.c.OnExit = func(c *virtual.Computer, err error) {
			stopped++
			require.ErrorContains(t, err, "does not have what it acknowledged", "seed %d", seed)
		}
		x.up()
		for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
			x.on(name, client.Config{SessionTimeout: 4 * time.Second}, func(m machine.Machine, c *client.Client) {
				for i := range 100 {
					_, _ = c.Create(fmt.Sprintf("/%s%d", name, i), []byte(name), client.Persistent)
					m.Sleep(200 * time.Millisecond)
				}
				m.Sleep(time.Hour)
			})
		}
		x.w.At(5*time.Second, func() {
			x.servers[0].PowerLoss()
			x.servers[0].ReplaceDisk()
			x.servers[2].PowerLoss()
		})
		x.w.At(10*time.Second, func() { x.start(0) }) // the second, alone so far, leads anew with its vote
		x.run(30 * time.Second)
	}
	require.NotZero(t, stopped)
}
