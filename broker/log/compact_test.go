package log

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"faultline/broker/record"
	"faultline/sim/machine"
)

// table is a compacted log as the list of all that was ever appended to it.
type table struct {
	*rig
	all     []put // by offset
	visible int64
	hours   int
	seqs    [2]int32 // next sequence numbers of producers 0 and 1
}

// TestCompactedLogIsATable holds a log that is compacted, cut, crashed and restarted to what was appended: every record is what it was; whoever reads the log from the start gets the table that he had got
// without any compaction; what lies at or above the high watermark is all there; and the last batch of a producer is still recognised.
func TestCompactedLogIsATable(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := &table{rig: newRig(t, rapid.Uint64().Draw(rt, "seed"), Config{
			SegmentBytes: rapid.Int64Range(100, 1500).Draw(rt, "segment"), IndexInterval: rapid.IntRange(1, 300).Draw(rt, "index"), RetentionTime: -1,
			Compact: true, CompactRatio: 0.001, CompactKeys: rapid.IntRange(1, 8).Draw(rt, "keys"), DeleteRetention: time.Hour,
		})}
		defer m.w.Close()
		require.NoError(t, m.open(false))
		rt.Repeat(map[string]func(*rapid.T){
			"put": m.drawPut,
			"flush": func(*rapid.T) {
				require.NoError(t, m.do(func() error { return m.log.Flush() }))
				m.visible = int64(len(m.all))
			},
			"compact": m.drawCompact,
			"pass":    func(*rapid.T) { m.hour() },
			"truncate": func(rt *rapid.T) {
				to := rapid.Int64Range(m.visible, int64(len(m.all))).Draw(rt, "to")
				require.NoError(t, m.do(func() error { return m.log.Truncate(to, 0) }))
				m.ends()
			},
			"retry": m.retry,
			"close": func(*rapid.T) {
				require.NoError(t, m.do(func() error { return m.log.Close() }))
				m.crash()
				m.visible = int64(len(m.all))
				m.reopen(true)
			},
			"crash":      func(*rapid.T) { m.crash(); m.visible = int64(len(m.all)); m.reopen(false) },
			"power-loss": func(*rapid.T) { m.powerLoss(); m.reopen(false) },
			"":           func(*rapid.T) { m.check() },
		})
	})
}

// hour lets the time go by after which tombstones may go, but not that after which producers are forgotten.
func (m *table) hour() {
	if m.hours++; m.hours < 20 {
		m.pass(61 * time.Minute)
	}
}

func (m *table) drawPut(rt *rapid.T) {
	b := &m.builder
	b.Reset(rapid.SampledFrom([]record.Codec{record.None, record.None, record.LZ4}).Draw(rt, "codec"))
	now := m.m.Now().UnixMilli()
	for range rapid.IntRange(1, 4).Draw(rt, "records") {
		key := rapid.SampledFrom([]string{"a", "b", "c", "d", "e"}).Draw(rt, "key")
		var value []byte
		if rapid.IntRange(0, 3).Draw(rt, "tombstone") > 0 {
			value = rapid.SliceOfN(rapid.Byte(), 0, 60).Draw(rt, "value")
			value = append([]byte{}, value...)
		}
		b.Add(now+rapid.Int64Range(-50, 50).Draw(rt, "time"), []byte(key), value, nil)
	}
	who := rapid.IntRange(0, 2).Draw(rt, "producer")
	if who < 2 {
		b.ProducerID, b.ProducerEpoch, b.BaseSequence = int64(who), 0, m.seqs[who]
	}
	p, err := b.Finish()
	require.NoError(m.t, err)
	p = append([]byte(nil), p...)
	a, err := m.append(p)
	require.NoError(m.t, err)
	require.EqualValues(m.t, len(m.all), a.Base)
	m.all = append(m.all, puts(m.t, p)...)
	if who < 2 {
		m.seqs[who] += int32(a.Next - a.Base)
	}
}

// retry sends a producer's last record once more: the log must know it, or have lost it.
func (m *table) retry(rt *rapid.T) {
	who := rapid.IntRange(0, 1).Draw(rt, "who")
	if m.seqs[who] == 0 {
		return
	}
	b := &m.builder
	b.Reset(record.None)
	b.Add(m.m.Now().UnixMilli(), []byte("a"), []byte("again"), nil)
	b.ProducerID, b.ProducerEpoch, b.BaseSequence = int64(who), 0, m.seqs[who]-1
	p, err := b.Finish()
	require.NoError(m.t, err)
	before := m.state().End
	a, err := m.append(append([]byte(nil), p...))
	if err == nil {
		require.True(m.t, a.Duplicate, "a retry is in the log twice")
	}
	require.Equal(m.t, before, m.state().End)
}

func (m *table) drawCompact(rt *rapid.T) {
	below := rapid.Int64Range(0, int64(len(m.all))+1).Draw(rt, "below")
	before := m.readAll()
	require.NoError(m.t, m.do(func() error { return m.log.Compact(below) }))
	after := m.readAll()
	tail := func(list []put) []put {
		i, _ := slices.BinarySearchFunc(list, below, func(p put, o int64) int { return int(p.offset - o) })
		return append([]put{}, list[i:]...)
	}
	require.Equal(m.t, tail(before), tail(after), "what is not below %d", below)
}

// ends takes note of where the log ends now.
func (m *table) ends() {
	s := m.state()
	m.all = m.all[:s.End]
	m.visible = min(m.visible, s.End)
	m.seqs = [2]int32{}
	require.NoError(m.t, m.do(func() error { // by what the log itself knows, which retries are compared with
		for _, b := range m.log.producers.Below(math.MaxInt64) {
			m.seqs[b.Producer] = b.Last + 1
		}
		return nil
	}))
}

func (m *table) reopen(clean bool) {
	require.NoError(m.t, m.open(clean))
	require.GreaterOrEqual(m.t, m.state().End, m.visible)
	seqs := m.seqs
	end := len(m.all)
	m.ends()
	if len(m.all) == end {
		require.Equal(m.t, seqs, m.seqs, "where the producers' sequences stand")
	}
	m.visible = m.state().End
}

func (m *table) check() {
	_, err := CheckDir(m.files())
	require.NoError(m.t, err)
	got := m.readAll()
	for _, p := range got {
		require.Equal(m.t, m.all[p.offset], p)
	}
	require.Equal(m.t, replay(m.all), replay(got))
}

// TestFollowersOfACompactedLog copies a log, from wherever the copy has got, while both are compacted by themselves.
func TestFollowersOfACompactedLog(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := &table{rig: newRig(t, rapid.Uint64().Draw(rt, "seed"), Config{
			SegmentBytes: rapid.Int64Range(100, 600).Draw(rt, "segment"), RetentionTime: -1, Compact: true, CompactRatio: 0.001, DeleteRetention: time.Hour,
		})}
		defer m.w.Close()
		require.NoError(t, m.open(false))
		var copied *Log
		require.NoError(t, m.do(func() (err error) {
			copied, err = Open(m.m, "data/u-0", "u", 0, m.cfg, false)
			return err
		}))
		copy := func(most int) {
			require.NoError(t, m.do(func() error {
				span, err := m.log.Read(copied.End(), most, m.log.Visible())
				if err != nil || span.Len == 0 {
					return err
				}
				defer span.Release()
				p := make([]byte, span.Len)
				if _, err := machine.ReadFull(span.File, p, span.Pos); err != nil {
					return err
				}
				_, err = copied.Append(p, AppendOptions{LeaderEpoch: 7, Copy: true})
				return err
			}))
		}
		rt.Repeat(map[string]func(*rapid.T){
			"put": m.drawPut,
			"compact": func(*rapid.T) {
				require.NoError(t, m.do(func() error { m.log.Flush(); return m.log.Compact(math.MaxInt64) }))
			},
			"compact-copy": func(*rapid.T) {
				require.NoError(t, m.do(func() error { copied.Flush(); return copied.Compact(math.MaxInt64) }))
			},
			"copy": func(rt *rapid.T) { copy(rapid.IntRange(1, 500).Draw(rt, "bytes")) },
			"pass": func(*rapid.T) { // who lags longer than tombstones stay may miss one
				require.NoError(t, m.do(func() error { return m.log.Flush() }))
				for end := int64(-1); end != copied.end; {
					end = copied.end
					copy(1 << 20)
				}
				m.hour()
			},
		})
		require.NoError(t, m.do(func() error { return m.log.Flush() }))
		for end := int64(-1); end != copied.end; {
			end = copied.end
			copy(1 << 20)
		}
		require.EqualValues(t, len(m.all), copied.end)
		m.log = copied
		m.visible = copied.end
		for _, p := range m.readAll() {
			require.Equal(t, m.all[p.offset], p)
		}
		require.Equal(t, replay(m.all), replay(m.readAll()))
	})
}
