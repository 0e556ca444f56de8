package log

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"faultline/broker/record"
	"faultline/sim/machine"
)

// TestDeletedLogNeverComesBackInPart ends the process, and the power, at every moment of a deletion.
func TestDeletedLogNeverComesBackInPart(t *testing.T) {
	whole, gone := 0, 0
	for seed := range uint64(150) {
		r := newRig(t, seed, Config{SegmentBytes: 200, RetentionTime: -1})
		require.NoError(t, r.open(false))
		for range 5 {
			_, err := r.append(r.batch(2, 50, 1000, record.None))
			require.NoError(t, err)
		}
		require.NoError(t, r.do(func() error { return r.log.Flush() }))
		log := r.log
		r.c.Go("delete", func() { log.Delete() })
		r.pass(time.Duration(seed*10) * time.Microsecond)
		if seed%2 == 0 {
			r.crash()
		} else {
			r.powerLoss()
		}
		require.NoError(t, r.do(func() error { return RemoveDeleted(r.m.Disk(), "data") }))
		require.NoError(t, r.do(func() error { return RemoveDeleted(r.m.Disk(), "data") }))
		require.NoError(t, r.open(false))
		switch s := r.state(); s.End {
		case 0:
			gone++
		case 10:
			require.Zero(t, s.Start)
			whole++
		default:
			t.Fatalf("seed %d: %+v", seed, s)
		}
		for _, f := range r.c.Disk().Files() {
			require.Contains(t, f.Path, dir+"/")
		}
		r.w.Close()
	}
	require.Positive(t, whole)
	require.Positive(t, gone)
}

func TestRemoveDeletedWithoutADirectory(t *testing.T) {
	r := newRig(t, 1, Config{})
	defer r.w.Close()
	require.NoError(t, r.do(func() error { return RemoveDeleted(r.m.Disk(), "data") }))
	require.NoError(t, r.do(func() error {
		if err := r.m.Disk().Mkdir("data/x" + DeletedSuffix); err != nil {
			return err
		}
		_, err := r.m.Disk().Open("data/keep", machine.Create)
		return err
	}))
	require.NoError(t, r.do(func() error { return RemoveDeleted(r.m.Disk(), "data") }))
	require.NoError(t, r.do(func() error {
		list, err := r.m.Disk().ReadDir("data")
		require.Len(t, list, 1)
		return err
	}))
}
