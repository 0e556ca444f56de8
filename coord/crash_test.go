package coord_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"faultline/coord/client"
	"faultline/sim/disk"
	"faultline/sim/machine"
)

// TestCrashAtEveryMoment crashes the server every 100 microseconds of a run that starts, writes and rolls its log, and again while it recovers:
// what was acknowledged is there, and nothing but what was asked for.
func TestCrashAtEveryMoment(t *testing.T) {
	points := 200
	if raceDetector {
		points = 20
	}
	for i := range points {
		for kind := range 2 {
			x := newWorld(t, uint64(i))
			x.cfg.SnapshotEvery = 4
			crash := []func(){x.zk.Crash, x.zk.PowerLoss}[kind]
			x.up()
			acked, asked := -1, -1
			x.on("a", client.Config{}, func(m machine.Machine, c *client.Client) {
				for n := 0; n < 12; n++ {
					asked = n
					err := errors.New("")
					for err != nil {
						if _, err = c.Set("/", []byte(fmt.Sprint(n)), client.AnyVersion); err != nil {
							require.True(t, client.Unknown(err), err)
						}
					}
					acked = n
				}
				m.Sleep(time.Hour)
			})
			at := time.Duration(i) * 100 * time.Microsecond
			x.w.At(at, crash)
			x.w.At(at+time.Millisecond, x.up)
			x.w.At(at+time.Millisecond+time.Duration(i%37)*100*time.Microsecond, crash)
			x.w.At(at+5*time.Millisecond, func() {
				before := acked
				x.up()
				x.w.At(x.w.Now()+20*time.Millisecond, func() {
					var got int
					if x.follow.nodes["/"].data != "" {
						_, err := fmt.Sscan(x.follow.nodes["/"].data, &got)
						require.NoError(t, err)
					} else {
						got = -1
					}
					require.GreaterOrEqual(t, got, before)
					require.LessOrEqual(t, got, asked)
				})
			})
			x.run(10 * time.Second)
			require.Equal(t, 11, acked, "point %d kind %d", i, kind)
			require.Equal(t, "11", x.follow.nodes["/"].data)
			require.LessOrEqual(t, len(x.zk.Disk().Files()), 6, "old files stay: %v", x.zk.Disk().Files())
			x.w.Close()
		}
	}
}

// TestFailingDiskStopsTheServerWithTheReason: what is in memory is ahead of the disk then.
func TestFailingDiskStopsTheServerWithTheReason(t *testing.T) {
	for _, fault := range []disk.Fault{{Kind: disk.Error, Ops: disk.OpSync}, {Kind: disk.Error, Ops: disk.OpWrite}, {Kind: disk.Full}} {
		x := newWorld(t, 1)
		var stopped error
		x.zk.Boot(func(m machine.Machine) error { stopped = coordRun(m, x); return nil })
		var failed error
		x.on("a", client.Config{RequestTimeout: time.Second}, func(m machine.Machine, c *client.Client) {
			_, err := c.Create("/safe", nil, 0)
			require.NoError(t, err)
			fault.ID, fault.Path = "f", "coord/log.*"
			require.NoError(t, x.zk.Disk().Inject(fault))
			_, failed = c.Create("/lost", make([]byte, 100_000), 0)
			x.zk.Disk().HealAll()
			x.zk.Crash()
			x.up()
			_, found, err := c.Exists("/safe", false)
			require.NoError(t, err)
			require.True(t, found)
		})
		x.run(20 * time.Second)
		require.ErrorContains(t, stopped, "transaction log coord/log.0000000000000001", fault)
		require.True(t, client.Unknown(failed), failed)
	}
}

// TestShortReadsAndWritesAreNoFaults holds that every count that the disk returns is looked at.
func TestShortReadsAndWritesAreNoFaults(t *testing.T) {
	x := newWorld(t, 1)
	x.cfg.SnapshotEvery = 5
	require.NoError(t, x.zk.Disk().Inject(disk.Fault{ID: "short", Kind: disk.Short}))
	x.up()
	n := 0
	x.on("a", client.Config{}, func(m machine.Machine, c *client.Client) {
		for ; n < 50; n++ {
			_, err := c.Create(fmt.Sprint("/n", n), make([]byte, 100*n), 0)
			require.NoError(t, err)
			if n%10 == 9 {
				x.zk.PowerLoss()
				x.up()
				_, found, err := c.Exists(fmt.Sprint("/n", n), false)
				for err != nil {
					_, found, err = c.Exists(fmt.Sprint("/n", n), false)
				}
				require.True(t, found)
			}
		}
	})
	x.run(time.Minute)
	require.Equal(t, 50, n)
}

// TestDamagedFilesAreRefused: the server does not start on a state that it cannot trust, and says which file.
func TestDamagedFilesAreRefused(t *testing.T) {
	for _, name := range []string{"coord/snap.0000000000000001", "coord/log.0000000000000001"} {
		x := newWorld(t, 1)
		x.up()
		x.on("a", client.Config{}, func(m machine.Machine, c *client.Client) {
			_, err := c.Create("/a", nil, 0)
			require.NoError(t, err)
			x.zk.Crash()
			var stopped error
			x.zk.Boot(func(m machine.Machine) error {
				require.NoError(t, m.Disk().Remove(name))
				f, err := m.Disk().Open("coord/log.0000000000000002", machine.Create)
				require.NoError(t, err)
				require.NoError(t, f.Close())
				stopped = coordRun(m, x)
				return nil
			})
			m.Sleep(time.Second)
			require.ErrorContains(t, stopped, "recover coord: corrupt")
		})
		x.run(20 * time.Second)
	}
}
