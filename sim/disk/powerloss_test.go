package disk

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"faultline/sim/machine"
)

func fill(b byte, n int) []byte { return bytes.Repeat([]byte{b}, n) }

// left is the set of disks that a power loss now may leave, as text.
func (r *rig) left() (list []string) {
	images, err := r.m.Outcomes(1000)
	require.NoError(r.t, err)
	for _, i := range images {
		list = append(list, i.String())
	}
	return list
}

// The rows of the fault table that a power loss makes; testdata/outcomes has many more cases of each.
func TestFaultLostUnsyncedWrites(t *testing.T) {
	r := newRig(t, 1, Config{})
	f := r.put("f", fill('a', 100))
	r.write(f, fill('b', 100), 0)
	require.ElementsMatch(t, []string{"f[a100]", "f[b100]"}, r.left())
	require.NoError(t, f.Sync())
	require.ElementsMatch(t, []string{"f[b100]"}, r.left())
}

func TestFaultTornWrite(t *testing.T) {
	r := newRig(t, 1, Config{})
	f := r.put("f", fill('a', 1024))
	r.write(f, fill('b', 1024), 0)
	require.ElementsMatch(t, []string{"f[a1024]", "f[a512 b512]", "f[b512 a512]", "f[b1024]"}, r.left())
}

func TestFaultEntriesVanishOrComeBack(t *testing.T) {
	r := newRig(t, 1, Config{})
	require.NoError(t, r.put("old", fill('a', 1)).Close())
	require.NoError(t, r.d.Remove("old"))
	require.NoError(t, r.open("new", machine.Create).Close())
	require.ElementsMatch(t, []string{"", "new[]", "new[] old[a1]", "old[a1]"}, r.left())
	require.NoError(t, r.d.SyncDir(""))
	require.ElementsMatch(t, []string{"new[]"}, r.left())
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
	require.Equal(t, showRuns(run(0)), showRuns(run(5)))
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
