package faults

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// tableRooms are the packages whose tests the fault table names, by the name that it calls them.
var tableRooms = map[string]string{
	"sim": "../sim", "disk": "../sim/disk", "net": "../sim/net", "virtual": "../sim/virtual", "faults": ".", "trial": "../workloads/trial",
	"log": "../broker/log", "broker": "../broker", "consumer": "../consumer",
}

// tableRow is one row of the fault table in docs/fault-model.md.
type tableRow struct {
	name  string
	kinds []string
	tests []string
}

var quoted = regexp.MustCompile("`([^`]+)`")

func faultTable(t *testing.T) (rows []tableRow) {
	text, err := os.ReadFile("../docs/fault-model.md")
	require.NoError(t, err)
	_, rest, found := strings.Cut(string(text), "## The fault table\n")
	require.True(t, found)
	table, _, _ := strings.Cut(rest, "\n## ")
	names := func(cell string) (list []string) {
		for _, m := range quoted.FindAllStringSubmatch(cell, -1) {
			list = append(list, m[1])
		}
		return list
	}
	for line := range strings.Lines(table) {
		if !strings.HasPrefix(line, "|") || strings.HasPrefix(line, "| row |") || strings.HasPrefix(line, "|---") {
			continue
		}
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		require.Len(t, cells, 4, line)
		rows = append(rows, tableRow{strings.TrimSpace(cells[0]), names(cells[1]), names(cells[3])})
	}
	return rows
}

// tests are those of a package, each with the texts in its body: what its subtests may be called.
func tests(t *testing.T, dir string) map[string][]string {
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	require.NoError(t, err)
	require.NotEmpty(t, files, dir)
	found := map[string][]string{}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		require.NoError(t, err)
		for _, d := range file.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Recv != nil || !strings.HasPrefix(fn.Name.Name, "Test") {
				continue
			}
			found[fn.Name.Name] = []string{}
			ast.Inspect(fn, func(n ast.Node) bool {
				if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
					text, err := strconv.Unquote(lit.Value)
					require.NoError(t, err)
					found[fn.Name.Name] = append(found[fn.Name.Name], text)
				}
				return true
			})
		}
	}
	return found
}

// TestEveryRowOfTheFaultTableHasATestNamedAfterIt holds the table to the tests: each that it names exists, together they have the words of their row in their
// names, and every kind of fault stands in a row.
func TestEveryRowOfTheFaultTableHasATestNamedAfterIt(t *testing.T) {
	known := map[string]map[string][]string{}
	for room, dir := range tableRooms {
		known[room] = tests(t, dir)
	}
	rows := faultTable(t)
	require.Greater(t, len(rows), 60)
	shown := map[string]string{}
	for _, row := range rows {
		require.NotEmpty(t, row.tests, row.name)
		for _, name := range row.tests {
			room, test, _ := strings.Cut(name, ".")
			test, sub, hasSub := strings.Cut(test, "/")
			bodies, ok := known[room]
			require.True(t, ok, "%s: no package is called %s", row.name, room)
			texts, ok := bodies[test]
			require.True(t, ok, "%s: there is no test %s", row.name, name)
			require.True(t, !hasSub || slices.Contains(texts, sub), "%s: %s has no subtest %q", row.name, test, sub)
		}
		if strings.HasPrefix(row.name, "**") {
			continue // a part of the table; its tests hold for all of it
		}
		plain := strings.NewReplacer("-", "", " ", "", "/", "").Replace(strings.ToLower(strings.Join(row.tests, " ")))
		for _, word := range strings.FieldsFunc(row.name, func(r rune) bool { return strings.ContainsRune(" ,:", r) }) {
			word = strings.ToLower(strings.ReplaceAll(word, "-", ""))
			if slices.Contains([]string{"of", "the", "and", "at", "a", "in", "by", "it", "is", "then"}, word) {
				continue
			}
			require.Contains(t, plain, word, "%s: no test of this row has the word in its name", row.name)
		}
		for _, kind := range row.kinds {
			shown[kind] = row.name
		}
	}
	for _, info := range Kinds {
		require.Contains(t, shown, string(info.Kind), "a kind of fault that no row shows")
		delete(shown, string(info.Kind))
	}
	require.Empty(t, shown, "rows of kinds that do not exist")
}
