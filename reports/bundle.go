package reports

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"

	"faultline/sim"
	"faultline/workloads/history"
	"faultline/workloads/scenario"
	"faultline/workloads/trial"
)

// Files of a bundle.
const (
	bundleScenario = "scenario.yaml" // as it was given
	bundleDrawn    = "drawn.yaml"    // as the seed drew it: every value and fault concrete
	bundleVerdict  = "verdict.json"  // the run's Line and the build
	bundleTimeline = "timeline.txt"  // the history, for people
	bundleHistory  = "history.jsonl" // and for programs
	bundleTrace    = "trace.txt"     // every event of the world
	bundleHow      = "reproduce.txt" // the command to paste
)

// Bundle runs a scenario and seed and writes all that can be known of it into a folder: scenario, seed, build, verdict, history, timeline,
// trace, pictures, and the line to paste that reproduces it. The folder is made; files of an earlier bundle are replaced.
func Bundle(dir string, sc *scenario.Scenario, seed uint64, o trial.Options, reproduce string) (*trial.Result, error) {
	b := &bundle{dir: dir}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("write bundle: %w", err)
	}
	trace, hist, timeline := b.create(bundleTrace), b.create(bundleHistory), b.create(bundleTimeline)
	o.Trace = func(e *sim.Entry) { io.WriteString(trace, e.String()); trace.WriteByte('\n') }
	w := history.NewWriter(hist)
	o.Observe = append(o.Observe, w, &timelineWriter{w: timeline})
	o.PictureDir = dir
	res := trial.Run(sc, seed, o)
	b.note(w.Flush())
	if res.Err != nil {
		return res, res.Err
	}
	b.write(bundleScenario, sc.Marshal())
	b.write(bundleDrawn, res.Drawn.Marshal())
	verdict, err := json.MarshalIndent(struct {
		Line
		Build string `json:"build"`
	}{NewLine(res, reproduce), Build()}, "", "  ")
	b.note(err)
	b.write(bundleVerdict, append(verdict, '\n'))
	b.write(bundleHow, []byte(reproduce+"\n"))
	b.close()
	return res, b.err
}

// bundle writes files and remembers the first thing that went wrong.
type bundle struct {
	dir   string
	files []*os.File
	bufs  []*bufio.Writer
	err   error
}

func (b *bundle) note(err error) {
	if err != nil && b.err == nil {
		b.err = fmt.Errorf("write bundle: %w", err)
	}
}

func (b *bundle) create(name string) *bufio.Writer {
	f, err := os.Create(filepath.Join(b.dir, name))
	b.note(err)
	w := bufio.NewWriterSize(f, 1<<16)
	b.files = append(b.files, f)
	b.bufs = append(b.bufs, w)
	return w
}

func (b *bundle) write(name string, data []byte) {
	b.note(os.WriteFile(filepath.Join(b.dir, name), data, 0o644))
}

func (b *bundle) close() {
	for i, f := range b.files {
		b.note(b.bufs[i].Flush())
		b.note(f.Close())
	}
}

// timelineWriter prints the history for people, one line an event, without what only programs count.
type timelineWriter struct{ w *bufio.Writer }

func (t *timelineWriter) Observe(e *history.Event) {
	t.w.Write(e.AppendText(nil))
	t.w.WriteByte('\n')
}

// Build names the program: version, revision and toolchain.
func Build() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown build"
	}
	parts := []string{info.Main.Path, info.Main.Version, info.GoVersion}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" || s.Key == "vcs.modified" && s.Value == "true" || s.Key == "-race" {
			parts = append(parts, s.Key+"="+s.Value)
		}
	}
	return strings.Join(parts, " ")
}
