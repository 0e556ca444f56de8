package disk

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"faultline/sim/machine"
)

// still is the cheapest world: it measures the disk alone.
type still struct{ now time.Duration }

func (w *still) Now() time.Duration                       { return w.now }
func (w *still) Wait(until time.Duration)                 { w.now = max(w.now, until) }
func (w *still) Waker() func()                            { return func() {} }
func (w *still) Park()                                    { panic("nobody is there to wake it") }
func (w *still) Record(op, file string, a, b int64)       {}
func (w *still) Stream(purpose, entity string) *rand.Rand { return rand.New(rand.NewPCG(1, 2)) }
func (w *still) wall() time.Time                          { return time.Unix(0, int64(w.now)) }
func benchFile(b *testing.B, size int) (machine.File, []byte) {
	b.Helper()
	w := &still{}
	f, err := New("disk", Config{}).Attach(w, w.wall).Open("f", machine.Create)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(size))
	b.ReportAllocs()
	return f, make([]byte, size)
}

const window = 16 << 20 // bytes that the benchmarks go around in

func BenchmarkPwrite(b *testing.B) {
	for _, size := range []int{100, 10_000, 100_000} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			f, p := benchFile(b, size)
			at := int64(0)
			for b.Loop() {
				_, _ = f.Pwrite(p, at%window)
				at += int64(size)
			}
		})
	}
}

func BenchmarkPread(b *testing.B) {
	for _, size := range []int{100, 10_000, 100_000} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			f, p := benchFile(b, size)
			_ = f.Truncate(2 * window)
			for i := int64(0); i < window; i += int64(size) {
				_, _ = f.Pwrite(p, i)
			}
			at := int64(0)
			for b.Loop() {
				_, _ = f.Pread(p, at%window)
				at += int64(size)
			}
		})
	}
}

func BenchmarkAppendAndSync(b *testing.B) {
	for _, size := range []int{100, 10_000, 100_000} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			f, p := benchFile(b, size)
			_ = f.Truncate(2 * window)
			at := int64(0)
			for b.Loop() {
				_, _ = f.Pwrite(p, at%window)
				_ = f.Sync()
				at += int64(size)
			}
		})
	}
}

// A large file with few dirty pages: the cost of Sync follows the dirty pages.
func BenchmarkSyncOfALargeFile(b *testing.B) {
	f, p := benchFile(b, 4096)
	_ = f.Truncate(8 << 30)
	for b.Loop() {
		_, _ = f.Pwrite(p, 1<<20)
		_ = f.Sync()
	}
}
