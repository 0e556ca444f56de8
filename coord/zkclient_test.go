package coord_test

import (
	"fmt"
	"net"
	"sort"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"faultline/coord"
	"faultline/sim/host"
)

// realServer is a server on the real machine, on one port over its restarts.
type realServer struct {
	t    *testing.T
	dir  string
	port int
	m    *host.Machine
	s    *coord.Server
}

func startReal(t *testing.T) *realServer {
	r := &realServer{t: t, dir: t.TempDir()}
	r.start()
	t.Cleanup(func() { r.m.Shutdown() })
	return r
}

func (r *realServer) start() {
	m, err := host.New(host.Options{Name: "zk", Root: r.dir})
	require.NoError(r.t, err)
	r.m = m
	m.Do("start", func() {
		r.s, err = coord.Start(m, coord.Config{Port: r.port, TickTime: 200 * time.Millisecond, SnapshotEvery: 20})
	})
	require.NoError(r.t, err)
	r.port = r.s.Port()
}

// kill ends the server without a good-bye.
func (r *realServer) kill() { r.m.Shutdown() }

func (r *realServer) stop() {
	r.m.Do("stop", func() { require.NoError(r.t, r.s.Stop()) })
	r.m.Shutdown()
}

// client is a real ZooKeeper client; its connection can be frozen.
func (r *realServer) client(options ...func(*zk.Conn)) *zk.Conn {
	c, _, err := zk.Connect([]string{fmt.Sprintf("127.0.0.1:%d", r.port)}, 2*time.Second, zk.WithLogInfo(false), zk.WithLogger(quiet{}))
	require.NoError(r.t, err)
	r.t.Cleanup(c.Close)
	return c
}

type quiet struct{}

func (quiet) Printf(string, ...any) {}

var open = zk.WorldACL(zk.PermAll)

func event(t *testing.T, ch <-chan zk.Event) zk.Event {
	t.Helper()
	select {
	case e := <-ch:
		return e
	case <-time.After(20 * time.Second):
		t.Fatal("no event")
		return zk.Event{}
	}
}

func TestRealClientSeesATree(t *testing.T) {
	r := startReal(t)
	c := r.client()
	path, err := c.Create("/a", []byte("x"), 0, open)
	require.NoError(t, err)
	require.Equal(t, "/a", path)
	_, err = c.Create("/a", nil, 0, open)
	require.Equal(t, zk.ErrNodeExists, err)
	_, err = c.Create("/b/c", nil, 0, open)
	require.Equal(t, zk.ErrNoNode, err)
	data, stat, err := c.Get("/a")
	require.NoError(t, err)
	require.Equal(t, "x", string(data))
	require.EqualValues(t, 1, stat.DataLength)
	stat, err = c.Set("/a", []byte("yy"), 0)
	require.NoError(t, err)
	require.EqualValues(t, 1, stat.Version)
	_, err = c.Set("/a", nil, 0)
	require.Equal(t, zk.ErrBadVersion, err)
	require.WithinDuration(t, time.Now(), time.UnixMilli(stat.Mtime), time.Minute)

	for i := range 3 {
		path, err := c.Create("/a/n-", nil, zk.FlagSequence, open)
		require.NoError(t, err)
		require.Equal(t, fmt.Sprintf("/a/n-%010d", i), path)
	}
	path, err = c.CreateProtectedEphemeralSequential("/a/p-", nil, open)
	require.NoError(t, err)
	require.Contains(t, path, "p-0000000003")
	require.Equal(t, zk.ErrNotEmpty, c.Delete("/a", -1))
	names, stat, err := c.Children("/a")
	require.NoError(t, err)
	require.Len(t, names, 4)
	require.EqualValues(t, 4, stat.NumChildren)
	acl, _, err := c.GetACL("/a")
	require.NoError(t, err)
	require.Equal(t, open, acl)
	_, err = c.Sync("/a")
	require.NoError(t, err)
	require.NoError(t, c.AddAuth("digest", []byte("me:secret")))
	_, err = c.Create("/eph", nil, zk.FlagEphemeral, open)
	require.NoError(t, err)
	_, err = c.Create("/eph/x", nil, 0, open)
	require.Equal(t, zk.ErrNoChildrenForEphemerals, err)
	_, err = c.CreateContainer("/container", nil, zk.FlagTTL, open)
	require.Error(t, err)

	results, err := c.Multi(&zk.CreateRequest{Path: "/m", Data: []byte("1"), Acl: open}, &zk.SetDataRequest{Path: "/m", Data: []byte("2"), Version: 0},
		&zk.CheckVersionRequest{Path: "/m", Version: 1}, &zk.DeleteRequest{Path: "/a/n-0000000000", Version: -1})
	require.NoError(t, err)
	require.Len(t, results, 4)
	require.Equal(t, "/m", results[0].String)
	require.EqualValues(t, 1, results[1].Stat.Version)
	results, err = c.Multi(&zk.SetDataRequest{Path: "/m", Data: []byte("3"), Version: -1}, &zk.CheckVersionRequest{Path: "/m", Version: 7})
	require.Equal(t, zk.ErrBadVersion, err)
	require.Equal(t, []error{nil, zk.ErrBadVersion}, []error{results[0].Error, results[1].Error})
	data, _, err = c.Get("/m")
	require.NoError(t, err)
	require.Equal(t, "2", string(data))
}

func TestRealClientWatches(t *testing.T) {
	r := startReal(t)
	a, b := r.client(), r.client()
	found, _, created, err := a.ExistsW("/n")
	require.NoError(t, err)
	require.False(t, found)
	_, _, children, err := a.ChildrenW("/")
	require.NoError(t, err)
	_, err = b.Create("/n", nil, 0, open)
	require.NoError(t, err)
	require.Equal(t, zk.EventNodeCreated, event(t, created).Type)
	require.Equal(t, zk.EventNodeChildrenChanged, event(t, children).Type)
	_, _, changed, err := a.GetW("/n")
	require.NoError(t, err)
	_, err = b.Set("/n", nil, -1)
	require.NoError(t, err)
	require.Equal(t, zk.EventNodeDataChanged, event(t, changed).Type)
	_, _, deleted, err := a.ExistsW("/n")
	require.NoError(t, err)
	require.NoError(t, b.Delete("/n", -1))
	require.Equal(t, zk.Event{Type: zk.EventNodeDeleted, State: 3, Path: "/n"}, event(t, deleted))
}

func TestRealClientsEphemeralsGoWithItsSession(t *testing.T) {
	r := startReal(t)
	a, b := r.client(), r.client()
	_, err := a.Create("/e", nil, zk.FlagEphemeral, open)
	require.NoError(t, err)
	found, stat, gone, err := b.ExistsW("/e")
	require.NoError(t, err)
	require.True(t, found)
	require.Equal(t, a.SessionID(), stat.EphemeralOwner)
	a.Close()
	require.Equal(t, zk.EventNodeDeleted, event(t, gone).Type)
}

func TestRealClientGoesOnAfterARestart(t *testing.T) {
	r := startReal(t)
	for round, end := range []func(){r.kill, r.stop} {
		c := r.client()
		name := fmt.Sprint("/r", round)
		_, err := c.Create(name, []byte("kept"), zk.FlagEphemeral, open)
		require.NoError(t, err)
		for i := range 50 {
			_, err := c.Create(fmt.Sprintf("%s-%d", name, i), nil, 0, open)
			require.NoError(t, err)
		}
		session := c.SessionID()
		var changed, deleted <-chan zk.Event
		if !raceDetector {
			_, _, changed, err = c.GetW(name)
			require.NoError(t, err)
			_, _, deleted, err = c.ExistsW(name + "-49")
			require.NoError(t, err)
		}
		end()
		r.start()
		var data []byte
		require.Eventually(t, func() bool { data, _, err = c.Get(name); return err == nil }, 20*time.Second, 10*time.Millisecond)
		require.Equal(t, "kept", string(data))
		require.Equal(t, session, c.SessionID())
		require.NoError(t, c.Delete(name+"-49", -1))
		_, err = c.Set(name, nil, 0)
		require.NoError(t, err)
		if !raceDetector {
			require.Equal(t, zk.EventNodeDeleted, event(t, deleted).Type)
			require.Equal(t, zk.EventNodeDataChanged, event(t, changed).Type)
		}
	}
	names, _, err := r.client().Children("/")
	require.NoError(t, err)
	require.Len(t, names, 1+49+1+49)
}

func TestRealClientsSessionExpires(t *testing.T) {
	r := startReal(t)
	line := &frozenLine{}
	silent, states, err := zk.Connect([]string{fmt.Sprintf("127.0.0.1:%d", r.port)}, 500*time.Millisecond, zk.WithLogInfo(false), zk.WithLogger(quiet{}), zk.WithDialer(line.dial))
	require.NoError(t, err)
	defer silent.Close()
	_, err = silent.Create("/e", nil, zk.FlagEphemeral, open)
	require.NoError(t, err)
	found, _, gone, err := r.client().ExistsW("/e")
	require.NoError(t, err)
	require.True(t, found)
	line.freeze(true)
	require.Equal(t, zk.EventNodeDeleted, event(t, gone).Type)
	line.freeze(false)
	for e := range states {
		if e.State == zk.StateExpired {
			break
		}
	}
}

// frozenLine dials connections that can be made to swallow what the client writes.
type frozenLine struct {
	mu     sync.Mutex
	frozen bool
}

func (l *frozenLine) freeze(on bool) { l.mu.Lock(); defer l.mu.Unlock(); l.frozen = on }

func (l *frozenLine) dial(network, address string, timeout time.Duration) (net.Conn, error) {
	c, err := net.DialTimeout(network, address, timeout)
	return &frozenConn{c, l}, err
}

type frozenConn struct {
	net.Conn
	line *frozenLine
}

func (c *frozenConn) Write(p []byte) (int, error) {
	c.line.mu.Lock()
	defer c.line.mu.Unlock()
	if c.line.frozen {
		return len(p), nil
	}
	return c.Conn.Write(p)
}

func TestManyRealClientsAtOnce(t *testing.T) {
	r := startReal(t)
	var wg sync.WaitGroup
	for i := range 8 {
		c := r.client()
		wg.Go(func() {
			for j := range 50 {
				if _, err := c.Create(fmt.Sprintf("/c-%d-", i), make([]byte, j), zk.FlagSequence, open); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	names, _, err := r.client().Children("/")
	require.NoError(t, err)
	require.Len(t, names, 400)
	require.True(t, sort.StringsAreSorted(names))
	r.kill()
	r.start()
	names, _, err = r.client().Children("/")
	require.NoError(t, err)
	require.Len(t, names, 400)
}
