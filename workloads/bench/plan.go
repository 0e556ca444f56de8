package bench

import (
	"errors"
	"fmt"
	"time"

	"faultline/faults/quantity"
)

// Need is what a cluster shall carry.
type Need struct {
	In       quantity.Bandwidth // of all producers together, in message values
	Message  quantity.Bytes     // size of one
	Groups   int                // each of which receives every message
	Replicas int
	Acks     string
	P99      time.Duration // age at which 99 of 100 messages are received at most
	Most     int           // brokers
}

// Try is a cluster that was simulated for a need.
type Try struct {
	Brokers, Partitions, Consumers int // consumers in each group
	Sent, Received                 float64
	P99                            time.Duration
	Lacks                          string // what it does not reach; "": nothing
}

// ErrTooMuch says that no cluster within bounds carries what is needed.
var ErrTooMuch = errors.New("no cluster that was tried carries it")

// partitionsPerBroker are the densities that a plan tries, the least that is enough wins.
var partitionsPerBroker = []int{1, 2, 4, 8, 16}

// share is how much of the load must get through for a cluster to count as carrying it: a window cuts batches in two at either end.
const share = 0.98

// Check says what is wrong with a need.
func (n *Need) Check() error {
	switch {
	case n.In <= 0:
		return fmt.Errorf("in: found %v, allowed is more than nothing, like 100MiB/s", n.In)
	case n.Message < 16 || n.Message > 1<<20-512: // which is what fits into a batch of a topic's max_batch
		return fmt.Errorf("message: found %v, allowed is 16B to %v", n.Message, quantity.Bytes(1<<20-512))
	case n.Acks != "0" && n.Acks != "1" && n.Acks != "all":
		return fmt.Errorf("acks: found %q, allowed is 0, 1 or all", n.Acks)
	case n.Groups > 0 && n.P99 < time.Microsecond:
		return fmt.Errorf("p99: found %v, allowed is 1us or more", n.P99)
	case n.Replicas < 1 || n.Replicas > 16:
		return fmt.Errorf("replicas: found %d, allowed is 1 to 16", n.Replicas)
	case n.Groups < 0 || n.Groups > 64:
		return fmt.Errorf("groups: found %d, allowed is 0 to 64", n.Groups)
	case n.Most < n.Replicas || n.Most > 128:
		return fmt.Errorf("most brokers: found %d, allowed is %d (the replicas) to 128", n.Most, n.Replicas)
	case n.rate() < 1 || n.rate() > mostRate:
		return fmt.Errorf("in: found %v in messages of %v, that is %d a second, allowed are 1 to %d", n.In, n.Message, n.rate(), mostRate)
	}
	return nil
}

// mostRate is that of a suite's load.
const mostRate = 100_000_000

// patience is how long a batch waits for more, and an unreplicated log for its flush: a small part of the age that messages may have, but never longer than pays.
func (n *Need) patience() quantity.Duration {
	if n.Groups == 0 {
		return quantity.Duration(longestPatience)
	}
	return quantity.Duration(min(longestPatience, max(n.P99/10, time.Microsecond)).Truncate(time.Microsecond))
}

const longestPatience = 5 * time.Millisecond

// window is how long a cluster is watched: long enough for a hundredth of the messages to be some.
func (n *Need) window() quantity.Duration {
	const messages = 1000
	return quantity.Duration(max(500*time.Millisecond, time.Duration(messages)*time.Second/time.Duration(n.rate())))
}

// rate is the load in messages a second.
func (n *Need) rate() int64 { return int64(n.In) / int64(n.Message) }

// Plan searches the smallest cluster that carries the need: the fewest brokers, and with these the fewest partitions. It takes for granted that more brokers carry more. Each cluster that it
// simulates is told.
func Plan(n Need, p *Profile, seed uint64, stop func() bool, tell func(Try)) (Try, error) {
	if err := n.Check(); err != nil {
		return Try{}, err
	}
	carries := func(brokers int) (best Try, err error) {
		for _, per := range partitionsPerBroker {
			best, err = n.try(brokers, brokers*per, p, seed, stop)
			if err != nil {
				return best, err
			}
			tell(best)
			if best.Lacks == "" {
				return best, nil
			}
		}
		return best, nil
	}
	low, high := n.Replicas-1, n.Replicas // low does not carry it
	var found Try
	for {
		t, err := carries(high)
		if err != nil {
			return t, err
		}
		if t.Lacks == "" {
			found = t
			break
		}
		if high == n.Most {
			return t, ErrTooMuch
		}
		low, high = high, min(2*high, n.Most)
	}
	for low+1 < high {
		mid := (low + high) / 2
		t, err := carries(mid)
		if err != nil {
			return t, err
		}
		if t.Lacks == "" {
			found, high = t, mid
		} else {
			low = mid
		}
	}
	return found, nil
}

// suite is the need as a suite with one cell.
func (n *Need) suite(brokers, partitions, consumers int) (*Suite, error) {
	groups := ""
	if n.Groups > 0 {
		groups = fmt.Sprintf("\n  groups: [{name: readers, consumers: %d, reset: largest, fetch_bytes: 1MiB, fetch_wait: 100ms, queue: 100000}]", consumers)
	}
	return ParseSuite("plan", fmt.Appendf(nil, `
name: plan
topology:
  brokers: %d
  topics: [{name: visits, partitions: %d, replicas: %d, min_isr: %d, segment_bytes: 64MiB, retention_bytes: 128MiB, flush_interval: %v}]
  producers: [{count: %d, acks: %s, batch: 64KiB, linger: %v, in_flight: 5, buffer: 32MiB}]%s
workload: {message_bytes: %v}
load: {rate: %d/s, warm_up: 500ms, measure: %v, fan_out: %d}
sweep: {setting: topology.brokers, values: [%d]}
`, brokers, partitions, n.Replicas, 1+n.Replicas/2, max(n.patience(), quantity.Duration(time.Millisecond)), brokers, n.Acks, n.patience(), groups, n.Message, n.rate(), n.window(), max(n.Groups, 1), brokers))
}

// try simulates one cluster.
func (n *Need) try(brokers, partitions int, p *Profile, seed uint64, stop func() bool) (Try, error) {
	t := Try{Brokers: brokers, Partitions: partitions, Consumers: min(partitions, brokers)}
	s, err := n.suite(brokers, partitions, t.Consumers)
	if err != nil {
		return t, err
	}
	c, err := s.Cell(&s.Series[0], s.Sweep.Values[0])
	if err != nil {
		return t, err
	}
	r, err := Simulate(c, Simulated(), p, seed, stop)
	if err != nil {
		return t, err
	}
	t.Sent, t.Received = float64(r.Sent)/r.Window.Seconds(), float64(r.Received)/r.Window.Seconds()
	t.P99 = time.Duration(r.Latency.ValueAtQuantile(99)) * time.Microsecond
	want := float64(n.rate())
	switch {
	case t.Sent < share*want:
		t.Lacks = fmt.Sprintf("takes %.0f%% of the load", 100*t.Sent/want)
	case n.Groups == 0:
	case t.Received < share*want*float64(n.Groups):
		t.Lacks = fmt.Sprintf("delivers %.0f%% of the load", 100*t.Received/want/float64(n.Groups))
	case t.P99 > n.P99:
		t.Lacks = "p99 is too high"
	}
	return t, nil
}
