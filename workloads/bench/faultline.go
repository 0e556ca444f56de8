package bench

import (
	"errors"
	"fmt"
	"sync/atomic"

	"faultline/consumer"
	"faultline/producer"
	"faultline/sim/machine"
	"faultline/workloads/deploy"
	"faultline/workloads/scenario"
)

// Faultline is the system itself. addrs says where its servers are.
func Faultline(addrs func(c *Cell) deploy.Addresses) *System {
	return &System{
		Name: "faultline",
		Fill: func(m machine.Machine, c *Cell, bytes int64, stop func() bool) error {
			return fill(m, c, addrs(c).Brokers, bytes, stop)
		},
		Send: func(m machine.Machine, c *Cell, index int, told func(error)) (Sender, error) {
			cfg := deploy.Producer(addrs(c), machineOf(c, "producer", index).Producer)
			cfg.ClientID = fmt.Sprintf("producer-%d", index)
			p, err := producer.New(m, cfg)
			if err != nil {
				return nil, err
			}
			s := &sender{p: p, told: func(r producer.Result) { told(r.Err) }}
			for i := range c.Scenario.Topology.Topics {
				s.topics = append(s.topics, c.Scenario.Topology.Topics[i].Name)
			}
			return s, nil
		},
		Receive: func(m machine.Machine, c *Cell, group string, index int, hand func([]byte)) (Receiver, error) {
			g := machineOf(c, "consumer", index).Group
			cl, err := consumer.Join(m, deploy.Consumer(c.Scenario, addrs(c), g, fmt.Sprintf("consumer-%d", index)))
			if err != nil {
				return nil, err
			}
			for _, topic := range c.Scenario.TopicsOf(g) {
				for _, stream := range cl.Streams(topic) {
					m.Go("bench/stream", func() {
						for {
							msg, err := stream.Next()
							if errors.Is(err, consumer.ErrClosed) {
								return
							}
							if err != nil {
								m.Exit(err)
								return
							}
							hand(msg.Value)
						}
					})
				}
			}
			return cl, nil
		},
	}
}

// machineOf finds a client of the cell.
func machineOf(c *Cell, role string, index int) scenario.Machine {
	for _, m := range c.Scenario.Machines(0) {
		if m.Role == role && m.Index == index {
			return m
		}
	}
	panic(fmt.Sprintf("bench: no %s has the number %d", role, index))
}

// sender sends to the topics in turn. Records have no key: the producer fills one partition's batch after the other.
type sender struct {
	p      *producer.Producer
	told   func(producer.Result)
	topics []string
	n      int
}

func (s *sender) Send(value []byte) error {
	topic := s.topics[s.n%len(s.topics)]
	s.n++
	return s.p.Send(producer.Record{Topic: topic, Partition: -1, Value: value}, s.told)
}

func (s *sender) Close() error {
	s.p.Close()
	return nil
}

// fill produces messages that are stamped as due before the load, as fast as it goes.
func fill(m machine.Machine, c *Cell, brokers []string, bytes int64, stop func() bool) error {
	var failed atomic.Pointer[error]
	cfg := c.filler()
	cfg.Brokers, cfg.ClientID = brokers, m.Name()
	p, err := producer.New(m, cfg)
	if err != nil {
		return err
	}
	defer p.Close()
	values := aheadOf(c)
	for i := range c.Scenario.Topology.Topics {
		t := &c.Scenario.Topology.Topics[i]
		sent := int64(0)
		for n := 0; sent < bytes; n++ {
			v := values[n%len(values)]
			for part := range int32(t.Partitions.V()) {
				err := p.Send(producer.Record{Topic: t.Name, Partition: part, Value: v}, func(r producer.Result) {
					if r.Err != nil {
						failed.CompareAndSwap(nil, &r.Err)
					}
				})
				if err != nil {
					return err
				}
			}
			sent += int64(len(v))
			if n%1024 == 0 && stop() {
				return ErrStopped
			}
			if err := failed.Load(); err != nil {
				return fmt.Errorf("fill: %w", *err)
			}
		}
	}
	p.Flush()
	if err := failed.Load(); err != nil {
		return fmt.Errorf("fill: %w", *err)
	}
	return nil
}
