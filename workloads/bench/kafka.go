package bench

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"faultline/broker/client"
	"faultline/faults/quantity"
	"faultline/sim/host"
	"faultline/sim/machine"
	"faultline/workloads/deploy"
)

// foreignSession is a session time-out that brokers allow unless they are told otherwise: 6 s to 30 min.
const foreignSession = 10 * time.Second

// Kafka is a cluster of brokers that speak Kafka's protocol and run elsewhere, driven by this system's own producer and consumer. The topics and groups of each run have names that nobody had
// before; the topics are deleted afterwards, where the brokers allow that. Groups are coordinated by a broker, for nobody may reach a foreign cluster's registry.
//
// Brokers must speak ApiVersions and record batches of version 2: Apache Kafka does from 0.11 on.
func Kafka(c *Cell, brokers []string) *System {
	own := *c
	own.Scenario = c.Scenario.Clone()
	run := "faultline-bench-" + strconv.FormatInt(time.Now().UnixNano(), 36) + "-"
	top := &own.Scenario.Topology
	for i := range top.Topics {
		top.Topics[i].Name = run + top.Topics[i].Name
	}
	for i := range top.Groups {
		g := &top.Groups[i]
		g.Name, g.Protocol, g.SessionTimeout = run+g.Name, quantity.Choose("coordinator"), quantity.Just(quantity.Duration(foreignSession))
		g.Topics = slices.Clone(g.Topics)
		for k := range g.Topics {
			g.Topics[k] = run + g.Topics[k]
		}
	}
	base := Faultline(func(*Cell) deploy.Addresses { return deploy.Addresses{Brokers: brokers} })
	return &System{
		Name: "kafka", Guarantee: promise(c),
		Outside: func(*Cell) (func(), error) {
			m, err := host.New(host.Options{Name: "admin", Hosts: map[string]string{}, OnExit: func(error) {}})
			if err != nil {
				return nil, err
			}
			if !m.Do("create", func() { err = createTopics(m, own.Scenario, brokers) }) || err != nil {
				m.Shutdown()
				if errors.Is(err, machine.ErrConnReset) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
					err = fmt.Errorf("%w (a broker before 0.11 hangs up like that: it knows no ApiVersions request and no record batches of version 2, so this client cannot talk to it)", err)
				}
				return nil, fmt.Errorf("brokers %v: %w", brokers, err)
			}
			return func() {
				m.Do("delete", func() {
					admin := client.NewCluster(m, brokers, client.Config{ClientID: m.Name(), RequestTimeout: 5 * time.Second})
					for i := range top.Topics {
						_ = admin.DeleteTopic(top.Topics[i].Name) // not every cluster lets its topics be deleted
					}
					admin.Close()
				})
				m.Shutdown()
			}, nil
		},
		Fill: func(m machine.Machine, _ *Cell, bytes int64, stop func() bool) error {
			return base.Fill(m, &own, bytes, stop)
		},
		Send: func(m machine.Machine, _ *Cell, index int, told func(error)) (Sender, error) {
			return base.Send(m, &own, index, told)
		},
		Receive: func(m machine.Machine, _ *Cell, group string, index int, hand func([]byte)) (Receiver, error) {
			return base.Receive(m, &own, group, index, hand)
		},
	}
}
