package virtual

import (
	"math/rand/v2"
	"time"

	"faultline/sim"
	"faultline/sim/machine"
)

// CPU is the processor part of a hardware profile: what work costs. Zero costs nothing.
type CPU struct {
	Cores   int           // default 4
	Request time.Duration // per protocol message that a client writes or reads
	Serve   time.Duration // per protocol request that a server handles
	Send    time.Duration // per record that a producer takes and encodes
	Record  time.Duration // per record that a server looks at
	Receive time.Duration // per record that a consumer decodes and hands over
	Batch   time.Duration // per batch that a consumer checks, beside its records and bytes
	Syscall time.Duration // per system call
	Copy    int64         // bytes copied per second
	Move    int64         // bytes written to a connection, or read from one, per second
	Store   int64         // bytes written to files per second
	Flush   int64         // bytes per second that a sync takes to the disk, by what it has the processor do
	Sum     int64         // bytes checksummed per second
	Pack    [5]int64      // bytes compressed per second, by codec
	Inflate [5]int64      // bytes per second that decompression brings forth
	Queue   QueueCosts

	Interrupts Interrupts
}

// QueueCosts are what each step of machine.QueueWork costs.
type QueueCosts struct{ Frame, Answer, Arrive, Send, Receive, Serve, Tell, Push, Take, Pass time.Duration }

func (c *QueueCosts) cost(q *machine.QueueWork) time.Duration {
	return time.Duration(q.Frames)*c.Frame + time.Duration(q.Answers)*c.Answer + time.Duration(q.Arrived)*c.Arrive + time.Duration(q.Sent)*c.Send + time.Duration(q.Received)*c.Receive +
		time.Duration(q.Served)*c.Serve + time.Duration(q.Told)*c.Tell + time.Duration(q.Pushed)*c.Push + time.Duration(q.Taken)*c.Take + time.Duration(q.Passed)*c.Pass
}

// cost is the time of one core for the work.
func (c *CPU) cost(w machine.Work) time.Duration {
	d := time.Duration(w.Requests)*c.Request + time.Duration(w.Served)*c.Serve + time.Duration(w.Sent)*c.Send + time.Duration(w.Records)*c.Record + time.Duration(w.Received)*c.Receive + time.Duration(w.Batches)*c.Batch + time.Duration(w.Syscalls)*c.Syscall
	d += c.Queue.cost(&w.Queue)
	d += through(w.Copied, c.Copy) + through(w.Moved, c.Move) + through(w.Stored, c.Store) + through(w.Flushed, c.Flush) + through(w.Summed, c.Sum)
	return d + through(w.Packed, c.Pack[w.Codec]) + through(w.Inflated, c.Inflate[w.Codec])
}

// through is how long bytes take at so many a second.
func through(bytes, perSecond int64) time.Duration {
	if perSecond <= 0 {
		return 0
	}
	return time.Duration(bytes * int64(time.Second) / perSecond)
}

// cores are the queues of one computer's processor: each core does one piece of work after the other.
type cores struct {
	free       []time.Duration // when each core is done with what it has
	slow       float64         // how many times slower than normal
	interrupts interrupts

	watched sim.Window
	works   time.Duration // how long they are busy within, together
	longest time.Duration // how long the task worked within that worked longest
	hardest string        // its name
}

func newCores(c *CPU, rng *rand.Rand) cores {
	n := c.Cores
	if n <= 0 {
		n = 4
	}
	return cores{free: make([]time.Duration, n), slow: 1, interrupts: newInterrupts(c.Interrupts, rng)}
}

// occupy gives a task's work to the core that is free first and returns when it is done.
func (c *cores) occupy(t *sim.Task, now, d time.Duration) time.Duration {
	first := 0
	for i, t := range c.free {
		if t < c.free[first] {
			first = i
		}
	}
	if c.slow != 1 {
		d = time.Duration(float64(d) * c.slow)
	}
	d = c.interrupts.lengthen(d)
	begin := max(now, c.free[first])
	done := begin + d
	c.free[first] = done
	if d = c.watched.Holds(begin, done); d > 0 {
		c.works += d
		if t.Worked += d; t.Worked > c.longest {
			c.longest, c.hardest = t.Worked, t.Name()
		}
	}
	return done
}
