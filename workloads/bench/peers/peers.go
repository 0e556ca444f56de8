// Package peers drives messaging systems of others as a bench does this one, each by a library that its users take, or by its text protocol: RabbitMQ, ActiveMQ, Redis (lists and streams), NATS JetStream and ZeroMQ, which has no
// broker. They exist on real machines only.
//
// What a suite says of producers is kept to as far as a system has it: batch_records messages go out together, and in_flight such batches may be unanswered. Every group gets every message, as
// a topic's groups do; partitions, acks and fetch sizes mean nothing here. A system keeps what it keeps as its server is configured; what it promises then is named beside its figures. Names are
// new for each run, and what was made under them is deleted afterwards.
package peers

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"faultline/workloads/bench"
	"faultline/workloads/deploy"
)

// driver makes the system of a cell for a server's address.
type driver func(x *run) (*bench.System, error)

var drivers = map[string]driver{
	"amqp": rabbitMQ, "stomp": activeMQ, "redis-list": redisLists, "redis-stream": redisStreams, "nats": jetStream, "zmq": zeroMQ,
}

// Schemes are the kinds of addresses that Open takes, sorted.
func Schemes() []string {
	var list []string
	for s := range drivers {
		list = append(list, s)
	}
	slices.Sort(list)
	return list
}

// Open is the system at an address: amqp://USER:PASSWORD@HOST:PORT, stomp://HOST:PORT, redis-list://HOST:PORT, redis-stream://HOST:PORT, nats://HOST:PORT or zmq://HOST.
func Open(c *bench.Cell, address string) (*bench.System, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, fmt.Errorf("address of a system: %w", err)
	}
	d, ok := drivers[u.Scheme]
	if !ok || u.Host == "" {
		return nil, fmt.Errorf("found %q, allowed is SCHEME://HOST:PORT with one of %s", address, strings.Join(Schemes(), ", "))
	}
	x := &run{cell: c, address: u, name: "faultline-bench-" + strconv.FormatInt(time.Now().UnixNano(), 36)}
	for i := range c.Scenario.Topology.Groups {
		x.groups = append(x.groups, c.Scenario.Topology.Groups[i].Name)
	}
	return d(x)
}

// run is one run of a cell.
type run struct {
	cell    *bench.Cell
	address *url.URL
	name    string   // that nobody else uses
	groups  []string // of the suite
}

// queues are the names of what keeps messages, where each group has one of its own; without groups there is one that nobody reads.
func (x *run) queues() []string {
	if len(x.groups) == 0 {
		return []string{x.name}
	}
	var list []string
	for _, g := range x.groups {
		list = append(list, x.queue(g))
	}
	return list
}

func (x *run) queue(group string) string { return x.name + "-" + group }

// unbounded stands for a batch that only its bytes limit.
const unbounded = 1000

// batches says how many messages a producer sends together, and how many such batches may be unanswered.
func (x *run) batches(index int) (size, inFlight int) {
	for _, m := range x.cell.Scenario.Machines(0) {
		if m.Role == "producer" && m.Index == index {
			n := deploy.Unlimited(int64(m.Producer.BatchRecords.V()), unbounded)
			return int(min(n, unbounded)), int(m.Producer.InFlight.V())
		}
	}
	return 1, 1
}

// window bounds what is unanswered, and tells outcomes one at a time.
type window struct {
	mu   sync.Mutex
	told func(error)
	free chan struct{}
}

func newWindow(n int, told func(error)) *window {
	return &window{told: told, free: make(chan struct{}, n)}
}

// enter waits for a place.
func (w *window) enter() { w.free <- struct{}{} }

// leave gives a place back and tells the outcome of so many messages.
func (w *window) leave(messages int, err error) {
	w.mu.Lock()
	for range messages {
		w.told(err)
	}
	w.mu.Unlock()
	<-w.free
}

// drain waits until nothing is unanswered.
func (w *window) drain() {
	for range cap(w.free) {
		w.enter()
	}
}

// closer is a receiver that ends what receives and waits for it.
type closer struct {
	end  func() error
	done sync.WaitGroup
}

func (c *closer) Close() error {
	err := c.end()
	c.done.Wait()
	return err
}
