package disk

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"faultline/sim/machine"
)

// TestOutcomesAgainstAPlainModel does short scripts, with Syncs in flight and with faults, on the disk and on the plain one. At several moments the set of
// disks that a power loss may leave must be the same, and draws must lie in it.
func TestOutcomesAgainstAPlainModel(t *testing.T) {
	compared := 0
	rapid.Check(t, func(t *rapid.T) {
		p := &pair{rig: newRig(t, rapid.Uint64().Draw(t, "seed"), Config{}), t: t, plain: newPlainDisk()}
		require.NoError(t, p.d.Mkdir("d"))
		require.NoError(t, p.d.SyncDir(""))
		p.create(0)
		for range rapid.IntRange(1, 10).Draw(t, "steps") {
			if p.w.killable(func() { p.step(0) }) {
				p.w.meanwhile = nil
				p.crash(0)
			}
		}
		p.compare()
		compared += p.compared
	})
	require.Greater(t, compared, 50, "most sets were too large to compare")
}

type pair struct {
	*rig
	t        *rapid.T
	plain    *plainDisk
	letter   byte
	faults   int
	compared int
}

// step does one operation on both; depth is in how many waits it happens.
func (p *pair) step(depth int) {
	steps := []func(int){p.write, p.truncate, p.sync, p.write, p.truncate, p.sync, p.write, p.sync, p.create, p.syncDir, p.remove, p.rename, p.fail, p.full, func(int) { p.compare() }}
	if depth == 0 {
		steps = append(steps, p.crash)
	} else if rapid.Bool().Draw(p.t, "bytes") {
		steps = steps[:8]
	}
	steps[rapid.IntRange(0, len(steps)-1).Draw(p.t, "step")](depth)
}

func (p *pair) draw(label string, from ...string) string {
	return rapid.SampledFrom(from).Draw(p.t, label)
}
func (p *pair) name() string { return p.draw("name", "a", "b", "d/a") }

// with opens an existing file on both and closes it again.
func (p *pair) with(do func(f machine.File, plain *plainFile)) {
	name := p.name()
	plain := p.plain.names[name]
	if plain == nil {
		return
	}
	f := p.open(name, 0)
	before := len(p.plain.open)
	p.plain.open = append(p.plain.open, plain)
	do(f, plain)
	p.plain.open = p.plain.open[:min(before, len(p.plain.open))] // a crash closes all
	require.NoError(p.t, f.Close())
}

func (p *pair) create(int) {
	name := p.name()
	f, err := p.d.Open(name, machine.Create|machine.Exclusive)
	if p.plain.names[name] != nil {
		require.Error(p.t, err)
		return
	}
	require.NoError(p.t, err)
	require.NoError(p.t, f.Close())
	p.plain.create(name)
}

func (p *pair) write(int) {
	p.with(func(f machine.File, plain *plainFile) {
		p.letter = p.letter%26 + 1
		b := fill('a'+p.letter-1, rapid.SampledFrom([]int{1, 100, SectorBytes, 700}).Draw(p.t, "length"))
		offset := rapid.SampledFrom([]int{0, plain.size, 400, PageBytes - 300, PageBytes}).Draw(p.t, "offset")
		fits := p.plain.room(plain, len(b), offset)
		k, err := machine.WriteFull(f, b, int64(offset))
		require.Equal(p.t, fits, k)
		if fits < len(b) {
			require.ErrorIs(p.t, err, machine.ErrNoSpace)
		} else {
			require.NoError(p.t, err)
		}
		plain.write(b[:fits], offset)
	})
}

func (p *pair) truncate(int) {
	p.with(func(f machine.File, plain *plainFile) {
		size := rapid.SampledFrom([]int{0, 50, 600, 600, PageBytes, PageBytes + 100, plain.size / 2}).Draw(p.t, "size")
		require.NoError(p.t, f.Truncate(int64(size)))
		plain.truncate(size)
	})
}

// during lets up to two steps happen in the next wait.
func (p *pair) during(depth int) {
	if n := rapid.IntRange(0, 2).Draw(p.t, "meanwhile"); n > 0 && depth < 2 {
		p.w.meanwhile = func() {
			for range n {
				p.step(depth + 1)
			}
		}
	}
}

// inject puts a fault of its own name in force, for the operations that begin now.
func (p *pair) inject(f Fault) (heal func()) {
	p.faults++
	f.ID = fmt.Sprint("fault-", p.faults)
	f.Count = 1
	require.NoError(p.t, p.m.Inject(f))
	return func() { require.True(p.t, p.m.Heal(f.ID)) }
}

func (p *pair) sync(depth int) {
	how := p.draw("how", "", "", "fails", "lies", "stalls")
	p.with(func(f machine.File, plain *plainFile) {
		if len(plain.syncs) > 0 {
			// This world has one task: a second Sync of the file cannot end before the first. It lasts until the process dies.
			p.w.meanwhile = func() {
				p.step(2)
				p.compare()
				p.w.dead = true
			}
			plain.begin()
			_ = f.Sync()
			return
		}
		switch how {
		case "lies":
			defer p.inject(Fault{Kind: Lie})()
			p.during(depth)
			require.NoError(p.t, f.Sync())
			return
		case "fails":
			defer p.inject(Fault{Kind: Error, Ops: OpSync})()
		case "stalls":
			heal := p.inject(Fault{Kind: Stall, Ops: OpSync})
			defer func() { p.w.meanwhile = nil }()
			p.w.meanwhile = func() {
				p.step(2)
				heal()
			}
		}
		if how != "stalls" {
			p.during(depth)
		}
		s := plain.begin()
		err := f.Sync()
		s.failed = s.failed || how == "fails"
		if s.failed {
			require.ErrorIs(p.t, err, machine.ErrIO)
		} else {
			require.NoError(p.t, err)
		}
		plain.end(s)
	})
}

func (p *pair) syncDir(depth int) {
	dir := p.draw("dir", "", "d")
	how := p.draw("how", "", "", "fails", "lies")
	switch how {
	case "lies":
		defer p.inject(Fault{Kind: Lie})()
	case "fails":
		defer p.inject(Fault{Kind: Error, Ops: OpSyncDir})()
	}
	upTo := p.plain.changes
	p.during(depth)
	err := p.d.SyncDir(dir)
	if how == "fails" {
		require.ErrorIs(p.t, err, machine.ErrIO)
		return
	}
	require.NoError(p.t, err)
	if how == "" {
		p.plain.syncDir(dir, upTo)
	}
}

func (p *pair) remove(int) {
	name := p.name()
	err := p.d.Remove(name)
	if p.plain.names[name] == nil {
		require.Error(p.t, err)
		return
	}
	require.NoError(p.t, err)
	p.plain.remove(name)
}

func (p *pair) rename(int) {
	from, to := p.name(), p.name()
	err := p.d.Rename(from, to)
	if p.plain.names[from] == nil {
		require.Error(p.t, err)
		return
	}
	require.NoError(p.t, err)
	p.plain.rename(from, to)
}

// fail lets an operation fail, which changes nothing.
func (p *pair) fail(int) {
	name := p.name()
	ops := map[Ops]func() error{
		OpOpen:    func() error { _, err := p.d.Open(name, machine.Truncate); return err },
		OpCreate:  func() error { _, err := p.d.Open(name, machine.Create|machine.Truncate); return err },
		OpMkdir:   func() error { return p.d.Mkdir("e") },
		OpRemove:  func() error { return p.d.Remove(name) },
		OpRename:  func() error { return p.d.Rename(name, "c") },
		OpReadDir: func() error { _, err := p.d.ReadDir(""); return err },
		OpStat:    func() error { _, err := p.d.Stat(name); return err },
	}
	op := rapid.SampledFrom([]Ops{OpOpen, OpCreate, OpMkdir, OpRemove, OpRename, OpReadDir, OpStat}).Draw(p.t, "op")
	defer p.inject(Fault{Kind: Error, Ops: op})()
	require.ErrorIs(p.t, ops[op](), machine.ErrIO)
	p.with(func(f machine.File, plain *plainFile) {
		for _, op := range []Ops{OpRead, OpWrite, OpTruncate} {
			heal := p.inject(Fault{Kind: Error, Ops: op})
			var err error
			switch op {
			case OpRead:
				_, err = f.Pread(make([]byte, 1), 0)
			case OpWrite:
				_, err = f.Pwrite([]byte("x"), 0)
			case OpTruncate:
				err = f.Truncate(0)
			}
			require.ErrorIs(p.t, err, machine.ErrIO)
			heal()
		}
	})
}

// full leaves little or no space, or all of it again.
func (p *pair) full(int) {
	if p.m.Heal("full") {
		p.plain.budget = -1
		return
	}
	free := rapid.IntRange(0, 1).Draw(p.t, "free")
	require.NoError(p.t, p.m.Inject(Fault{ID: "full", Kind: Full, Bytes: int64(free) * PageBytes}))
	p.plain.budget = p.plain.used() + free
}

func (p *pair) crash(int) {
	p.m.ProcessCrash()
	p.attach()
	p.plain.crash()
}

func (p *pair) compare() {
	for name, f := range p.plain.names {
		v, ok := p.m.File(name)
		require.True(p.t, ok, name)
		require.Equal(p.t, showRuns(f.content()), showRuns(readAll(v)), name)
		require.EqualValues(p.t, f.synced, v.Synced, name)
	}
	require.Len(p.t, p.m.Files(), len(p.plain.names))
	require.EqualValues(p.t, p.plain.used()*PageBytes, p.m.Used())
	checkPages(p.t, p.m)
	want := p.plain.outcomes()
	if want == nil {
		return
	}
	p.compared++
	images, err := p.m.Outcomes(len(want))
	require.NoError(p.t, err)
	for _, i := range images {
		require.True(p.t, want[i], "%s may be left, says the disk", i)
	}
	require.Len(p.t, images, len(want))
	for seed := range uint64(20) {
		i := p.m.drawn(newWorld(seed))
		require.True(p.t, slices.Contains(images, i), "%s is drawn, and not in the set", i)
	}
}

func readAll(v FileView) string {
	b := make([]byte, v.Size)
	_, _ = v.ReadAt(b, 0)
	return string(b)
}
