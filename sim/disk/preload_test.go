package disk

import (
	"bytes"
	"encoding/binary"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"faultline/sim/machine"
)

// counting fills a file with the number of each of its 8-byte words.
func counting(p []byte, offset int64) {
	var word [8]byte
	for i := range p {
		at := offset + int64(i)
		binary.BigEndian.PutUint64(word[:], uint64(at/8))
		p[i] = word[at%8]
	}
}

func TestPreloadedFileReadsAsItWasFilledAndCostsAsOthersDo(t *testing.T) {
	r := newRig(t, 1, hdd)
	require.NoError(t, r.d.Mkdir("d"))
	require.NoError(t, r.m.Preload("d/f", 10<<40, r.w.wall(), counting))
	f, err := r.d.Open("d/f", 0)
	require.NoError(t, err)
	want, got := make([]byte, 1<<20), make([]byte, 1<<20)
	for _, at := range []int64{0, 5<<40 + 4321, 10<<40 - 1<<20} {
		counting(want, at)
		cold := r.lasted(func() { _, err = machine.ReadFull(f, got, at) })
		require.NoError(t, err)
		require.True(t, bytes.Equal(want, got))
		require.InDelta(t, float64(18*time.Millisecond), float64(cold), float64(2*time.Millisecond), "a seek and the transfer")
		require.Less(t, r.lasted(func() { r.read(f, at, 1<<20) }), 10*time.Microsecond, "cached now")
	}
	require.EqualValues(t, 10<<40, r.m.Used())
	r.m.PowerLoss(r.w.Stream)
	view, ok := r.m.File("d/f")
	require.True(t, ok)
	require.EqualValues(t, 10<<40, view.Synced)
	counting(want, 1<<40)
	_, err = view.ReadSyncedAt(got, 1<<40)
	require.NoError(t, err)
	require.True(t, bytes.Equal(want, got))
	require.EqualValues(t, 10<<40, r.m.Used())
	require.NoError(t, r.m.RemoveAll("d"))
	require.Zero(t, r.m.Used())
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	require.Less(t, mem.HeapAlloc, uint64(200<<20))
}

func TestPreloadedFileMayBeWarm(t *testing.T) {
	r := newRig(t, 1, hdd)
	require.NoError(t, r.m.Preload("f", 4<<20, r.w.wall(), counting))
	require.NoError(t, r.m.Warm("f"))
	f, err := r.d.Open("f", 0)
	require.NoError(t, err)
	require.Less(t, r.lasted(func() { r.read(f, 1<<20, 1<<20) }), 10*time.Microsecond)
	require.PanicsWithValue(t, "disk: f was preloaded: it can be read and removed, but not changed", func() { _, _ = f.Pwrite([]byte("x"), 0) })
}
