package log

import (
	"testing"

	"github.com/stretchr/testify/require"

	"faultline/broker/record"
	"faultline/broker/replica"
	"faultline/broker/sequence"
	"faultline/sim/machine"
)

// FuzzRecover opens a log whose last segment holds two good batches, then any bytes, with any index files and any checkpoint. It must end, keep the good ones (unless
// the checkpoint says that they were deleted, or that what is broken was durable), and leave a log that CheckDir likes and that can be appended to.
func FuzzRecover(f *testing.F) {
	r := newRig(f, 1, Config{})
	more := r.batch(3, 40, 1000, record.None)
	b, _, err := record.Next(more)
	require.NoError(f, err)
	b.Place(4, 0)
	f.Add(more, []byte{}, []byte{}, []byte{})
	f.Add(more[:70], []byte{0, 0, 0, 2, 0, 0, 0, 99}, make([]byte, 12), checkpoint{recovery: 2}.encode())
	f.Add([]byte{}, []byte("index"), []byte("time"), checkpoint{9, 9, 0, []replica.Entry{{Epoch: 1}, {Epoch: 4, Start: 5}}, []sequence.Batch{{Producer: 3, Last: 4, Base: 1, End: 5}}}.encode())
	f.Add(make([]byte, 600), make([]byte, 8), make([]byte, 24), []byte("faultline-log 3 start"))
	r.w.Close()
	f.Fuzz(func(t *testing.T, tail, offsets, times, point []byte) {
		r := newRig(t, 1, Config{SegmentBytes: 500, IndexInterval: 50})
		defer r.w.Close()
		good := append(r.batch(2, 30, 1000, record.None), r.batch(2, 30, 2000, record.None)...)
		require.NoError(t, r.open(false))
		_, err := r.append(good)
		require.NoError(t, err)
		r.crash()
		c, known := decodeCheckpoint(point)
		require.NoError(t, r.do(func() error {
			for _, file := range []struct {
				name  string
				bytes []byte
			}{
				{segmentName(0, logSuffix), append(good, tail...)}, {segmentName(0, indexSuffix), offsets}, {segmentName(0, timeSuffix), times}, {checkpointName, point},
			} {
				h, err := r.m.Disk().Open(dir+"/"+file.name, machine.Create|machine.Truncate)
				if err != nil {
					return err
				}
				if _, err := machine.WriteFull(h, file.bytes, 0); err != nil {
					return err
				}
				h.Close()
			}
			return nil
		}))
		for _, clean := range []bool{true, false} {
			err = r.open(clean && len(tail)%2 == 0)
			if err != nil {
				require.ErrorIs(t, err, ErrDamaged)
				require.True(t, known && c.recovery > 4, "only what a checkpoint vouches for may be damaged")
				return
			}
			s := r.state()
			switch {
			case known && c.start > 0:
				require.GreaterOrEqual(t, s.Start, c.start)
			default:
				require.Zero(t, s.Start)
				require.GreaterOrEqual(t, s.End, int64(4))
			}
			_, err = CheckDir(r.files())
			require.NoError(t, err)
			a, err := r.append(r.batch(2, 30, 3000, record.None))
			require.NoError(t, err)
			require.Equal(t, s.End, a.Base)
			r.crash()
		}
	})
}
