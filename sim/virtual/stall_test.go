package virtual_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"faultline/sim"
	"faultline/sim/disk"
	"faultline/sim/machine"
	"faultline/sim/virtual"
)

// A stalled disk makes no events, however long it lasts. The heal wakes who waits; those that died meanwhile stay dead.
func TestStalledDiskIsSilent(t *testing.T) {
	w := sim.New(sim.Config{Seed: 1})
	defer w.Close()
	c := virtual.New(w, virtual.Config{}).Add("a")
	done := 0
	boot := func() {
		c.Boot(func(m machine.Machine) error {
			f, err := m.Disk().Open("f", machine.Create)
			require.NoError(t, err)
			_, err = f.Pwrite([]byte("x"), 0)
			require.NoError(t, err)
			require.NoError(t, f.Sync())
			done++
			m.Sleep(1 << 60)
			return nil
		})
	}
	for _, crash := range []bool{false, true} {
		done = 0
		require.NoError(t, c.Disk().Inject(disk.Fault{ID: "stall", Kind: disk.Stall, Ops: disk.OpWrite | disk.OpSync}))
		boot()
		w.Run(w.Now() + time.Second)
		before := w.Events()
		w.Run(w.Now() + time.Hour)
		require.Equal(t, before, w.Events())
		require.Equal(t, "stalled disk of a", w.Waiting()[0].On)
		if crash {
			c.Crash()
		}
		require.True(t, c.Disk().Heal("stall"))
		w.Run(w.Now() + time.Second)
		if crash {
			require.Zero(t, done)
			boot()
			w.Run(w.Now() + time.Second)
		}
		require.Equal(t, 1, done)
		c.Crash()
	}
}
