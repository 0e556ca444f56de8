package log

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"

	"faultline/broker/record"
	"faultline/sim/disk"
	"faultline/sim/machine"
)

// TestRecoveryOfEveryDisk runs testdata/outcomes/*: short stories of one log in the verbs of TestScripts, a line each. The power may fail at any moment of a story, and
// (from=V: not before the line with that verb), again at any moment of the recovery that follows ("flush fails" is one whose fsync fails, "retain crash=D", and so compact and delete, one whose process crashes so much later); the test takes every disk that may be left at each of them (disk.Model.Outcomes), opens the log on it, and holds that
//
//   - it opens, and passes CheckDir: the indexes agree with a scan of the log;
//   - it is a prefix of what was appended, from its start on, that has everything that had become visible, or everything that an earlier recovery had found and shown;
//   - compacted or not, it has what was appended but for records whose key comes again, and tombstones;
//   - it starts no later than retention had said;
//   - of a log that is being deleted, all is there or nothing;
//   - when it is open everything is durable, and more restarts find the same and change nothing.
//
// It prints the logs that are recovered, as [start, end): by the line during which, or right after which, the power failed, and at the end.
func TestRecoveryOfEveryDisk(t *testing.T) {
	datadriven.Walk(t, "testdata/outcomes", func(t *testing.T, file string) {
		datadriven.RunTest(t, file, func(t *testing.T, d *datadriven.TestData) string {
			require.Equal(t, "recover", d.Cmd)
			c := &crashes{t: t, known: map[disk.Image]*knowledge{}}
			c.tell(d)
			c.rig = newRig(t, 1, c.cfg)
			defer c.rig.w.Close()
			for len(c.todo) > 0 {
				image := c.todo[0]
				c.todo = c.todo[1:]
				c.recover(image, *c.known[image])
				require.Less(t, len(c.known), 20_000, "this story has too many disks")
			}
			t.Logf("%s: %d disks", d.Pos, len(c.known))
			return c.show()
		})
	})
}

type crashes struct {
	t       *testing.T
	cfg     Config
	rig     *rig // that recovers
	batches [][]byte
	records []put
	start   int64 // highest log start of the story

	known map[disk.Image]*knowledge
	todo  []disk.Image
	lines []string
	logs  []map[string]bool // recovered when the power failed in a line
}

// knowledge is what was promised before a disk was left.
type knowledge struct {
	visible int64 // was visible, so it must be there
	whole   int64 // was visible in a log that was being deleted, so it must be there if anything is
	second  bool  // it was left by a recovery
	lines   []int // of the story, in which it was left
}

// left takes note of all the disks that may be left now.
func (c *crashes) left(m *disk.Model, k knowledge) {
	images, err := m.Outcomes(5000)
	require.NoError(c.t, err)
	for _, i := range images {
		old := c.known[i]
		if old == nil {
			old = &knowledge{k.visible, k.whole, k.second, nil}
			c.known[i] = old
			c.todo = append(c.todo, i)
		} else if k.visible > old.visible || k.whole > old.whole { // more is promised now
			old.visible, old.whole = max(k.visible, old.visible), max(k.whole, old.whole)
			if !slices.Contains(c.todo, i) {
				c.todo = append(c.todo, i)
			}
		}
		if line := len(c.lines) - 1; !k.second && !slices.Contains(old.lines, line) {
			old.lines = append(old.lines, line)
		}
	}
}

// line begins a line of the story.
func (c *crashes) line(text string) {
	c.lines, c.logs = append(c.lines, text), append(c.logs, map[string]bool{})
}

func (c *crashes) show() string {
	var b strings.Builder
	for i, line := range c.lines {
		if len(c.logs[i]) == 0 {
			continue
		}
		logs := make([]string, 0, len(c.logs[i]))
		for l := range c.logs[i] {
			logs = append(logs, l)
		}
		slices.Sort(logs)
		fmt.Fprintf(&b, "%s: %s\n", line, strings.Join(logs, " "))
	}
	return b.String()
}

// undoable tells whether a power loss may undo the operation. The others change nothing, or make the disks fewer that may be left.
func undoable(op string) bool {
	return slices.Contains([]string{"open", "mkdir", "pwrite", "truncate", "remove", "rename"}, op)
}

// tell runs the story.
func (c *crashes) tell(d *datadriven.TestData) {
	c.cfg = Config{SegmentBytes: int64(number(c.t, d, "segment", 0)), IndexInterval: number(c.t, d, "index", 0), RetentionTime: -1, RetentionBytes: int64(number(c.t, d, "retain-bytes", 0))}
	c.cfg.Compact, c.cfg.CompactRatio, c.cfg.DeleteRetention = d.HasArg("compact"), 0.01, time.Hour
	r := newRig(c.t, 1, c.cfg)
	defer r.w.Close()
	r.mark = int64(number(c.t, d, "mark", 0))
	var k knowledge
	learn := func() {
		for _, e := range r.takeEvents() {
			switch e.Kind {
			case machine.LogVisible:
				k.visible = e.A
			case machine.LogOpened:
				k.visible = e.B // a restart shows all that it finds
			case machine.LogDeleted:
				c.start = max(c.start, e.B)
			}
		}
	}
	var from string
	quiet := d.MaybeScanArgs(c.t, "from", &from)
	left := func() {
		if learn(); !quiet {
			c.left(r.c.Disk(), k)
		}
	}
	r.onDisk = func(op string) {
		if undoable(op) {
			left()
		}
	}
	c.line("(open)")
	require.NoError(c.t, r.open(false))
	for line := range strings.Lines(d.Input) {
		c.line(strings.TrimSpace(line))
		verb := &datadriven.TestData{Pos: d.Pos}
		words := strings.Fields(line)
		verb.Cmd = words[0]
		quiet = quiet && verb.Cmd != from
		for _, w := range words[1:] {
			key, value, _ := strings.Cut(w, "=")
			verb.CmdArgs = append(verb.CmdArgs, datadriven.CmdArg{Key: key, Vals: []string{value}})
		}
		left()
		if verb.Cmd == "delete" {
			k = knowledge{whole: k.visible}
		}
		if stop := duration(c.t, verb, "crash"); stop > 0 {
			l := r.log
			r.c.Go(verb.Cmd, func() {
				_ = map[string]func() error{"retain": func() error { return l.Retain(math.MaxInt64) }, "compact": func() error { return l.Compact(math.MaxInt64) }, "delete": l.Delete}[verb.Cmd]()
			})
			r.pass(stop)
			r.crash()
			left()
			continue
		}
		switch verb.Cmd {
		case "append":
			p := r.batch(1, number(c.t, verb, "size", 10), 1000, record.None)
			c.batches = append(c.batches, p) // Append writes the offset into it
			_, err := r.append(p)
			require.NoError(c.t, err)
		case "put":
			p := r.put(c.t, verb)
			base := int64(len(c.records))
			_, err := r.append(p)
			require.NoError(c.t, err)
			for _, got := range puts(c.t, p) {
				require.Equal(c.t, base, got.offset)
				c.records = append(c.records, got)
				base++
			}
		case "open":
			require.NoError(c.t, r.open(false))
		case "flush":
			want := "ok"
			if verb.HasArg("fails") {
				r.inject(disk.Fault{ID: "eio", Kind: disk.Error, Ops: disk.OpSync, Count: 1})
				want = "error: log t/0: log is fenced after an I/O error: sync data/t-0/00000000000000000000.log: input/output error"
			}
			require.Equal(c.t, want, runVerb(c.t, r, verb), line)
			r.c.Disk().HealAll()
		case "remove-deleted":
			require.NoError(c.t, r.do(func() error { return RemoveDeleted(r.m.Disk(), "data") }))
		default:
			require.Equal(c.t, "ok", runVerb(c.t, r, verb), line)
		}
		left()
	}
	c.line("(end)")
	left()
}

// recover opens the log on a disk, with crashes at every moment unless that has been done, and judges what it finds.
func (c *crashes) recover(image disk.Image, k knowledge) {
	r := c.rig
	r.c.Crash()
	model := r.c.Disk()
	model.Load(image)
	r.boot()
	say := func() string { return "on the disk " + image.String() }
	if !k.second {
		again := knowledge{visible: k.visible, whole: k.whole, second: true}
		r.onDisk = func(op string) {
			if undoable(op) {
				c.left(model, again)
			}
		}
	}
	require.NoError(c.t, r.do(func() error { return RemoveDeleted(r.m.Disk(), "data") }), say())
	err := r.open(false)
	r.onDisk = nil
	require.NoError(c.t, err, say())

	report, err := CheckDir(r.files())
	require.NoError(c.t, err, say())
	s := r.state()
	require.Equal(c.t, State{Start: report.Start, Visible: report.End, End: report.End}, s, say())
	for _, line := range k.lines {
		c.logs[line][fmt.Sprintf("[%d, %d)", s.Start, s.End)] = true
	}
	require.GreaterOrEqual(c.t, s.End, k.visible, "visible records are lost "+say())
	require.True(c.t, s.End == 0 || s.End >= k.whole, "a part of a deleted log is there "+say())
	require.LessOrEqual(c.t, s.Start, c.start, "more is gone than retention said "+say())
	if c.cfg.Compact {
		c.replays(s, say())
	}
	for at, i := s.Start, s.Start; i < s.End && !c.cfg.Compact; i++ {
		p, span, err := r.read(at, 1, s.End)
		require.NoError(c.t, err, say())
		require.True(c.t, bytes.Equal(c.batches[i], p), "offset %d is not what was appended %s", i, say())
		at = span.Next
	}

	recovered := model.Image()
	images, err := model.Outcomes(1)
	require.NoError(c.t, err, "not everything is durable when the log is open "+say())
	require.Equal(c.t, []disk.Image{recovered}, images)
	for i := range 2 {
		if i == 1 && k.second {
			break
		}
		r.c.PowerLoss()
		r.boot()
		require.NoError(c.t, r.do(func() error { return RemoveDeleted(r.m.Disk(), "data") }), say())
		require.NoError(c.t, r.open(false), say())
		require.Equal(c.t, s, r.state(), say())
		again := model.Image()
		if i == 0 && len(report.Batches) == 0 {
			recovered = again // a log that was just made has no checkpoint yet
		}
		require.Equal(c.t, recovered, again, "restart %d changed something %s", i+2, say())
	}
	r.takeEvents()
}
