package consumer_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"faultline/broker"
	brokerclient "faultline/broker/client"
	"faultline/broker/log"
	"faultline/consumer"
	"faultline/coord"
	"faultline/producer"
	"faultline/sim/host"
)

// The same programs on the real computer, where tasks are really concurrent: a member is killed, another leaves, one comes, and every record arrives.
func TestGroupOnTheHost(t *testing.T) {
	machineOf := func(name string) *host.Machine {
		m, err := host.New(host.Options{Name: name, Root: t.TempDir(), OnExit: func(error) {}})
		require.NoError(t, err)
		t.Cleanup(m.Shutdown)
		return m
	}
	zk, err := coord.Start(machineOf("zk"), coord.Config{TickTime: 100 * time.Millisecond})
	require.NoError(t, err)
	zkAddress := []string{fmt.Sprintf("localhost:%d", zk.Port())}
	var brokers []string
	for i := range int32(2) {
		b, err := broker.Start(machineOf(fmt.Sprintf("b%d", i)), broker.Config{ID: i, Port: -1, AdvertisedHost: "localhost", Coord: zkAddress,
			Log: log.Config{FlushInterval: 2 * time.Millisecond}})
		require.NoError(t, err)
		brokers = append(brokers, b.Addr())
	}
	admin := brokerclient.NewCluster(machineOf("admin"), brokers, brokerclient.Config{})
	require.Eventually(t, func() bool { return admin.CreateTopic("t", 6, 1) == nil }, 10*time.Second, 50*time.Millisecond)
	admin.Close()

	var mu sync.Mutex
	got := map[string]int{}
	count := func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(got)
	}
	join := func(name string) (*host.Machine, *consumer.Group) {
		m := machineOf(name)
		g, err := consumer.Join(m, consumer.Config{Group: "g", ID: name, Coord: zkAddress, Topics: map[string]int{"t": 2}, SessionTimeout: time.Second,
			AutoCommit: true, CommitInterval: 50 * time.Millisecond})
		require.NoError(t, err)
		for _, s := range g.Streams("t") {
			m.Go("app", func() {
				for {
					msg, err := s.Next()
					if errors.Is(err, consumer.ErrClosed) {
						return
					}
					mu.Lock()
					got[string(msg.Value)]++
					mu.Unlock()
				}
			})
		}
		return m, g
	}
	join("c0")
	killed, _ := join("c1")
	_, leaving := join("c2")

	const n = 6000
	p, err := producer.New(machineOf("p"), producer.Config{Brokers: brokers, Acks: producer.AcksAll, Linger: time.Millisecond, Compression: producer.Snappy})
	require.NoError(t, err)
	var acks sync.WaitGroup
	for i := range n {
		acks.Add(1)
		value := fmt.Sprintf("v%d", i)
		require.NoError(t, p.Send(producer.Record{Topic: "t", Partition: -1, Key: []byte(value), Value: []byte(value)}, func(r producer.Result) {
			require.NoError(t, r.Err)
			acks.Done()
		}))
		switch i {
		case n / 4:
			p.Flush()
			require.Eventually(t, func() bool { return count() > n/10 }, 20*time.Second, 10*time.Millisecond)
			killed.Shutdown()
		case n / 2:
			require.NoError(t, leaving.Close())
			join("c3")
		}
	}
	p.Close()
	acks.Wait()
	require.Eventually(t, func() bool { return count() == n }, 20*time.Second, 10*time.Millisecond)
}

// BenchmarkHost is a record's way through a broker on the real computer, over loopback: one producer, one partition, 200 bytes, then one reader.
func BenchmarkHost(b *testing.B) {
	machineOf := func(name string) *host.Machine {
		m, err := host.New(host.Options{Name: name, Root: b.TempDir(), OnExit: func(error) {}})
		require.NoError(b, err)
		b.Cleanup(m.Shutdown)
		return m
	}
	zk, err := coord.Start(machineOf("zk"), coord.Config{})
	require.NoError(b, err)
	s, err := broker.Start(machineOf("b"), broker.Config{Port: -1, AdvertisedHost: "localhost", Coord: []string{fmt.Sprintf("localhost:%d", zk.Port())}})
	require.NoError(b, err)
	m := machineOf("app")
	admin := brokerclient.NewCluster(m, []string{s.Addr()}, brokerclient.Config{})
	require.Eventually(b, func() bool { return admin.CreateTopic("t", 1, 1) == nil }, 10*time.Second, 50*time.Millisecond)
	admin.Close()
	value := make([]byte, 200)
	b.Run("produce", func(b *testing.B) {
		p, err := producer.New(m, producer.Config{Brokers: []string{s.Addr()}, Acks: producer.AcksOne, BatchBytes: 1 << 18, MaxInFlight: 5})
		require.NoError(b, err)
		b.ReportAllocs()
		done := func(r producer.Result) {
			if r.Err != nil {
				b.Error(r.Err)
			}
		}
		for b.Loop() {
			if err := p.Send(producer.Record{Topic: "t", Partition: 0, Value: value}, done); err != nil {
				b.Fatal(err)
			}
		}
		p.Close()
	})
	b.Run("consume", func(b *testing.B) {
		c, err := consumer.NewSimple(m, consumer.SimpleConfig{Brokers: []string{s.Addr()}})
		require.NoError(b, err)
		defer c.Close()
		r := c.Read("t", 0, 0)
		b.ReportAllocs()
		for b.Loop() {
			if r.End() >= 0 && r.Position() >= r.End() {
				r.SeekTo(0)
			}
			if _, err := r.Next(); err != nil {
				b.Fatal(err)
			}
		}
	})
}
