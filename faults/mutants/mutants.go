// Package mutants holds planted bugs as data, one file for each row of known-faults.md: what really went wrong in some log system, the edit
// that makes the same mistake here, and the invariant that must catch it. The bugs are compiled in by `go build -overlay`, so that none of them lives in the
// code that people read and run.
package mutants

import (
	"cmp"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"faultline/faults/quantity"
	"faultline/faults/strict"
)

// Mutant is one planted bug.
type Mutant struct {
	// Row of the catalogue.
	Row string `yaml:"row" need:"true"`
	// Public report of the fault that it follows.
	Report string `yaml:"report" need:"true"`
	// What goes wrong.
	Title string `yaml:"title" need:"true"`
	// Invariants, any of which catches it.
	Invariants []string `yaml:"invariants"`
	// Scenario that provokes it.
	Scenario string `yaml:"scenario" need:"true"`
	// The edits that plant it.
	Edits []Edit `yaml:"edits"`
}

// Edit puts a text in the place of another, which must be in the file exactly once. YAML allows no tabs where it counts indentation, so in the
// texts four spaces at the start of a line stand for one tab.
type Edit struct {
	// Path of the file below the module's root.
	File string `yaml:"file" need:"true"`
	// Text to find.
	Find string `yaml:"find" need:"true"`
	// Text to put in its place.
	Replace string `yaml:"replace" need:"true"`
}

//go:embed *.yaml
var files embed.FS

// All are the mutants in the order of their rows.
func All() ([]Mutant, error) {
	entries, err := files.ReadDir(".")
	if err != nil {
		return nil, err
	}
	var out []Mutant
	for _, e := range entries {
		data, err := files.ReadFile(e.Name())
		if err != nil {
			return nil, err
		}
		m, err := parse(path.Join("faults/mutants", e.Name()), data)
		if err != nil {
			return nil, err
		}
		out = append(out, m)
	}
	slices.SortFunc(out, func(a, b Mutant) int {
		return cmp.Or(strings.Compare(a.Row[:1], b.Row[:1]), cmp.Compare(number(a.Row), number(b.Row)))
	})
	return out, nil
}

func number(row string) int {
	n, _ := strconv.Atoi(row[1:])
	return n
}

func parse(file string, data []byte) (Mutant, error) {
	var m Mutant
	doc, problems := strict.Decode(file, data, &m)
	if want := strings.TrimSuffix(path.Base(file), ".yaml"); m.Row != want {
		problems = append(problems, doc.Problem("row", "found %q, allowed is the file's name, %q", m.Row, want))
	}
	if len(m.Invariants) == 0 {
		problems = append(problems, doc.Problem("invariants", "found none, allowed is one or more"))
	}
	if len(m.Edits) == 0 {
		problems = append(problems, doc.Problem("edits", "found none, allowed is one or more"))
	}
	for i := range m.Edits {
		m.Edits[i].Find, m.Edits[i].Replace = tabs(m.Edits[i].Find), tabs(m.Edits[i].Replace)
	}
	return m, problems.Err()
}

func tabs(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		depth := (len(line) - len(strings.TrimLeft(line, " "))) / 4
		lines[i] = strings.Repeat("\t", depth) + line[4*depth:]
	}
	return strings.Join(lines, "\n")
}

// Find looks a row up.
func Find(row string) (Mutant, error) {
	all, err := All()
	if err != nil {
		return Mutant{}, err
	}
	rows := make([]string, len(all))
	for i, m := range all {
		if rows[i] = m.Row; m.Row == row {
			return m, nil
		}
	}
	return Mutant{}, fmt.Errorf("no mutant %q, allowed is %s%s", row, strings.Join(rows, ", "), quantity.DidYouMean(row, rows))
}

// Files are the paths of the files that the mutant edits, each once.
func (m Mutant) Files() []string {
	var out []string
	for _, e := range m.Edits {
		if !slices.Contains(out, e.File) {
			out = append(out, e.File)
		}
	}
	return out
}

// Packages are the import paths, relative to the module's root (./broker/log), of the packages that it edits.
func (m Mutant) Packages() []string {
	var out []string
	for _, f := range m.Files() {
		if p := "./" + path.Dir(f); !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	return out
}

// ErrNoSource says that the sources are not where they should be: a mutant needs a checkout.
var ErrNoSource = errors.New("a planted bug needs a source checkout")

// Apply returns the edited text of each file. root is the module's root directory.
func (m Mutant) Apply(root string) (map[string][]byte, error) {
	out := map[string][]byte{}
	for i, e := range m.Edits {
		text, done := out[e.File]
		if !done {
			var err error
			if text, err = os.ReadFile(filepath.Join(root, filepath.FromSlash(e.File))); err != nil {
				return nil, fmt.Errorf("mutant %s: %w: %w", m.Row, ErrNoSource, err)
			}
		}
		if n := strings.Count(string(text), e.Find); n != 1 {
			return nil, fmt.Errorf("mutant %s: edit %d: found its text %d times in %s, allowed is once:\n%s", m.Row, i+1, n, e.File, e.Find)
		}
		out[e.File] = []byte(strings.Replace(string(text), e.Find, e.Replace, 1))
	}
	return out, nil
}

// Overlay writes the edited files and the JSON file for `go build -overlay` into the directory dir, and returns the path of the latter.
func (m Mutant) Overlay(root, dir string) (string, error) {
	edited, err := m.Apply(root)
	if err != nil {
		return "", err
	}
	if root, err = filepath.Abs(root); err != nil {
		return "", err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return "", err
	}
	overlay := struct{ Replace map[string]string }{map[string]string{}}
	for file, text := range edited {
		at := filepath.Join(dir, strings.ReplaceAll(file, "/", "__"))
		if err := os.WriteFile(at, text, 0o644); err != nil {
			return "", fmt.Errorf("mutant %s: %w", m.Row, err)
		}
		overlay.Replace[filepath.Join(root, filepath.FromSlash(file))] = at
	}
	data, err := json.MarshalIndent(overlay, "", "\t")
	if err != nil {
		return "", err
	}
	at := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(at, data, 0o644); err != nil {
		return "", fmt.Errorf("mutant %s: %w", m.Row, err)
	}
	return at, nil
}
