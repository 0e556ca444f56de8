package log

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"faultline/broker/record"
	"faultline/sim"
)

// The log on the virtual disk: what an append or a read costs the whole simulated system, without requests.

func benchRig(b *testing.B, cfg Config) *rig {
	r := newRig(b, 1, cfg)
	b.Cleanup(r.w.Close)
	require.NoError(b, r.open(false))
	return r
}

// inside runs the loop as one task.
func (r *rig) inside(fn func()) {
	r.c.Go("loop", func() { fn(); r.w.Halt() })
	o := r.w.Run(time.Duration(math.MaxInt64))
	require.NoError(r.t, r.exit)
	require.Equal(r.t, sim.Halted, o.Kind, o)
}

func BenchmarkAppend(b *testing.B) {
	r := benchRig(b, Config{SegmentBytes: 1 << 20, FlushMessages: 10_000, RetentionTime: -1, RetentionBytes: 1})
	p := r.batch(100, 200, 1000, record.None)
	b.SetBytes(int64(len(p)))
	b.ReportAllocs()
	r.inside(func() {
		for i := 0; b.Loop(); i++ {
			if _, err := r.log.Append(p, AppendOptions{}); err != nil {
				b.Error(err)
				return
			}
			if i%100 == 0 {
				r.log.Retain(math.MaxInt64)
			}
		}
	})
	b.ReportMetric(100*float64(b.N)/b.Elapsed().Seconds(), "records/s")
}

func BenchmarkRead(b *testing.B) {
	r := benchRig(b, Config{SegmentBytes: 8 << 20, RetentionTime: -1})
	p := r.batch(100, 200, 1000, record.None)
	r.inside(func() {
		for range 2000 {
			if _, err := r.log.Append(p, AppendOptions{}); err != nil {
				b.Error(err)
			}
		}
		if err := r.log.Flush(); err != nil {
			b.Error(err)
		}
	})
	for _, c := range []struct {
		name  string
		bytes int
		step  int64 // added to the offset; 0: read on
	}{{"sequential", 64 << 10, 0}, {"small", 1, 0}, {"random", 64 << 10, 77_777}} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			r.inside(func() {
				end := r.log.Visible()
				offset, bytes := int64(0), int64(0)
				for i := 0; b.Loop(); i++ {
					if i%1000 == 0 {
						r.m.Sleep(time.Microsecond) // so much at one instant would be a livelock
					}
					span, err := r.log.Read(offset, c.bytes, end)
					if err != nil {
						b.Error(err)
						return
					}
					bytes += span.Len
					if offset = span.Next; c.step > 0 || offset >= end {
						offset = (offset + c.step) % end
					}
					span.Release()
				}
				b.SetBytes(bytes / int64(b.N))
			})
		})
	}
}
