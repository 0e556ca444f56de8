package tree_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"

	"faultline/coord/jute"
	"faultline/coord/tree"
)

// TestTree runs the scripts of testdata/tree. A line of input is a request of a session ("s1 create /a data=x ephemeral"), or
// a watch, and prints what came of it.
func TestTree(t *testing.T) {
	datadriven.Walk(t, "testdata/tree", func(t *testing.T, path string) {
		s := &script{tree: tree.New(), watches: tree.NewWatches(), sessions: map[string]int64{}, now: time.UnixMilli(1000)}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			var b strings.Builder
			switch d.Cmd {
			case "do":
				for _, line := range strings.Split(d.Input, "\n") {
					s.line(t, &b, line)
				}
			case "multi":
				var session string
				d.ScanArgs(t, "session", &session)
				var steps []tree.Step
				for _, line := range strings.Split(d.Input, "\n") {
					steps = append(steps, step(t, strings.Fields(line)))
				}
				s.decide(t, &b, s.sessions[session], steps)
			case "dump":
				dump(&b, s.tree)
			case "snapshot":
				b.WriteString(snapshot(t, s.tree))
			default:
				d.Fatalf(t, "unknown command %s", d.Cmd)
			}
			return b.String()
		})
	})
}

type script struct {
	tree     *tree.Tree
	watches  *tree.Watches
	sessions map[string]int64
	now      time.Time
}

func (s *script) name(id int64) string {
	for name, i := range s.sessions {
		if i == id {
			return name
		}
	}
	return fmt.Sprint(id)
}

func (s *script) line(t *testing.T, b *strings.Builder, line string) {
	f := strings.Fields(line)
	if len(f) == 0 || strings.HasPrefix(line, "#") {
		return
	}
	id := s.sessions[f[0]]
	s.now = s.now.Add(time.Millisecond)
	var txn tree.Txn
	ok := true
	switch f[1] {
	case "open":
		txn = s.tree.DecideOpen(s.now, time.Second, [jute.PasswordLen]byte{1})
		s.sessions[f[0]] = txn.Session
	case "close":
		txn, ok = s.tree.DecideClose(s.now, id, tree.TxnClose)
	case "expire":
		txn, ok = s.tree.DecideClose(s.now, id, tree.TxnExpire)
	case "watch":
		for _, path := range f[3:] {
			if f[2] == "data" {
				s.watches.Data(id, path)
			} else {
				s.watches.Child(id, path)
			}
		}
		return
	case "drop":
		s.watches.Drop(id)
		return
	case "rearm":
		zxid, err := strconv.ParseInt(f[2], 10, 64)
		require.NoError(t, err)
		r := &jute.SetWatches{RelativeZxid: zxid}
		for _, w := range f[3:] {
			kind, path, _ := strings.Cut(w, "=")
			list := map[string]*[]string{"data": &r.Data, "exist": &r.Exist, "child": &r.Child}[kind]
			*list = append(*list, path)
		}
		s.notices(b, s.watches.Rearm(s.tree, id, r, nil))
		return
	default:
		s.decide(t, b, id, []tree.Step{step(t, f[1:])})
		return
	}
	if !ok {
		fmt.Fprintf(b, "%s %s: not open\n", f[0], f[1])
		return
	}
	s.apply(t, b, &txn)
}

func step(t *testing.T, f []string) tree.Step {
	s := tree.Step{Path: f[1], Version: -1}
	s.Op = map[string]jute.OpCode{"create": jute.OpCreate, "set": jute.OpSetData, "delete": jute.OpDelete, "check": jute.OpCheck}[f[0]]
	for _, arg := range f[2:] {
		key, value, _ := strings.Cut(arg, "=")
		switch key {
		case "data":
			s.Data = value
		case "ephemeral":
			s.Flags |= jute.FlagEphemeral
		case "sequential":
			s.Flags |= jute.FlagSequential
		case "version", "flags":
			n, err := strconv.ParseInt(value, 10, 32)
			require.NoError(t, err)
			if key == "flags" {
				s.Flags = int32(n)
			} else {
				s.Version = int32(n)
			}
		default:
			t.Fatalf("unknown argument %s", arg)
		}
	}
	return s
}

func (s *script) decide(t *testing.T, b *strings.Builder, session int64, steps []tree.Step) {
	before := s.tree.Append(nil)
	var txn tree.Txn
	refused, code := s.tree.Decide(s.now, session, steps, &txn)
	require.Equal(t, before, s.tree.Append(nil), "deciding changed the tree")
	switch {
	case code != jute.OK && len(steps) > 1:
		fmt.Fprintf(b, "step %d: %s\n", refused, code)
	case code != jute.OK:
		fmt.Fprintf(b, "%s\n", code)
	case len(txn.Changes) == 0:
		b.WriteString("ok, nothing to do\n")
	default:
		s.apply(t, b, &txn)
	}
}

// apply goes through the encoding, as a transaction does on its way to the log or to another server.
func (s *script) apply(t *testing.T, b *strings.Builder, txn *tree.Txn) {
	var copied tree.Txn
	require.NoError(t, copied.Decode(txn.Append(nil)))
	effects, err := s.tree.Apply(&copied, nil)
	require.NoError(t, err)
	fmt.Fprintf(b, "zxid %d", txn.Zxid)
	if len(effects) == 0 {
		fmt.Fprintf(b, " %s", [...]string{"", "", "opens", "closes", "expires"}[txn.Kind])
	}
	b.WriteString("\n")
	var notices []tree.Notice
	for i := range effects {
		e := &effects[i]
		fmt.Fprintf(b, "  %s %s", [...]string{"", "create", "set", "delete"}[e.Kind], e.Path)
		if e.Kind == tree.Set {
			fmt.Fprintf(b, " version=%d", e.Stat.Version)
		}
		b.WriteString("\n")
		notices = s.watches.Fire(e, notices)
	}
	s.notices(b, notices)
}

func (s *script) notices(b *strings.Builder, notices []tree.Notice) {
	for _, n := range notices {
		fmt.Fprintf(b, "  -> %s: %s %s\n", s.name(n.Session), n.Type, n.Path)
	}
}

func dump(b *strings.Builder, t *tree.Tree) {
	fmt.Fprintf(b, "zxid %d, sessions %v\n", t.Zxid(), t.Sessions())
	var walk func(path string)
	walk = func(path string) {
		data, s, _ := t.Get(path)
		fmt.Fprintf(b, "%s %q v=%d cv=%d c=%d m=%d p=%d ct=%d mt=%d", path, data, s.Version, s.Cversion, s.Czxid, s.Mzxid, s.Pzxid, s.Ctime, s.Mtime)
		if s.EphemeralOwner != 0 {
			fmt.Fprintf(b, " owner=%d", s.EphemeralOwner)
		}
		b.WriteString("\n")
		names, _, _ := t.Children(path)
		for _, name := range slices.Clone(names) {
			walk(strings.TrimSuffix(path, "/") + "/" + name)
		}
	}
	walk("/")
}

func snapshot(t *testing.T, x *tree.Tree) string {
	b := x.Append(nil)
	y, err := tree.Decode(b)
	require.NoError(t, err)
	require.Equal(t, b, y.Append(nil))
	for _, id := range x.Sessions() {
		require.Equal(t, x.Ephemerals(id), y.Ephemerals(id))
	}
	for n := range b {
		_, err := tree.Decode(b[:n])
		require.ErrorIs(t, err, tree.ErrCorrupt)
	}
	return "same\n"
}

// TestExpiry runs the scripts of testdata/expiry: times are milliseconds of Uptime, the grace is 100.
func TestExpiry(t *testing.T) {
	datadriven.Walk(t, "testdata/expiry", func(t *testing.T, path string) {
		e := tree.NewExpiry(100 * time.Millisecond)
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			var b strings.Builder
			for _, line := range strings.Split(d.Input, "\n") {
				f := strings.Fields(line)
				n := make([]int64, len(f))
				for i := range f[1:] {
					v, err := strconv.ParseInt(f[i+1], 10, 64)
					require.NoError(t, err)
					n[i+1] = v
				}
				ms := func(i int) time.Duration { return time.Duration(n[i]) * time.Millisecond }
				switch f[0] {
				case "add": // id timeout now
					e.Add(n[1], ms(2), ms(3))
				case "touch": // id now
					e.Touch(n[1], ms(2))
				case "remove": // id
					e.Remove(n[1])
				case "condemned": // id
					fmt.Fprintf(&b, "condemned %d: %v\n", n[1], e.Condemned(n[1]))
				case "check": // now
					fmt.Fprintf(&b, "at %d: %v", n[1], e.Check(ms(1)))
					if at, ok := e.Next(); ok {
						fmt.Fprintf(&b, ", next at %d", at.Milliseconds())
					}
					b.WriteString("\n")
				}
			}
			return b.String()
		})
	})
}
