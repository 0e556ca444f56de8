package consumer_test

import (
	"fmt"
	"testing"
	"time"

	"faultline/consumer"
	"faultline/producer"
	"faultline/sim"
	"faultline/sim/machine"
)

// BenchmarkDelivery is a record's way through a whole simulated system: 2 producers, 3 brokers, 6 members, 12 partitions, 200 bytes, 100,000 records per
// simulated second. ns/op is wall time per record.
func BenchmarkDelivery(b *testing.B) {
	x := newWorld(&testing.T{}, 1, 3).up()
	defer x.w.Close()
	x.topic("t", 12)
	n, seen := b.N/2+1, 0
	for i := range 6 {
		x.c.Add(fmt.Sprintf("c%d", i)).Boot(func(m machine.Machine) error {
			g, err := consumer.Join(m, consumer.Config{Group: "g", Coord: []string{"zk:2181"}, Topics: map[string]int{"t": 1}, AutoCommit: true})
			if err != nil {
				return err
			}
			for {
				if _, err := g.Streams("t")[0].Next(); err != nil {
					return err
				}
				seen++
			}
		})
	}
	x.w.Run(3 * time.Second)
	for i := range 2 {
		x.c.Add(fmt.Sprintf("p%d", i)).Boot(func(m machine.Machine) error {
			p, err := producer.New(m, producer.Config{Brokers: x.addresses(), Acks: producer.AcksAll, Linger: 5 * time.Millisecond})
			if err != nil {
				return err
			}
			value := make([]byte, 200)
			key := make([]byte, 8)
			done := func(producer.Result) {}
			for k := range n {
				key[0], key[1] = byte(k), byte(k>>8)
				if err := p.Send(producer.Record{Topic: "t", Partition: -1, Key: key, Value: value}, done); err != nil {
					return err
				}
				if k%50 == 49 {
					m.Sleep(time.Millisecond)
				}
			}
			p.Close()
			return nil
		})
	}
	events := x.w.Events()
	b.ReportAllocs()
	b.ResetTimer()
	for seen < 2*n {
		if out := x.w.Run(x.w.Now() + 10*time.Millisecond); out.Kind != sim.Deadline {
			b.Fatal(out)
		}
	}
	b.ReportMetric(float64(x.w.Events()-events)/float64(2*n), "events/op")
}

// BenchmarkIdle is one simulated second of 3 brokers and 6 members with nothing to do.
func BenchmarkIdle(b *testing.B) {
	x := newWorld(&testing.T{}, 1, 3).up()
	defer x.w.Close()
	x.session = 6 * time.Second
	x.topic("t", 12)
	for i := range 6 {
		x.c.Add(fmt.Sprintf("c%d", i)).Boot(func(m machine.Machine) error {
			g, err := consumer.Join(m, consumer.Config{Group: "g", Coord: []string{"zk:2181"}, Topics: map[string]int{"t": 1}, AutoCommit: true})
			if err != nil {
				return err
			}
			_, err = g.Streams("t")[0].Next()
			return err
		})
	}
	x.w.Run(20 * time.Second)
	events := x.w.Events()
	b.ReportAllocs()
	b.ResetTimer()
	if out := x.w.Run(x.w.Now() + time.Duration(b.N)*time.Second); out.Kind != sim.Deadline {
		b.Fatal(out)
	}
	b.ReportMetric(float64(x.w.Events()-events)/float64(b.N), "events/op")
}
