package oracle

import (
	"testing"
	"time"

	"faultline/sim/machine"
	"faultline/workloads/history"

	"github.com/stretchr/testify/require"
)

// threeSegments is a log of segments 0..4, 5..9 and the active one, 10..11, all visible.
func threeSegments(t *testing.T, topic Topic) *forger {
	f := forge(t, topic)
	for _, base := range []int64{0, 5, 10} {
		if base > 0 {
			f.segment(base)
		}
		n := 5
		if base == 10 {
			n = 2
		}
		f.put(n, string(make([]byte, 1000)))
		f.sync()
		f.syncDirs()
		f.visible(base + int64(n))
	}
	return f
}

func TestRetentionByTime(t *testing.T) {
	f := threeSegments(t, Topic{RetentionTime: time.Minute, RetentionBytes: -1})
	f.pass(61 * time.Second)
	f.remove(0)
	f.silent()
	f = threeSegments(t, Topic{RetentionTime: time.Minute, RetentionBytes: -1})
	f.pass(59 * time.Second)
	f.remove(0)
	f.fires(Retain, "segment 0..4 (1061 bytes) was removed, but the log behind it has 2122 bytes, and its newest record is 59")
}

func TestRetentionGoesByTheMachinesOwnClock(t *testing.T) {
	f := threeSegments(t, Topic{RetentionTime: time.Minute, RetentionBytes: -1})
	f.c.JumpClock(time.Hour)
	f.rec.FaultInjected(1, history.Fault{}, "clock jump")
	f.remove(0)
	f.silent()
	// The clock goes back between the decision and the deed.
	f = threeSegments(t, Topic{RetentionTime: time.Minute, RetentionBytes: -1})
	f.c.JumpClock(time.Hour)
	f.rec.FaultInjected(1, history.Fault{}, "clock jump")
	f.c.JumpClock(-time.Hour)
	f.rec.FaultInjected(2, history.Fault{}, "clock jump")
	f.remove(0)
	f.silent()
}

func TestRetentionBySize(t *testing.T) {
	f := threeSegments(t, Topic{RetentionTime: -1, RetentionBytes: 2000})
	f.remove(0)
	f.silent()
	f = threeSegments(t, Topic{RetentionTime: -1, RetentionBytes: 2000})
	f.remove(0)
	f.remove(5)
	f.fires(Retain, "segment 5..9 (1061 bytes) was removed, but the log behind it has 1061 bytes of 2000 that are kept")
	f = threeSegments(t, Topic{RetentionTime: -1, RetentionBytes: -1})
	f.remove(0)
	f.fires(Retain, "was removed, but the log behind it has 2122 bytes")
}

func TestRetentionOldestFirst(t *testing.T) {
	f := threeSegments(t, Topic{RetentionTime: -1, RetentionBytes: 1})
	f.remove(5)
	f.fires(Retain, "an older one, 0, is still there")
}

func TestRetentionWhoseRemovalFails(t *testing.T) {
	f := threeSegments(t, Topic{RetentionTime: -1, RetentionBytes: 1})
	f.trace(machine.LogDeleted, 0, 5)
	f.trace(machine.LogDeleted, 5, 10)
	f.remove(5) // the file of segment 0 stays
	f.put(1, "more")
	f.sync()
	f.visible(13)
	f.crash()
	f.trace(machine.LogDeleted, 0, 10)
	f.remove(0)
	f.opened(10, 13)
	f.silent()
	f = threeSegments(t, Topic{RetentionTime: -1, RetentionBytes: 2000})
	f.trace(machine.LogDeleted, 0, 5)
	f.trace(machine.LogDeleted, 5, 10)
	f.fires(Retain, "segment 5..9 (1061 bytes) was removed")
}

func TestRetentionRemovesTheActiveSegment(t *testing.T) {
	f := threeSegments(t, Topic{RetentionTime: time.Millisecond, RetentionBytes: -1})
	f.pass(time.Second)
	f.remove(0)
	f.remove(5)
	f.remove(10)
	f.fires(Retain, "no segment is left to append to")
	f = threeSegments(t, Topic{RetentionTime: time.Millisecond, RetentionBytes: -1})
	f.remove(10)
	f.fires(Retain, "it is the active one")
	// All is expired, the last one is empty, and a new one of the same name took its place.
	f = threeSegments(t, Topic{RetentionTime: time.Millisecond, RetentionBytes: -1})
	f.segment(12)
	f.syncDirs()
	f.pass(time.Second)
	for _, base := range []int64{0, 5, 10, 12} {
		f.remove(base)
	}
	f.fires(Retain, "empty segment 12 was removed, but no segment is left to append to")
}

func TestRetentionTakesBackARollThatFailed(t *testing.T) {
	f := threeSegments(t, Topic{RetentionTime: -1, RetentionBytes: -1})
	f.segment(12)
	f.remove(12)
	f.silent()
}

func TestRetentionPastWhatIsVisible(t *testing.T) {
	f := forge(t, Topic{RetentionTime: time.Millisecond, RetentionBytes: -1})
	f.put(5, "one")
	f.segment(5)
	f.pass(time.Second)
	f.remove(0)
	f.fires(Retain, "only what lies below 0 is visible")
}

func TestRetentionAfterACrash(t *testing.T) {
	// What a deletion that was cut short left is removed at the next start.
	f := threeSegments(t, Topic{RetentionTime: -1, RetentionBytes: 2000})
	f.crash()
	f.remove(0)
	f.opened(5, 12)
	f.silent()
	// Segments behind a bad batch go, the last one first.
	f = threeSegments(t, Topic{RetentionTime: -1, RetentionBytes: -1})
	f.put(1, "")
	f.segment(13)
	f.put(2, "")
	f.power()
	f.reopen(10)
	f.truncate(1061)
	f.remove(13)
	f.sync()
	f.syncDirs()
	f.opened(0, 12)
	f.silent()
	// But nothing else does.
	f = threeSegments(t, Topic{RetentionTime: -1, RetentionBytes: -1})
	f.crash()
	f.remove(10)
	f.fires(Retain, "it is the active one")
	f = threeSegments(t, Topic{RetentionTime: -1, RetentionBytes: -1})
	f.crash()
	f.remove(0)
	f.fires(Retain, "was removed, but the log behind it has 2122 bytes")
}

func TestRetentionOfAWholeLog(t *testing.T) {
	drop := func(f *forger) {
		f.must(func() error { return f.m.Disk().Rename(benchDir, benchDir+".deleted") })
		f.must(func() error { return f.m.Disk().Remove(benchDir + ".deleted/00000000000000000000.log") })
	}
	f := threeSegments(t, keepAll)
	drop(f)
	f.fires(Retain, "was removed as a whole, but nobody deleted its topic")
	f = threeSegments(t, keepAll)
	f.rec.Traced(history.Who{Machine: "coord-1"}, machine.Event{Kind: machine.ZnodeDeleted, Subject: "/brokers/topics/visits"})
	drop(f)
	f.silent()
}

func TestRetentionThatNeverRemoves(t *testing.T) {
	f := threeSegments(t, Topic{RetentionTime: time.Minute, RetentionBytes: -1})
	f.rec.PhaseBegan(history.Heal)
	f.pass(time.Minute + time.Second)
	f.visible(12)
	f.pass(9 * time.Second)
	f.silent()
	f.pass(2 * time.Second)
	f.fires(Retain, "segment 0..4 should have been removed, but has stayed for")
}

func TestRetentionThatNeverRemovesIsAwaitedAndTold(t *testing.T) {
	heal := func(f *forger) {
		f.pass(time.Minute + time.Second)
		f.rec.PhaseBegan(history.Heal)
		f.rec.PhaseBegan(history.Quiesce)
	}
	f := threeSegments(t, Topic{RetentionTime: time.Minute, RetentionBytes: -1})
	heal(f)
	require.Equal(t, "retention of visits/0 on broker-1, whose first segment begins at 0", f.ret.Waits())
	f.pass(11 * time.Second)
	f.rec.PhaseBegan(history.End) // disturbs nothing
	f.fires(Retain, "segment 0..4 should have been removed, but has stayed for 11")
	require.Empty(t, f.ret.Waits(), "what is told is not waited for")

	// Those that go in time are fine, also when one goes after the other.
	f = threeSegments(t, Topic{RetentionTime: time.Minute, RetentionBytes: -1})
	heal(f)
	require.NotEmpty(t, f.ret.Waits())
	f.pass(9 * time.Second)
	f.remove(0)
	require.Equal(t, "retention of visits/0 on broker-1, whose first segment begins at 5", f.ret.Waits())
	f.pass(9 * time.Second)
	f.segment(12)
	f.syncDirs()
	f.remove(5)
	f.remove(10)
	require.Empty(t, f.ret.Waits())
	f.rec.PhaseBegan(history.End)
	f.silent()
}

func TestRetentionOfAnActiveSegmentThatNeverRolls(t *testing.T) {
	story := func(keep time.Duration) *forger {
		f := forge(t, Topic{RetentionTime: keep, RetentionBytes: -1})
		f.put(5, "one")
		f.sync()
		f.visible(5)
		f.pass(time.Minute + time.Second)
		f.rec.PhaseBegan(history.Heal)
		f.rec.PhaseBegan(history.Quiesce)
		return f
	}
	f := story(time.Minute)
	require.Equal(t, "retention of visits/0 on broker-1, whose first segment begins at 0", f.ret.Waits())
	f.pass(11 * time.Second)
	f.fires(Retain, "segment 0..4 should have been removed, but has stayed for 11")

	f = story(time.Minute)
	require.NotEmpty(t, f.ret.Waits())
	f.pass(9 * time.Second)
	f.segment(5)
	f.syncDirs()
	f.remove(0)
	require.Empty(t, f.ret.Waits())
	f.pass(20 * time.Second)
	f.silent()

	f = story(time.Hour) // all is kept
	require.Empty(t, f.ret.Waits())
	f.pass(20 * time.Second)
	f.silent()

	f = story(time.Minute) // a record that is not yet visible keeps the segment
	f.put(1, "two")
	require.Empty(t, f.ret.Waits())
}

func TestSegmentsThatGrowTooLarge(t *testing.T) {
	story := func(most int64) *forger {
		f := forge(t, Topic{RetentionTime: -1, RetentionBytes: -1, SegmentBytes: most})
		f.put(1, string(make([]byte, 1000)))
		f.put(1, string(make([]byte, 1000)))
		f.sync()
		f.visible(2)
		return f
	}
	f := story(2121)
	f.fires(Retain, "segment 0..1 has 2 batches of 2122 bytes together, segments of this topic have at most 2121")
	require.Len(t, f.ret.Violations(), 1)
	story(2122).silent()
	// One batch may be larger than a segment.
	f = forge(t, Topic{RetentionTime: -1, RetentionBytes: -1, SegmentBytes: 100})
	f.put(1, string(make([]byte, 1000)))
	f.sync()
	f.visible(1)
	f.silent()
}

func TestSegmentsAreClosedForTheirAge(t *testing.T) {
	aging := Topic{RetentionTime: -1, RetentionBytes: -1, SegmentAge: time.Second}
	put := func(f *forger, later time.Duration) {
		f.stamp += later.Milliseconds()
		f.put(2, "text")
		f.sync()
		f.visible(f.next)
	}
	f := forge(t, aging)
	put(f, 0)
	put(f, 999*time.Millisecond)
	end := f.next
	f.segment(end)
	f.syncDirs()
	put(f, time.Hour) // the first of its segment, however late it comes
	f.silent()
	f = forge(t, aging)
	put(f, 0)
	put(f, time.Second)
	f.fires(Retain, "the batch at offset 2 is in segment 0, whose first record is 1s older; segments of this topic are closed after 1s")
	// A copy may bring several batches at once, and compaction joins segments.
	for _, excused := range []func(*Topic){func(t *Topic) { t.Replicas = 3 }, func(t *Topic) { t.Compact = true }} {
		topic := aging
		excused(&topic)
		f := forge(t, topic)
		put(f, 0)
		put(f, time.Minute)
		f.silent()
	}
}
