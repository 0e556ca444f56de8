package broker_test

import (
	"testing"
	"time"

	"faultline/broker/client"
	"faultline/broker/record"
	"faultline/sim"
	"faultline/sim/machine"
	"faultline/sim/virtual"

	"faultline/broker"
	"faultline/coord"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// benchWorld is brokers and a coordination service without a test's checks.
func benchWorld(b *testing.B, brokers int) (*sim.World, *virtual.Cluster) {
	w := sim.New(sim.Config{Policy: sim.FIFO})
	c := virtual.New(w, virtual.Config{})
	c.OnExit = func(c *virtual.Computer, err error) {
		if err != nil {
			b.Fatal(c.Name(), err)
		}
	}
	c.Add("zk").Boot(func(m machine.Machine) error { return coord.Run(m, coord.Config{Port: 2181}) })
	for id := 1; id <= brokers; id++ {
		c.Add("b" + string('0'+rune(id))).Boot(func(m machine.Machine) error {
			return broker.Run(m, broker.Config{ID: int32(id), Coord: []string{"zk:2181"}})
		})
	}
	b.Cleanup(w.Close)
	return w, c
}

// BenchmarkProduceFetch moves batches of 100 records of 200 bytes from a client through a broker to another client, five produce requests in
// flight, on simulated computers. An op is a batch.
func BenchmarkProduceFetch(b *testing.B) {
	const records = 100
	w, c := benchWorld(b, 1)
	values := make([]string, records)
	for i := range values {
		values[i] = string(make([]byte, 200))
	}
	batch := batchOf(time.UnixMilli(1e12), values...)
	ready := false
	c.Add("writer").Boot(func(m machine.Machine) error {
		cl := client.NewCluster(m, []string{"b1:9092"}, client.Config{})
		m.Sleep(time.Second)
		if err := cl.CreateTopic("t", 1, 1); err != nil {
			return err
		}
		conn, err := cl.Leader("t", 0)
		if err != nil {
			return err
		}
		ready = true
		m.Sleep(time.Second)
		var flying []*client.Pending
		for range b.N {
			flying = append(flying, conn.Start(produceBytes("t", 0, -1, batch)))
			if len(flying) == 5 {
				if _, err := flying[0].Wait(); err != nil {
					return err
				}
				flying = append(flying[:0], flying[1:]...)
			}
		}
		for _, p := range flying {
			if _, err := p.Wait(); err != nil {
				return err
			}
		}
		return nil
	})
	done := false
	c.Add("reader").Boot(func(m machine.Machine) error {
		cl := client.NewCluster(m, []string{"b1:9092"}, client.Config{})
		m.Sleep(1500 * time.Millisecond)
		conn, err := cl.Leader("t", 0)
		if err != nil {
			return err
		}
		for offset := int64(0); offset < int64(b.N)*records; {
			resp, err := conn.Request(fetchRequest("t", 0, offset, longPoll(time.Second, 1)))
			if err != nil {
				return err
			}
			for rest := resp.(*kmsg.FetchResponse).Topics[0].Partitions[0].RecordBatches; len(rest) > 0; {
				h, err := record.ParseHeader(rest)
				if err != nil {
					return err
				}
				offset, rest = h.NextOffset(), rest[h.Size():]
			}
		}
		done = true
		w.Halt()
		return nil
	})
	for !ready {
		w.Run(w.Now() + 100*time.Millisecond)
	}
	w.Run(w.Now() + time.Second)
	b.SetBytes(int64(len(batch)))
	b.ReportAllocs()
	b.ResetTimer()
	for !done {
		if out := w.Run(w.Now() + time.Hour); out.Kind == sim.Stuck {
			b.Fatal(out)
		}
	}
	b.ReportMetric(float64(b.N)*records/b.Elapsed().Seconds(), "records/s")
}

// BenchmarkIdle lets three brokers and six clients that wait for news live. An op is a virtual second.
func BenchmarkIdle(b *testing.B) {
	w, c := benchWorld(b, 3)
	c.Add("admin").Boot(func(m machine.Machine) error {
		m.Sleep(2 * time.Second)
		return client.NewCluster(m, []string{"b1:9092"}, client.Config{}).CreateTopic("t", 6, 1)
	})
	for i := range int32(6) {
		c.Add("reader" + string('0'+i)).Boot(func(m machine.Machine) error {
			cl := client.NewCluster(m, []string{"b1:9092"}, client.Config{})
			m.Sleep(5 * time.Second)
			for {
				conn, err := cl.Leader("t", i)
				if err != nil {
					return err
				}
				if _, err := conn.Request(fetchRequest("t", i, 0, longPoll(time.Second, 1))); err != nil {
					return err
				}
			}
		})
	}
	w.Run(10 * time.Second)
	events := w.Events()
	b.ReportAllocs()
	b.ResetTimer()
	w.Run(w.Now() + time.Duration(b.N)*time.Second)
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "x")
	b.ReportMetric(float64(w.Events()-events)/float64(b.N), "events/s")
}
