package bench

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// cpus says which processors servers and clients run on; nil: on all.
type cpus struct{ servers, clients *unix.CPUSet }

func wholeComputer() cpus { return cpus{} }

// splitComputer halves the processors that this process may use; one alone cannot be.
func splitComputer() cpus {
	var all unix.CPUSet
	if unix.SchedGetaffinity(0, &all) != nil || all.Count() < 2 {
		return cpus{}
	}
	half := cpus{&unix.CPUSet{}, &unix.CPUSet{}}
	for cpu, seen := 0, 0; seen < all.Count(); cpu++ {
		if !all.IsSet(cpu) {
			continue
		}
		if seen < all.Count()/2 {
			half.servers.Set(cpu)
		} else {
			half.clients.Set(cpu)
		}
		seen++
	}
	return half
}

// Pinned tells how the processors are shared out between servers and clients that are pinned; "" when they cannot be.
func Pinned() string {
	c := splitComputer()
	if c.servers == nil {
		return ""
	}
	return fmt.Sprintf("%d processors for the servers, %d for the clients", c.servers.Count(), c.clients.Count())
}

// startServer starts a process on the servers' processors: it inherits those of the thread that starts it.
func (c cpus) startServer(cmd *exec.Cmd) error {
	if c.servers == nil {
		return cmd.Start()
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var before unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		return fmt.Errorf("pin: %w", err)
	}
	if err := unix.SchedSetaffinity(0, c.servers); err != nil {
		return fmt.Errorf("pin: %w", err)
	}
	defer unix.SchedSetaffinity(0, &before)
	return cmd.Start()
}

// pinClients moves this process to the clients' processors until restore is called. New threads inherit them.
func (c cpus) pinClients() (restore func()) {
	if c.clients == nil {
		return func() {}
	}
	var before unix.CPUSet
	if unix.SchedGetaffinity(0, &before) != nil {
		return func() {}
	}
	threads := runtime.GOMAXPROCS(c.clients.Count())
	moveThreads(c.clients)
	return func() {
		moveThreads(&before)
		runtime.GOMAXPROCS(threads)
	}
}

func moveThreads(to *unix.CPUSet) {
	entries, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return
	}
	for _, e := range entries {
		if tid, err := strconv.Atoi(e.Name()); err == nil {
			_ = unix.SchedSetaffinity(tid, to) // a thread that has ended meanwhile
		}
	}
}

// halfOfComputer is how many processors the servers are pinned to; 0: they cannot be.
func halfOfComputer() int {
	if c := splitComputer(); c.servers != nil {
		return c.servers.Count()
	}
	return 0
}

// cpuClock is the CPU time of this process so far, and whether it can be read.
func cpuClock() (time.Duration, bool) {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &t); err != nil {
		return 0, false
	}
	return time.Duration(t.Nano()), true
}

// outsideHeap is memory that the garbage collector does not know.
func outsideHeap(bytes int) (memory []byte, free func(), err error) {
	memory, err = unix.Mmap(-1, 0, bytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	return memory, func() { unix.Munmap(memory) }, err
}

// forget has the system drop a file from its page cache.
func forget(f *os.File) error {
	if err := f.Sync(); err != nil {
		return err
	}
	return unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED)
}

// pageCache is how large the page cache may become, and at how many unsynced bytes write-back starts and writers are held back.
func pageCache() (cache, background, limit int64, ok bool) {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, 0, 0, false
	}
	for line := range strings.Lines(string(text)) {
		if n, err := fmt.Sscanf(line, "MemAvailable: %d kB", &cache); n == 1 && err == nil {
			cache <<= 10
			break
		}
	}
	setting := func(name string) int64 {
		for _, unit := range []struct {
			suffix string
			of     int64 // the setting counts hundredths of it; 0: bytes
		}{{"_bytes", 0}, {"_ratio", cache}} {
			text, err := os.ReadFile("/proc/sys/vm/" + name + unit.suffix)
			n, err2 := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
			if err == nil && err2 == nil && n > 0 {
				if unit.of > 0 {
					return unit.of / 100 * n
				}
				return n
			}
		}
		return 0
	}
	background, limit = setting("dirty_background"), setting("dirty")
	return cache, background, limit, cache > 0 && background > 0 && limit >= background
}

// Computer names this machine: its processor, how many there are, its kernel.
func Computer() string {
	model := runtime.GOARCH
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(text)) {
			if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == "model name" {
				model = strings.TrimSpace(value)
				break
			}
		}
	}
	var u unix.Utsname
	kernel := "Linux"
	if unix.Uname(&u) == nil {
		kernel += " " + unix.ByteSliceToString(u.Release[:])
	}
	return fmt.Sprintf("%d x %s, %s", runtime.NumCPU(), model, kernel)
}
