package disk

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"faultline/sim/machine"
)

func fill(b byte, n int) []byte { return bytes.Repeat([]byte{b}, n) }

// runs shows bytes as runs: "a512 .100" is 512 times a, then 100 zeros.
func runs(s string) string {
	var out []string
	for i := 0; i < len(s); {
		j := i
		for j < len(s) && s[j] == s[i] {
			j++
		}
		c := string(s[i])
		if s[i] == 0 {
			c = "."
		}
		out = append(out, fmt.Sprintf("%s%d", c, j-i))
		i = j
	}
	return strings.Join(out, " ")
}

// outcomes is the set of disks that the script and a power loss leave over many seeds. A file shows as name[runs].
func outcomes(t *testing.T, seeds int, script func(r *rig)) map[string]int {
	seen := map[string]int{}
	for seed := range seeds {
		r := newRig(t, uint64(seed), Config{})
		r.w.killable(func() { script(r) })
		r.powerLoss()
		before := r.state()
		var files []string
		for _, v := range r.m.Files() {
			files = append(files, fmt.Sprintf("%s[%s]", v.Path, runs(before[v.Path])))
			require.Equal(t, v.Size, v.Synced, "what a power loss leaves is durable")
			require.True(t, v.EntryDurable())
		}
		seen[strings.Join(files, " ")]++
		r.powerLoss()
		require.Equal(t, before, r.state(), "a second power loss changes nothing")
	}
	return seen
}

func keys(seen map[string]int) []string {
	var list []string
	for k := range seen {
		list = append(list, k)
	}
	slices.Sort(list)
	return list
}

func TestPowerLossLeavesExactlyTheseDisks(t *testing.T) {
	// The sectors of one page that go from a to b independently.
	var torn []string
	for mask := range 8 {
		page := ""
		for i := range 3 {
			page += strings.Repeat(string("ab"[mask>>i&1]), SectorBytes)
		}
		torn = append(torn, "f["+runs(page)+"]")
	}
	cases := []struct {
		name   string
		seeds  int
		script func(r *rig)
		want   []string
	}{
		{"nothing was done", 20, func(r *rig) {}, []string{""}},
		{"synced bytes under a synced name stay", 50, func(r *rig) {
			r.put("f", fill('a', 600))
		}, []string{"f[a600]"}},
		{"synced bytes under a name that is not", 50, func(r *rig) {
			f := r.open("f", machine.Create)
			r.write(f, fill('a', 600), 0)
			require.NoError(r.t, f.Sync())
		}, []string{"", "f[a600]"}},
		{"unsynced bytes: old length, new length, sector between, page or zeros", 600, func(r *rig) {
			f := r.put("f", nil)
			r.write(f, fill('a', 600), 0)
		}, []string{"f[]", "f[a512]", "f[.512]", "f[a600]", "f[.600]", "f[a512 .88]", "f[.512 a88]"}},
		{"an overwritten page is old, new or torn by sectors", 2000, func(r *rig) {
			f := r.put("f", fill('a', 3*SectorBytes))
			r.write(f, fill('b', 3*SectorBytes), 0)
		}, torn},
		{"pages are independent", 2000, func(r *rig) {
			f := r.put("f", fill('a', 3*PageBytes))
			for i := range int64(3) { // one sector each, so that nothing tears
				r.write(f, fill('b', SectorBytes), i*PageBytes)
			}
		}, func() (want []string) {
			for mask := range 8 {
				s := ""
				for i := range 3 {
					s += strings.Repeat(string("ab"[mask>>i&1]), SectorBytes) + strings.Repeat("a", PageBytes-SectorBytes)
				}
				want = append(want, "f["+runs(s)+"]")
			}
			return want
		}()},
		{"a truncation happened or not", 50, func(r *rig) {
			f := r.put("f", fill('a', 600))
			require.NoError(r.t, f.Truncate(100))
		}, []string{"f[a100]", "f[a600]"}},
		{"a truncation that survives brings no old bytes back", 3000, func(r *rig) {
			f := r.put("f", fill('a', 600))
			require.NoError(r.t, f.Truncate(100))
			r.write(f, fill('b', 500), 100)
		}, []string{
			"f[a600]",                                 // the truncation did not happen; the page that it reached into stays as it was
			"f[a100]", "f[a100 b412]", "f[a100 b500]", // length old, between, new with the page
			"f[a100 .412]", "f[a100 .500]", // without the page
			"f[a100 b412 .88]", "f[a100 .412 b88]", // the page torn
		}},
		{"truncated to nothing and written anew", 3000, func(r *rig) {
			f := r.put("f", fill('a', 600))
			require.NoError(r.t, f.Truncate(0))
			r.write(f, fill('b', 300), 0)
		}, []string{"f[a600]", "f[]", "f[b300]", "f[.300]"}},
		{"an extension is zeros", 200, func(r *rig) {
			f := r.put("f", fill('a', 100))
			require.NoError(r.t, f.Truncate(1500))
		}, []string{"f[a100]", "f[a100 .412]", "f[a100 .924]", "f[a100 .1400]"}},
		{"a remove happened or not", 50, func(r *rig) {
			r.put("f", fill('a', 10))
			require.NoError(r.t, r.d.Remove("f"))
		}, []string{"", "f[a10]"}},
		{"a synced remove is final", 50, func(r *rig) {
			r.put("f", fill('a', 10))
			require.NoError(r.t, r.d.Remove("f"))
			require.NoError(r.t, r.d.SyncDir(""))
		}, []string{""}},
		{"a rename is whole or not at all", 50, func(r *rig) {
			r.put("f", fill('a', 10))
			require.NoError(r.t, r.d.Rename("f", "g"))
		}, []string{"f[a10]", "g[a10]"}},
		{"a rename over a file leaves the old or the new one", 50, func(r *rig) {
			r.put("f", fill('a', 10))
			r.put("g", fill('b', 20))
			require.NoError(r.t, r.d.Rename("f", "g"))
		}, []string{"f[a10] g[b20]", "g[a10]"}},
		{"a rename of unsynced bytes may leave an empty file", 400, func(r *rig) {
			r.put("f", fill('a', 10))
			g := r.open("g", machine.Create)
			r.write(g, fill('b', 20), 0)
			require.NoError(r.t, r.d.Rename("g", "f"))
			require.NoError(r.t, r.d.SyncDir(""))
		}, []string{"f[]", "f[.20]", "f[b20]"}},
		{"entries are independent", 400, func(r *rig) {
			for _, name := range []string{"f", "g"} {
				require.NoError(r.t, r.open(name, machine.Create).Close())
			}
			require.NoError(r.t, r.d.SyncDir(""))
			require.NoError(r.t, r.d.Remove("f"))
			require.NoError(r.t, r.open("h", machine.Create).Close())
		}, []string{"f[] g[]", "f[] g[] h[]", "g[]", "g[] h[]"}},
		{"removed and made again: each change counts", 400, func(r *rig) {
			r.put("f", fill('a', 10))
			require.NoError(r.t, r.d.Remove("f"))
			f := r.open("f", machine.Create)
			r.write(f, fill('b', 20), 0)
			require.NoError(r.t, f.Sync())
		}, []string{"", "f[a10]", "f[b20]"}},
		{"a file in a directory that is not synced", 100, func(r *rig) {
			require.NoError(r.t, r.d.Mkdir("d"))
			f := r.open("d/f", machine.Create)
			r.write(f, fill('a', 10), 0)
			require.NoError(r.t, f.Sync())
			require.NoError(r.t, r.d.SyncDir("d"))
		}, []string{"", "d/f[a10]"}},
		{"a rename across directories is durable with either", 50, func(r *rig) {
			require.NoError(r.t, r.d.Mkdir("d"))
			f := r.open("f", machine.Create)
			r.write(f, fill('a', 10), 0)
			require.NoError(r.t, f.Sync())
			require.NoError(r.t, r.d.Rename("f", "d/f"))
			require.NoError(r.t, r.d.SyncDir(""))
		}, []string{"d/f[a10]"}},
		{"power fails while a Sync waits: nothing is promised", 400, func(r *rig) {
			f := r.put("f", nil)
			r.write(f, fill('a', 300), 0)
			r.w.meanwhile = func() { r.w.dead = true }
			_ = f.Sync()
		}, []string{"f[]", "f[a300]", "f[.300]"}},
		{"a Sync covers what was written when it was called", 1500, func(r *rig) {
			f := r.put("f", nil)
			r.write(f, fill('a', 100), 0)
			r.w.meanwhile = func() { r.write(f, fill('b', 100), 100) }
			require.NoError(r.t, f.Sync())
		}, []string{"f[a100]", "f[a100 b100]", "f[a100 .100]"}},
		{"a page in three versions: durable, captured, newest", 1500, func(r *rig) {
			f := r.put("f", fill('a', 100))
			r.write(f, fill('b', 100), 0)
			r.w.meanwhile = func() {
				r.write(f, fill('c', 100), 0)
				r.w.dead = true
			}
			_ = f.Sync()
		}, []string{"f[a100]", "f[b100]", "f[c100]"}},
		{"a SyncDir covers what was changed when it was called", 100, func(r *rig) {
			require.NoError(r.t, r.open("f", machine.Create).Close())
			r.w.meanwhile = func() { require.NoError(r.t, r.open("g", machine.Create).Close()) }
			require.NoError(r.t, r.d.SyncDir(""))
		}, []string{"f[]", "f[] g[]"}},
		{"a failed Sync, then one that succeeds: the length is there, the bytes perhaps", 400, func(r *rig) {
			f := r.put("f", nil)
			r.write(f, fill('a', 300), 0)
			require.NoError(r.t, r.m.Inject(Fault{ID: "x", Kind: Error, Ops: OpSync, Count: 1}))
			require.ErrorIs(r.t, f.Sync(), machine.ErrIO)
			require.Equal(r.t, fill('a', 300), r.content(f))
			require.NoError(r.t, f.Sync())
		}, []string{"f[.300]", "f[a300]"}},
		{"written again after a failed Sync", 50, func(r *rig) {
			f := r.put("f", nil)
			r.write(f, fill('a', 300), 0)
			require.NoError(r.t, r.m.Inject(Fault{ID: "x", Kind: Error, Ops: OpSync, Count: 1}))
			require.ErrorIs(r.t, f.Sync(), machine.ErrIO)
			r.write(f, fill('a', 300), 0)
			require.NoError(r.t, f.Sync())
		}, []string{"f[a300]"}},
		{"a process crash during a Sync, then a Sync", 50, func(r *rig) {
			f := r.put("f", nil)
			r.write(f, fill('a', 300), 0)
			require.True(r.t, r.w.killable(func() {
				r.w.meanwhile = func() {
					r.write(f, fill('b', 100), 300)
					r.w.dead = true
				}
				_ = f.Sync()
			}))
			r.m.ProcessCrash()
			r.attach()
			require.NoError(r.t, r.open("f", 0).Sync())
		}, []string{"f[a300 b100]"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			slices.Sort(c.want)
			require.Equal(t, c.want, keys(outcomes(t, c.seeds, c.script)))
		})
	}
}

func TestPowerLossIsTheSameForTheSameSeed(t *testing.T) {
	run := func() map[string]string {
		r := newRig(t, 7, Config{})
		for i := range 20 {
			f := r.open(fmt.Sprintf("f%d", i), machine.Create)
			r.write(f, fill('a', 10000), 0)
		}
		r.powerLoss()
		return r.state()
	}
	require.Equal(t, run(), run())
}

func TestFateOfAFileDoesNotDependOnOthers(t *testing.T) {
	run := func(others int) string {
		r := newRig(t, 7, Config{})
		f := r.put("f", fill('a', 50000))
		for i := range others {
			r.write(r.put(fmt.Sprintf("g%d", i), nil), fill('a', 10000), 0)
		}
		r.write(f, fill('b', 50000), 0)
		r.powerLoss()
		return r.state()["f"]
	}
	require.Equal(t, runs(run(0)), runs(run(5)))
}

func TestProcessCrashKeepsTheCache(t *testing.T) {
	r := newRig(t, 1, Config{})
	f := r.open("f", machine.Create)
	r.write(f, fill('a', 9000), 0)
	before := r.state()
	r.m.ProcessCrash()
	_, err := f.Pread(make([]byte, 1), 0)
	require.Error(t, err, "handles are gone")
	r.attach()
	require.Equal(t, before, r.state())
}

func TestKillDuringAWriteLeavesAllOrWholePagesOfIt(t *testing.T) {
	seen := map[int]bool{}
	for seed := range uint64(500) {
		r := newRig(t, seed, Config{})
		f := r.put("f", nil)
		require.True(t, r.w.killable(func() {
			r.w.meanwhile = func() { r.w.dead = true }
			_, _ = f.Pwrite(fill('a', 10000), 0)
		}))
		r.m.ProcessCrash()
		r.attach()
		got := r.state()["f"]
		require.Equal(t, string(fill('a', len(got))), got)
		seen[len(got)] = true
	}
	require.Equal(t, map[int]bool{PageBytes: true, 2 * PageBytes: true, 10000: true}, seen)
}
