package disk

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"faultline/sim/machine"
)

// hdd is a slow device with round numbers: 1 MB is 10 ms.
var hdd = Config{ReadBandwidth: 100 << 20, WriteBandwidth: 100 << 20, Seek: 8 * time.Millisecond, Flush: time.Millisecond, Cache: 20 << 20, DirtyBackground: 6 << 20, DirtyLimit: 8 << 20}

func (r *rig) lasted(fn func()) time.Duration {
	start := r.w.now
	fn()
	return r.w.now - start
}

func (r *rig) read(f machine.File, offset int64, n int) {
	_, err := machine.ReadFull(f, make([]byte, n), offset)
	require.NoError(r.t, err)
}

func TestPageCacheServesTheTailAndABacklogReaderPays(t *testing.T) {
	r := newRig(t, 1, hdd)
	f := r.put("f", nil)
	chunk := fill('a', 1<<20)
	for i := range int64(40) {
		r.write(f, chunk, i<<20)
		require.NoError(t, f.Sync())
	}
	tail := r.lasted(func() { r.read(f, 39<<20, 1<<20) })
	require.Less(t, tail, 10*time.Microsecond)
	cold := r.lasted(func() { r.read(f, 0, 1<<20) })
	require.InDelta(t, float64(18*time.Millisecond), float64(cold), float64(time.Millisecond), "a seek and the transfer")
	next := r.lasted(func() { r.read(f, 1<<20, 1<<20) })
	require.InDelta(t, float64(10*time.Millisecond), float64(next), float64(time.Millisecond), "no seek: it goes on where the head is")
	again := r.lasted(func() { r.read(f, 0, 1<<20) })
	require.Less(t, again, 10*time.Microsecond)
}

func TestReadaheadServesSmallSequentialReads(t *testing.T) {
	r := newRig(t, 1, hdd)
	f := r.put("f", fill('a', 1<<20))
	r.powerLoss() // a cold cache
	f = r.open("f", 0)
	slow := 0
	for i := range int64(256) {
		if r.lasted(func() { r.read(f, i*4096, 4096) }) > 10*time.Microsecond {
			slow++
		}
	}
	require.Equal(t, 8, slow, "one transfer for each 128 KiB")
}

func TestFsyncLatencyIsThatOfItsDirtyPagesAndAFlush(t *testing.T) {
	r := newRig(t, 1, hdd)
	f := r.put("f", nil)
	r.write(f, fill('a', 5<<20), 0)
	d := r.lasted(func() { require.NoError(t, f.Sync()) })
	require.InDelta(t, float64(8+50+1), d.Seconds()*1000, 1)
	d = r.lasted(func() { require.NoError(t, f.Sync()) })
	require.Less(t, d, 10*time.Microsecond, "nothing to do")
	r.write(f, []byte("x"), 0)
	d = r.lasted(func() { require.NoError(t, f.Sync()) })
	require.InDelta(t, float64(8+1), d.Seconds()*1000, 1)
}

// A run of pages is one transfer; pages that do not follow each other cost a seek each, which is what bounds IOPS.
func TestSequentialAndRandomCost(t *testing.T) {
	for _, step := range []int64{1, 3} {
		r := newRig(t, 1, hdd)
		f := r.put("f", fill('a', 1<<20))
		write := r.lasted(func() {
			for i := range int64(16) {
				r.write(f, fill('b', PageBytes), i*step*PageBytes)
			}
			require.NoError(t, f.Sync())
		})
		r.powerLoss()
		f = r.open("f", 0)
		read := r.lasted(func() {
			for i := range int64(4) {
				r.read(f, i*step*extentBytes, extentBytes)
			}
		})
		seeks := map[int64]float64{1: 1, 3: 16}[step]
		require.InDelta(t, seeks*8+0.625+1, write.Seconds()*1000, 0.1, "16 pages written")
		seeks = map[int64]float64{1: 1, 3: 4}[step]
		require.InDelta(t, seeks*8+2.5, read.Seconds()*1000, 0.7, "4 extents read")
	}
}

// Unsynced bytes above the background limit go to the device by themselves, oldest first, while the writer goes on.
func TestWriteBackStartsAtTheBackgroundLimit(t *testing.T) {
	r := newRig(t, 1, hdd)
	f := r.put("f", nil)
	r.write(f, fill('a', 6<<20), 0)
	require.Zero(t, r.m.root.entries["f"].written)
	d := r.lasted(func() { r.write(f, fill('a', PageBytes), 6<<20) })
	require.Less(t, d, 10*time.Microsecond)
	require.Equal(t, 256, r.m.root.entries["f"].written)
	require.Equal(t, r.w.now-d+18*time.Millisecond, r.m.dev.busy, "a seek and a megabyte")
	v, _ := r.m.File("f")
	require.Zero(t, v.Synced, "it promises nothing")
}

func TestQueueOfTheDevice(t *testing.T) {
	r := newRig(t, 1, hdd)
	f, g := r.put("f", nil), r.put("g", nil)
	r.write(f, fill('a', 2<<20), 0)
	r.write(g, fill('a', 2<<20), 0)
	var second time.Duration
	r.w.meanwhile = func() { second = r.lasted(func() { require.NoError(t, g.Sync()) }) }
	require.NoError(t, f.Sync())
	require.InDelta(t, float64(8+20+8+20+1), second.Seconds()*1000, 1)
}

func TestDirtyLimitHoldsWritersBackToTheDevice(t *testing.T) {
	r := newRig(t, 1, hdd)
	f := r.put("f", nil)
	chunk := fill('a', 1<<20)
	first := r.lasted(func() { r.write(f, chunk, 0) })
	require.Less(t, first, 10*time.Microsecond)
	all := r.lasted(func() {
		for i := range int64(40) {
			r.write(f, chunk, i<<20)
		}
	})
	require.Greater(t, all, 310*time.Millisecond)
	require.Less(t, all, 440*time.Millisecond)
	d := r.lasted(func() { require.NoError(t, f.Sync()) })
	require.Less(t, d, 100*time.Millisecond, "most was written back")
}

func TestLastsIsExactForLargeTransfers(t *testing.T) {
	require.Equal(t, 1000*time.Second, lasts(3e12, 3e9))
	require.Equal(t, time.Nanosecond, lasts(3, 3e9))
}
