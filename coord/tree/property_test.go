package tree_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"faultline/coord/jute"
	"faultline/coord/tree"
)

// model is the tree as plainly as can be: a multi works on a copy that is kept or thrown away.
type model struct {
	nodes    map[string]plain
	sessions map[int64]bool
	zxid     int64
}

type plain struct {
	data                string
	version             int32
	owner               int64
	created, deleted    int32 // children
	czxid, mzxid, pzxid int64
}

func (m *model) children(path string) (names []string) {
	for p := range m.nodes {
		if p != "/" && tree.Parent(p) == path {
			names = append(names, p[strings.LastIndexByte(p, '/')+1:])
		}
	}
	slices.Sort(names)
	return names
}

func (m *model) step(session int64, s tree.Step) jute.Code {
	n, exists := m.nodes[s.Path]
	switch s.Op {
	case jute.OpCreate:
		up := tree.Parent(s.Path)
		parent, ok := m.nodes[up]
		path := s.Path
		if s.Flags&jute.FlagSequential != 0 {
			path = fmt.Sprintf("%s%010d", path, parent.created)
			_, exists = m.nodes[path]
		}
		switch {
		case !ok:
			return jute.NoNode
		case parent.owner != 0:
			return jute.NoChildrenForEphemerals
		case exists:
			return jute.NodeExists
		}
		n = plain{data: s.Data, czxid: m.zxid, mzxid: m.zxid, pzxid: m.zxid}
		if s.Flags&jute.FlagEphemeral != 0 {
			n.owner = session
		}
		m.nodes[path] = n
		parent.created++
		parent.pzxid = m.zxid
		m.nodes[up] = parent
		return jute.OK
	}
	switch {
	case !exists:
		return jute.NoNode
	case s.Version != -1 && s.Version != n.version:
		return jute.BadVersion
	}
	switch s.Op {
	case jute.OpSetData:
		n.data, n.version, n.mzxid = s.Data, n.version+1, m.zxid
		m.nodes[s.Path] = n
	case jute.OpDelete:
		if len(m.children(s.Path)) > 0 {
			return jute.NotEmpty
		}
		m.remove(s.Path)
	}
	return jute.OK
}

func (m *model) remove(path string) {
	delete(m.nodes, path)
	parent := m.nodes[tree.Parent(path)]
	parent.deleted++
	parent.pzxid = m.zxid
	m.nodes[tree.Parent(path)] = parent
}

// TestTreeBehavesAsThePlainModel also holds that the transactions alone rebuild the tree, byte for byte.
func TestTreeBehavesAsThePlainModel(t *testing.T) {
	paths := []string{"/a", "/b", "/a/a", "/a/b", "/b/a", "/a/a/a"}
	rapid.Check(t, func(t *rapid.T) {
		x, replica := tree.New(), tree.New()
		m := &model{nodes: map[string]plain{"/": {}}, sessions: map[int64]bool{}}
		var open []int64
		now := time.UnixMilli(0)
		apply := func(txn *tree.Txn) {
			effects, err := x.Apply(txn, nil)
			require.NoError(t, err)
			var copied tree.Txn
			require.NoError(t, copied.Decode(txn.Append(nil)))
			again, err := replica.Apply(&copied, nil)
			require.NoError(t, err)
			require.Equal(t, effects, again)
			m.zxid = txn.Zxid
		}
		for range rapid.IntRange(1, 40).Draw(t, "requests") {
			m.zxid = x.Zxid() + 1
			action := rapid.IntRange(0, 9).Draw(t, "action")
			switch {
			case action == 0 || len(open) == 0:
				txn := x.DecideOpen(now, time.Second, [16]byte{})
				apply(&txn)
				open = append(open, txn.Session)
			case action == 1:
				i := rapid.IntRange(0, len(open)-1).Draw(t, "session")
				txn, ok := x.DecideClose(now, open[i], tree.TxnExpire)
				require.True(t, ok)
				for _, path := range slices.Sorted(maps.Keys(m.nodes)) {
					if m.nodes[path].owner == open[i] {
						m.remove(path)
					}
				}
				apply(&txn)
				open = slices.Delete(open, i, i+1)
			default:
				session := rapid.SampledFrom(open).Draw(t, "session")
				var steps []tree.Step
				for range rapid.IntRange(1, 4).Draw(t, "steps") {
					steps = append(steps, tree.Step{
						Op:      rapid.SampledFrom([]jute.OpCode{jute.OpCreate, jute.OpCreate, jute.OpSetData, jute.OpDelete, jute.OpCheck}).Draw(t, "op"),
						Path:    rapid.SampledFrom(paths).Draw(t, "path"),
						Data:    rapid.SampledFrom([]string{"", "x", "yy"}).Draw(t, "data"),
						Flags:   rapid.Int32Range(0, 3).Draw(t, "flags"),
						Version: rapid.Int32Range(-1, 1).Draw(t, "version"),
					})
				}
				draft := &model{nodes: maps.Clone(m.nodes), zxid: m.zxid}
				wantRefused, want := 0, jute.OK
				for i, s := range steps {
					if want = draft.step(session, s); want != jute.OK {
						wantRefused = i
						break
					}
				}
				var txn tree.Txn
				refused, code := x.Decide(now, session, steps, &txn)
				require.Equal(t, want, code, "%v", steps)
				require.Equal(t, wantRefused, refused)
				if code == jute.OK && len(txn.Changes) > 0 {
					m.nodes = draft.nodes
					apply(&txn)
				}
			}
		}
		require.Equal(t, len(m.nodes), x.Len())
		for path, n := range m.nodes {
			data, stat, ok := x.Get(path)
			require.True(t, ok, path)
			names, _, _ := x.Children(path)
			require.True(t, slices.Equal(m.children(path), names), "%s: %v", path, names)
			require.Equal(t, n.data, data)
			require.Equal(t, jute.Stat{Czxid: n.czxid, Mzxid: n.mzxid, Pzxid: n.pzxid, Version: n.version, Cversion: n.created + n.deleted,
				EphemeralOwner: n.owner, DataLength: int32(len(n.data)), NumChildren: int32(len(names))}, stat, path)
		}
		for _, id := range open {
			var want []string
			for _, path := range slices.Sorted(maps.Keys(m.nodes)) {
				if m.nodes[path].owner == id {
					want = append(want, path)
				}
			}
			require.True(t, slices.Equal(want, x.Ephemerals(id)))
		}
		bytes := x.Append(nil)
		require.Equal(t, bytes, replica.Append(nil))
		loaded, err := tree.Decode(bytes)
		require.NoError(t, err)
		require.Equal(t, bytes, loaded.Append(nil))
	})
}

// TestWatchesBehaveAsAPlainSet compares with a set of (session, kind, path) that is searched as a whole for every effect.
func TestWatchesBehaveAsAPlainSet(t *testing.T) {
	type key struct {
		session int64
		child   bool
		path    string
	}
	rapid.Check(t, func(t *rapid.T) {
		w, set := tree.NewWatches(), map[key]bool{}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			session := rapid.Int64Range(1, 3).Draw(t, "session")
			path := rapid.SampledFrom([]string{"/", "/a", "/a/b"}).Draw(t, "path")
			switch action := rapid.IntRange(0, 8).Draw(t, "action"); {
			case action < 3:
				w.Data(session, path)
				set[key{session, false, path}] = true
			case action < 6:
				w.Child(session, path)
				set[key{session, true, path}] = true
			case action == 6:
				w.Drop(session)
				maps.DeleteFunc(set, func(k key, _ bool) bool { return k.session == session })
			default:
				e := tree.Effect{Kind: tree.ChangeKind(rapid.IntRange(1, 3).Draw(t, "kind")), Path: path}
				want := map[tree.Notice]bool{}
				for k := range set {
					self := k.path == path && (!k.child || e.Kind == tree.Delete)
					above := k.child && path != "/" && k.path == tree.Parent(path) && e.Kind != tree.Set
					if !self && !above {
						continue
					}
					typ := jute.EventChildrenChanged
					if self {
						typ = map[tree.ChangeKind]jute.EventType{tree.Create: jute.EventCreated, tree.Set: jute.EventDataChanged, tree.Delete: jute.EventDeleted}[e.Kind]
					}
					want[tree.Notice{Session: k.session, Type: typ, Path: k.path}] = true
					delete(set, k)
				}
				got := w.Fire(&e, nil)
				require.Len(t, got, len(want))
				for _, n := range got {
					require.True(t, want[n], "%v", n)
				}
			}
			require.Equal(t, len(set), w.Len())
		}
	})
}
