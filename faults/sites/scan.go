// Package sites finds the failpoints and marks in the sources of the programs, so that no list of them can be out of date.
package sites

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Rooms are the folders below the module's root whose programs run on machine.Machine.
var Rooms = []string{"broker", "coord", "producer", "consumer"}

// Site is one call of Failpoint or Mark.
type Site struct {
	Name string // "fault/<room>/<place>" or "mark/<room>/<what>"
	At   string // file:line, the file relative to the root
}

// Scan lists the sites in the program sources below a source checkout's root, by name and place. A name that is not written as one string
// constant at the call is an error: nobody could find it. So is one that does not begin as its kind must.
func Scan(root string) ([]Site, error) {
	var out []Site
	for _, room := range Rooms {
		err := filepath.WalkDir(filepath.Join(root, room), func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			found, err := scanFile(root, path)
			out = append(out, found...)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	slices.SortFunc(out, func(a, b Site) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.At, b.At)) })
	return out, nil
}

// Names are the sites' names, each once.
func Names(list []Site) []string {
	var out []string
	for _, s := range list {
		out = append(out, s.Name)
	}
	return slices.Compact(out)
}

var prefixes = map[string]string{"Failpoint": "fault/", "Mark": "mark/"}

func scanFile(root, path string) (out []Site, err error) {
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, path, nil, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	rel, err := filepath.Rel(root, path)
	if err != nil {
		return nil, err
	}
	ast.Inspect(f, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		sel, ok := call.Fun.(*ast.SelectorExpr)
		if !ok || prefixes[sel.Sel.Name] == "" || len(call.Args) != 1 {
			return true
		}
		at := fmt.Sprintf("%s:%d", filepath.ToSlash(rel), fset.Position(call.Pos()).Line)
		lit, ok := call.Args[0].(*ast.BasicLit)
		if !ok || lit.Kind != token.STRING {
			err = fmt.Errorf("%s: the argument of %s is no string constant", at, sel.Sel.Name)
			return false
		}
		name, _ := strconv.Unquote(lit.Value)
		if parts := strings.Split(name, "/"); len(parts) != 3 || parts[0]+"/" != prefixes[sel.Sel.Name] || parts[1] == "" || parts[2] == "" {
			err = fmt.Errorf("%s: %s(%q): want %s<room>/<place>", at, sel.Sel.Name, name, prefixes[sel.Sel.Name])
			return false
		}
		out = append(out, Site{name, at})
		return true
	})
	return out, err
}
