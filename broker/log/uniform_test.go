package log

import (
	"path"
	"testing"

	"github.com/stretchr/testify/require"

	"faultline/broker/record"
	"faultline/sim"
)

// equal is a batch of two records that has so many bytes.
func equalBatch(t *testing.T, size int) []byte {
	var b record.Builder
	for n := size; ; n-- {
		b.Reset(record.None)
		b.Add(1_700_000_000_000, []byte("k"), make([]byte, 10), nil)
		b.Add(1_700_000_000_005, nil, make([]byte, n), nil)
		p, err := b.Finish()
		require.NoError(t, err)
		if len(p) <= size {
			require.Len(t, p, size)
			return append([]byte(nil), p...)
		}
	}
}

func TestUniformLogIsWhatAppendingLeaves(t *testing.T) {
	for _, interval := range []int{1, 500, 512, 513, 2000, 100_000} {
		cfg := Config{SegmentBytes: 4096, IndexInterval: interval}
		batch := equalBatch(t, 512)
		r := newRig(t, 1, cfg)
		require.NoError(t, r.open(true))
		for range 3 * 8 {
			require.NoError(t, r.do(func() error {
				_, err := r.log.Append(append([]byte(nil), batch...), AppendOptions{})
				return err
			}))
		}
		require.NoError(t, r.do(r.log.Close))
		files, end, err := Uniform(cfg, batch, 3)
		require.NoError(t, err)
		require.EqualValues(t, 48, end)
		have := map[string][]byte{}
		for _, f := range r.c.Disk().Files() {
			p := make([]byte, f.Size)
			_, err := f.ReadAt(p, 0)
			require.NoError(t, err)
			have[path.Base(f.Path)] = p
		}
		require.Len(t, files, len(have))
		for i := range files {
			p := make([]byte, files[i].Size())
			files[i].Fill(p, 0)
			require.Equal(t, have[files[i].Name], p, "%s, interval %d", files[i].Name, interval)
			if len(p) > 100 {
				q := make([]byte, 50)
				files[i].Fill(q, 33)
				require.Equal(t, p[33:83], q)
			}
		}
	}
}

func TestUniformLogOfTerabytes(t *testing.T) {
	cfg := Config{SegmentBytes: 1 << 30}
	batch := equalBatch(t, 64<<10)
	files, end, err := Uniform(cfg, batch, 1024)
	require.NoError(t, err)
	r := newRig(t, 1, cfg)
	require.NoError(t, r.do(func() error { return r.m.Disk().Mkdir(dir) }))
	for i := range files {
		require.NoError(t, r.c.Disk().Preload(path.Join(dir, files[i].Name), files[i].Size(), sim.Epoch, files[i].Fill))
	}
	require.NoError(t, r.open(true))
	require.EqualValues(t, 1, r.events[len(r.events)-1].C, "taken over as it is")
	require.Equal(t, end, r.state().End)
	out, err := r.append(append([]byte(nil), batch...))
	require.NoError(t, err)
	require.Equal(t, end, out.Base)
}

func TestUniformLogOfSegmentsWithRoom(t *testing.T) {
	cfg := Config{SegmentBytes: 1000}
	batch := equalBatch(t, 300)
	files, end, err := Uniform(cfg, batch, 2)
	require.NoError(t, err)
	require.EqualValues(t, 2*3*2, end)
	r := newRig(t, 1, cfg)
	require.NoError(t, r.do(func() error { return r.m.Disk().Mkdir(dir) }))
	for i := range files {
		require.NoError(t, r.c.Disk().Preload(path.Join(dir, files[i].Name), files[i].Size(), sim.Epoch, files[i].Fill))
	}
	require.NoError(t, r.open(true))
	require.EqualValues(t, 1, r.events[len(r.events)-1].C, "taken over as it is")
	out, err := r.append(equalBatch(t, 100)) // would have had room
	require.NoError(t, err)
	require.Equal(t, end, out.Base)
	require.NoError(t, r.do(r.log.Close))
	require.NoError(t, r.open(false))
	require.Equal(t, end+2, r.state().End)
}

func TestUniformLogOfBatchesThatDoNotFit(t *testing.T) {
	_, _, err := Uniform(Config{SegmentBytes: 500}, equalBatch(t, 512), 1)
	require.ErrorContains(t, err, "a batch of 512 bytes does not fit into a segment of 500")
	_, _, err = Uniform(Config{SegmentBytes: 1024}, make([]byte, 512), 1)
	require.ErrorIs(t, err, record.ErrCorrupt)
}
