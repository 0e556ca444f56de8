package oracle

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"faultline/broker/log"
	wire "faultline/broker/record"
	"faultline/sim/machine"
)

// compacted is a bench with a log that is compacted, and what came of it.
type compacted struct {
	*bench
	log  *log.Log
	comp *Compaction
}

// newCompacted appends a record of each key, in segments of two, and flushes. A key with a minus is a tombstone, one with a number before it the record with that sequence number of an idempotent producer.
func newCompacted(t *testing.T, keys ...string) *compacted {
	b := &compacted{bench: newBench(t, 1, Topic{Compact: true, RetentionTime: -1, RetentionBytes: -1})}
	b.comp = NewCompaction(nil, b.disks)
	b.rec.Attach(b.comp)
	require.NoError(t, b.do(func() (err error) {
		b.log, err = log.Open(b.m, benchDir, "visits", 0, log.Config{SegmentBytes: 150, Compact: true, KeepOld: true, CompactRatio: 0.01, RetentionTime: -1}, false)
		for _, k := range keys {
			if err == nil {
				_, err = b.log.Append(b.batch(k), log.AppendOptions{})
			}
		}
		if err == nil {
			err = b.log.Flush()
		}
		return err
	}))
	b.pass(100e6) // the recovery point
	return b
}

func (b *compacted) batch(key string) []byte {
	var w wire.Builder
	w.Reset(wire.None)
	value, at := []byte("v"), int64(1000)
	if sequence, of, ok := strings.Cut(key, ":"); ok {
		n, err := strconv.ParseInt(sequence, 10, 32)
		require.NoError(b.t, err)
		key, at = of, b.m.Now().UnixMilli()
		w.ProducerID, w.ProducerEpoch, w.BaseSequence = 7, 0, int32(n)
	}
	if key[0] == '-' {
		key, value = key[1:], nil
	}
	w.Add(at, []byte(key), value, nil)
	p, err := w.Finish()
	require.NoError(b.t, err)
	return append([]byte(nil), p...)
}

// forge puts a segment of these offsets and keys, "" for a gap, in the place of those from base on.
func (b *compacted) forge(base int64, keys ...string) {
	var p []byte
	for i, k := range keys {
		if k == "" {
			p = wire.Gap(p, base+int64(i), base+int64(i), 0, 1000)
			continue
		}
		batch, _, err := wire.Next(b.batch(k))
		require.NoError(b.t, err)
		batch.Place(base+int64(i), 0)
		p = append(p, batch.Bytes...)
	}
	require.NoError(b.t, b.do(func() error {
		name := fmt.Sprintf("%s/%020d.log", benchDir, base)
		f, err := b.m.Disk().Open(name+".tmp", machine.Create)
		if err == nil {
			_, err = machine.WriteFull(f, p, 0)
		}
		if err == nil {
			err = f.Sync()
		}
		b.m.Trace(machine.Event{Kind: machine.LogCompacted, Subject: "visits/0", A: base, B: base + int64(len(keys)), C: base + int64(len(keys))})
		if err == nil {
			err = b.m.Disk().Rename(name+".tmp", name)
		}
		if err == nil {
			err = b.m.Disk().SyncDir(benchDir)
		}
		return err
	}))
}

// tells returns what the oracle says of an invariant at the end.
func (b *compacted) tells(invariant string) []string {
	b.comp.Finish(End{At: b.w.Now()})
	var out []string
	for _, v := range b.comp.Violations() {
		if v.Invariant == invariant {
			out = append(out, v.Message)
		}
	}
	return out
}

func TestCompactionBySuperseding(t *testing.T) {
	b := newCompacted(t, "a", "b", "a", "-b", "c", "a", "d")
	require.NoError(t, b.do(func() error { return b.log.Compact(1 << 40) }))
	require.Empty(t, b.tells(Retain))
	require.Empty(t, b.tells(Durable))
	require.Equal(t, []bool{true, true, true, false, false}, gone(b, 5), "of a and b what comes again")
	b.crash()
	require.NoError(t, b.do(func() (err error) {
		b.log, err = log.Open(b.m, benchDir, "visits", 0, log.Config{SegmentBytes: 150, Compact: true, KeepOld: true, RetentionTime: -1}, false)
		return err
	}))
	require.Empty(t, b.tells(Durable))
	b.silent()
}

// The log keeps tombstones for a day.
func TestCompactionOfATombstoneThatIsToGoTooSoon(t *testing.T) {
	for stays, soon := range map[time.Duration]bool{24 * time.Hour: false, 24*time.Hour + time.Minute: true} {
		b := newCompacted(t, "a", "b", "a", "-b", "c", "a", "d")
		b.disks.promise.Topics[0].TombstoneRetention = stays
		require.NoError(t, b.do(func() error { return b.log.Compact(1 << 40) }))
		if got := b.tells(Retain); soon {
			require.Len(t, got, 1)
			require.Contains(t, got[0], "the tombstone at offset 3 is to stay until")
		} else {
			require.Empty(t, got)
		}
	}
}

func gone(b *compacted, n int64) (out []bool) {
	for o := range n {
		out = append(out, b.disks.Compacted("visits", 0, o))
	}
	return out
}

func TestCompactionTakesTooMuch(t *testing.T) {
	keys := []string{"a", "b", "a", "-b", "c", "a", "d"}
	for _, c := range []struct {
		what  string
		base  int64
		forge []string
		text  string
	}{
		{"what is superseded", 0, []string{"", ""}, ""},
		{"the last value of a key", 4, []string{"", "a"}, "the record at offset 4 goes, and no later one has its key \"c\""},
		{"a tombstone whose time is not said", 2, []string{"a", ""}, "the tombstone at offset 3 goes, which was to stay"},
		{"a record that never was", 0, []string{"a", "x"}, "the record at offset 1 is not the one that was there"},
		{"the active segment", 6, []string{""}, "the active segment"},
	} {
		t.Run(c.what, func(t *testing.T) {
			b := newCompacted(t, keys...)
			b.forge(c.base, c.forge...)
			told := b.tells(Retain)
			if c.text == "" {
				require.Empty(t, told)
				return
			}
			require.True(t, slices.ContainsFunc(told, func(s string) bool { return strings.Contains(s, c.text) }), told)
		})
	}
	b := newCompacted(t, keys...)
	b.forge(4, "", "a")
	require.NotEmpty(t, b.tells(Durable), "the last value of c is gone at the end")
}

// The last batch of an idempotent producer stays as a header; those before it may go.
func TestCompactionForgetsASequence(t *testing.T) {
	b := newCompacted(t, "0:a", "b", "a", "c", "d")
	require.NoError(t, b.do(func() error { return b.log.Compact(1 << 40) }))
	require.Equal(t, []bool{true, false}, gone(b, 2))
	require.Empty(t, b.tells(Idemp))

	b = newCompacted(t, "0:a", "b", "a", "c", "d")
	b.forge(0, "", "b")
	require.Equal(t, []string{"visits/0 on broker-1 is compacted from 0 to 1: that the batch at offset 0 was the last one of producer 7, from sequence number 0 on, is not to be seen any more"}, b.tells(Idemp))

	b = newCompacted(t, "0:a", "b", "1:a", "c", "d")
	b.forge(0, "", "b")
	require.Empty(t, b.tells(Idemp))
}
