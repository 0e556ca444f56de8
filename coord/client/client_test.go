package client_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"faultline/coord"
	"faultline/coord/client"
	"faultline/sim"
	"faultline/sim/machine"
	"faultline/sim/virtual"
)

// story runs a client program against a server that faults can be given to.
func story(t *testing.T, seed uint64, tell func(m machine.Machine, zk *virtual.Computer, c *virtual.Cluster)) {
	w := sim.New(sim.Config{Seed: seed})
	c := virtual.New(w, virtual.Config{})
	zk := c.Add("zk")
	boot(zk)
	done := false
	c.Add("a").Boot(func(m machine.Machine) error { tell(m, zk, c); done = true; return nil })
	w.At(time.Minute, func() {})
	out := w.Run(time.Minute)
	require.True(t, done, out.String())
	if !t.Failed() {
		w.Close()
	}
}

func boot(zk *virtual.Computer) {
	zk.Boot(func(m machine.Machine) error { return coord.Run(m, coord.Config{Port: 2181}) })
}

var servers = []string{"zk:2181"}

func TestManyWatchesAreArmedAgain(t *testing.T) {
	story(t, 1, func(m machine.Machine, zk *virtual.Computer, _ *virtual.Cluster) {
		seen := map[string]int{}
		c := client.Connect(m, client.Config{Servers: servers, OnEvent: func(e client.Event) { seen[e.Path]++ }})
		long := strings.Repeat("x", 2000)
		for i := range 300 {
			path := fmt.Sprintf("/%s-%d", long, i)
			_, err := c.Create(path, nil, 0)
			require.NoError(t, err)
			_, _, err = c.Get(path, true)
			require.NoError(t, err)
		}
		zk.Crash()
		boot(zk)
		m.Sleep(3 * time.Second)
		for i := range 300 {
			require.NoError(t, c.Delete(fmt.Sprintf("/%s-%d", long, i), -1))
		}
		m.Sleep(time.Second)
		require.Len(t, seen, 301)
		for path, n := range seen {
			require.True(t, n == 1 || path == "" && n == 3, "%d times %.20s", n, path)
		}
	})
}

func TestBlockedOnEventKeepsNoEndlessQueueAndTheOrder(t *testing.T) {
	story(t, 1, func(m machine.Machine, zk *virtual.Computer, _ *virtual.Cluster) {
		var seen []client.Event
		c := client.Connect(m, client.Config{Servers: servers, OnEvent: func(e client.Event) {
			seen = append(seen, e)
			if len(seen) == 1 {
				m.Sleep(20 * time.Second)
			}
		}})
		_, err := c.Create("/a", nil, 0)
		require.NoError(t, err)
		_, _, err = c.Get("/a", true)
		require.NoError(t, err)
		for range 5 {
			zk.Crash()
			boot(zk)
			m.Sleep(2 * time.Second)
		}
		require.NoError(t, c.Delete("/a", -1))
		m.Sleep(15 * time.Second)
		require.Equal(t, []client.Event{
			{State: client.StateConnected}, {State: client.StateDisconnected}, {State: client.StateConnected},
			{Type: client.EventDeleted, Path: "/a", State: client.StateConnected},
		}, seen)
	})
}

func TestUnreachableServersAreSkipped(t *testing.T) {
	for seed := range uint64(10) {
		story(t, seed, func(m machine.Machine, _ *virtual.Computer, c *virtual.Cluster) {
			c.Add("idle")
			c.Net.Block("a", "idle")
			all := []string{"nowhere:1", "idle:2181", "zk:99", "zk:2181"}
			x := client.Connect(m, client.Config{Servers: all, SessionTimeout: 4 * time.Second, RequestTimeout: 10 * time.Second})
			_, err := x.Create("/a", nil, 0)
			require.NoError(t, err)
		})
	}
}

func TestUnansweredRequestBreaksTheConnectionAfterItsTime(t *testing.T) {
	story(t, 1, func(m machine.Machine, zk *virtual.Computer, _ *virtual.Cluster) {
		c := client.Connect(m, client.Config{Servers: servers, RequestTimeout: time.Second})
		_, err := c.Create("/a", nil, 0)
		require.NoError(t, err)
		zk.Pause()
		start := m.Uptime()
		_, err = c.Create("/b", nil, 0)
		require.True(t, client.Unknown(err), err)
		require.Equal(t, time.Second, (m.Uptime() - start).Round(10*time.Millisecond))
		lease := c.LeaseUntil()
		_, err = c.Create("/c", nil, 0)
		require.Error(t, err)
		require.Equal(t, lease, c.LeaseUntil(), "nothing was acknowledged")
		zk.Resume()
		m.Sleep(2 * time.Second)
		_, found, err := c.Exists("/b", false)
		require.NoError(t, err)
		require.Greater(t, c.LeaseUntil(), lease)
		m.Sleep(10 * time.Second)
		_, later, err := c.Exists("/b", false)
		require.NoError(t, err)
		require.Equal(t, found, later, "a write without an answer took effect by the time that the next request is answered, or never will")
	})
}

// taps records calls, and what the server sent.
type taps struct {
	calls []client.Call
	heard []client.Heard
}

func (t *taps) Asked(client.Call) {}

func (t *taps) Heard(h client.Heard) { t.heard = append(t.heard, h) }

func (t *taps) Done(c client.Call) { t.calls = append(t.calls, c) }

func TestTapSeesEveryCall(t *testing.T) {
	story(t, 1, func(m machine.Machine, zk *virtual.Computer, _ *virtual.Cluster) {
		var tap taps
		c := client.Connect(m, client.Config{Servers: servers, Tap: &tap, RequestTimeout: 2 * time.Second})
		c.Create("/a", []byte("x"), client.Ephemeral)
		c.Create("/s-", nil, client.Sequential)
		c.Get("/a", false)
		c.Set("/a", []byte("y"), 5)
		c.Exists("/none", false)
		c.Children("/", false)
		c.Multi(client.CheckOp("/a", 0), client.DeleteOp("/none", -1))
		c.Delete("/a", 0)
		zk.PowerLoss()
		m.Sleep(5 * time.Second)
		c.Get("/a", false)
		c.Close()
		c.Get("/a", false)
		want := []struct {
			kind client.OpKind
			path string
			err  error
			sent bool
		}{
			{client.OpCreate, "/a", nil, true}, {client.OpCreate, "/s-", nil, true}, {client.OpGet, "/a", nil, true},
			{client.OpSet, "/a", client.ErrBadVersion, true}, {client.OpExists, "/none", nil, true}, {client.OpChildren, "/", nil, true},
			{client.OpMulti, "", client.ErrNoNode, true}, {client.OpDelete, "/a", nil, true},
			{client.OpGet, "/a", client.ErrNotConnected, false}, {client.OpClose, "", client.ErrNotConnected, false}, {client.OpGet, "/a", client.ErrClosed, false},
		}
		require.Len(t, tap.calls, len(want))
		for i, w := range want {
			got := tap.calls[i]
			require.Equal(t, w.kind, got.Kind)
			require.Equal(t, w.path, got.Path)
			require.True(t, errors.Is(got.Err, w.err), "%s: %v", w.kind, got.Err)
			require.Equal(t, w.sent, got.Sent, "%s", w.kind)
			require.Equal(t, c.Session(), got.Session)
			require.GreaterOrEqual(t, got.End, got.Start)
		}
		require.Equal(t, "/s-0000000001", tap.calls[1].Created)
		require.Equal(t, "x", string(tap.calls[2].Value))
		require.False(t, tap.calls[4].Found)
		require.Equal(t, []string{"a", "s-0000000001"}, tap.calls[5].Children)
		require.Equal(t, "multi: step 1 (delete /none): node does not exist", tap.calls[6].Err.Error())
	})
}

func TestCloseWaitsForTheServerAndIsSettled(t *testing.T) {
	for seed := range uint64(20) {
		story(t, seed, func(m machine.Machine, zk *virtual.Computer, _ *virtual.Cluster) {
			c := client.Connect(m, client.Config{Servers: servers, RequestTimeout: 5 * time.Second})
			_, err := c.Create("/mine", nil, client.Ephemeral)
			require.NoError(t, err)
			m.Go("crash", func() {
				m.Sleep(time.Duration(seed) * 200 * time.Microsecond)
				zk.Crash()
				m.Sleep(time.Second)
				boot(zk)
			})
			m.Sleep(2 * time.Millisecond)
			require.NoError(t, c.Close())
			other := client.Connect(m, client.Config{Servers: servers, Name: "other"})
			_, found, err := other.Exists("/mine", false)
			for client.Unknown(err) { // the crash may come only now
				_, found, err = other.Exists("/mine", false)
			}
			require.NoError(t, err)
			require.False(t, found)
		})
	}
}
