package oracle

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"faultline/broker/log"
	wire "faultline/broker/record"
	"faultline/sim/machine"
	"faultline/workloads/history"

	"github.com/stretchr/testify/require"
)

var keepAll = Topic{RetentionTime: -1, RetentionBytes: -1}

// twoFlushed is a log with two batches, flushed and visible.
func twoFlushed(t *testing.T) *forger {
	f := forge(t, keepAll)
	f.put(2, "one")
	f.put(3, "two")
	f.sync()
	f.visible(5)
	return f
}

func TestRecoveryOfAWellKeptLog(t *testing.T) {
	f := twoFlushed(t)
	f.put(1, "three")
	f.crash()
	f.reopen(0)
	f.sync()
	f.opened(0, 6)
	f.fetched(1, 6, 0, 0, forged(0, 2, f.stamp, "one"), forged(2, 3, f.stamp, "two"))
	f.silent()
}

func TestRecoveryMayDropWhatWasNotFlushedInAPowerLoss(t *testing.T) {
	f := twoFlushed(t)
	at := f.pos
	f.put(1, "three")
	f.power()
	f.reopen(0)
	f.truncate(at)
	f.sync()
	f.opened(0, 5)
	f.silent()
}

// A follower cuts off what its leader does not have, and its process ends before it is done, twice. (swarm-replicas, seed 505.)
func TestRecoveryOfALogThatWasBeingCut(t *testing.T) {
	f := forge(t, Topic{RetentionTime: -1, RetentionBytes: -1, Replicas: 3})
	f.put(2, "one")
	f.put(3, "two")
	f.sync()
	f.visible(5)
	f.truncate(int64(len(forged(0, 2, 0, "one"))))
	f.crash()
	f.reopen(0)
	f.crash()
	f.reopen(0)
	f.sync()
	f.opened(0, 2)
	f.silent()
}

func TestRecoveryDropsAFlushedBatch(t *testing.T) {
	f := twoFlushed(t)
	f.power()
	f.reopen(0)
	f.truncate(int64(len(forged(0, 2, 0, "one"))))
	f.sync()
	f.opened(0, 2)
	f.fires(Recovery, "the log ends at 2, but it reached 5 and it was flushed")
}

func TestRecoveryDropsWhatWasInThePageCache(t *testing.T) {
	f := twoFlushed(t)
	at := f.pos
	f.put(1, "three")
	f.crash()
	f.reopen(0)
	f.truncate(at)
	f.sync()
	f.opened(0, 5)
	f.fires(Recovery, "the log ends at 5, but it reached 6 and it was in the page cache")
}

func TestRecoveryKeepsATornTail(t *testing.T) {
	f := twoFlushed(t)
	f.write(forged(5, 1, 0, "torn tail")[:30])
	f.crash()
	f.reopen(0)
	f.sync()
	f.opened(0, 5)
	f.fires(Recovery, "its files hold valid batches up to 5 only")
}

// A disk that confirmed what it did not make durable leaves holes below the recovery point, where nobody looks again. (overload-replicas, seed 434.)
func TestRecoveryOnADiskThatLied(t *testing.T) {
	f := twoFlushed(t)
	f.rec.MachineRuined("broker-1", 1, "flushes")
	f.put(1, "three")
	f.visible(6)
	f.rec.MachineMended("broker-1", 1, "flushes")
	f.power()
	f.reopen(0)
	f.write(forged(5, 1, 0, "torn tail")[:30])
	f.sync()
	f.opened(0, 6)
	f.silent()
}

func TestRecoveryChangesABatch(t *testing.T) {
	f := twoFlushed(t)
	f.crash()
	f.reopen(0)
	f.pos = 0
	f.write(forged(0, 2, f.stamp, "ONE"))
	f.sync()
	f.opened(0, 5)
	f.fires(Recovery, "the batch at offset 0 has")
}

func TestRecoveryInventsABatch(t *testing.T) {
	f := twoFlushed(t)
	f.crash()
	f.reopen(0)
	f.next = 5
	f.put(1, "what?")
	f.sync()
	f.opened(0, 6)
	f.fires(Recovery, "the log goes on with a batch at 5..5, but it ended at 5")
}

func TestRecoveryLosesTheFront(t *testing.T) {
	f := twoFlushed(t)
	f.segment(5)
	f.put(1, "three")
	f.sync()
	f.syncDirs()
	f.visible(6)
	f.power()
	f.must(func() error { return f.m.Disk().Rename(segmentPath(0), benchDir+"/lost") })
	f.reopen(5)
	f.opened(5, 6)
	require.NotEmpty(t, f.found())
}

func TestRecoveryThatIsNotDurable(t *testing.T) {
	f := twoFlushed(t)
	f.put(1, "three")
	f.crash()
	f.reopen(0)
	f.opened(0, 6) // read, taken for good, and never synced
	f.fires(Recovery, "was opened up to 6, but a power loss could take it back to 5")
}

func TestRecoveryOfALogThatLiesAboutItsEnd(t *testing.T) {
	f := twoFlushed(t)
	f.crash()
	f.reopen(0)
	f.opened(0, 4)
	f.fires(Recovery, "was opened as 0..4, its files hold 0..5")
}

func TestVisibleInASegmentWhoseNameIsNotDurable(t *testing.T) {
	f := twoFlushed(t)
	f.segment(5)
	f.put(1, "three")
	f.sync()
	f.visible(6)
	f.fires(Recovery, "the name of "+segmentPath(5)+" is not durable")
}

func TestGarbageBetweenBatches(t *testing.T) {
	f := twoFlushed(t)
	f.write([]byte("the rest of a request that was refused, as long as a batch at the very least"))
	f.put(1, "three")
	f.sync()
	f.visible(6)
	f.fires(Recovery, "visible up to 6, but its files hold valid batches up to 5 only")
}

func TestGapBetweenSegments(t *testing.T) {
	f := twoFlushed(t)
	f.segment(7)
	f.put(1, "three")
	f.sync()
	f.syncDirs()
	f.visible(8)
	f.fires(Recovery, "begins there, the segment before ends at 5")
}

func TestVisibleRecordsAreCutOff(t *testing.T) {
	f := twoFlushed(t)
	f.truncate(int64(len(forged(0, 2, 0, "one"))))
	f.fires(Recovery, "takes the visible records from 2 on")
}

func TestVisibleBytesChange(t *testing.T) {
	f := twoFlushed(t)
	f.pos = 0
	f.write(forged(0, 2, f.stamp, "ONE"))
	f.fires(Recovery, "the bytes of the batch at offset 0 changed")
}

func TestIndexThatDisagreesWithALinearScan(t *testing.T) {
	f := twoFlushed(t)
	f.crash()
	f.must(func() error {
		file, err := f.m.Disk().Open(benchDir+"/00000000000000000000.index", machine.Create)
		if err == nil {
			_, err = machine.WriteFull(file, []byte{0, 0, 0, 2, 0, 0, 0, 1}, 0)
		}
		return err
	})
	f.opened(0, 5)
	f.fires(Recovery, "the index disagrees with a linear scan")
}

func TestFetchFromTheWrongPlace(t *testing.T) {
	one, two, three := forged(0, 2, 0, "one"), forged(2, 3, 0, "two"), forged(5, 1, 0, "three")
	f := twoFlushed(t)
	f.fetched(1, 5, 0, 0, two)
	f.fires(Recovery, "a fetch from offset 1 got the batch 2..4 first")
	f = twoFlushed(t)
	f.fetched(1, 5, 0, 0, one, three)
	f.fires(Recovery, "got the batch at 5 where the one at 2 is due")
	f = twoFlushed(t)
	two[70-8] ^= 1
	f.fetched(2, 5, 0, 0, two)
	f.fires(Recovery, "got bytes that are no batch")
}

func TestLogThatIsNeverOpenedAgain(t *testing.T) {
	story := func() *forger {
		f := twoFlushed(t)
		f.crash()
		f.rec.PhaseBegan(history.Heal)
		return f
	}
	f := story()
	f.pass(2 * time.Minute)
	f.fires(Live, "which stopped at")
	f = story()
	f.opened(0, 5)
	f.pass(2 * time.Minute)
	f.silent()
}

// checkpoint writes the file that a log's start stands in; sync says whether a power loss leaves it.
func (f *forger) checkpoint(start int64, sync bool) {
	f.must(func() error {
		file, err := f.m.Disk().Open(benchDir+"/checkpoint", machine.Create|machine.Truncate)
		if err == nil {
			_, err = machine.WriteFull(file, fmt.Appendf(nil, "faultline-log 3 start %d recovery %d cleaned 0 epochs 0 crc 00000000\n", start, start), 0)
		}
		if err == nil && sync {
			err = file.Sync()
		}
		return err
	})
	if sync {
		f.syncDirs()
	}
}

func TestDeletedSegmentsComeBack(t *testing.T) {
	keepLess := Topic{RetentionTime: -1, RetentionBytes: 1}
	back := "was opened as 0..12, but what lies below 5 was deleted for good"
	story := func(fn func(f *forger)) *forger {
		f := threeSegments(t, keepLess)
		fn(f)
		f.crash()
		f.opened(0, 12)
		return f
	}
	// A crash between the durable checkpoint and the removal.
	story(func(f *forger) {
		f.checkpoint(5, true)
		f.trace(machine.LogDeleted, 0, 5)
	}).fires(Recovery, back)
	// One whose checkpoint was not durable, or without one (the disk was full): the segment was never gone.
	story(func(f *forger) {
		f.checkpoint(5, false)
		f.trace(machine.LogDeleted, 0, 5)
	}).silent()
	story(func(f *forger) { f.trace(machine.LogDeleted, 0, 5) }).silent()
	// A client was shown that they are gone.
	story(func(f *forger) {
		f.answered(1<<20, 5, 5, 12, f.w.Now(), f.w.Now())
	}).fires(Recovery, back)
	// The log was open without them.
	f := threeSegments(t, keepLess)
	f.crash()
	f.opened(5, 12)
	f.crash()
	f.opened(0, 12)
	f.fires(Recovery, back)
	// Their removal was durable, and they were written anew.
	f = threeSegments(t, keepLess)
	f.remove(0)
	f.syncDirs()
	f.crash()
	f.segment(0)
	f.put(5, string(make([]byte, 1000)))
	f.sync()
	f.syncDirs()
	f.opened(0, 12)
	f.fires(Recovery, back)
	// The removal was not durable when power went.
	for seed := uint64(1); ; seed++ {
		require.Less(t, seed, uint64(20), "the removal is durable each time")
		f = threeSegments(t, keepLess)
		f.remove(0)
		f.power()
		if _, there := f.c.Disk().File(segmentPath(0)); there {
			f.opened(0, 12)
			f.silent()
			return
		}
	}
}

func TestFetchOfMoreThanWasAskedFor(t *testing.T) {
	one, two := forged(0, 2, 0, "one"), forged(2, 3, 0, "two")
	size := int32(len(one))
	f := twoFlushed(t)
	f.answered(2*size-1, 0, 0, 5, 0, 0, one, two)
	f.fires(Recovery, "a fetch of at most 127 bytes from offset 0 got several batches, 128 bytes")
	f = twoFlushed(t)
	f.answered(2*size, 0, 0, 5, 0, 0, one, two)
	f.answered(1, 0, 0, 5, 0, 0, one) // one batch is always right
	f.silent()
}

// threeMore puts two records each into segments 5, 7 and 9 behind what is there.
func threeMore(f *forger, meanwhile func(base int64)) {
	for base := int64(5); base <= 9; base += 2 {
		f.segment(base)
		meanwhile(base)
		f.put(2, "more")
		f.sync()
	}
	f.syncDirs()
	f.visible(11)
}

func TestASegmentThatLostItsNameWhileItWasWritten(t *testing.T) {
	f := twoFlushed(t)
	threeMore(f, func(base int64) {
		if base == 5 {
			f.remove(5)
		}
	})
	f.fires(Recovery, "is visible up to 11, but its files hold valid batches up to 5 only")
}

func TestSegmentsThatKeepTheirNames(t *testing.T) {
	f := twoFlushed(t)
	threeMore(f, func(int64) {})
	f.silent()
}

// A replica whose log begins behind all that its leader has begins anew further back, as one does whose leader begins at its end or behind it further on. It may stop at any moment on the way.
func TestReplicasThatBeginAnew(t *testing.T) {
	cfg := log.Config{SegmentBytes: 300, FlushInterval: time.Second, RetentionTime: -1, RetentionBytes: 1}
	for seed := range uint64(40) {
		draw := rand.New(rand.NewPCG(seed, 9))
		b := newBench(t, seed, Topic{Replicas: 2, RetentionTime: -1, RetentionBytes: 1, SegmentBytes: 300})
		var l *log.Log
		open := func() error {
			var err error
			if l, err = log.Open(b.m, benchDir, "visits", 0, cfg, false); err == nil {
				b.m.Trace(machine.Event{Kind: machine.HighWatermark, Subject: "visits/0", A: l.Start(), B: -1})
			}
			return err
		}
		follow := func(n int) error {
			var builder wire.Builder
			for range n {
				builder.Reset(0)
				builder.Add(b.m.Now().UnixMilli(), nil, make([]byte, 100), nil)
				p, err := builder.Finish()
				if err == nil {
					_, err = l.Append(p, log.AppendOptions{})
				}
				if err != nil {
					return err
				}
			}
			return l.Flush()
		}
		told := func(hw int64) {
			b.m.Trace(machine.Event{Kind: machine.HighWatermark, Subject: "visits/0", A: hw})
		}
		require.NoError(t, b.do(open))
		for range 6 {
			require.NoError(t, b.do(func() error { return follow(6) }))
			require.NoError(t, b.do(func() error { told(l.End()); return l.Retain(l.End()) }))
			require.NoError(t, b.do(func() error { return follow(draw.IntN(4)) }))
			further, back := draw.IntN(2) == 0, draw.Int64N(5)
			b.c.Go("restart", func() {
				if further {
					to := l.End()
					if l.Start() == to || draw.IntN(2) == 0 {
						to++
					}
					if l.Restart(to, 0) == nil {
						told(to)
					}
					return
				}
				to := max(l.Start()-1-back, 0)
				told(to)
				l.Restart(to, 0)
			})
			b.pass(time.Duration(draw.IntN(20_000)) * time.Microsecond)
			switch draw.IntN(3) {
			case 0:
				b.crash()
			case 1:
				b.power()
			default:
				b.pass(time.Second)
				continue
			}
			require.NoError(t, b.do(open))
		}
		require.Empty(t, b.found(), "seed %d", seed)
		b.w.Close()
	}
}

// Nothing but a broker that told that it knows of nothing committed there, and wrote where it begins, may drop a log.
func TestReplicasThatBeginAnewWithoutReason(t *testing.T) {
	for _, reason := range []func(f *forger){
		func(f *forger) { f.checkpoint(2, true) },
		func(f *forger) { f.trace(machine.HighWatermark, 2, 0) },
		func(f *forger) { f.trace(machine.HighWatermark, 2, 0); f.checkpoint(2, false) },
	} {
		f := threeSegments(t, Topic{Replicas: 2, RetentionTime: -1, RetentionBytes: 1})
		f.trace(machine.HighWatermark, 12, 0)
		f.remove(0)
		f.remove(5)
		reason(f)
		f.remove(10)
		f.fires(Retain, "no segment is left to append to")
	}
}

// What retention writes when it takes the oldest segments is no reason to take others, nor to leave none.
func TestRetentionOfAReplicaIsNoBeginningAnew(t *testing.T) {
	f := threeSegments(t, Topic{Replicas: 2, RetentionTime: -1, RetentionBytes: -1})
	f.trace(machine.HighWatermark, 12, 0)
	f.checkpoint(5, true)
	f.remove(0)
	f.fires(Retain, "segment 0..4 (1061 bytes) was removed, but the log behind it has 2122 bytes")

	f = threeSegments(t, Topic{Replicas: 2, RetentionTime: time.Millisecond, RetentionBytes: -1})
	f.trace(machine.HighWatermark, 12, 0)
	f.segment(12)
	f.syncDirs()
	f.pass(time.Second)
	f.checkpoint(12, true)
	for _, base := range []int64{0, 5, 10, 12} {
		f.remove(base)
	}
	f.fires(Retain, "empty segment 12 was removed, but no segment is left to append to")

	f = threeSegments(t, Topic{Replicas: 2, RetentionTime: -1, RetentionBytes: -1})
	f.trace(machine.HighWatermark, 12, 0)
	f.checkpoint(12, true)
	for _, base := range []int64{10, 5, 0} {
		f.remove(base)
	}
	f.segment(12)
	f.syncDirs()
	f.trace(machine.LogTruncated, 12, 12)
	f.silent()
}
