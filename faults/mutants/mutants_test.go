package mutants

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/go/packages"

	"faultline/scenarios"
)

const root = "../.."

func TestEveryMutantAppliesAndCompiles(t *testing.T) {
	all, err := All()
	require.NoError(t, err)
	require.NotEmpty(t, all)
	var paths []string
	for _, m := range all {
		for _, p := range m.Packages() {
			if !slices.Contains(paths, p) {
				paths = append(paths, p)
			}
		}
	}
	loaded, err := packages.Load(&packages.Config{Mode: packages.NeedName | packages.NeedCompiledGoFiles | packages.NeedImports | packages.NeedDeps | packages.NeedTypes | packages.NeedExportFile, Dir: root}, paths...)
	require.NoError(t, err)
	for _, m := range all {
		t.Run(m.Row, func(t *testing.T) {
			require.Contains(t, scenarios.Names(), m.Scenario)
			edited, err := m.Apply(root)
			require.NoError(t, err)
			for file, text := range edited {
				before, err := os.ReadFile(filepath.Join(root, file))
				require.NoError(t, err)
				require.NotEqual(t, string(before), string(text), "the edit of %s changes nothing", file)
			}
			for _, p := range loaded {
				check(t, p, edited)
			}
		})
	}
}

// check type-checks a package with the edited files in place of its own.
func check(t *testing.T, p *packages.Package, edited map[string][]byte) {
	require.Empty(t, p.Errors, "the package without the bug")
	fset := token.NewFileSet()
	var files []*ast.File
	changed := false
	for _, name := range p.CompiledGoFiles {
		var text any
		for file, with := range edited {
			if strings.HasSuffix(filepath.ToSlash(name), "/"+file) {
				text, changed = with, true
			}
		}
		f, err := parser.ParseFile(fset, name, text, 0)
		require.NoError(t, err)
		files = append(files, f)
	}
	if !changed {
		return
	}
	conf := types.Config{Importer: imports(p.Imports)}
	_, err := conf.Check(p.PkgPath, fset, files, nil)
	require.NoError(t, err)
}

// imports finds the packages that a package imports already. A planted bug needs no others.
type imports map[string]*packages.Package

func (all imports) Import(path string) (*types.Package, error) {
	if p := all[path]; p != nil {
		return p.Types, nil
	}
	return nil, fmt.Errorf("a planted bug may not import %s", path)
}

func TestOverlayBuilds(t *testing.T) {
	m, err := Find("C18")
	require.NoError(t, err)
	overlay, err := m.Overlay(root, t.TempDir())
	require.NoError(t, err)
	build := exec.Command("go", "build", "-overlay", overlay, "./consumer")
	build.Dir = root
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	_, err = m.Overlay(t.TempDir(), t.TempDir())
	require.ErrorIs(t, err, ErrNoSource)
}

func TestRowsStandInTheirOrder(t *testing.T) {
	all, err := All()
	require.NoError(t, err)
	var rows []string
	for _, m := range all {
		rows = append(rows, m.Row)
		found, err := Find(m.Row)
		require.NoError(t, err)
		require.Equal(t, m, found)
	}
	if a, b := slices.Index(rows, "Z2"), slices.Index(rows, "Z11"); a >= 0 && b >= 0 {
		require.Less(t, a, b)
	}
	_, err = Find("X1")
	require.ErrorContains(t, err, `no mutant "X1", allowed is `)
}

func TestAnEditMustFindItsTextOnce(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a.go"), []byte("one two two\n"), 0o644))
	apply := func(find string) (map[string][]byte, error) {
		return Mutant{Row: "L1", Edits: []Edit{{"a.go", find, "three"}}}.Apply(dir)
	}
	out, err := apply("one")
	require.NoError(t, err)
	require.Equal(t, "three two two\n", string(out["a.go"]))
	_, err = apply("two")
	require.EqualError(t, err, "mutant L1: edit 1: found its text 2 times in a.go, allowed is once:\ntwo")
	_, err = apply("four")
	require.ErrorContains(t, err, "found its text 0 times")
	_, err = Mutant{Row: "L1", Edits: []Edit{{"b.go", "x", "y"}}}.Apply(dir)
	require.ErrorIs(t, err, ErrNoSource)
}

func TestParseReportsWhatIsWrong(t *testing.T) {
	_, err := parse("faults/mutants/L1.yaml", []byte("row: L2\nreport: r\ntitle: t\nscenario: swarm\nedit: []\n"))
	require.Equal(t, strings.Join([]string{
		`faults/mutants/L1.yaml:1:1: invariants: found none, allowed is one or more`,
		`faults/mutants/L1.yaml:1:1: edits: found none, allowed is one or more`,
		`faults/mutants/L1.yaml:1:6: row: found "L2", allowed is the file's name, "L1"`,
		`faults/mutants/L1.yaml:5:1: found the unknown field "edit", allowed is row, report, title, invariants, scenario, edits; did you mean "edits"?`,
	}, "\n"), err.Error())
}
