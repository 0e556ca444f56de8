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
