package disk

import (
	"math/bits"
	"time"
)

// Config is the hardware. The zero value is a fast NVMe-like device of unlimited size; a field that is 0 takes its default.
type Config struct {
	Capacity int64 // bytes, counted in whole pages. Default: unlimited

	ReadBandwidth  int64         // bytes per second, sequential. Default 3e9
	WriteBandwidth int64         // bytes per second, sequential. Default 1.5e9
	Seek           time.Duration // cost of a transfer that does not continue the last one; also bounds IOPS. Default 20 µs
	Flush          time.Duration // cost of making the device's own cache durable, once a Sync or SyncDir. Default 500 µs
	Call           time.Duration // least cost of any operation. Default 1 µs

	Cache           int64 // page cache in bytes. Default 1 GiB
	DirtyBackground int64 // unsynced bytes at which write-back starts. Default Cache/10
	DirtyLimit      int64 // unsynced bytes at which writers are held back. Default Cache/5
	Readahead       int64 // bytes loaded at a time by sequential reads. Default 128 KiB
}

func (c Config) withDefaults() Config {
	def := func(v *int64, d int64) {
		if *v == 0 {
			*v = d
		}
	}
	def(&c.ReadBandwidth, 3_000_000_000)
	def(&c.WriteBandwidth, 1_500_000_000)
	def((*int64)(&c.Seek), int64(20*time.Microsecond))
	def((*int64)(&c.Flush), int64(500*time.Microsecond))
	def((*int64)(&c.Call), int64(time.Microsecond))
	def(&c.Cache, 1<<30)
	def(&c.DirtyBackground, c.Cache/10)
	def(&c.DirtyLimit, max(c.Cache/5, c.DirtyBackground))
	def(&c.Readahead, 128<<10)
	return c
}

// lasts is the time that n bytes take at a bandwidth, exact in integers so that it is the same on every machine.
func lasts(n, bandwidth int64) time.Duration {
	hi, lo := bits.Mul64(uint64(n), uint64(time.Second))
	q, _ := bits.Div64(hi, lo, uint64(bandwidth))
	return time.Duration(q)
}
