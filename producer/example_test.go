package producer_test

import (
	"errors"
	"fmt"
	"time"

	"faultline/broker"
	"faultline/broker/client"
	"faultline/coord"
	"faultline/producer"
	"faultline/sim"
	"faultline/sim/machine"
	"faultline/sim/virtual"
)

// A producer on a simulated computer; the same program runs on a real one (sim/host).
func ExampleProducer_Send() {
	world := sim.New(sim.Config{Seed: 1})
	cluster := virtual.New(world, virtual.Config{})
	run := func(name string, program func(m machine.Machine) error) { cluster.Add(name).Boot(program) }

	run("coord", func(m machine.Machine) error { return coord.Run(m, coord.Config{Port: 2181}) })
	run("broker", func(m machine.Machine) error {
		return broker.Run(m, broker.Config{Coord: []string{"coord:2181"}})
	})
	run("app", func(m machine.Machine) error {
		admin := client.NewCluster(m, []string{"broker:9092"}, client.Config{})
		for admin.CreateTopic("visits", 1, 1) != nil {
			m.Sleep(100 * time.Millisecond) // the broker is not up yet
		}
		p, err := producer.New(m, producer.Config{Brokers: []string{"broker:9092"}, Acks: producer.AcksAll, Linger: 5 * time.Millisecond})
		if err != nil {
			return err
		}
		for i := range 3 {
			r := producer.Record{Topic: "visits", Partition: -1, Key: []byte("10.0.0.7"), Value: fmt.Appendf(nil, "page %d", i)}
			err := p.Send(r, func(r producer.Result) {
				switch {
				case r.Err == nil:
					fmt.Printf("page %d is at %s/%d@%d\n", i, r.Topic, r.Partition, r.Offset)
				case errors.Is(r.Err, producer.ErrUnknown):
					fmt.Printf("nobody knows about page %d: %v\n", i, r.Err)
				default:
					fmt.Printf("page %d is surely not there: %v\n", i, r.Err)
				}
			})
			if err != nil {
				return err
			}
		}
		p.Close()
		return nil
	})

	world.Run(time.Minute)
	world.Close()
	// Output:
	// page 0 is at visits/0@0
	// page 1 is at visits/0@1
	// page 2 is at visits/0@2
}
