package log

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"faultline/broker/record"
	"faultline/sim/disk"
	"faultline/sim/machine"
)

// openRig is a rig with an open log.
func openRig(t *testing.T, cfg Config) *rig {
	r := newRig(t, 1, cfg)
	t.Cleanup(r.w.Close)
	require.NoError(t, r.open(false))
	return r
}

func TestAppendsAndReadsGoOnDuringASlowFlush(t *testing.T) {
	r := openRig(t, Config{})
	one := r.batch(1, 10, 1000, record.None)
	_, err := r.append(one)
	require.NoError(t, err)
	require.NoError(t, r.do(func() error { return r.log.Flush() }))
	r.inject(disk.Fault{ID: "slow", Kind: disk.Slow, Ops: disk.OpSync, Delay: time.Minute})
	_, err = r.append(one)
	require.NoError(t, err)
	r.do(func() error { r.log.RequestFlush(); return nil })
	r.pass(time.Second)

	before := r.w.Now()
	for range 100 {
		_, err = r.append(one)
		require.NoError(t, err)
		_, span, err := r.read(0, 1000, 1)
		require.NoError(t, err)
		require.EqualValues(t, 1, span.Next)
	}
	require.Less(t, r.w.Now()-before, 10*time.Millisecond)
	require.Equal(t, State{Visible: 1, End: 102}, r.state())
	r.pass(time.Minute)
	require.Equal(t, State{Visible: 2, End: 102}, r.state(), "the flush covers what was there when it began")
}

func TestWaitersShareAFlush(t *testing.T) {
	r := openRig(t, Config{})
	syncs := 0
	r.c.Disk().Observe(func(e disk.Event) {
		if e.Kind == disk.Synced {
			syncs++
		}
	})
	r.inject(disk.Fault{ID: "slow", Kind: disk.Slow, Ops: disk.OpSync, Delay: 10 * time.Millisecond})
	done := 0
	for range 50 {
		r.c.Go("wait", func() {
			a, err := r.log.Append(r.batch(1, 10, 1000, record.None), AppendOptions{})
			if err == nil {
				err = r.log.WaitVisible(a.Next, time.Second)
			}
			if err != nil {
				t.Error(err)
			}
			done++
		})
	}
	r.pass(time.Second)
	require.Equal(t, 50, done)
	require.LessOrEqual(t, syncs, 3)
}

func TestWaitVisibleTimesOut(t *testing.T) {
	r := openRig(t, Config{})
	_, err := r.append(r.batch(1, 10, 1000, record.None))
	require.NoError(t, err)
	r.inject(disk.Fault{ID: "slow", Kind: disk.Slow, Ops: disk.OpSync, Delay: time.Second})
	before := r.w.Now()
	err = r.do(func() error { return r.log.WaitVisible(1, 100*time.Millisecond) })
	require.ErrorIs(t, err, machine.ErrTimeout)
	require.InDelta(t, 100*time.Millisecond, r.w.Now()-before, float64(time.Millisecond))
	require.NoError(t, r.do(func() error { return r.log.WaitVisible(1, 0) }))
}

func TestOnVisibleTellsOfEveryMoveAndTheEnd(t *testing.T) {
	r := openRig(t, Config{FlushMessages: 1})
	calls := 0
	r.do(func() error { r.log.OnVisible(func() { calls++ }); return nil })
	_, err := r.append(r.batch(1, 10, 1000, record.None))
	require.NoError(t, err)
	r.pass(time.Second)
	require.Equal(t, 1, calls)
	r.inject(disk.Fault{ID: "eio", Kind: disk.Error, Ops: disk.OpSync})
	_, err = r.append(r.batch(1, 10, 1000, record.None))
	require.NoError(t, err)
	r.pass(time.Second)
	require.Equal(t, 2, calls)
	require.ErrorIs(t, r.state().Err, ErrFenced)
	require.ErrorIs(t, r.do(func() error { return r.log.WaitVisible(2, 0) }), ErrFenced)
	require.ErrorIs(t, r.do(r.log.Close), ErrFenced)
	require.Equal(t, 3, calls)
}

func TestIdleLogCostsNothing(t *testing.T) {
	r := openRig(t, Config{FlushMessages: 10, FlushInterval: time.Millisecond, SegmentAge: time.Hour})
	_, err := r.append(r.batch(1, 10, 1000, record.None))
	require.NoError(t, err)
	r.pass(time.Second)
	before := r.w.Events()
	r.pass(24 * time.Hour)
	require.Equal(t, before, r.w.Events())
}

func TestSpansOutliveTheirSegment(t *testing.T) {
	r := openRig(t, Config{SegmentBytes: 100, RetentionTime: time.Hour})
	_, err := r.append(r.batch(2, 10, 1000, record.None))
	require.NoError(t, err)
	require.NoError(t, r.do(func() error { return r.log.Flush() }))
	require.NoError(t, r.do(func() error {
		span, err := r.log.Read(0, 1000, 2)
		if err != nil {
			return err
		}
		if err := r.log.Retain(math.MaxInt64); err != nil {
			return err
		}
		require.EqualValues(t, 2, r.log.Start())
		p := make([]byte, span.Len)
		if _, err := machine.ReadFull(span.File, p, span.Pos); err != nil {
			return err
		}
		span.Release()
		span.Release()
		_, _, err = record.Next(p)
		return err
	}))
}

func TestRollByAge(t *testing.T) {
	r := openRig(t, Config{SegmentAge: time.Second})
	for _, stamp := range []int64{5000, 5999, 4000, 6000, 6500} {
		_, err := r.append(r.batch(1, 10, stamp, record.None))
		require.NoError(t, err)
	}
	var rolled []int64
	for _, e := range r.takeEvents() {
		if e.Kind == machine.LogRolled {
			rolled = append(rolled, e.A)
		}
	}
	require.Equal(t, []int64{3}, rolled)
}
