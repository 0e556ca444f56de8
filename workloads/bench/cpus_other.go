//go:build !linux

package bench

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"time"
)

// cpus: nothing is pinned here.
type cpus struct{}

func wholeComputer() cpus { return cpus{} }
func splitComputer() cpus { return cpus{} }

// Pinned tells how the processors are shared out between servers and clients that are pinned; "" when they cannot be.
func Pinned() string { return "" }

func (cpus) startServer(cmd *exec.Cmd) error { return cmd.Start() }
func (cpus) pinClients() (restore func())    { return func() {} }

func halfOfComputer() int                                  { return 0 }
func cpuClock() (time.Duration, bool)                      { return 0, false }
func forget(*os.File) error                                { return nil }
func outsideHeap(bytes int) ([]byte, func(), error)        { return make([]byte, bytes), func() {}, nil }
func pageCache() (cache, background, limit int64, ok bool) { return 0, 0, 0, false }

// Computer names this machine.
func Computer() string {
	return fmt.Sprintf("%d x %s, %s", runtime.NumCPU(), runtime.GOARCH, runtime.GOOS)
}
