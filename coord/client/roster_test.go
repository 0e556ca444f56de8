package client_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"faultline/coord/client"
	"faultline/sim/machine"
	"faultline/sim/virtual"
)

// gets notes which nodes a client reads.
type gets struct{ paths []string }

func (g *gets) Asked(client.Call)  {}
func (g *gets) Heard(client.Heard) {}
func (g *gets) Done(c client.Call) {
	if c.Kind == client.OpGet {
		g.paths = append(g.paths, strings.TrimPrefix(c.Path, "/ids/"))
	}
}

func (g *gets) take() string {
	defer func() { g.paths = nil }()
	return strings.Join(g.paths, " ")
}

func named(name string, data []byte, _ client.Stat) (string, error) {
	return name + "=" + string(data), nil
}

// What it has read it reads again only when that may be another node.
func TestRosterReadsWhatItDoesNotKnow(t *testing.T) {
	story(t, 1, func(m machine.Machine, _ *virtual.Computer, _ *virtual.Cluster) {
		tap := &gets{}
		c := client.Connect(m, client.Config{Servers: servers, Tap: tap})
		other := client.Connect(m, client.Config{Servers: servers, Name: "other"})
		r := client.NewRoster(c, "/ids", named)
		_, _, err := r.Read()
		require.ErrorIs(t, err, client.ErrNoNode)
		require.NoError(t, other.EnsurePath("/ids"))
		for _, step := range []struct{ changes, found, read string }{
			{"", "", ""},
			{"+a=1 +b=1", "a=1 b=1", "a b"},
			{"", "a=1 b=1", ""},
			{"+c=1", "a=1 b=1 c=1", "c"},
			{"-a +d=1", "b=1 c=1 d=1", "d"},
			{"-b +b=2", "b=2 c=1 d=1", "b c d"},            // made anew: the list is the same
			{"-b +b=3 +e=1", "b=3 c=1 d=1 e=1", "b c d e"}, // or hides behind another change
			{"-b -c", "d=1 e=1", ""},
			{"+b=4", "b=4 d=1 e=1", "b"},                          // what it knew of b is forgotten
			{"+x=1 -x", "b=4 d=1 e=1", "b d e"},                   // somebody came and went: more reads than needed, and nothing wrong
			{"-b -d -e / +b=5 +d=5 +e=5", "b=5 d=5 e=5", "b d e"}, // the list itself was made anew
		} {
			for _, change := range strings.Fields(step.changes) {
				name, data, _ := strings.Cut(change[1:], "=")
				switch change[0] {
				case '+':
					_, err = other.Create("/ids/"+name, []byte(data), client.Ephemeral)
				case '-':
					err = other.Delete("/ids/"+name, client.AnyVersion)
				case '/':
					require.NoError(t, other.Delete("/ids", client.AnyVersion))
					err = other.EnsurePath("/ids")
				}
				require.NoError(t, err)
			}
			found, left, err := r.Read()
			require.NoError(t, err)
			require.Zero(t, left)
			require.Equal(t, step.found, strings.Join(found, " "), step.changes)
			require.Equal(t, step.read, tap.take(), step.changes)
		}
	})
}

// Whatever changes while it reads, once nothing changes any more it knows what there is.
func TestRosterAgreesWithTheNodes(t *testing.T) {
	for seed := range uint64(40) {
		story(t, seed, func(m machine.Machine, _ *virtual.Computer, _ *virtual.Cluster) {
			c := client.Connect(m, client.Config{Servers: servers})
			require.NoError(t, c.EnsurePath("/ids"))
			writing := true
			m.Go("writer", func() {
				w := client.Connect(m, client.Config{Servers: servers, Name: "writer"})
				rng := m.Rand("writer")
				for i := range 60 {
					path := fmt.Sprintf("/ids/%d", rng.IntN(4))
					if _, err := w.Create(path, fmt.Append(nil, i), client.Ephemeral); err != nil {
						require.NoError(t, w.Delete(path, client.AnyVersion))
						if rng.IntN(2) == 0 {
							_, err = w.Create(path, fmt.Append(nil, i), client.Ephemeral)
							require.NoError(t, err)
						}
					}
				}
				writing = false
			})
			r := client.NewRoster(c, "/ids", named)
			for last := false; !last; {
				last = !writing
				found, _, err := r.Read()
				require.NoError(t, err)
				if last {
					names, _, err := c.Children("/ids", false)
					require.NoError(t, err)
					var truth []string
					for _, name := range names {
						data, _, err := c.Get("/ids/"+name, false)
						require.NoError(t, err)
						truth = append(truth, name+"="+string(data))
					}
					require.True(t, slices.Equal(truth, found), "%v is %v", found, truth)
				}
			}
		})
	}
}

func TestGetsAnswersEach(t *testing.T) {
	story(t, 1, func(m machine.Machine, zk *virtual.Computer, _ *virtual.Cluster) {
		c := client.Connect(m, client.Config{Servers: servers, SessionTimeout: 4e9})
		_, err := c.Create("/a", []byte("x"), 0)
		require.NoError(t, err)
		got := c.Gets([]string{"/a", "/b", "/a"})
		require.Equal(t, "x", string(got[0].Data))
		require.ErrorIs(t, got[1].Err, client.ErrNoNode)
		require.Equal(t, got[0], got[2])
		zk.Crash()
		m.Sleep(1e9)
		for _, g := range c.Gets([]string{"/a", "/b"}) {
			require.ErrorIs(t, g.Err, client.ErrNotConnected)
		}
		boot(zk)
		m.Sleep(2e9)
		require.NoError(t, c.Gets([]string{"/a"})[0].Err)
	})
}
