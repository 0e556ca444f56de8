package bench

import (
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"faultline/sim/machine"
)

// pathSuite is what costs of requests and records are measured with: a producer with small and with large batches, and a consumer.
const pathSuite = `
name: calibrate
topology:
  topics: [{name: visits, partitions: 1, segment_bytes: 64MiB, flush_interval: 20ms}]
  producers: [{acks: 1, batch: 1MiB, linger: 5ms, in_flight: 5, partitioner: random}]
workload: {message_bytes: 200B}
load: {real_warm_up: 150ms, real_measure: 400ms}
sweep: {setting: topology.brokers, values: [1]}
series:
  - {name: small batches, set: [topology.producers.0.batch_records=1, topology.producers.0.batch=16KiB, topology.producers.0.buffer=256KiB]}
  - {name: large batches, set: [topology.producers.0.batch_records=500]}
  - name: consumer
    set: [load.rate=1/s, load.real_warm_up=300ms, load.real_measure=1s, load.retained=768MiB, "load.cached=\"yes\"", "topology.groups.0.name=readers", topology.groups.0.consumers=1, topology.groups.0.fetch_bytes=1MiB, topology.groups.0.queue=100000]
`

func visitsCell() *Cell {
	s, err := ParseSuite("calibrate.yaml", []byte(pathSuite))
	if err != nil {
		panic(err)
	}
	c, err := s.Cell(&s.Series[0], "1")
	if err != nil {
		panic(err)
	}
	return c
}

// usage is what the programs of a process did after their warm-up, and the CPU time that it took.
type usage struct {
	mu   sync.Mutex
	work machine.Work
	cpu  time.Duration
}

// spent is what a server tells of its usage.
type spent struct {
	Work machine.Work
	CPU  time.Duration
}

// begin forgets what was used so far: what clients cost until they are under way, and until their memory is there.
func (u *usage) begin() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.work, u.cpu = machine.Work{}, cpuTime()
}

// end is told when they are done.
func (u *usage) end() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.cpu = cpuTime() - u.cpu
}

// spent is what was used since it began.
func (u *usage) spent() spent {
	u.mu.Lock()
	defer u.mu.Unlock()
	return spent{u.work, cpuTime() - u.cpu}
}

// counting is a machine that counts the work of its process.
type counting struct {
	machine.Machine
	u *usage
}

func (c *counting) Work(w machine.Work) {
	c.u.add(w)
}

func (u *usage) add(w machine.Work) {
	u.mu.Lock()
	defer u.mu.Unlock()
	t := &u.work
	t.Requests += w.Requests
	t.Served += w.Served
	t.Records += w.Records
	t.Sent += w.Sent
	t.Received += w.Received
	t.Batches += w.Batches
	t.Syscalls += w.Syscalls
	t.Copied += w.Copied
	t.Moved += w.Moved
	t.Stored += w.Stored
	t.Flushed += w.Flushed
	t.Summed += w.Summed
	t.Queue = t.Queue.Plus(w.Queue)
}

// rest is the CPU time in nanoseconds that is left for requests and records when what was measured before, in the same round, is taken off.
func (k *Calibration) rest(u *usage) float64 {
	w := &u.work
	left := float64(u.cpu) - float64(w.Batches)*k.spent["cpu.batch"] - float64(w.Syscalls)*k.spent["cpu.syscall"]
	for _, b := range []struct {
		bytes int64
		path  string
	}{{w.Copied, "cpu.copy"}, {w.Moved, "cpu.move"}, {w.Stored, "cpu.store"}, {w.Flushed, "cpu.flush"}, {w.Summed, "cpu.sum"}} {
		left -= float64(b.bytes) * 1e9 / k.spent[b.path]
	}
	return left
}

// paths measures what requests and records cost the clients: their CPU time in runs of a producer with small and with large batches, and of a consumer, divided by the work that they did. Servers
// are in processes of their own, which tell what their requests cost; what they do with a record is measured by itself. Servers stay for all rounds. A consumer gets a group of its own, which begins at
// the log's start, and a second, as in the runs that are predicted: the first tenths of a second cost it more than twice as much a record.
type paths struct {
	k     *Calibration
	suite *Suite
	runs  []*hosted // small batches, large batches, consumer
	round int
}

// Places in pathSuite, of the small batches, which the large ones follow, and of the consumer.
const smallSeries, consumerSeries = 0, 2

func (p *paths) open() (err error) {
	if p.suite, err = ParseSuite("calibrate.yaml", []byte(pathSuite)); err != nil {
		return err
	}
	for n := range p.suite.Series {
		c, err := p.cell(n)
		if err != nil {
			return err
		}
		h := *p.k.Host
		if n == smallSeries {
			h.served = &usage{} // so that its server counts
		}
		x, err := h.open(c, p.k.Stop)
		if err != nil {
			return err
		}
		p.runs = append(p.runs, x)
	}
	return nil
}

// cell is what is measured in this round.
func (p *paths) cell(n int) (*Cell, error) {
	s := p.suite.Series[n]
	if n == consumerSeries {
		s.Set = append(slices.Clone(s.Set), fmt.Sprintf("topology.groups.0.name=readers-%d", p.round))
	}
	return p.suite.Cell(&s, "1")
}

func (p *paths) close() {
	for _, x := range p.runs {
		x.end()
	}
}

// measure is a round.
func (p *paths) measure() error {
	k := p.k
	var of []*usage
	server := &usage{}
	for n, x := range p.runs {
		var err error
		if x.cell, err = p.cell(n); err != nil {
			return err
		}
		x.used = &usage{}
		if n == smallSeries {
			x.served = server
		}
		if _, err := x.drive(uint64(p.round + 1)); err != nil {
			return err
		}
		x.dismiss()
		of = append(of, x.used)
	}
	p.round++
	request, send, serve, receive := math.NaN(), math.NaN(), math.NaN(), math.NaN()
	if !slices.ContainsFunc(of, func(u *usage) bool { return u.cpu < leastBusy }) {
		request, send = k.producerCosts(of[smallSeries], of[smallSeries+1])
		serve = k.serverCost(server)
		receive = k.consumerCost(request, of[consumerSeries])
	}
	k.note("cpu.request", "CPU time of a producer whose batches are single records, without that of the records, of copies and of system calls", nanoseconds, request)
	k.note("cpu.serve", "CPU time of its server, without that of the records, of copies, checksums and system calls", nanoseconds, serve)
	k.note("cpu.send", "CPU time of a producer with large batches, without that of requests, copies, checksums and system calls", nanoseconds, send)
	k.note("cpu.receive", "CPU time of a consumer that reads what is there, without that of requests, batches, copies, checksums and system calls", nanoseconds, receive)
	return nil
}

// leastBusy is the CPU time of a run below which its clients waited most of the time, for others on this machine or for its disk, and what they did costs more than when they work.
const leastBusy = 100 * time.Millisecond

// producerCosts solves for the costs of a request and of a record.
func (k *Calibration) producerCosts(small, large *usage) (request, send float64) {
	// request*small.Requests + send*small.Sent = rest(small), and alike for large.
	a, b, left := float64(small.work.Requests), float64(small.work.Sent), k.rest(small)
	c, d, more := float64(large.work.Requests), float64(large.work.Sent), k.rest(large)
	request = (left*d - more*b) / (a*d - b*c)
	return request, (more - request*c) / d
}

// serverCost is that of a request.
func (k *Calibration) serverCost(u *usage) float64 {
	return (k.rest(u) - k.spent["cpu.record"]*float64(u.work.Records)) / float64(u.work.Served)
}

// consumerCost is that of a record, with what a request costs.
func (k *Calibration) consumerCost(request float64, u *usage) float64 {
	return (k.rest(u) - request*float64(u.work.Requests)) / float64(u.work.Received)
}
