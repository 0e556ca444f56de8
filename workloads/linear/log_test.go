package linear

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// story tells a log's history in few words. Times are milliseconds.
type story struct{ *Log }

func tell() story { return story{NewLog("visits/0", &Budget{})} }

const ms = time.Millisecond

func batch(base int64, n int32, hash uint64) Batch { return Batch{base, n, hash << 48} }

func (s story) acked(call, ret int, b Batch) {
	s.AppendAcked("p1", ms*time.Duration(call), ms*time.Duration(ret), -1, b)
}
func (s story) acked1(call, ret int, b Batch) {
	s.AppendAcked("p1", ms*time.Duration(call), ms*time.Duration(ret), 1, b)
}
func (s story) unknown(call int, b Batch) { s.AppendUnknown("p2", ms*time.Duration(call), -1, b) }
func (s story) read(call, ret int, end int64) {
	s.Read("c1", ms*time.Duration(call), ms*time.Duration(ret), end)
}
func (s story) saw(at int, bs ...Batch) {
	for _, b := range bs {
		s.Saw("c1", ms*time.Duration(at), ms*time.Duration(at), b)
	}
}

func (s story) ok(t *testing.T) Verdict {
	t.Helper()
	v := s.Check()
	require.Equal(t, OK, v.Outcome, "%v", v)
	return v
}

func (s story) broken(t *testing.T, invariant, text string) {
	t.Helper()
	v := s.Check()
	require.Equal(t, Violated, v.Outcome, "%v", v)
	require.Equal(t, invariant, v.Invariant, "%v", v)
	require.Contains(t, v.Message, text)
}

func TestLogReadersSeeWhatWasAcked(t *testing.T) {
	s := tell()
	a, b := batch(0, 3, 0xa), batch(3, 2, 0xb)
	s.acked(1, 5, a)
	s.acked(2, 6, b)
	s.read(0, 3, 0)
	s.read(6, 7, 5)
	s.saw(8, a, b)
	require.Empty(t, s.ok(t).Unverified)
}

func TestLogStaleRead(t *testing.T) {
	s := tell()
	a, b := batch(0, 3, 0xa), batch(3, 2, 0xb)
	s.acked(1, 2, a)
	s.acked(3, 4, b)
	s.read(6, 7, 3)
	s.saw(9, a, b)
	s.broken(t, Linear, "stale read: read: log ends at 3 by c1 [6ms 7ms] was called after this had returned: append 3..4")
	require.Equal(t, 2, s.window.Len())
}

func TestLogEndGoesBack(t *testing.T) {
	s := tell()
	a := batch(0, 3, 0xa)
	s.unknown(1, a)
	s.read(2, 3, 3)
	s.read(4, 5, 0)
	s.saw(6, a)
	s.broken(t, Linear, "stale read: read: log ends at 0")
}

func TestLogAckedAppendReplaced(t *testing.T) {
	a, b := batch(0, 3, 0xa), batch(0, 3, 0xb)
	s := tell()
	s.acked(1, 2, a)
	s.unknown(3, b)
	s.read(8, 9, 3)
	s.saw(9, b)
	s.broken(t, Durable, "append 0..2 #000a acks=all by p1, acked, but readers found 0..2 #000b there")
	require.NotNil(t, s.window)
}

func TestLogAckedAppendNeverThere(t *testing.T) {
	s := tell()
	a := batch(0, 3, 0xa)
	s.acked(1, 2, a)
	s.read(8, 9, 0)
	s.broken(t, Linear, "stale read: read: log ends at 0")
}

func TestLogReorderedAppends(t *testing.T) {
	s := tell()
	a, b := batch(5, 5, 0xa), batch(0, 5, 0xb)
	s.acked(1, 2, a) // before b was even sent, though b has the lower offsets
	s.acked(3, 4, b)
	s.saw(9, b, a)
	s.broken(t, Linear, "wrong order")
	s = tell()
	s.acked1(1, 2, a)
	s.acked1(3, 4, b)
	s.saw(9, b, a)
	s.broken(t, Linear, "wrong order")
}

func TestLogOffsetsGivenTwice(t *testing.T) {
	s := tell()
	a, b := batch(0, 3, 0xa), batch(2, 3, 0xb)
	s.acked(1, 3, a)
	s.acked(2, 4, b)
	s.broken(t, Linear, "its first offset was given to another batch")
}

func TestLogChangedRecord(t *testing.T) {
	s := tell()
	s.acked(1, 2, batch(0, 3, 0xa))
	s.saw(4, batch(0, 3, 0xa))
	s.saw(5, batch(0, 3, 0xc))
	s.broken(t, Linear, "read another batch at offset 0")
	s = tell()
	s.acked(1, 2, batch(0, 3, 0xa))
	s.saw(4, batch(0, 3, 0xc))
	s.broken(t, Durable, "acked, but readers found 0..2 #000c there")
}

func TestLogPhantom(t *testing.T) {
	a, x := batch(0, 3, 0xa), batch(3, 2, 0xf)
	s := tell()
	s.acked(1, 2, a)
	s.saw(4, a, x)
	s.read(5, 6, 5)
	s.broken(t, Linear, "a batch at 3..4 that nobody sent")
	s = tell()
	s.acked(1, 2, a)
	s.saw(4, a, x)
	s.read(5, 6, 5)
	s.Crashed()
	s.ok(t)
}

func TestLogAppendedTwice(t *testing.T) {
	s := tell()
	s.acked(1, 2, batch(0, 3, 0xa))
	s.saw(4, batch(0, 3, 0xa), batch(3, 3, 0xa))
	s.Crashed()
	s.broken(t, Linear, "is there twice")
	// It may be where a replica began anew in between.
	for at, fine := range map[int64]bool{0: false, 3: true, 4: false} {
		s = tell()
		s.acked(1, 2, batch(0, 3, 0xa))
		s.begun = append(s.begun, at)
		s.saw(4, batch(0, 3, 0xa), batch(3, 3, 0xa))
		s.Crashed()
		if fine {
			s.ok(t)
		} else {
			s.broken(t, Linear, "is there twice")
		}
	}
	// Or of a producer that took the answer for lost, sent it again and crashed. One that did not crash would tell of it.
	for _, crashed := range []bool{true, false} {
		s = tell()
		s.acked(1, 2, batch(0, 3, 0xa))
		s.Deaf()
		s.saw(4, batch(0, 3, 0xa), batch(3, 3, 0xa))
		if crashed {
			s.Crashed()
			s.ok(t)
		} else {
			s.broken(t, Linear, "is there twice")
		}
	}
	// A retry after an answer got lost is another matter.
	s = tell()
	s.unknown(0, batch(0, 3, 0xa))
	s.acked(1, 2, batch(3, 3, 0xa))
	s.saw(4, batch(0, 3, 0xa), batch(3, 3, 0xa))
	s.ok(t)
}

func TestLogUnknownAppendMayAppearLateOrNever(t *testing.T) {
	a, b, u := batch(0, 1, 0xa), batch(1, 1, 0xb), batch(0, 1, 0xc)
	s := tell()
	s.unknown(0, u)
	s.acked(1, 2, a)
	s.acked(3, 4, b)
	s.read(5, 6, 2)
	u.Base = 2
	s.read(50, 60, 3)
	s.saw(61, a, b, u)
	s.ok(t)
	s = tell()
	s.unknown(0, u)
	s.acked(1, 2, a)
	s.read(5, 6, 1)
	s.saw(61, a)
	s.ok(t)
	// but not before it was sent
	s = tell()
	s.unknown(100, batch(0, 1, 0xc))
	s.read(5, 6, 1)
	s.saw(161, batch(0, 1, 0xc))
	s.broken(t, Linear, "wrong order: append 0..0")
}

func TestLogAcks1VisibleLater(t *testing.T) {
	s := tell()
	a := batch(0, 3, 0xa)
	s.acked1(1, 2, a)
	s.read(3, 4, 0)
	s.read(5, 6, 3)
	s.saw(6, a)
	s.ok(t)
}

func TestLogAcks1LostOnlyInPowerLoss(t *testing.T) {
	a, b := batch(0, 3, 0xa), batch(0, 2, 0xb)
	lose := func(at int, loss bool) story {
		s := tell()
		s.acked1(1, 2, a)
		if loss {
			s.MayLose(ms * time.Duration(at))
		}
		s.acked1(20, 21, b)
		s.read(30, 31, 2)
		s.saw(31, b)
		return s
	}
	require.Contains(t, lose(10, true).ok(t).Unverified, "1 appends with acks=1")
	lose(0, true).broken(t, Linear, "acked, but readers found 0..1 #000b") // the loss came before
	lose(0, false).broken(t, Linear, "acked, but readers found 0..1 #000b")
	s := tell() // visible already: then it was flushed
	s.acked1(1, 2, a)
	s.read(3, 4, 3)
	s.MayLose(10 * ms)
	s.acked1(20, 21, b)
	s.saw(31, b)
	v := s.Check()
	require.Equal(t, Violated, v.Outcome, "%v", v)
}

// A producer that lost the answer sends the same bytes again; the first copy went in a power loss, so both were acked at one base.
func TestLogAcks1SameBytesAckedAgainAfterTheLoss(t *testing.T) {
	b := batch(0, 2, 0xb)
	again := func(powerLoss bool) story {
		s := tell()
		s.acked1(1, 2, b)
		if powerLoss {
			s.MayLose(10 * ms)
		}
		s.acked1(20, 21, b)
		s.read(30, 31, 2)
		s.saw(31, b)
		return s
	}
	again(true).ok(t)
	again(false).broken(t, Linear, "acked, but readers found 0..1 #000b")
}

// An attempt without answer got into the log of the next leader; the retry went to the one before, which did not know that it was deposed, and was acked at the same offset in a log that nobody follows. What is
// read is of the attempt, and the retry may be lost. (leader-failover, seed 866.)
func TestLogAcks1AckedByADeposedLeaderWhereAnAttemptBeforeIs(t *testing.T) {
	a, b := batch(0, 2, 0xa), batch(2, 3, 0xb)
	again := func(call int, moved bool, seen ...Batch) story {
		s := tell()
		s.several, s.moved = true, moved
		s.unknown(call, a)
		s.acked1(20, 21, b)
		s.acked1(30, 31, a)
		s.saw(40, seen...)
		return s
	}
	require.Contains(t, again(1, true, a, b).ok(t).Unverified, "1 appends with acks=1")
	again(1, false, a, b).broken(t, Linear, "wrong order: append 0..1 #000a acks=1 by p1 [30ms ...]")   // nothing may be lost
	again(25, true, a, b).broken(t, Linear, "wrong order: append 0..1 #000a acks=all by p2 [25ms ...]") // nor was the attempt there before
	again(1, true, a, b, batch(5, 2, 0xa)).broken(t, Linear, "wrong order")                             // the attempt made another one
	s := tell()
	s.several, s.moved = true, true
	s.unknown(1, a)
	s.acked(20, 21, b)
	s.acked(30, 31, a)
	s.saw(40, a, b)
	s.broken(t, Linear, "wrong order") // acks=all is never lost
}

func TestLogReadInsideABatch(t *testing.T) {
	s := tell()
	a := batch(0, 3, 0xa)
	s.acked(1, 2, a)
	s.read(3, 4, 2)
	s.saw(5, a)
	s.broken(t, Linear, "inside a batch")
}

func TestLogHoleIsToldAndItsOffsetsAreChecked(t *testing.T) {
	a, b, c, d := batch(0, 2, 0xa), batch(2, 2, 0xb), batch(4, 2, 0xc), batch(6, 2, 0xd)
	hole := func() story {
		s := tell()
		s.acked(1, 2, a)
		s.acked(3, 4, b)
		s.unknown(5, c)
		s.acked(7, 8, d)
		s.saw(20, a, d)
		s.read(20, 21, 8)
		return s
	}
	require.Equal(t, "contents of 2..5, which nobody read", hole().ok(t).Unverified)
	s := hole()
	s.read(9, 10, 4)
	s.broken(t, Linear, "stale read")
}

// Nothing but their places orders appends with acks=1 that were under way together. In a hole that must not cost a search through all
// the subsets that could be leapt over.
func TestLogHoleOfAppendsUnderWayTogetherNeedsNoSearch(t *testing.T) {
	const n = 30
	hole := func() story {
		s := tell()
		s.budget.Window = 4 * n * n
		for i := range n {
			s.acked1(n-i, 100, batch(int64(i), 1, uint64(i+1))) // called in the opposite order
			s.read(0, 200+i, int64(i))
		}
		last := batch(n, 1, 0xa)
		s.acked(300, 301, last)
		s.saw(302, last)
		return s
	}
	require.Equal(t, "contents of 0..29, which nobody read", hole().ok(t).Unverified)
	s := hole()
	s.read(303, 304, n/2)
	s.broken(t, Linear, "stale read: read: log ends at 15 by c1 [303ms 304ms]")
	require.Equal(t, 2, s.window.Len())
}

func TestLogPictureAndText(t *testing.T) {
	s := tell()
	for i := range int64(100) {
		b := batch(i, 1, uint64(i))
		s.acked(int(10*i), int(10*i+5), b)
		if i != 50 {
			s.saw(int(10*i+6), b)
		} else {
			s.saw(int(10*i+6), batch(i, 1, 0xbad))
		}
		s.read(int(10*i+6), int(10*i+7), i+1)
	}
	v := s.Check()
	require.Equal(t, Durable, v.Invariant)
	require.LessOrEqual(t, v.Window.Len(), 8)
	require.Contains(t, v.Window.String(), "append 50..50 #0bad")
	file := filepath.Join(t.TempDir(), "visits-0.html")
	require.NoError(t, v.Window.WritePicture(file))
	page, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Contains(t, string(page), "append 50..50")
}

func BenchmarkLog100kOperations(b *testing.B) {
	for b.Loop() {
		s := tell()
		s.limit = 1 << 14
		for i := range int64(50_000) {
			bt := Batch{i * 3, 3, uint64(i) * 7919}
			s.AppendAcked("p", ms*time.Duration(10*i), ms*time.Duration(10*i+15), -1, bt)
			s.Saw("c", ms*time.Duration(10*i+2), ms*time.Duration(10*i+25), bt)
			s.Read("c", ms*time.Duration(10*i+2), ms*time.Duration(10*i+25), bt.Next())
		}
		if v := s.Check(); v.Outcome != OK {
			b.Fatal(fmt.Sprint(v))
		}
	}
}
