package log

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"

	"faultline/broker/record"
)

// put builds a batch of keyed records.
func (r *rig) put(t *testing.T, d *datadriven.TestData) []byte {
	b := &r.builder
	codec := record.None
	stamp := int64(number(t, d, "time", 1000))
	if d.HasArg("codec") {
		var s string
		d.ScanArgs(t, "codec", &s)
		codec, _ = record.ParseCodec(s)
	}
	b.Reset(codec)
	for _, a := range d.CmdArgs {
		switch a.Key {
		case "time", "codec", "producer", "seq":
			continue
		}
		var value []byte
		if len(a.Vals) > 0 && a.Vals[0] != "" {
			value = []byte(a.Vals[0])
		}
		b.Add(stamp, []byte(a.Key), value, []record.RecordHeader{{Key: []byte("h")}})
	}
	if d.HasArg("producer") {
		b.ProducerID, b.ProducerEpoch, b.BaseSequence = int64(number(t, d, "producer", 0)), 0, int32(number(t, d, "seq", 0))
	}
	p, err := b.Finish()
	require.NoError(t, err)
	return append([]byte(nil), p...)
}

// records are the log's batches as text, a line each: segment, offsets, epoch, records.
func (r *rig) records() string {
	var out strings.Builder
	at, s := r.state().Start, r.state()
	for at < s.End {
		p, span, err := r.read(at, 1<<20, s.End)
		if err != nil {
			return out.String() + say(err)
		}
		at = span.Next
		base, _, ok := parseName(strings.TrimPrefix(spanName(&span, r), dir+"/"))
		require.True(r.t, ok)
		for rest := p; len(rest) > 0; {
			var b record.Batch
			b, rest, err = record.Next(rest)
			require.NoError(r.t, err)
			require.NoError(r.t, b.Check())
			fmt.Fprintf(&out, "%d: %d..%d", base, b.BaseOffset, b.LastOffset())
			if b.ProducerID >= 0 {
				fmt.Fprintf(&out, " producer %d from %d", b.ProducerID, b.BaseSequence)
			}
			if horizon, ok := b.Horizon(); ok {
				fmt.Fprintf(&out, " tombstones until %s", time.UnixMilli(horizon).UTC().Format("2006-01-02 15:04"))
			}
			var it record.Iterator
			for it.Reset(b); it.Next(); {
				fmt.Fprintf(&out, " %d:%s=%s@%d", it.Record.Offset, it.Record.Key, it.Record.Value, it.Record.Timestamp)
			}
			require.NoError(r.t, it.Err())
			out.WriteByte('\n')
		}
	}
	return out.String()
}

// put is a keyed record as a test remembers it.
type put struct {
	offset     int64
	epoch      int32
	stamp      int64
	key, value string
	tombstone  bool
}

// puts are the records of whole batches.
func puts(t testing.TB, batches []byte) (list []put) {
	for len(batches) > 0 {
		b, rest, err := record.Next(batches)
		require.NoError(t, err)
		require.NoError(t, b.Check())
		batches = rest
		var it record.Iterator
		for it.Reset(b); it.Next(); {
			r := &it.Record
			list = append(list, put{r.Offset, b.LeaderEpoch, r.Timestamp, string(r.Key), string(r.Value), r.Value == nil})
		}
		require.NoError(t, it.Err())
	}
	return list
}

// log reads all the records there are.
func (r *rig) readAll() (list []put) {
	s := r.state()
	for at := s.Start; at < s.End; {
		p, span, err := r.read(at, 1<<20, s.End)
		require.NoError(r.t, err)
		require.LessOrEqual(r.t, span.Base, at)
		require.Greater(r.t, span.Next, at)
		list = append(list, puts(r.t, p)...)
		at = span.Next
	}
	return list
}

// replay is what a table is that follows the log.
func replay(list []put) map[string]put {
	table := map[string]put{}
	for _, p := range list {
		if table[p.key] = p; p.tombstone {
			delete(table, p.key)
		}
	}
	return table
}

// replays holds the log that was recovered to what was appended: each record is what it was, and the table that follows it is the same.
func (c *crashes) replays(s State, say string) {
	got := c.rig.readAll()
	for _, p := range got {
		require.Equal(c.t, c.records[p.offset], p, say)
	}
	require.Equal(c.t, replay(c.records[:s.End]), replay(got), say)
}
