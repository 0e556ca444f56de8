package disk

import (
	"bytes"
	"fmt"
	"io/fs"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"faultline/sim/machine"
)

func (r *rig) inject(f Fault) {
	if f.ID == "" {
		f.ID = "x"
	}
	require.NoError(r.t, r.m.Inject(f))
}

func TestFaultEIO(t *testing.T) {
	ops := map[string]struct {
		op  Ops
		run func(r *rig, f machine.File) error
	}{
		"read":     {OpRead, func(r *rig, f machine.File) error { _, err := f.Pread(make([]byte, 1), 0); return err }},
		"write":    {OpWrite, func(r *rig, f machine.File) error { _, err := f.Pwrite(fill('b', 9000), 0); return err }},
		"fsync":    {OpSync, func(r *rig, f machine.File) error { return f.Sync() }},
		"truncate": {OpTruncate, func(r *rig, f machine.File) error { return f.Truncate(1) }},
		"open":     {OpOpen, func(r *rig, f machine.File) error { _, err := r.d.Open("d/f", 0); return err }},
		"create":   {OpCreate, func(r *rig, f machine.File) error { _, err := r.d.Open("d/g", machine.Create); return err }},
		"mkdir":    {OpMkdir, func(r *rig, f machine.File) error { return r.d.Mkdir("d/e") }},
		"unlink":   {OpRemove, func(r *rig, f machine.File) error { return r.d.Remove("d/f") }},
		"rename":   {OpRename, func(r *rig, f machine.File) error { return r.d.Rename("d/f", "d/g") }},
		"readdir":  {OpReadDir, func(r *rig, f machine.File) error { _, err := r.d.ReadDir("d"); return err }},
		"stat":     {OpStat, func(r *rig, f machine.File) error { _, err := r.d.Stat("d/f"); return err }},
		"syncdir":  {OpSyncDir, func(r *rig, f machine.File) error { return r.d.SyncDir("d") }},
	}
	for name, c := range ops {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, 1, Config{})
			require.NoError(t, r.d.Mkdir("d"))
			f := r.open("d/f", machine.Create)
			r.write(f, fill('a', 100), 0)
			before, left := r.state(), r.left()
			r.inject(Fault{ID: "elsewhere", Kind: Error, Ops: c.op, Path: "other/**"})
			r.inject(Fault{Kind: Error, Ops: c.op, Path: "d**"})
			err := c.run(r, f)
			require.ErrorIs(t, err, machine.ErrIO)
			require.ErrorContains(t, err, "d", "the error names the path")
			require.True(t, r.m.Heal("x"))
			require.Equal(t, before, r.state(), "it changed nothing")
			require.Equal(t, left, r.left(), "not even what a power loss may leave")
			checkPages(t, r.m)
			require.NoError(t, c.run(r, f))
		})
	}
}

func TestErrorByCountEndsByItself(t *testing.T) {
	r := newRig(t, 1, Config{})
	f := r.put("f", fill('a', 10))
	r.inject(Fault{Kind: Error, Ops: OpRead, Count: 2})
	for i := range 4 {
		_, err := f.Pread(make([]byte, 1), 0)
		require.Equal(t, i < 2, err != nil)
	}
	require.Equal(t, 2, r.m.Faults()[0].Hits)
}

func TestErrorByProbabilityDependsOnNothingElse(t *testing.T) {
	run := func(others bool) (failed []int) {
		r := newRig(t, 3, Config{})
		f, g := r.put("f", fill('a', 10)), r.put("g", fill('a', 10))
		if others {
			r.inject(Fault{ID: "other", Kind: Slow, Probability: 0.5, Delay: time.Second})
		}
		r.inject(Fault{Kind: Error, Ops: OpRead, Probability: 0.2})
		for i := range 200 {
			if _, err := f.Pread(make([]byte, 1), 0); err != nil {
				failed = append(failed, i)
			}
			if others {
				_, _ = g.Pread(make([]byte, 1), 0)
			}
		}
		return failed
	}
	require.InDelta(t, 40, len(run(false)), 25)
	require.Equal(t, run(false), run(true))
}

func TestFaultShortWrite(t *testing.T) {
	r := newRig(t, 1, Config{})
	f := r.put("f", nil)
	r.inject(Fault{Kind: Short})
	content := bytes.Repeat([]byte("0123456789"), 1000)
	k, err := f.Pwrite(content, 0)
	require.NoError(t, err)
	require.Less(t, k, len(content))
	require.Positive(t, k)
	r.write(f, content, 0)
	require.Equal(t, content, r.content(f))
}

// A slow operation takes so much longer than it would, and is hit or not by its kind, its path and a chance.
func TestFaultLatency(t *testing.T) {
	for name, c := range map[string]struct {
		op  Ops
		run func(r *rig, f machine.File) error
	}{
		"read":   {OpRead, func(r *rig, f machine.File) error { _, err := f.Pread(make([]byte, 1), 0); return err }},
		"write":  {OpWrite, func(r *rig, f machine.File) error { _, err := f.Pwrite([]byte("x"), 0); return err }},
		"fsync":  {OpSync, func(r *rig, f machine.File) error { return f.Sync() }},
		"open":   {OpOpen, func(r *rig, f machine.File) error { _, err := r.d.Open("f", 0); return err }},
		"rename": {OpRename, func(r *rig, f machine.File) error { return r.d.Rename("f", "f") }},
	} {
		t.Run(name, func(t *testing.T) {
			took := func(faults ...Fault) time.Duration {
				r := newRig(t, 1, hdd)
				f := r.put("f", fill('a', 10))
				r.write(f, fill('b', 10), 0) // something to sync
				for _, fault := range faults {
					r.inject(fault)
				}
				return r.lasted(func() { require.NoError(t, c.run(r, f)) })
			}
			plain := took()
			require.Equal(t, plain+time.Second, took(Fault{Kind: Slow, Ops: c.op, Delay: time.Second}))
			require.Equal(t, plain+3*time.Second, took(Fault{Kind: Slow, Ops: c.op, Delay: time.Second}, Fault{ID: "y", Kind: Slow, Delay: 2 * time.Second}), "they add up")
			require.Equal(t, plain, took(Fault{Kind: Slow, Ops: OpTruncate | OpReadDir, Delay: time.Second}), "other operations")
			require.Equal(t, plain, took(Fault{Kind: Slow, Path: "g", Delay: time.Second}), "another file")
		})
	}
	r := newRig(t, 1, Config{})
	f := r.put("f", fill('a', 10))
	r.inject(Fault{Kind: Slow, Ops: OpRead, Delay: time.Second, Probability: 0.25})
	slow := 0
	for range 400 {
		if r.lasted(func() { r.read(f, 0, 1) }) >= time.Second {
			slow++
		}
	}
	require.InDelta(t, 100, slow, 40)
	require.True(t, r.m.Heal("x"))
	require.Less(t, r.lasted(func() { r.read(f, 0, 1) }), time.Millisecond, "healed")
}

func TestFaultShortRead(t *testing.T) {
	r := newRig(t, 1, Config{})
	content := bytes.Repeat([]byte("0123456789"), 1000)
	f := r.put("f", content)
	r.inject(Fault{Kind: Short, Ops: OpRead})
	p := make([]byte, len(content))
	k, err := f.Pread(p, 0)
	require.NoError(t, err)
	require.Positive(t, k)
	require.Less(t, k, len(p))
	require.Equal(t, content[:k], p[:k])
	last := r.m.Faults()[0].Last
	require.Equal(t, Hit{At: last.At, Op: OpRead, Path: "f", From: 10000, To: int64(k)}, last)
	require.Equal(t, content, r.content(f), "a reader that goes on gets everything")
	_, err = f.Pread(p[:1], 0)
	require.NoError(t, err, "one byte cannot be short")
}

// A Sync that is stalled has captured its pages and made nothing durable. It waits without a single event until the heal.
func TestFaultStallOfOneOperation(t *testing.T) {
	r := newRig(t, 1, Config{})
	f, g := r.put("f", nil), r.put("g", nil)
	r.write(f, fill('a', 10), 0)
	r.inject(Fault{Kind: Stall, Count: 1})
	stalled := 0
	r.w.meanwhile = func() {
		stalled = r.w.ops
		r.write(g, fill('b', 10), 0)
		require.NoError(t, g.Sync(), "others go on")
		r.write(f, fill('c', 10), 10)
		v, ok := r.m.File("f")
		require.True(t, ok)
		require.Zero(t, v.Synced)
		require.Equal(t, Hit{At: r.m.Faults()[0].Last.At, Op: OpSync, Path: "f"}, r.m.Faults()[0].Last)
		require.True(t, r.m.Heal("x"))
	}
	require.NoError(t, f.Sync())
	require.Equal(t, 1+4+1, r.w.ops-stalled+1, "what the others did, and the end of the Sync")
	v, _ := r.m.File("f")
	require.EqualValues(t, 10, v.Synced, "what was written meanwhile is not covered")
}

func TestFaultStallOfTheWholeDisk(t *testing.T) {
	ops := map[string]func(r *rig, f machine.File) error{
		"read":    func(r *rig, f machine.File) error { _, err := f.Pread(make([]byte, 1), 0); return err },
		"write":   func(r *rig, f machine.File) error { _, err := f.Pwrite([]byte("x"), 0); return err },
		"sync":    func(r *rig, f machine.File) error { return f.Sync() },
		"open":    func(r *rig, f machine.File) error { _, err := r.d.Open("f", 0); return err },
		"rename":  func(r *rig, f machine.File) error { return r.d.Rename("f", "g") },
		"syncdir": func(r *rig, f machine.File) error { return r.d.SyncDir("") },
	}
	for name, op := range ops {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, 1, Config{})
			f := r.put("f", fill('a', 10))
			before := r.state()
			r.inject(Fault{Kind: Stall})
			r.w.meanwhile = func() {
				v, ok := r.m.File("f")
				require.True(t, ok)
				p := make([]byte, 10)
				_, _ = v.ReadAt(p, 0)
				require.Equal(t, before["f"], string(p), "nothing has happened yet")
				// A second stall holds what the first one held.
				r.inject(Fault{ID: "y", Kind: Stall})
				require.True(t, r.m.Heal("x"))
				r.w.meanwhile = func() { require.True(t, r.m.Heal("y")) }
			}
			require.NoError(t, op(r, f))
			require.Nil(t, r.w.meanwhile, "it waited for both")
		})
	}
}

// A process that dies in a stall leaves nothing behind: its operation has not happened, and the heal wakes nobody.
func TestFaultStallOfAProcessThatDies(t *testing.T) {
	r := newRig(t, 1, Config{})
	f := r.put("f", fill('a', 10))
	r.inject(Fault{Kind: Stall, Ops: OpWrite | OpSync})
	for _, op := range []func(){func() { _, _ = f.Pwrite([]byte("x"), 0) }, func() { _ = f.Sync() }} {
		require.True(t, r.w.killable(func() {
			r.w.meanwhile = func() { r.w.dead = true }
			op()
		}))
		r.m.ProcessCrash()
		r.attach()
		require.Empty(t, r.m.faults[0].held)
		f = r.open("f", 0)
	}
	r.m.HealAll()
	require.Equal(t, fill('a', 10), r.content(f))
	checkPages(t, r.m)
}

// Under a Lie, Sync and SyncDir take their time, say yes and promise nothing; the next honest ones make good for it.
func TestFaultLie(t *testing.T) {
	r := newRig(t, 1, Config{})
	f := r.put("f", fill('a', 100))
	var synced []string
	r.m.Observe(func(e Event) {
		if e.Kind == Synced || e.Kind == DirSynced {
			synced = append(synced, e.Kind.String()+" "+e.File.Path)
		}
	})
	r.inject(Fault{Kind: Lie, Count: 4})
	r.write(f, fill('b', 100), 0)
	start := r.w.now
	require.NoError(t, f.Sync())
	require.Greater(t, r.w.now-start, r.m.cfg.Flush, "it takes its time")
	g := r.open("g", machine.Create)
	require.NoError(t, r.d.SyncDir(""))
	require.NoError(t, f.Sync(), "a second one lies as well")
	require.NoError(t, g.Sync())
	require.Empty(t, synced, "observers know better")
	require.Equal(t, "lie id=x ops=sync,syncdir count=4: 4 hits, the last at "+r.m.Faults()[0].Last.At.String()+": sync of g", r.m.Faults()[0].String())
	v, _ := r.m.File("f")
	p := make([]byte, 100)
	_, _ = v.ReadSyncedAt(p, 0)
	require.Equal(t, fill('a', 100), p)
	v, _ = r.m.File("g")
	require.False(t, v.EntryDurable())
	checkPages(t, r.m)

	require.NoError(t, f.Sync())
	require.NoError(t, r.d.SyncDir(""))
	require.Equal(t, []string{"synced f", "dir-synced "}, synced)
	v, _ = r.m.File("f")
	_, _ = v.ReadSyncedAt(p, 0)
	require.Equal(t, fill('b', 100), p)
	checkPages(t, r.m)
}

// A lying Sync writes each page once, however many follow it.
func TestFaultLieCostsEachPageOnce(t *testing.T) {
	r := newRig(t, 1, hdd)
	f := r.put("f", nil)
	r.inject(Fault{Kind: Lie})
	r.write(f, fill('a', 5<<20), 0)
	first := r.lasted(func() { require.NoError(t, f.Sync()) })
	require.InDelta(t, float64(8+50+1), first.Seconds()*1000, 1)
	again := r.lasted(func() { require.NoError(t, f.Sync()) })
	require.InDelta(t, float64(1), again.Seconds()*1000, 1)
}

func TestFaultENOSPC(t *testing.T) {
	for _, byFault := range []bool{false, true} {
		r := newRig(t, 1, Config{})
		if !byFault {
			r = newRig(t, 1, Config{Capacity: 3 * PageBytes})
		} else {
			r.inject(Fault{Kind: Full, Bytes: 3 * PageBytes})
		}
		f := r.put("f", fill('a', 100))
		k, err := machine.WriteFull(f, fill('b', 20000), 100)
		require.ErrorIs(t, err, machine.ErrNoSpace)
		require.Equal(t, 3*PageBytes-100, k)
		require.EqualValues(t, 3*PageBytes, r.m.Used())
		r.write(f, fill('c', 100), 0) // what has its page is still writable
		require.NoError(t, f.Sync())

		g := r.open("g", machine.Create)
		_, err = g.Pwrite([]byte("x"), 0)
		require.ErrorIs(t, err, machine.ErrNoSpace)
		require.NoError(t, f.Truncate(PageBytes))
		r.write(g, fill('x', 2*PageBytes), 0)

		require.NoError(t, r.d.Remove("g"))
		require.EqualValues(t, 3*PageBytes, r.m.Used(), "an open file keeps its space")
		require.NoError(t, g.Close())
		require.EqualValues(t, PageBytes, r.m.Used())
		if byFault {
			r.m.HealAll()
			r.write(f, fill('d', 100000), 0)
		}
		checkPages(t, r.m)
	}
}

func TestFaultFailedFsyncLosesBytesThatTheCacheDrops(t *testing.T) {
	lost, kept := 0, 0
	for seed := range uint64(40) {
		r := newRig(t, seed, Config{Cache: 4 * extentBytes})
		f := r.put("f", fill('a', PageBytes))
		r.write(f, fill('b', PageBytes), 0)
		r.inject(Fault{Kind: Error, Ops: OpSync, Count: 1})
		require.ErrorIs(t, f.Sync(), machine.ErrIO)
		require.Equal(t, fill('b', PageBytes), r.content(f), "still cached")
		v, _ := r.m.File("f")
		p := make([]byte, PageBytes)
		_, _ = v.ReadSyncedAt(p, 0)
		require.Equal(t, fill('a', PageBytes), p, "not promised")
		r.put("g", fill('g', 8*extentBytes)) // pushes f out of the cache
		switch got := r.content(f); got[0] {
		case 'a':
			lost++
		case 'b':
			kept++
		}
		checkPages(t, r.m)
	}
	require.Positive(t, lost)
	require.Positive(t, kept)
}

// What a failed Sync should have written counts as clean: later ones say yes without it, and a power loss may take it.
func TestFaultFailedFsyncLeavesPagesThatCountAsClean(t *testing.T) {
	r := newRig(t, 1, hdd)
	f := r.put("f", fill('a', 512))
	r.write(f, fill('b', 512), 0)
	r.inject(Fault{Kind: Error, Ops: OpSync, Count: 1})
	require.ErrorIs(t, f.Sync(), machine.ErrIO)
	require.LessOrEqual(t, r.lasted(func() { require.NoError(t, f.Sync()) }), hdd.Flush, "no page is left to be written")
	require.ElementsMatch(t, []string{"f[a512]", "f[b512]"}, r.left())
	r.write(f, fill('b', 512), 0)
	require.NoError(t, f.Sync())
	require.ElementsMatch(t, []string{"f[b512]"}, r.left(), "written again, it is safe")
	checkPages(t, r.m)
}

func TestFaultFailedFsyncFailsThoseInFlightToo(t *testing.T) {
	r := newRig(t, 1, Config{})
	f := r.put("f", nil)
	r.write(f, fill('a', 10), 0)
	n := r.m.root.entries["f"]
	first := r.m.capture(n, r.w.now)
	r.write(f, fill('b', 10), 10)
	second := r.m.capture(n, r.w.now)
	for _, fl := range n.flights {
		fl.failed = true
	}
	r.m.fail(first)
	require.True(t, second.failed)
	r.m.land(second)
	require.Empty(t, n.flights)
}

func TestFaultBitRot(t *testing.T) {
	r := newRig(t, 1, Config{})
	f := r.put("f", fill('a', 10000))
	r.write(f, fill('b', 10000), 10000) // not durable: does not rot
	truth := r.content(f)
	r.inject(Fault{Kind: Rot, Path: "f", Count: 3, Probability: 0.3})
	rotten := r.content(f)
	flipped := 0
	for i := range truth {
		if d := truth[i] ^ rotten[i]; d != 0 {
			require.Zero(t, d&(d-1), "one bit")
			require.Less(t, i, 2*PageBytes)
			flipped++
		}
	}
	require.Equal(t, 3, flipped)
	v, _ := r.m.File("f")
	p := make([]byte, 10000)
	_, _ = v.ReadAt(p, 0)
	require.Equal(t, truth[:10000], p, "oracles see the truth")
	r.powerLoss()
	f = r.open("f", 0)
	require.NotEqual(t, truth[:10000], r.content(f)[:10000], "rot survives")
	r.m.Heal("x")
	require.Equal(t, truth[:10000], r.content(f)[:10000])

	r.inject(Fault{Kind: Rot})
	require.NotEqual(t, truth[:10000], r.content(f)[:10000])
	r.write(f, fill('c', 10000), 0)
	require.Equal(t, fill('c', 10000), r.content(f)[:10000])
}

func TestFaultMisdirectedWrite(t *testing.T) {
	r := newRig(t, 1, Config{})
	f := r.put("f", append(fill('a', PageBytes), fill('b', PageBytes)...))
	r.inject(Fault{Kind: Misdirect, Count: 1})
	r.write(f, fill('X', 1000), 100)
	got := r.content(f)
	require.Equal(t, fill('a', PageBytes), got[:PageBytes], "reads as before")
	meant := append(append(fill('a', 100), fill('X', 1000)...), fill('a', 436)...) // whole sectors
	require.Equal(t, append(meant, fill('b', PageBytes-1536)...), got[PageBytes:])
	r.m.Heal("x")
	require.Equal(t, append(append(fill('a', 100), fill('X', 1000)...), append(fill('a', PageBytes-1100), fill('b', PageBytes)...)...), r.content(f))
}

// Rot and misdirected writes lie in an overlay: the true bytes below are never changed, each fault is healed for itself, says what it did, and can be left out.
func TestFaultOverlayIsHealedExplainedAndLeftOut(t *testing.T) {
	run := func(out string) (r *rig, f machine.File, truth []byte) {
		r = newRig(t, 1, Config{})
		r.m.LeaveOut(out)
		f = r.put("f", append(fill('a', 2*PageBytes), fill('b', 2*PageBytes)...))
		r.inject(Fault{ID: "rot", Kind: Rot, Path: "f", Count: 1, Probability: 1})
		r.inject(Fault{ID: "stray", Kind: Misdirect, Count: 1})
		r.write(f, fill('X', PageBytes), 2*PageBytes)
		v, ok := r.m.File("f")
		require.True(t, ok)
		truth = make([]byte, 4*PageBytes)
		_, _ = v.ReadAt(truth, 0)
		require.Equal(t, append(append(fill('a', 2*PageBytes), fill('X', PageBytes)...), fill('b', PageBytes)...), truth, "the true bytes")
		return r, f, truth
	}
	differ := func(a, b []byte) (at []int) {
		for i := range a {
			if a[i] != b[i] {
				at = append(at, i)
			}
		}
		return at
	}
	r, f, truth := run("")
	rot, stray := r.m.Faults()[0], r.m.Faults()[1]
	require.Equal(t, "rot", rot.ID)
	at := differ(r.content(f), truth)
	require.Contains(t, at, int(rot.Last.From)*SectorBytes+int(rot.Last.To)/8, "the sector and the bit that it names")
	require.EqualValues(t, 2, stray.Last.From, "the page meant")
	for _, page := range []int64{stray.Last.From, stray.Last.To} {
		require.Contains(t, at, int(page)*PageBytes)
	}
	require.Contains(t, rot.String(), fmt.Sprintf("sector %d of f, bit %d", rot.Last.From, rot.Last.To))
	require.True(t, r.m.Heal("stray"))
	require.Len(t, differ(r.content(f), truth), 1, "the other one is still there")
	require.True(t, r.m.Heal("rot"))
	require.Equal(t, truth, r.content(f))

	r, f, truth = run("stray")
	require.Equal(t, rot, r.m.Faults()[0], "it does the same without the other")
	require.Len(t, differ(r.content(f), truth), 1)
	r, f, truth = run("rot")
	require.Equal(t, stray, r.m.Faults()[0])
	for _, i := range differ(r.content(f), truth) {
		require.Contains(t, []int64{stray.Last.From, stray.Last.To}, int64(i/PageBytes))
	}
}

// Leaving out one fault changes no decision about the others, not even when it blocks or fails the operations that they judge.
func TestLeavingOutAFaultChangesNothingElse(t *testing.T) {
	faults := []Fault{
		{ID: "stall", Kind: Stall, Ops: OpRead, Probability: 0.1}, // healed when it has hit
		{ID: "error", Kind: Error, Ops: OpRead | OpWrite, Probability: 0.3},
		{ID: "short", Kind: Short, Probability: 0.3},
		{ID: "slow", Kind: Slow, Probability: 0.3, Delay: time.Millisecond},
		{ID: "misdirect", Kind: Misdirect, Probability: 0.3},
		{ID: "lie", Kind: Lie, Probability: 0.3},
		{ID: "rot", Kind: Rot, Probability: 0.1},
		{ID: "full", Kind: Full, Bytes: PageBytes},
	}
	// decisions are the operations that each fault has hit, in order.
	decisions := func(out string) map[string][]string {
		r := newRig(t, 5, Config{})
		r.m.LeaveOut(out)
		files := []machine.File{r.put("f", fill('a', 20000)), r.put("g", fill('a', 20000))}
		seen := map[string][]string{}
		for _, f := range faults {
			r.inject(f)
		}
		look := func(i int) {
			for _, a := range r.m.faults {
				if n := len(seen[a.ID]); a.Hits > n {
					seen[a.ID] = append(seen[a.ID], fmt.Sprint(i, a.Last.Op, a.Last.Path, a.Last.From, a.Last.To))
				}
			}
		}
		look(-1)
		for i := range 300 {
			r.w.meanwhile = func() {
				if len(r.m.faults) > 0 && len(r.m.faults[0].held) > 0 {
					look(i)
					r.m.Heal("stall")
				}
			}
			f := files[i%2]
			switch i / 2 % 3 {
			case 0:
				_, _ = f.Pread(make([]byte, 100), 0)
			case 1:
				_, _ = f.Pwrite(fill('b', 200), int64(i%5*PageBytes))
			case 2:
				_ = f.Sync()
			}
			look(i)
		}
		return seen
	}
	all := decisions("")
	for _, f := range faults {
		rest := decisions(f.ID)
		require.Empty(t, rest[f.ID])
		for _, g := range faults {
			if g.ID != f.ID && g.Kind != Full {
				require.NotEmpty(t, all[g.ID], g.ID)
				require.Equal(t, all[g.ID], rest[g.ID], "%s without %s", g.ID, f.ID)
			}
		}
	}
}

func TestFaultsAreListedLeftOutAndRefused(t *testing.T) {
	r := newRig(t, 1, Config{})
	r.m.LeaveOut("gone")
	r.inject(Fault{ID: "gone", Kind: Error})
	require.Empty(t, r.m.Faults())
	r.inject(Fault{ID: "a", Kind: Slow, Path: "log/*", Delay: time.Second, Probability: 0.5, Count: 3})
	r.inject(Fault{ID: "b", Kind: Full, Bytes: 10})
	require.Len(t, r.m.Faults(), 2)
	require.Equal(t, "b", r.m.Faults()[1].ID)
	require.Error(t, r.m.Inject(Fault{ID: "a", Kind: Error}), "taken")
	require.Error(t, r.m.Inject(Fault{Kind: Error}), "no id")
	require.Error(t, r.m.Inject(Fault{ID: "c"}), "no kind")
	require.Error(t, r.m.Inject(Fault{ID: "c", Kind: Error, Probability: 2}))
	require.False(t, r.m.Heal("c"))
	require.Equal(t, "error id=e ops=read,sync path=a/** probability=0.5 count=2",
		Fault{ID: "e", Kind: Error, Ops: OpRead | OpSync, Path: "a/**", Probability: 0.5, Count: 2}.String())
	var ops Ops
	require.NoError(t, ops.UnmarshalText([]byte("read, sync")))
	require.Equal(t, OpRead|OpSync, ops)
	require.ErrorContains(t, ops.UnmarshalText([]byte("reed")), "must be one of")
	var kind Kind
	require.NoError(t, kind.UnmarshalText([]byte("stall")))
	require.Equal(t, Stall, kind)
	require.ErrorContains(t, kind.UnmarshalText([]byte("")), "must be one of")
}

func TestGlob(t *testing.T) {
	for _, c := range []struct {
		glob, path string
		want       bool
	}{
		{"a", "a", true}, {"a", "b", false}, {"", "", true}, {"a", "ab", false},
		{"*.log", "0.log", true}, {"*.log", "d/0.log", false}, {"**.log", "d/0.log", true},
		{"d/*/x", "d/e/x", true}, {"d/*/x", "d/e/f/x", false}, {"d/**/x", "d/e/f/x", true},
		{"d/?", "d/x", true}, {"d?x", "d/x", false}, {"*", "", true}, {"**", "any/thing", true},
	} {
		require.Equal(t, c.want, match(c.glob, c.path), "%s %s", c.glob, c.path)
	}
}

func TestFaultWipe(t *testing.T) {
	r := newRig(t, 1, Config{})
	f := r.put("f", fill('a', 100))
	r.m.Wipe()
	_, err := f.Size()
	require.ErrorIs(t, err, fs.ErrClosed)
	r.attach()
	require.Empty(t, r.state())
	require.Zero(t, r.m.Used())
	require.Equal(t, []string{""}, r.left(), "nothing comes back")
}

func TestFaultsOfADiskThatNobodyUsedYet(t *testing.T) {
	m := New("disk", Config{})
	require.NoError(t, m.Inject(Fault{ID: "rot", Kind: Rot, Probability: 0.5}))
	require.NoError(t, m.Inject(Fault{ID: "eio", Kind: Error, Ops: OpMkdir, Probability: 0.5}))
	w := newWorld(1)
	d := m.Attach(w, w.wall)
	failed := 0
	for range 100 {
		if d.Mkdir("d") != nil {
			failed++
		}
	}
	require.InDelta(t, 50, failed, 30)
}
