package coord_test

import (
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"faultline/coord"
	"faultline/sim/host"
)

// realEnsemble is three servers on the real machine.
type realEnsemble struct {
	t     *testing.T
	dirs  [3]string
	ports [3]int
	peers []string
	m     [3]*host.Machine
}

// freePort is a port that nobody listened on a moment ago.
func freePort(t *testing.T) int {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

func startRealEnsemble(t *testing.T) *realEnsemble {
	r := &realEnsemble{t: t}
	for i := range r.dirs {
		r.dirs[i] = t.TempDir()
		r.peers = append(r.peers, fmt.Sprintf("127.0.0.1:%d", freePort(t)))
	}
	for i := range r.dirs {
		r.start(i)
	}
	t.Cleanup(func() {
		for _, m := range r.m {
			m.Shutdown()
		}
	})
	return r
}

func (r *realEnsemble) start(i int) {
	m, err := host.New(host.Options{Name: fmt.Sprint("zk-", i+1), Root: r.dirs[i]})
	require.NoError(r.t, err)
	r.m[i] = m
	m.Do("start", func() {
		var s *coord.Server
		s, err = coord.Start(m, coord.Config{Port: r.ports[i], Peers: r.peers, ID: i + 1, TickTime: 200 * time.Millisecond, SnapshotEvery: 20})
		if err == nil {
			r.ports[i] = s.Port()
		}
	})
	require.NoError(r.t, err)
}

// TestRealClientOutlivesEachServer kills one server after the other, and so the leader too: a real client's session, its ephemeral node, its watches and what was
// acknowledged to it stay.
func TestRealClientOutlivesEachServer(t *testing.T) {
	r := startRealEnsemble(t)
	var servers []string
	for _, port := range r.ports {
		servers = append(servers, fmt.Sprintf("127.0.0.1:%d", port))
	}
	connect := func() *zk.Conn {
		c, _, err := zk.Connect(servers, 4*time.Second, zk.WithLogInfo(false), zk.WithLogger(quiet{}))
		require.NoError(t, err)
		t.Cleanup(c.Close)
		return c
	}
	a, b := connect(), connect()
	again := func(call func() error) {
		var err error
		require.Eventually(t, func() bool { err = call(); return err == nil || err == zk.ErrNodeExists }, 30*time.Second, 20*time.Millisecond)
	}
	again(func() error { _, err := a.Create("/mine", []byte("kept"), zk.FlagEphemeral, open); return err })
	session := a.SessionID()
	for round := range 3 {
		for i := range 30 {
			again(func() error { _, err := b.Create(fmt.Sprintf("/n-%d-%d", round, i), nil, 0, open); return err })
		}
		var gone <-chan zk.Event
		if !raceDetector {
			again(func() (err error) { _, _, gone, err = a.ExistsW(fmt.Sprintf("/n-%d-29", round)); return err })
		}
		r.m[round].Shutdown()
		again(func() error {
			data, stat, err := a.Get("/mine")
			if err == nil {
				require.Equal(t, "kept", string(data))
				require.Equal(t, session, stat.EphemeralOwner)
			}
			return err
		})
		require.Eventually(t, func() bool {
			err := b.Delete(fmt.Sprintf("/n-%d-29", round), -1)
			return err == nil || err == zk.ErrNoNode
		}, 30*time.Second, 20*time.Millisecond)
		if !raceDetector {
			require.Equal(t, zk.EventNodeDeleted, event(t, gone).Type)
		}
		require.Equal(t, session, a.SessionID())
		r.start(round)
	}
	var names []string
	again(func() (err error) { names, _, err = b.Children("/"); return err })
	require.Len(t, names, 1+3*29)
}
