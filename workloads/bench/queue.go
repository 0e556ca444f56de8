package bench

import (
	"fmt"
	"time"

	"faultline/faults/quantity"
	"faultline/sim"
	"faultline/sim/machine"
	"faultline/workloads/baseline"
	"faultline/workloads/deploy"
	"faultline/workloads/load"
	"faultline/workloads/scenario"
)

// QueueSettings configure the baseline queue. The rest of its configuration is that of brokers, producers and groups: batch_records is how many messages a frame has; acks 1 is a confirmation when a message is in the
// journal, all when it is synced; the least flush_interval of the topics is the journal's; a group has one queue for each topic. It does not replicate, partition or compress.
type QueueSettings struct {
	// Messages that are pushed to a consumer before it has acknowledged them, for each topic.
	Window quantity.Counts `yaml:"window" default:"1000" min:"1" max:"1000000"`
	// Messages in one frame to a consumer at most.
	DeliveryBatch quantity.Counts `yaml:"delivery_batch" default:"1000" min:"1" max:"1000000"`
	// Messages that a consumer acknowledges in one frame at most.
	AckBatch quantity.Counts `yaml:"ack_batch" default:"1000" min:"1" max:"1000000"`
	// Size of a journal file.
	SegmentBytes quantity.Sizes `yaml:"segment_bytes" default:"32MiB" min:"64KiB" max:"1GiB"`
	// Messages that are kept in memory; others are read from the journal.
	Memory quantity.Sizes `yaml:"memory" default:"64MiB" min:"64KiB"`
}

// SystemOf is the system that a series names, on the machines of the scenario.
func SystemOf(c *Cell) (*System, error) {
	where := func(c *Cell) deploy.Addresses { return deploy.Machines(c.Scenario.Machines(0)) }
	var s *System
	switch c.Series.System {
	case "faultline":
		s = Faultline(where)
	case "queue":
		s = Queue(where)
	default:
		return nil, fmt.Errorf("series %q: no system is named %q; these are simulated: faultline, queue", c.Series.Name, c.Series.System)
	}
	s.Guarantee = promise(c)
	return s, nil
}

// promise is what a cell's producers may count on: that of the weakest acknowledgement that one of them waits for.
func promise(c *Cell) string {
	weakest := "all"
	for i := range c.Scenario.Topology.Producers {
		if a := c.Scenario.Topology.Producers[i].Acks.V(); a == "0" || a == "1" && weakest == "all" {
			weakest = a
		}
	}
	switch weakest {
	case "0":
		return "at most once"
	case "1":
		return "at least once, not synced"
	}
	return "at least once, synced or replicated"
}

// Queue is the baseline: a queue that pushes messages and keeps the state of each. addrs says where its servers are; each has messages of its own.
func Queue(addrs func(c *Cell) deploy.Addresses) *System {
	return &System{
		Name: "queue",
		Serve: func(c *Cell, role string, _ int) func(m machine.Machine) error {
			if role == "broker" {
				return c.serveQueue
			}
			return func(m machine.Machine) error { // there is nothing to coordinate
				mu := m.NewMutex("idle")
				mu.Lock()
				for forever := m.NewCond("idle", mu); ; {
					forever.Wait()
				}
			}
		},
		Fill: func(m machine.Machine, c *Cell, _ int64, _ func() bool) error { // serveQueue does, and reads it as after a crash
			for _, addr := range addrs(c).Brokers {
				if err := baseline.Await(m, addr, hostStart, c.queues()); err != nil {
					return err
				}
			}
			return nil
		},
		Send: func(m machine.Machine, c *Cell, index int, told func(error)) (Sender, error) {
			p := machineOf(c, "producer", index).Producer
			brokers := addrs(c).Brokers
			s, err := baseline.NewSender(m, baseline.SenderConfig{
				Addr: brokers[(index-1)%len(brokers)], Queues: c.queues(),
				Confirm:       map[string]baseline.Confirm{"0": baseline.Unconfirmed, "1": baseline.Written, "all": baseline.Synced}[p.Acks.V()],
				BatchMessages: int(deploy.Unlimited(int64(p.BatchRecords.V()), 0)), BatchBytes: int(p.Batch.V()), Linger: p.Linger.V().D(), BufferBytes: int(p.Buffer.V()),
				InFlight: int(p.InFlight.V()), Backoff: p.RetryBackoff.V().D(), Timeout: p.DeliveryTimeout.V().D(), Told: told,
			})
			if err != nil {
				return nil, err
			}
			q := &queueSender{s: s}
			for i := range c.Scenario.Topology.Topics {
				q.topics = append(q.topics, c.Scenario.Topology.Topics[i].Name)
			}
			return q, nil
		},
		Receive: func(m machine.Machine, c *Cell, _ string, index int, hand func([]byte)) (Receiver, error) {
			return baseline.NewReceiver(m, baseline.ReceiverConfig{
				Addrs: addrs(c).Brokers, Queues: c.queuesOf(machineOf(c, "consumer", index).Group),
				Window: int(c.Queue.Window.V()), AckBatch: int(c.Queue.AckBatch.V()), Hand: func(msg baseline.Message) { hand(msg.Value) },
			})
		},
	}
}

// queuesOf are the queues of a group.
func (c *Cell) queuesOf(g *scenario.Group) []baseline.Binding {
	var out []baseline.Binding
	for _, topic := range c.Scenario.TopicsOf(g) {
		out = append(out, baseline.Binding{Topic: topic, Queue: g.Name + "/" + topic})
	}
	return out
}

// queues are all queues. A topic that no group reads has one all the same, in which its messages gather.
func (c *Cell) queues() []baseline.Binding {
	var out []baseline.Binding
	read := map[string]bool{}
	for i := range c.Scenario.Topology.Groups {
		out = append(out, c.queuesOf(&c.Scenario.Topology.Groups[i])...)
	}
	for _, q := range out {
		read[q.Topic] = true
	}
	for i := range c.Scenario.Topology.Topics {
		if name := c.Scenario.Topology.Topics[i].Name; !read[name] {
			out = append(out, baseline.Binding{Topic: name, Queue: name})
		}
	}
	return out
}

// serveQueue is the program of a queue's server. At its first start it makes what the cell retains.
func (c *Cell) serveQueue(m machine.Machine) error {
	cfg := baseline.Config{
		Port: deploy.BrokerPort, DataDir: "queue", SegmentBytes: int64(c.Queue.SegmentBytes.V()), MemoryBytes: int64(c.Queue.Memory.V()), DeliveryBatch: int(c.Queue.DeliveryBatch.V()),
	}
	for i := range c.Scenario.Topology.Topics {
		d := deploy.OrNever(c.Scenario.Topology.Topics[i].FlushInterval, 0)
		if d > 0 && (cfg.FlushInterval == 0 || d < cfg.FlushInterval) {
			cfg.FlushInterval = d
		}
	}
	if _, err := m.Disk().Stat(cfg.DataDir); err != nil && c.Load.Retained.V() > 0 {
		if err := c.fillQueue(m, cfg); err != nil {
			return err
		}
	}
	return baseline.Run(m, cfg)
}

// fillQueue makes the messages that each topic keeps from before the load.
func (c *Cell) fillQueue(m machine.Machine, cfg baseline.Config) error {
	topics := c.Scenario.Topology.Topics
	if len(topics) != 1 || c.Load.Cached.V() != "yes" {
		return fmt.Errorf("queue: retained: found %d topics and cached %s, allowed is one topic whose messages are cached", len(topics), c.Load.Cached.V())
	}
	w := &c.Scenario.Workload
	visits := load.NewVisits(sim.NewStream(0, "bench/retained", ""), load.VisitsConfig{
		Count: -1, MinBytes: int(w.MessageBytes.Min), MaxBytes: int(w.MessageBytes.Max), Now: func() time.Time { return sim.Epoch },
	})
	n := int64(c.Load.Retained.V()) * int64(topics[0].Partitions.V()) * 2 / int64(w.MessageBytes.Min+w.MessageBytes.Max)
	return baseline.Fill(m, cfg, c.queues(), topics[0].Name, n, func() []byte {
		_, v, _ := visits.Next()
		for i := range min(stampBytes, len(v)) {
			v[i] = 0xff // -1: it was there before the load
		}
		return v
	})
}

// queueSender sends to the topics in turn.
type queueSender struct {
	s      *baseline.Sender
	topics []string
	n      int
}

func (q *queueSender) Send(value []byte) error {
	q.n++
	return q.s.Send(q.topics[q.n%len(q.topics)], value)
}

func (q *queueSender) Close() error { return q.s.Close() }
