package consumer_test

import (
	"fmt"
	"time"

	"faultline/broker"
	"faultline/broker/client"
	"faultline/consumer"
	"faultline/coord"
	"faultline/producer"
	"faultline/sim"
	"faultline/sim/machine"
	"faultline/sim/virtual"
)

// A group reads a topic. Everything runs on simulated computers here; the programs are the same on a real one (sim/host).
func ExampleJoin() {
	world := sim.New(sim.Config{Seed: 1})
	cluster := virtual.New(world, virtual.Config{})
	run := func(name string, program func(m machine.Machine) error) { cluster.Add(name).Boot(program) }

	run("coord", func(m machine.Machine) error { return coord.Run(m, coord.Config{Port: 2181}) })
	run("broker", func(m machine.Machine) error {
		return broker.Run(m, broker.Config{Coord: []string{"coord:2181"}})
	})
	run("producer", func(m machine.Machine) error {
		admin := client.NewCluster(m, []string{"broker:9092"}, client.Config{})
		for admin.CreateTopic("visits", 1, 1) != nil {
			m.Sleep(100 * time.Millisecond) // the broker is not up yet
		}
		p, err := producer.New(m, producer.Config{Brokers: []string{"broker:9092"}, Acks: producer.AcksAll})
		if err != nil {
			return err
		}
		for i := range 3 {
			r := producer.Record{Topic: "visits", Partition: -1, Value: fmt.Appendf(nil, "visit %d", i)}
			if err := p.Send(r, nil); err != nil {
				return err
			}
		}
		p.Close()
		return nil
	})
	run("consumer", func(m machine.Machine) error {
		g, err := consumer.Join(m, consumer.Config{
			Group:      "readers",
			Coord:      []string{"coord:2181"},
			Topics:     map[string]int{"visits": 1},
			AutoCommit: true,
		})
		if err != nil {
			return err
		}
		stream := g.Streams("visits")[0]
		for range 3 {
			msg, err := stream.Next() // says that the one before is processed
			if err != nil {
				return err
			}
			fmt.Printf("%s/%d@%d: %s\n", msg.Topic, msg.Partition, msg.Offset, msg.Value)
		}
		return g.Close()
	})

	world.Run(time.Minute)
	world.Close()
	// Output:
	// visits/0@0: visit 0
	// visits/0@1: visit 1
	// visits/0@2: visit 2
}
