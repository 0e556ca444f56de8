package log

import (
	"bytes"
	"errors"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"faultline/broker/record"
)

// model is the log as a slice: what it must look like from outside. Its verbs are those of one task; crash_test.go has the concurrent ones.
type model struct {
	*rig
	batches []modelBatch
	start   int64
	visible int64
}

type modelBatch struct {
	base, next int64
	bytes      []byte
	stamps     []int64
}

func (m *model) end() int64 {
	if n := len(m.batches); n > 0 {
		return m.batches[n-1].next
	}
	return m.start
}

func TestLogIsASlice(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		cfg := Config{
			SegmentBytes:  rapid.Int64Range(100, 3000).Draw(rt, "segment"),
			IndexInterval: rapid.IntRange(1, 500).Draw(rt, "index"),
			RetentionTime: -1, RetentionBytes: rapid.Int64Range(500, 5000).Draw(rt, "retain"),
		}
		m := &model{rig: newRig(t, rapid.Uint64().Draw(rt, "seed"), cfg)}
		defer m.w.Close()
		require.NoError(t, m.open(false))
		rt.Repeat(map[string]func(*rapid.T){
			"append": m.drawAppend,
			"flush": func(rt *rapid.T) {
				require.NoError(t, m.do(func() error { return m.log.Flush() }))
				m.visible = m.end()
			},
			"read":     m.drawRead,
			"time":     m.drawTime,
			"retain":   m.drawRetain,
			"truncate": m.drawTruncate,
			"close": func(rt *rapid.T) {
				require.NoError(t, m.do(func() error { return m.log.Close() }))
				m.crash()
				m.reopen(m.end(), true)
			},
			"crash":      func(rt *rapid.T) { m.crash(); m.reopen(m.end(), false) },
			"power-loss": func(rt *rapid.T) { m.powerLoss(); m.reopen(m.visible, false) },
			"":           func(rt *rapid.T) { m.check() },
		})
	})
}

// reopen opens the log, which must go up to a batch boundary at or above least.
func (m *model) reopen(least int64, clean bool) {
	require.NoError(m.t, m.open(clean))
	s := m.state()
	require.GreaterOrEqual(m.t, s.End, least)
	for m.end() > s.End {
		m.batches = m.batches[:len(m.batches)-1]
	}
	require.Equal(m.t, m.end(), s.End)
	m.visible = s.End
}

func (m *model) check() {
	s := m.state()
	require.Equal(m.t, State{Start: m.start, Visible: m.visible, End: m.end()}, s)
	report, err := CheckDir(m.files())
	require.NoError(m.t, err)
	require.Len(m.t, report.Batches, len(m.batches))
	require.Equal(m.t, m.end(), report.End)
}

func (m *model) drawAppend(rt *rapid.T) {
	var p []byte
	var added []modelBatch
	next := m.end()
	for range rapid.IntRange(1, 3).Draw(rt, "batches") {
		var b record.Builder
		b.Reset(record.Codec(rapid.SampledFrom([]record.Codec{record.None, record.None, record.Snappy}).Draw(rt, "codec")))
		mb := modelBatch{base: next}
		for range rapid.IntRange(1, 4).Draw(rt, "records") {
			stamp := rapid.Int64Range(0, 50).Draw(rt, "time")
			b.Add(stamp, nil, rapid.SliceOfN(rapid.Byte(), 0, 200).Draw(rt, "value"), nil)
			mb.stamps = append(mb.stamps, stamp)
		}
		out, err := b.Finish()
		require.NoError(m.t, err)
		next += int64(len(mb.stamps))
		mb.next = next
		p = append(p, out...)
		mb.bytes = append([]byte(nil), out...)
		placed, _, err := record.Next(mb.bytes)
		require.NoError(m.t, err)
		placed.Place(mb.base, 7)
		added = append(added, mb)
	}
	a, err := m.append(p)
	require.NoError(m.t, err)
	require.Equal(m.t, [2]int64{m.end(), next}, [2]int64{a.Base, a.Next})
	m.batches = append(m.batches, added...)
}

func (m *model) drawRead(rt *rapid.T) {
	offset := rapid.Int64Range(m.start-1, m.end()+1).Draw(rt, "offset")
	most := rapid.IntRange(0, 3000).Draw(rt, "max")
	below := rapid.SampledFrom([]int64{m.visible, m.end(), offset + 1, offset + 3, offset + 9}).Draw(rt, "below")
	p, span, err := m.read(offset, most, below)
	if offset < m.start || offset > m.end() {
		var e *RangeError
		require.ErrorAs(m.t, err, &e)
		require.Equal(m.t, RangeError{offset, m.start, m.end()}, *e)
		return
	}
	require.NoError(m.t, err)
	var want []byte
	next := int64(0)
	for i, b := range m.batches {
		if b.next <= offset || b.next > below {
			continue
		}
		if len(want) == 0 && (offset < b.base || i > 0 && m.batches[i-1].next > offset) {
			break // the batch that holds the offset is not wholly below
		}
		if len(want) > 0 && len(want)+len(b.bytes) > most {
			break
		}
		want, next = append(want, b.bytes...), b.next
	}
	// A span may be shorter: it ends with its segment and may end at an index entry.
	require.LessOrEqual(m.t, len(p), len(want))
	require.True(m.t, bytes.Equal(want[:len(p)], p))
	require.Equal(m.t, len(want) == 0, len(p) == 0, "offset %d max %d below %d", offset, most, below)
	if len(p) == len(want) && len(p) > 0 {
		require.Equal(m.t, next, span.Next)
	}
	for rest := p; len(rest) > 0; {
		_, rest, err = record.Next(rest)
		require.NoError(m.t, err, "a span is whole batches")
	}
}

func (m *model) drawTime(rt *rapid.T) {
	ts := rapid.Int64Range(0, 51).Draw(rt, "ts")
	want := [2]int64{-1, -1}
search:
	for _, b := range m.batches {
		for i, stamp := range b.stamps {
			if stamp >= ts && b.next <= m.visible {
				want = [2]int64{b.base + int64(i), stamp}
				break search
			}
		}
	}
	err := m.do(func() error {
		offset, stamp, err := m.log.OffsetForTime(ts, m.log.Visible())
		if err == nil && want != [2]int64{offset, stamp} {
			err = errors.New("found another record")
			m.t.Errorf("time %d: offset %d at %d, want %v", ts, offset, stamp, want)
		}
		return err
	})
	require.NoError(m.t, err)
}

func (m *model) drawRetain(*rapid.T) {
	require.NoError(m.t, m.do(func() error { return m.log.Retain(math.MaxInt64) }))
	s := m.state()
	m.visible = s.Visible // retention flushes when it must
	for len(m.batches) > 0 && m.batches[0].base < s.Start {
		require.LessOrEqual(m.t, m.batches[0].next, m.visible)
		m.batches = m.batches[1:]
	}
	m.start = s.Start
	size := 0
	for _, b := range m.batches {
		size += len(b.bytes)
	}
	// What is left is within the limit but for the oldest segment, the active one, and what is not visible.
	if s.Visible == s.End {
		require.Less(m.t, int64(size), m.cfg.RetentionBytes+3*m.cfg.SegmentBytes+3000)
	}
}

func (m *model) drawTruncate(rt *rapid.T) {
	to := rapid.Int64Range(m.start, m.end()+1).Draw(rt, "to")
	require.NoError(m.t, m.do(func() error { return m.log.Truncate(to, 0) }))
	for n := len(m.batches); n > 0 && m.batches[n-1].next > to; n-- {
		m.batches = m.batches[:n-1]
	}
	m.visible = min(m.visible, m.end())
}
