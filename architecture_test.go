// Package faultline_test holds the whole tree to its architecture: which way imports point, and that the system under test
// touches the outside through sim/machine only.
package faultline_test

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/go/packages"
)

const module = "faultline"

// inside are the rooms that run in a world and on the real machine alike.
var inside = []string{"broker", "coord", "producer", "consumer", baseline}

// baseline is a room of its own: a server and clients as they are, among workloads only because nobody but a benchmark wants them.
const baseline = "workloads/baseline"

// room is the first element of a package's path below the module.
func room(path string) string {
	rest, ok := strings.CutPrefix(path, module+"/")
	if !ok {
		return ""
	}
	if rest == baseline {
		return baseline
	}
	first, _, _ := strings.Cut(rest, "/")
	return first
}

// below lists what each room may import, besides its own packages.
var below = map[string][]string{
	"sim":       {},
	"broker":    {"sim/machine", "coord"},
	"coord":     {"sim/machine"},
	"producer":  {"sim/machine", "broker"},
	"consumer":  {"sim/machine", "broker", "coord"},
	baseline:    {"sim/machine", "broker/wire"},
	"faults":    {"sim"},
	"scenarios": {"faults", "workloads/scenario", "sim"},
	"workloads": {"sim", "broker", "coord", "producer", "consumer", "faults", baseline},
	"reports":   {"sim", "faults", "workloads"},
	"cmd":       {"sim", "broker", "coord", "producer", "consumer", "faults", "workloads", "reports", "scenarios"},
}

func load(t *testing.T) []*packages.Package {
	t.Helper()
	pkgs, err := packages.Load(&packages.Config{
		Mode: packages.NeedName | packages.NeedImports | packages.NeedFiles | packages.NeedSyntax | packages.NeedTypes | packages.NeedTypesInfo,
	}, "./...")
	require.NoError(t, err)
	for _, p := range pkgs {
		require.Empty(t, p.Errors, p.PkgPath)
	}
	require.Greater(t, len(pkgs), 15)
	return pkgs
}

func TestArchitecture(t *testing.T) {
	pkgs := load(t)
	var wrong []string
	for _, p := range pkgs {
		r := room(p.PkgPath)
		if r == "" {
			continue
		}
		allowed, known := below[r]
		if !known {
			wrong = append(wrong, fmt.Sprintf("%s: room %q is not in the architecture", p.PkgPath, r))
		}
		for _, path := range sorted(p.Imports) {
			if to := room(path); to != "" && to != r && !permitted(allowed, path) {
				wrong = append(wrong, fmt.Sprintf("%s imports %s: %s may import %v", p.PkgPath, path, r, allowed))
			}
		}
		if slices.Contains(inside, r) {
			wrong = append(wrong, outside(p)...)
		}
	}
	require.Empty(t, wrong, strings.Join(wrong, "\n"))
}

func permitted(allowed []string, path string) bool {
	rest := strings.TrimPrefix(path, module+"/")
	for _, a := range allowed {
		if rest == a || strings.HasPrefix(rest, a+"/") {
			return true
		}
	}
	return false
}

func sorted[V any](m map[string]V) []string {
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// forbidden are packages that reach the outside or wait outside the seam.
var forbidden = []string{"os", "os/exec", "os/signal", "sync", "math/rand", "crypto/rand", "context", "runtime", "syscall", "unsafe", "io/ioutil", "path/filepath", "log", "testing"}

// selectors lists, for packages of which a part is harmless, the part that is.
var selectors = map[string][]string{
	"time": {"Duration", "Time", "Month", "Location", "UTC", "Date", "Unix", "UnixMilli", "UnixMicro", "Nanosecond", "Microsecond", "Millisecond", "Second",
		"Minute", "Hour", "RFC3339", "RFC3339Nano", "ParseDuration"},
	"net":          {"Conn", "Listener", "Addr", "TCPAddr", "Error", "ErrClosed", "Buffers", "SplitHostPort", "JoinHostPort"},
	"math/rand/v2": {"Rand", "Source", "Zipf", "New", "NewPCG", "NewZipf"},
	"fmt":          {"Sprint", "Sprintf", "Sprintln", "Errorf", "Fprintf", "Fprint", "Fprintln", "Append", "Appendf", "Appendln", "Stringer", "Sscanf", "Sscan"},
}

// outside lists the places at which a package touches the world other than through sim/machine.
func outside(p *packages.Package) []string {
	var wrong []string
	say := func(at token.Pos, format string, args ...any) {
		wrong = append(wrong, fmt.Sprintf("%s: %s", p.Fset.Position(at), fmt.Sprintf(format, args...)))
	}
	for _, f := range p.Syntax {
		remarks := orderRemarks(p.Fset, f)
		for _, i := range f.Imports {
			if path := strings.Trim(i.Path.Value, `"`); slices.Contains(forbidden, path) {
				say(i.Pos(), "imports %s: use sim/machine", path)
			}
		}
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt:
				say(n.Pos(), "go statement: use Machine.Go")
			case *ast.SelectStmt:
				say(n.Pos(), "select statement: use Machine.NewCond")
			case *ast.ChanType:
				say(n.Pos(), "channel: use Machine.NewMutex and NewCond")
			case *ast.SelectorExpr:
				id, ok := n.X.(*ast.Ident)
				if !ok {
					break
				}
				pkg, ok := p.TypesInfo.Uses[id].(*types.PkgName)
				if !ok {
					break
				}
				if allowed, ok := selectors[pkg.Imported().Path()]; ok && !slices.Contains(allowed, n.Sel.Name) {
					say(n.Pos(), "%s.%s reaches the outside: use sim/machine", pkg.Imported().Path(), n.Sel.Name)
				}
			case *ast.CallExpr:
				if id, ok := n.Fun.(*ast.Ident); ok && id.Name == "recover" {
					if _, builtin := p.TypesInfo.Uses[id].(*types.Builtin); builtin {
						say(n.Pos(), "recover(): a killed process must unwind")
					}
				}
			case *ast.RangeStmt:
				if _, isMap := p.TypesInfo.TypeOf(n.X).Underlying().(*types.Map); isMap && n.Key != nil && !remarks[p.Fset.Position(n.Pos()).Line] {
					say(n.Pos(), "range over a map: sort the keys, or say in a comment that begins with \"order:\" why the order cannot reach the outside")
				}
			}
			return true
		})
	}
	return wrong
}

// orderRemarks are the lines that a comment "order: ..." stands on or right above.
func orderRemarks(fset *token.FileSet, f *ast.File) map[int]bool {
	lines := map[int]bool{}
	for _, g := range f.Comments {
		for _, c := range g.List {
			if strings.HasPrefix(strings.TrimSpace(strings.TrimLeft(c.Text, "/*")), "order:") {
				lines[fset.Position(c.Pos()).Line] = true
				lines[fset.Position(g.End()).Line+1] = true
			}
		}
	}
	return lines
}

// The rules can fail: a package that breaks each of them is caught at each place.
func TestArchitectureCatches(t *testing.T) {
	const source = `package bad

import (
	"math/rand/v2"
	"os"
	"sync"
	"time"
)

func Bad(m map[string]int, c chan int) string {
	var mu sync.Mutex
	mu.Lock()
	go func() { recover() }()
	select {
	case <-c:
	default:
	}
	time.Sleep(time.Duration(rand.IntN(3)))
	for k := range m {
		return k
	}
	// order: the count is the same in any order
	for range m {
	}
	n := 0
	for k := range m { // order: addition commutes
		n += len(k)
	}
	return os.Args[0]
}
`
	pkgs, err := packages.Load(&packages.Config{
		Mode:    packages.NeedName | packages.NeedImports | packages.NeedSyntax | packages.NeedTypes | packages.NeedTypesInfo,
		Overlay: map[string][]byte{overlayPath(t): []byte(source)},
	}, "file="+overlayPath(t))
	require.NoError(t, err)
	require.Len(t, pkgs, 1)
	found := strings.Join(outside(pkgs[0]), "\n")
	for _, want := range []string{"imports os", "imports sync", "go statement", "select statement", "channel", "recover()", "time.Sleep", "math/rand/v2.IntN", "range over a map"} {
		require.Contains(t, found, want)
	}
	require.Equal(t, 1, strings.Count(found, "range over a map"), found)
}

func overlayPath(t *testing.T) string {
	t.Helper()
	abs, err := filepath.Abs("bad/bad.go")
	require.NoError(t, err)
	return abs
}
