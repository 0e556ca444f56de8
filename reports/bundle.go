package reports

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"

	"faultline/sim"
	"faultline/sim/machine"
	"faultline/workloads/history"
	"faultline/workloads/scenario"
	"faultline/workloads/trial"
)

// Files of a bundle.
const (
	bundleScenario = "scenario.yaml" // as it was given
	bundleDrawn    = "drawn.yaml"    // as the seed drew it: every value and fault concrete, faults with their numbers
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
	b.write(bundleHow, []byte(reproduce+"\n"))
	b.write(bundleScenario, sc.Marshal())
	b.write(bundleDrawn, sc.Draw(seed).MarshalDrawn())
	if b.err != nil {
		return nil, b.err
	}
	timeline, hist, trace := b.create(bundleTimeline), b.create(bundleHistory), b.create(bundleTrace)
	if len(o.Without) > 0 {
		fmt.Fprintf(timeline, "Without the faults %v of its plan.\n", o.Without)
	}
	fmt.Fprintf(timeline, "%s, seed %d. Times are virtual, from the start of the world; faults write theirs from the begin of the load.\nWhat went well is left out here: sent, acknowledged, handed over, processed. See %s for all of it.\n\n", sc.Name, seed, bundleHistory)
	o.Trace = func(e *sim.Entry) { io.WriteString(trace, e.String()); trace.WriteByte('\n') }
	w := history.NewWriter(hist)
	o.Observe = append(o.Observe, w, &timelineWriter{w: timeline})
	o.PictureDir = dir
	res := trial.Run(sc, seed, o)
	b.note(w.Flush())
	if res.Err != nil {
		return res, res.Err
	}
	fmt.Fprintf(timeline, "\n%s, hash %016x\n", res.Verdict, res.Hash)
	for _, v := range res.Violations {
		fmt.Fprintf(timeline, "  %s\n", v)
	}
	for _, u := range res.Unjudged {
		fmt.Fprintf(timeline, "  not judged: %s\n", u)
	}
	fmt.Fprintf(timeline, "reproduce: %s\n", reproduce)
	verdict, err := json.MarshalIndent(struct {
		Line
		Build string `json:"build"`
	}{NewLine(res, reproduce), Build()}, "", "  ")
	b.note(err)
	b.write(bundleVerdict, append(verdict, '\n'))
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

// timelineWriter prints the history for people, one line an event, without the flow of records and requests that succeeded.
type timelineWriter struct{ w *bufio.Writer }

func (t *timelineWriter) Observe(e *history.Event) {
	switch e.Kind {
	case history.Sent, history.Acked, history.Processed:
		return
	case history.KafkaCalled:
		if e.Kafka.Err == nil {
			return
		}
	case history.CoordCalled:
		if e.Coord.Err == nil {
			return
		}
	case history.CoordHeard:
		if e.Heard.What == "answer" {
			return
		}
	case history.Traced:
		switch e.Trace.Kind {
		case machine.ConsumerHanded, machine.LogAppended, machine.LogVisible:
			return
		}
	}
	t.w.Write(e.AppendText(nil))
	t.w.WriteByte('\n')
}

// Build names the program: version, revision (without one, the hash of the program's own file) and toolchain.
func Build() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown build"
	}
	parts := []string{info.Main.Version, info.GoVersion}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" || s.Key == "vcs.modified" && s.Value == "true" || s.Key == "-race" {
			parts = append(parts, s.Key+"="+s.Value)
		}
	}
	if !strings.Contains(strings.Join(parts, " "), "vcs.revision") {
		if sum, err := ownHash(); err == nil {
			parts = append(parts, "binary="+sum)
		}
	}
	return strings.Join(parts, " ")
}

// ownHash is the beginning of the SHA-256 of the running program's file.
func ownHash() (string, error) {
	path, err := os.Executable()
	if err != nil {
		return "", err
	}
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)[:8]), nil
}
