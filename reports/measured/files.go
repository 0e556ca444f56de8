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
	"regexp"
	"slices"
	"strconv"
	"strings"

	"faultline/reports"
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
	if err := json.Unmarshal(data, &head); err != nil && !json.Valid(data) {
		return nil, fmt.Errorf("no JSON, or only a part of it: %w", err)
	} else if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrOther, err)
	}
	if head.Kind != kind {
		return nil, fmt.Errorf("%w: found kind %q, a run has %q", ErrOther, head.Kind, kind)
	}
	if head.Format != format {
		return nil, fmt.Errorf("found format %d, this program reads %d: read it with the build that wrote it, %s", head.Format, format, head.Build)
	}
	r := &Run{}
	if err := json.Unmarshal(data, r); err != nil {
		return nil, err
	}
	return r, r.check()
}

var suiteName = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)

// check says what is wrong with a document that did not come from here, or was changed since: files are named after its suite, and pictures drawn of its time lines.
func (r *Run) check() error {
	if !suiteName.MatchString(r.Suite) {
		return fmt.Errorf("suite: found %q, allowed are lower-case letters, digits and single dashes between them", r.Suite)
	}
	if r.Arm != Simulated && r.Arm != Real {
		return fmt.Errorf("arm: found %q, allowed is %s or %s", r.Arm, Simulated, Real)
	}
	for i, d := range r.Pictures {
		if d.Y != "latency" && d.Y != "time-line" && Unit(d.Y) == "" {
			return fmt.Errorf("pictures[%d].y: found %q, allowed is a metric, latency or time-line", i, d.Y)
		}
	}
	for i := range r.Series {
		s := &r.Series[i]
		if r.series(s.Name) != s {
			return fmt.Errorf("series[%d].name: found %q a second time, allowed is once", i, s.Name)
		}
		for k := range s.Points {
			for _, rep := range s.Points[k].Repetitions {
				n := len(rep.Sent)
				if n > 0 && rep.Step <= 0 || len(rep.Received) != n || len(rep.P50) != n || len(rep.P99) != n {
					return fmt.Errorf("series %s at %s, seed %d: found a time line of steps of %v s with %d rates sent, %d received, %d and %d latencies, allowed is as many of each", s.Name, s.Points[k].Value, rep.Seed, rep.Step, n, len(rep.Received), len(rep.P50), len(rep.P99))
				}
			}
		}
	}
	return nil
}

// Load reads runs: JSON files, and all that are in folders, where JSON of other kinds is passed over. Pieces of one measurement are put together.
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
		return reports.SaveFile(filepath.Join(dir, name), out.Bytes())
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
