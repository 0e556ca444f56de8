package log

import (
	"fmt"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"faultline/broker/record"
	"faultline/sim"
	"faultline/sim/disk"
	"faultline/sim/machine"
	"faultline/sim/virtual"
)

const forever = time.Duration(1 << 62)

const dir = "data/t-0"

// rig is a simulated computer with one log on it. Its verbs run to their end before the next starts; other tasks of the process run meanwhile.
type rig struct {
	t       testing.TB
	w       *sim.World
	cluster *virtual.Cluster
	c       *virtual.Computer
	m       machine.Machine // of the running process
	log     *Log
	cfg     Config
	mark    int64 // Log.markEvery, when > 0
	events  []machine.Event
	builder record.Builder
	exit    error
	onDisk  func(op string) // after the effect of every disk operation
}

func newRig(t testing.TB, seed uint64, cfg Config) *rig {
	r := &rig{t: t, cfg: cfg}
	r.w = sim.New(sim.Config{Seed: seed, Trace: func(e *sim.Entry) {
		if e.Kind == sim.KindDisk && r.onDisk != nil {
			r.onDisk(e.Text)
		}
	}})
	r.cluster = virtual.New(r.w, virtual.Config{})
	r.cluster.OnEvent = func(_ *virtual.Computer, e *machine.Event) { r.events = append(r.events, *e) }
	r.cluster.OnExit = func(_ *virtual.Computer, err error) { r.exit = err }
	r.c = r.cluster.Add("a")
	r.boot()
	return r
}

func (r *rig) boot() {
	r.log = nil
	r.c.Boot(func(m machine.Machine) error {
		r.m = m
		r.w.Halt()
		m.Sleep(forever)
		return nil
	})
	r.w.Run(r.w.Now())
}

// do runs fn as a task of the process.
func (r *rig) do(fn func() error) error {
	r.t.Helper()
	var err error
	done := false
	r.c.Go("step", func() {
		err = fn()
		done = true
		r.w.Halt()
	})
	o := r.w.Run(r.w.Now() + time.Hour)
	require.NoError(r.t, r.exit)
	require.True(r.t, done, "the step does not end: %v", o)
	return err
}

// pass lets time go by.
func (r *rig) pass(d time.Duration) { r.w.Run(r.w.Now() + d) }

func (r *rig) open(clean bool) error {
	return r.do(func() (err error) {
		r.log, err = Open(r.m, dir, "t", 0, r.cfg, clean)
		if err == nil && r.mark > 0 {
			r.log.markEvery = r.mark
		}
		return err
	})
}

func (r *rig) crash() {
	r.c.Crash()
	r.boot()
}

func (r *rig) powerLoss() {
	r.c.PowerLoss()
	r.boot()
}

// batch builds a batch of records with values of the given size; the first has the timestamp, the others follow a millisecond apart.
func (r *rig) batch(records, size int, stamp int64, codec record.Codec) []byte {
	r.builder.Reset(codec)
	for i := range records {
		value := []byte(strings.Repeat(string(rune('a'+i%26)), size))
		r.builder.Add(stamp+int64(i), fmt.Appendf(nil, "key-%d", i), value, nil)
	}
	b, err := r.builder.Finish()
	require.NoError(r.t, err)
	return append([]byte(nil), b...)
}

func (r *rig) append(batches []byte) (a Appended, err error) {
	err = r.do(func() (err error) {
		a, err = r.log.Append(batches, AppendOptions{LeaderEpoch: 7})
		return err
	})
	return a, err
}

func (r *rig) state() (s State) {
	r.do(func() error { s = r.log.State(); return nil })
	return s
}

// read returns the bytes of one span.
func (r *rig) read(offset int64, maxBytes int, below int64) (p []byte, span Span, err error) {
	err = r.do(func() (err error) {
		span, err = r.log.Read(offset, maxBytes, below)
		if err != nil || span.Len == 0 {
			return err
		}
		p = make([]byte, span.Len)
		_, err = machine.ReadFull(span.File, p, span.Pos)
		span.Release()
		return err
	})
	return p, span, err
}

// files are the true bytes of the partition's directory.
func (r *rig) files() (list []DirFile) {
	for _, f := range r.c.Disk().Files() {
		if d, name := path.Split(f.Path); d == dir+"/" {
			list = append(list, DirFile{Name: name, Size: f.Size, Data: f})
		}
	}
	return list
}

func (r *rig) inject(f disk.Fault) { require.NoError(r.t, r.c.Disk().Inject(f)) }

// takeEvents returns what was traced since the last call.
func (r *rig) takeEvents() []machine.Event {
	e := r.events
	r.events = nil
	return e
}
