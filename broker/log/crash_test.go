package log

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"faultline/broker/record"
	"faultline/sim/disk"
	"faultline/sim/machine"
	"faultline/sim/virtual"
)

// TestCrashesAtAnyMoment lets several tasks append, flush, read and retain at once while the disk misbehaves, ends the process at a random moment by a crash or a power loss,
// and judges what the next incarnation finds:
//
//   - every batch is the one that was acknowledged at its offset, or, behind the last acknowledged one, one whose append never ended;
//   - everything that was visible is there, down to the log start;
//   - after a crash of the process alone, everything acknowledged is there;
//   - the directory passes CheckDir, at every open and at the end.
func TestCrashesAtAnyMoment(t *testing.T) {
	seeds := uint64(200)
	if testing.Short() {
		seeds = 50
	}
	if s, err := strconv.Atoi(os.Getenv("SEEDS")); err == nil {
		seeds = uint64(s)
	}
	for seed := range seeds {
		h := &history{t: t, seed: seed, draw: rand.New(rand.NewPCG(seed, 1))}
		h.run()
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// history is what the outside knows of one log over its incarnations.
type history struct {
	t    *testing.T
	seed uint64
	draw *rand.Rand
	rig  *rig

	acked   []batchID // acknowledged batches, in offset order
	open    map[int64]bool
	visible int64 // highest LogVisible or LogOpened
	start   int64 // highest log start that was durable or traced
	lossy   bool  // a failed fsync may have lost what only the page cache had
	nextID  int64
}

// batchID is a batch by the number that its first record's key carries.
type batchID struct{ base, next, id int64 }

func (h *history) run() {
	cfg := Config{
		SegmentBytes: 200 + h.draw.Int64N(4000), IndexInterval: 50 + h.draw.IntN(500),
		FlushMessages: h.draw.Int64N(20), FlushInterval: time.Duration(h.draw.Int64N(5)) * time.Millisecond,
		RetentionTime: -1, RetentionBytes: 2000 + h.draw.Int64N(20000),
	}
	h.open = map[int64]bool{}
	h.rig = newRig(h.t, h.seed, cfg)
	r := h.rig
	r.mark = h.draw.Int64N(2000)
	defer r.w.Close()
	r.cluster.OnEvent = func(_ *virtual.Computer, e *machine.Event) { h.see(e) }
	for _, place := range []string{"append-slow", "append-unpublished", "flush-slow", "flush-unpublished", "roll-slow", "delete-slow", "read-one", "open-slow"} {
		if h.draw.IntN(2) == 0 {
			require.NoError(h.t, r.cluster.Arm("fault/log/"+place, virtual.Misfortune{Chance: 0.2, Fail: place == "read-one", Delay: time.Duration(h.draw.IntN(2)) * time.Millisecond}))
		}
	}
	clean := false
	for range 4 {
		h.openLog(clean)
		if h.t.Failed() {
			return
		}
		clean = h.live()
	}
	r.c.Disk().HealAll()
	h.openLog(clean)
}

func (h *history) see(e *machine.Event) {

	switch e.Kind {
	case machine.LogVisible:
		h.visible = max(h.visible, e.A)
	case machine.LogDeleted:
		h.start = max(h.start, e.B)
	case machine.LogFailed:
		h.lossy = true
	}
}

// openLog opens the log, with retries while the disk fails, and judges it.
func (h *history) openLog(clean bool) {
	r := h.rig
	for i := 0; ; i++ {
		err := r.open(clean)
		if err == nil {
			break
		}
		require.False(h.t, errors.Is(err, ErrDamaged), "seed %d: %v", h.seed, err)
		if i == 3 {
			r.c.Disk().HealAll()
		}
		require.Less(h.t, i, 5, "seed %d: %v", h.seed, err)
	}
	r.c.Disk().HealAll()
	report, err := CheckDir(r.files())
	require.NoError(h.t, err, "seed %d", h.seed)
	s := r.state()
	require.Equal(h.t, report.End, s.End)
	require.Equal(h.t, report.Start, s.Start)
	require.Equal(h.t, s.End, s.Visible)
	require.GreaterOrEqual(h.t, s.End, h.visible, "seed %d: visible records are gone", h.seed)
	require.LessOrEqual(h.t, s.Start, h.start, "seed %d: more was deleted than was said", h.seed)
	h.start = s.Start
	acked := h.acked
	slices.SortFunc(acked, func(a, b batchID) int { return int(a.base - b.base) })
	for len(acked) > 0 && acked[0].base < s.Start {
		acked = acked[1:]
	}
	for offset := s.Start; offset < s.End; {
		p, span, err := r.read(offset, 1<<20, s.End)
		require.NoError(h.t, err)
		for rest := p; len(rest) > 0; {
			var b record.Batch
			b, rest, err = record.Next(rest)
			require.NoError(h.t, err)
			id := idOf(h.t, b)
			if len(acked) > 0 && acked[0].base == b.BaseOffset {
				require.Equal(h.t, acked[0], batchID{b.BaseOffset, b.NextOffset(), id}, "seed %d", h.seed)
				acked = acked[1:]
				continue
			}
			require.True(h.t, h.open[id], "seed %d: offset %d holds batch %d, which was neither acknowledged there nor under way", h.seed, b.BaseOffset, id)
			delete(h.open, id)
		}
		offset = span.Next
	}
	if len(acked) > 0 {
		require.True(h.t, h.lossy, "seed %d: the log ends at %d, batch %v was acknowledged", h.seed, s.End, acked[0])
		require.GreaterOrEqual(h.t, acked[0].base, h.visible, "seed %d", h.seed)
	}
	// What is in the log now counts; what was under way and is not there never will be.
	h.acked = h.acked[:0]
	for _, b := range report.Batches {
		h.acked = append(h.acked, batchID{b.Base, b.Last + 1, h.idAt(b.Base)})
	}
	clear(h.open)
	h.visible, h.lossy = s.End, false
}

func (h *history) idAt(base int64) int64 {
	p, _, err := h.rig.read(base, 1, base+1<<20)
	require.NoError(h.t, err)
	b, _, err := record.Next(p)
	require.NoError(h.t, err)
	return idOf(h.t, b)
}

func idOf(t *testing.T, b record.Batch) (id int64) {
	require.NoError(t, b.Check())
	var it record.Iterator
	it.Reset(b)
	require.True(t, it.Next(), it.Err())
	_, err := fmt.Sscanf(string(it.Record.Key), "id-%d", &id)
	require.NoError(t, err)
	return id
}

// live runs one incarnation to its end and reports whether it was closed cleanly.
func (h *history) live() (clean bool) {
	r := h.rig
	for i := range 2 {
		draw := rand.New(rand.NewPCG(h.seed, h.draw.Uint64()))
		r.c.Go(fmt.Sprintf("append %d", i), func() { h.appends(r.m, r.log, draw) })
	}
	log, m := r.log, r.m
	r.c.Go("read", func() {
		for {
			s := log.State()
			if s.Visible > s.Start {
				span, err := log.Read(s.Start+(s.Visible-s.Start)/2, 500, s.Visible)
				if err == nil && span.Len > 0 {
					m.Sleep(time.Millisecond)
					p := make([]byte, span.Len)
					if _, err := machine.ReadFull(span.File, p, span.Pos); err == nil {
						if b, _, err := record.Next(p); err != nil || b.Check() != nil {
							h.t.Errorf("seed %d: a span holds no batch: %v", h.seed, err)
						}
					}
					span.Release()
				}
			}
			m.Sleep(500 * time.Microsecond)
		}
	})
	r.c.Go("retain", func() {
		for {
			m.Sleep(5 * time.Millisecond)
			log.Retain(math.MaxInt64)
		}
	})
	if h.draw.IntN(2) == 0 {
		for range 2 {
			f := disk.Fault{ID: fmt.Sprint("fault-", h.draw.Uint64()), Probability: 0.02, Path: "data/**"}
			f.Kind = []disk.Kind{disk.Error, disk.Short, disk.Slow, disk.Full}[h.draw.IntN(4)]
			f.Delay = time.Millisecond
			f.Bytes = h.draw.Int64N(3 * 4096)
			if f.Kind == disk.Error {
				f.Ops = []disk.Ops{disk.OpWrite, disk.OpSync, disk.OpSyncDir, disk.OpRead, disk.OpRemove, disk.OpCreate, disk.OpTruncate, disk.OpRename}[h.draw.IntN(8)]
			}
			r.inject(f)
		}
	}
	r.pass(time.Duration(h.draw.Int64N(30_000)) * time.Microsecond)
	switch h.draw.IntN(5) {
	case 0:
		clean = r.do(log.Close) == nil
		r.crash()
	case 1, 2:
		r.crash()
	default:
		r.powerLoss()
		h.lossy = true
	}
	if h.draw.IntN(2) == 0 {
		r.c.Disk().HealAll()
	}
	return clean
}

func (h *history) appends(m machine.Machine, log *Log, draw *rand.Rand) {
	var builder record.Builder
	for {
		var p []byte
		var ids []int64
		counts := []int64{}
		for range 1 + draw.IntN(3) {
			h.nextID++
			ids = append(ids, h.nextID)
			builder.Reset([]record.Codec{record.None, record.None, record.Snappy}[draw.IntN(3)])
			n := 1 + draw.IntN(3)
			for range n {
				builder.Add(int64(draw.IntN(10000)), fmt.Appendf(nil, "id-%d", h.nextID), make([]byte, draw.IntN(400)), nil)
			}
			b, err := builder.Finish()
			if err != nil {
				panic(err)
			}
			p, counts = append(p, b...), append(counts, int64(n))
			h.open[h.nextID] = true
		}
		a, err := log.Append(p, AppendOptions{})
		if err != nil {
			if errors.Is(err, ErrFenced) {
				return
			}
			for _, id := range ids { // surely not in the log
				delete(h.open, id)
			}
			m.Sleep(time.Millisecond)
			continue
		}
		base := a.Base
		for i, id := range ids {
			h.acked = append(h.acked, batchID{base, base + counts[i], id})
			base += counts[i]
			delete(h.open, id)
		}
		switch draw.IntN(3) {
		case 0:
			log.WaitVisible(a.Next, time.Duration(draw.Int64N(5))*time.Millisecond)
		case 1:
			m.Sleep(time.Duration(draw.Int64N(1000)) * time.Microsecond)
		}
	}
}
