package virtual

import (
	"time"

	"faultline/sim"
)

// Usage is how long the parts of a computer were busy within a window.
type Usage struct {
	Cores        int
	CPU          time.Duration // of all cores together
	Task         time.Duration // of the task that worked longest: more than the window's length it cannot, however many cores there are
	TaskName     string
	Disk         time.Duration // transfers and seeks
	Sends, Takes time.Duration // of the NIC
}

// Watch has all computers count how long their parts are busy within a window, which lies ahead.
func (c *Cluster) Watch(w sim.Window) {
	c.Net.Watch(w)
	for _, m := range c.computers {
		m.disk.Watch(w)
		m.cores.watched = w
	}
}

// Usage is what was counted within the window of Watch.
func (c *Computer) Usage() Usage {
	u := Usage{Cores: len(c.cores.free), CPU: c.cores.works, Task: c.cores.longest, TaskName: c.cores.hardest, Disk: c.disk.Busy()}
	u.Sends, u.Takes = c.host.Busy()
	return u
}
