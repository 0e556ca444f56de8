package bench

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"

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
