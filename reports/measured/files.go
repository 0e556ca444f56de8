package measured

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"faultline/reports/picture"
)

// ErrOther says that a file holds something else than a run.
var ErrOther = errors.New("no run of a bench")

// Write writes the document.
func (r *Run) Write(w io.Writer) error {
	data, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	_, err = w.Write(append(data, '\n'))
	return err
}

// Read reads a document.
func Read(data []byte) (*Run, error) {
	var head struct {
		Kind, Build string
		Format      int
	}
	if err := json.Unmarshal(data, &head); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrOther, err)
	}
	if head.Kind != kind {
		return nil, fmt.Errorf("%w: found kind %q, a run has %q", ErrOther, head.Kind, kind)
	}
	if head.Format != format {
		return nil, fmt.Errorf("found format %d, this program reads %d: read it with the build that wrote it, %s", head.Format, format, head.Build)
	}
	r := &Run{}
	return r, json.Unmarshal(data, r)
}

// Load reads runs: JSON files, and all that are in folders. Pieces of one measurement are put together.
func Load(paths ...string) ([]*Run, error) {
	var runs []*Run
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return nil, err
		}
		files := []string{path}
		if info.IsDir() {
			if files, err = filepath.Glob(filepath.Join(escape.Replace(path), "*.json")); err != nil {
				return nil, err
			}
		}
		before := len(runs)
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				return nil, err
			}
			r, err := Read(data)
			if errors.Is(err, ErrOther) && info.IsDir() {
				continue
			}
			if err != nil {
				return nil, fmt.Errorf("%s: %w", file, err)
			}
			runs = append(runs, r)
		}
		if len(runs) == before {
			return nil, fmt.Errorf("%s: %w: bench writes them as SUITE.json", path, fs.ErrNotExist)
		}
	}
	return merge(runs)
}

var escape = strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`)

// SaveFiles writes what there is of runs into a folder: for each its document, its figures as CSV and in the Go benchmark format, its pictures as PNG and SVG with their data; and a page of them all.
// It returns the names of the files.
func SaveFiles(dir string, runs ...*Run) ([]string, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	var names []string
	save := func(name string, write func(io.Writer) error) error {
		var out bytes.Buffer
		if err := write(&out); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		names = append(names, name)
		return os.WriteFile(filepath.Join(dir, name), out.Bytes(), 0o644)
	}
	page := ""
	for _, r := range runs {
		base := r.Suite
		if r.Arm != Simulated {
			base += "-" + r.Arm
		}
		for n, name := 2, base; slices.Contains(names, base+".json"); n++ {
			base = name + "-" + strconv.Itoa(n)
		}
		switch page {
		case "":
			page = r.Suite + ".html"
		case r.Suite + ".html":
		default:
			page = "report.html"
		}
		err := errors.Join(save(base+".json", r.Write), save(base+".figures.csv", r.WriteCSV), save(base+".bench.txt", r.WriteBenchmarks))
		if err != nil {
			return names, err
		}
		var beside *Run
		if r.Arm == Real {
			beside = prediction(runs, r)
		}
		for _, p := range r.pictures(beside) {
			name := base + p.suffix
			err := errors.Join(
				save(name+".png", func(w io.Writer) error { return picture.Write(w, p.Picture, "png", picture.Wide) }),
				save(name+".svg", func(w io.Writer) error { return picture.Write(w, p.Picture, "svg", picture.Wide) }),
				save(name+".csv", func(w io.Writer) error { return picture.WriteCSV(w, p.Picture) }))
			if err != nil {
				return names, err
			}
		}
	}
	return names, save(page, func(w io.Writer) error { return Page(w, runs...) })
}

// WriteCSV writes every figure, a row each: of every repetition, so that nothing is lost.
func (r *Run) WriteCSV(w io.Writer) error {
	out := csv.NewWriter(w)
	rows := [][]string{{"suite", "arm", "profile", "series", "system", "guarantee", "value", "seed", "metric", "unit", "figure"}}
	metrics := r.measured()
	for i := range r.Series {
		s := &r.Series[i]
		for k := range s.Points {
			for _, rep := range s.Points[k].Repetitions {
				for _, m := range metrics {
					if v, ok := rep.Figures[m]; ok {
						rows = append(rows, []string{r.Suite, r.Arm, r.Profile, s.Name, s.System, s.Guarantee, s.Points[k].Value, strconv.FormatUint(rep.Seed, 10), m, Unit(m), strconv.FormatFloat(v, 'f', -1, 64)})
					}
				}
			}
		}
	}
	return errors.Join(out.WriteAll(rows), out.Error())
}
