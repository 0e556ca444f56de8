package sim

import (
	"math/bits"
	"time"
)

// Epoch is the wall-clock time at which every world starts: 12 June 2011, the day of the NetDB workshop where Kafka was presented.
var Epoch = time.Date(2011, time.June, 12, 9, 0, 0, 0, time.UTC)

// Clock is one machine's view of the world's time: it may be off and it may drift. The zero value is exact.
type Clock struct {
	offset time.Duration // wall clock only
	ppm    int64         // parts per million by which it runs fast
	base   time.Duration // world time when ppm last changed
	local  time.Duration // this clock's monotonic time at base
	past   []rate        // earlier rates, oldest first
}

// rate is one stretch of a clock's past.
type rate struct {
	ppm         int64
	base, local time.Duration // where it began
}

// Wall converts world time to this clock's wall time.
func (c *Clock) Wall(now time.Duration) time.Time { return Epoch.Add(c.Uptime(now) + c.offset) }

// Uptime converts world time to this clock's monotonic time.
func (c *Clock) Uptime(now time.Duration) time.Duration {
	d := now - c.base
	return c.local + d + scale(d, c.ppm)
}

// Span converts a span of this clock to world time, rounded up so that a timer never fires early by this clock.
func (c *Clock) Span(d time.Duration) time.Duration {
	if c.ppm == 0 || d <= 0 {
		return d
	}
	hi, lo := bits.Mul64(uint64(d), 1_000_000)
	q, r := bits.Div64(hi, lo, uint64(1_000_000+c.ppm))
	world := time.Duration(q)
	if r > 0 {
		world++
	}
	for world+scale(world, c.ppm) < d {
		world++
	}
	return world
}

// Jump moves the wall clock; the monotonic clock and pending timers do not notice.
func (c *Clock) Jump(by time.Duration) { c.offset += by }

// Drift sets the rate from world time now on; timers already set keep their moment.
func (c *Clock) Drift(now time.Duration, ppm int64) {
	c.past = append(c.past, rate{c.ppm, c.base, c.local})
	c.local = c.Uptime(now)
	c.base = now
	c.ppm = ppm
}

// World is the latest world time at which the monotonic clock read at most the given value: the inverse of Uptime.
func (c *Clock) World(uptime time.Duration) time.Duration {
	r := rate{c.ppm, c.base, c.local}
	for i := len(c.past) - 1; i >= 0 && uptime < r.local; i-- {
		r = c.past[i]
	}
	d := uptime - r.local
	if d <= 0 || r.ppm == 0 {
		return r.base + d
	}
	hi, lo := bits.Mul64(uint64(d), 1_000_000)
	q, _ := bits.Div64(hi, lo, uint64(1_000_000+r.ppm))
	world := time.Duration(q)
	for world+1+scale(world+1, r.ppm) <= d {
		world++
	}
	for world+scale(world, r.ppm) > d {
		world--
	}
	return r.base + world
}

// scale is d*ppm/1e6 without overflow for spans up to centuries.
func scale(d time.Duration, ppm int64) time.Duration {
	const million = 1_000_000
	return d/million*time.Duration(ppm) + d%million*time.Duration(ppm)/million
}
