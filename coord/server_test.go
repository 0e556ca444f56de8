package coord_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"faultline/coord/client"
	"faultline/sim/machine"
)

func TestClientSeesATree(t *testing.T) {
	x := newWorld(t, 1)
	x.up()
	done := false
	x.on("a", client.Config{}, func(m machine.Machine, c *client.Client) {
		require.NoError(t, c.EnsurePath("/brokers/ids"))
		path, err := c.Create("/brokers/ids/1", []byte("one"), client.Ephemeral)
		require.NoError(t, err)
		require.Equal(t, "/brokers/ids/1", path)
		_, err = c.Create("/brokers/ids/1", nil, client.Persistent)
		require.ErrorIs(t, err, client.ErrNodeExists)
		_, err = c.Create("/nowhere/1", nil, client.Persistent)
		require.ErrorIs(t, err, client.ErrNoNode)
		_, err = c.Create("/brokers/ids/1/x", nil, client.Persistent)
		require.ErrorIs(t, err, client.ErrNoChildrenForEphemerals)
		data, stat, err := c.Get("/brokers/ids/1", false)
		require.NoError(t, err)
		require.Equal(t, "one", string(data))
		require.Equal(t, c.Session(), stat.EphemeralOwner)
		stat, err = c.Set("/brokers/ids/1", []byte("uno"), 0)
		require.NoError(t, err)
		require.EqualValues(t, 1, stat.Version)
		_, err = c.Set("/brokers/ids/1", []byte("uno"), 0)
		require.ErrorIs(t, err, client.ErrBadVersion)
		require.ErrorIs(t, c.Delete("/brokers", client.AnyVersion), client.ErrNotEmpty)

		require.NoError(t, c.EnsurePath("/q"))
		for _, want := range []string{"/q/n-0000000000", "/q/n-0000000001"} {
			path, err := c.Create("/q/n-", nil, client.Sequential)
			require.NoError(t, err)
			require.Equal(t, want, path)
		}
		names, stat, err := c.Children("/q", false)
		require.NoError(t, err)
		require.Equal(t, []string{"n-0000000000", "n-0000000001"}, names)
		require.EqualValues(t, 2, stat.NumChildren)

		err = c.Multi(client.SetOp("/q", []byte("x"), 0), client.CheckOp("/q", 7), client.DeleteOp("/q/n-0000000000", -1))
		var refused *client.MultiError
		require.ErrorAs(t, err, &refused)
		require.Equal(t, 1, refused.Index)
		require.ErrorIs(t, err, client.ErrBadVersion)
		require.NoError(t, c.Multi(client.SetOp("/q", []byte("x"), 0), client.CheckOp("/q", 1), client.DeleteOp("/q/n-0000000000", -1)))
		data, _, err = c.Get("/q", false)
		require.NoError(t, err)
		require.Equal(t, "x", string(data))
		_, found, err := c.Exists("/q/n-0000000000", false)
		require.NoError(t, err)
		require.False(t, found)
		_, err = c.Create("q", nil, 0)
		require.ErrorIs(t, err, client.ErrBadArguments)
		_, err = c.Create("/big", make([]byte, 2<<20), 0)
		require.ErrorIs(t, err, client.ErrBadArguments)

		require.Greater(t, c.Lease(), time.Duration(0))
		require.NoError(t, c.Close())
		require.LessOrEqual(t, c.Lease(), time.Duration(0))
		_, _, err = c.Get("/q", false)
		require.ErrorIs(t, err, client.ErrClosed)
		done = true
	})
	x.run(10 * time.Second)
	require.True(t, done)
	require.NotContains(t, x.follow.nodes, "/brokers/ids/1")
	require.Equal(t, node{data: "x", version: 1}, x.follow.nodes["/q"])
	require.Empty(t, x.follow.sessions)
	require.Zero(t, x.follow.expired)
}

func TestWatchesFireOnceAndBeforeTheReadThatSeesTheChange(t *testing.T) {
	x := newWorld(t, 2)
	x.up()
	var ev events
	x.on("a", client.Config{OnEvent: ev.on}, func(m machine.Machine, c *client.Client) {
		_, _, err := c.Exists("/n", true)
		require.NoError(t, err)
		m.Sleep(time.Second)
		ev.take()
		x.on("b", client.Config{}, func(m machine.Machine, b *client.Client) {
			b.Create("/n", []byte("1"), 0)
			b.Set("/n", []byte("2"), -1)
			m.Sleep(time.Second)
			b.Set("/n", []byte("3"), -1)
			b.Set("/n", []byte("4"), -1)
			b.Create("/n/c", nil, 0)
			b.Create("/n/d", nil, 0)
			m.Sleep(time.Second)
			b.Delete("/n/c", -1)
			b.Delete("/n/d", -1)
			b.Delete("/n", -1)
			m.Sleep(time.Hour)
		})
		for len(ev.seen) == 0 {
			m.Sleep(time.Millisecond)
		}
		require.Equal(t, []string{"created /n"}, ev.take())
		_, _, err = c.Get("/n", true)
		require.NoError(t, err)
		_, _, err = c.Children("/n", true)
		require.NoError(t, err)
		m.Sleep(1500 * time.Millisecond)
		require.Equal(t, []string{"data /n", "children /n"}, ev.take())
		_, _, err = c.Get("/n", true)
		require.NoError(t, err)
		_, _, err = c.Children("/n", true)
		require.NoError(t, err)
		_, _, err = c.Children("/n/c", true)
		require.NoError(t, err)
		m.Sleep(2 * time.Second)
		require.Equal(t, []string{"deleted /n/c", "children /n", "deleted /n"}, ev.take())
	})
	x.run(20 * time.Second)
}

func TestSessionAndWatchesSurviveCrashesOfTheServer(t *testing.T) {
	for seed := range uint64(20) {
		x := newWorld(t, seed)
		x.up()
		var ev events
		done := false
		x.on("a", client.Config{OnEvent: ev.on}, func(m machine.Machine, c *client.Client) {
			_, err := c.Create("/mine", []byte("a"), client.Ephemeral)
			require.NoError(t, err)
			_, err = c.Create("/d", nil, 0)
			require.NoError(t, err)
			_, _, err = c.Get("/d", true)
			require.NoError(t, err)
			_, _, err = c.Get("/mine", true)
			require.NoError(t, err)
			_, _, err = c.Children("/", true)
			require.NoError(t, err)
			m.Sleep(4 * time.Second)
			require.Equal(t, []string{"connected", "disconnected", "connected"}, ev.take())
			_, _, err = c.Get("/mine", false)
			require.NoError(t, err)
			_, err = c.Set("/d", nil, -1)
			require.NoError(t, err)
			m.Sleep(5 * time.Second)
			require.Equal(t, []string{"data /d", "disconnected", "connected"}, ev.take())
			require.NoError(t, c.Delete("/d", -1))
			m.Sleep(time.Second)
			require.Equal(t, []string{"children /"}, ev.take())
			done = true
		})
		x.w.At(2*time.Second, func() { x.zk.Crash() })
		x.w.At(3*time.Second, x.up)
		x.w.At(6*time.Second, func() { x.zk.PowerLoss() })
		x.w.At(7*time.Second, x.up)
		x.run(20 * time.Second)
		require.True(t, done)
	}
}

func TestWhatChangedWhileDisconnectedIsToldOnReconnection(t *testing.T) {
	x := newWorld(t, 3)
	x.up()
	var ev events
	x.on("a", client.Config{OnEvent: ev.on}, func(m machine.Machine, c *client.Client) {
		for _, p := range []string{"/set", "/gone", "/kids", "/same"} {
			_, err := c.Create(p, nil, 0)
			require.NoError(t, err)
			_, _, err = c.Get(p, true)
			require.NoError(t, err)
			_, _, err = c.Children(p, true)
			require.NoError(t, err)
		}
		_, _, err := c.Exists("/new", true)
		require.NoError(t, err)
		m.Sleep(9 * time.Second)
		require.Equal(t, []string{"connected", "disconnected", "connected", "deleted /gone", "data /set", "created /new", "children /kids"}, ev.take())
		_, err = c.Set("/same", nil, -1)
		require.NoError(t, err)
		m.Sleep(time.Second)
		require.Equal(t, []string{"data /same"}, ev.take())
		c.Close()
	})
	x.on("b", client.Config{}, func(m machine.Machine, c *client.Client) {
		m.Sleep(2 * time.Second)
		c.Set("/set", nil, -1)
		c.Delete("/gone", -1)
		c.Create("/kids/one", nil, 0)
		c.Create("/new", nil, 0)
		c.Close()
	})
	x.w.At(time.Second, func() {
		heal := x.partition("a")
		x.w.At(4500*time.Millisecond, heal)
	})
	x.run(20 * time.Second)
}

func TestSilentSessionExpiresWithItsEphemerals(t *testing.T) {
	x := newWorld(t, 4)
	x.up()
	var ev events
	var expired error
	a := x.on("a", client.Config{OnEvent: ev.on, SessionTimeout: 4 * time.Second}, func(m machine.Machine, c *client.Client) {
		_, err := c.Create("/mine", nil, client.Ephemeral)
		require.NoError(t, err)
		m.Sleep(14 * time.Second)
		require.LessOrEqual(t, c.Lease(), time.Duration(0))
		_, _, expired = c.Get("/", false)
		require.ErrorIs(t, c.Delete("/", -1), client.ErrSessionExpired)
	})
	x.w.At(time.Second, a.Pause)
	x.w.At(10*time.Second, func() {
		require.NotContains(t, x.follow.nodes, "/mine")
		require.Equal(t, 1, x.follow.expired)
		a.Resume()
	})
	x.run(20 * time.Second)
	require.ErrorIs(t, expired, client.ErrSessionExpired)
	require.Equal(t, []string{"connected", "disconnected", "expired"}, ev.take())
}

func TestFrozenServerExpiresNobody(t *testing.T) {
	for seed := range uint64(20) {
		x := newWorld(t, seed)
		x.up()
		for _, name := range []string{"a", "b", "c"} {
			x.on(name, client.Config{SessionTimeout: 4 * time.Second}, func(m machine.Machine, c *client.Client) {
				_, err := c.Create("/"+m.Name(), nil, client.Ephemeral)
				require.NoError(t, err)
				m.Sleep(time.Hour)
			})
		}
		x.w.At(3*time.Second, x.zk.Pause)
		x.w.At(3*time.Second+time.Duration(seed)*400*time.Millisecond, x.zk.Resume)
		x.run(40 * time.Second)
		require.Zero(t, x.follow.expired)
		require.Len(t, x.follow.nodes, 4)
	}
}

func TestDeadSessionsExpireAfterARestart(t *testing.T) {
	x := newWorld(t, 5)
	x.up()
	a := x.on("a", client.Config{SessionTimeout: 4 * time.Second}, func(m machine.Machine, c *client.Client) {
		_, err := c.Create("/mine", nil, client.Ephemeral)
		require.NoError(t, err)
		m.Sleep(time.Hour)
	})
	x.w.At(2*time.Second, func() { a.PowerLoss(); x.zk.PowerLoss() })
	x.w.At(3*time.Second, x.up)
	x.w.At(6900*time.Millisecond, func() { require.Contains(t, x.follow.nodes, "/mine") })
	x.run(4500*time.Millisecond + 3*time.Second)
	require.NotContains(t, x.follow.nodes, "/mine")
	require.Empty(t, x.follow.sessions)
}

func TestCallsWithoutAServerEndDefinitely(t *testing.T) {
	x := newWorld(t, 6)
	done := 0
	x.on("a", client.Config{RequestTimeout: 2 * time.Second}, func(m machine.Machine, c *client.Client) {
		_, err := c.Create("/x", nil, 0)
		require.ErrorIs(t, err, client.ErrNotConnected)
		require.False(t, client.Unknown(err))
		require.LessOrEqual(t, c.Lease(), time.Duration(0))
		require.ErrorIs(t, c.Close(), client.ErrNotConnected)
		done++
	})
	x.run(10 * time.Second)
	require.Equal(t, 1, done)
}

func TestIdleWorldDoesLittle(t *testing.T) {
	x := newWorld(t, 7)
	x.up()
	for _, name := range []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"} {
		x.on(name, client.Config{}, func(m machine.Machine, c *client.Client) {
			c.Create("/"+m.Name(), nil, client.Ephemeral)
			m.Sleep(24 * time.Hour)
		})
	}
	x.run(time.Minute)
	before, start := x.w.Events(), time.Now()
	x.run(10 * time.Minute)
	perSecond := float64(x.w.Events()-before) / 600
	t.Logf("10 idle sessions: %.0f events a virtual second, %.0f times faster than the clock", perSecond, 600/time.Since(start).Seconds())
	require.Less(t, perSecond, 400.0)
	require.Zero(t, x.follow.expired)
}
