package consumer_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"faultline/broker"
	brokerclient "faultline/broker/client"
	"faultline/broker/log"
	"faultline/consumer"
	"faultline/consumer/assign"
	"faultline/coord"
	"faultline/sim/host"
)

// On the real computer a member of this package and one of another implementation (franz-go) share a group by each assignor: each owns half of the partitions, whoever leads; one takes over when the other
// leaves, from its commits on.
func TestAGroupIsSharedWithAnotherImplementationOnTheHost(t *testing.T) {
	const partitions, each = 6, 300
	const patience = 30 * time.Second // of sessions: a busy computer must not end one, for then a record may come twice
	machineOf := func(name string) *host.Machine {
		m, err := host.New(host.Options{Name: name, Root: t.TempDir(), OnExit: func(error) {}})
		require.NoError(t, err)
		t.Cleanup(m.Shutdown)
		return m
	}
	zk, err := coord.Start(machineOf("zk"), coord.Config{TickTime: 100 * time.Millisecond})
	require.NoError(t, err)
	var brokers []string
	for i := range int32(2) {
		b, err := broker.Start(machineOf(fmt.Sprintf("b%d", i)), broker.Config{ID: i, Port: -1, AdvertisedHost: "localhost", Coord: []string{fmt.Sprintf("localhost:%d", zk.Port())},
			SessionTimeout: patience, Log: log.Config{FlushInterval: 2 * time.Millisecond}, OffsetsPartitions: 4, MinGroupSession: time.Second, GroupDelay: -1})
		require.NoError(t, err)
		brokers = append(brokers, b.Addr())
	}
	admin := brokerclient.NewCluster(machineOf("admin"), brokers, brokerclient.Config{})
	defer admin.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()

	for _, c := range []struct {
		ours   *assign.Assignor
		theirs kgo.GroupBalancer
	}{
		{assign.Range, kgo.RangeBalancer()}, {assign.RoundRobin, kgo.RoundRobinBalancer()}, {assign.Sticky, kgo.StickyBalancer()}, {assign.CooperativeSticky, kgo.CooperativeStickyBalancer()},
	} {
		t.Run(c.ours.Name(), func(t *testing.T) {
			topic := "t-" + c.ours.Name()
			require.Eventually(t, func() bool { return admin.CreateTopic(topic, partitions, 1) == nil }, 10*time.Second, 50*time.Millisecond)
			var mu sync.Mutex
			got := map[string]string{} // value -> who got it
			owners := map[int32]string{}
			read := func(who string, partition int32, value []byte) {
				mu.Lock()
				defer mu.Unlock()
				if other, twice := got[string(value)]; twice {
					t.Errorf("%s got %s, which %s had", who, value, other)
				}
				got[string(value)] = who
				owners[partition] = who
			}
			seen := func(n int) func() bool {
				return func() bool { mu.Lock(); defer mu.Unlock(); return len(got) == n }
			}
			shares := func() (ours, theirs int) {
				mu.Lock()
				defer mu.Unlock()
				for _, who := range owners {
					if who == "ours" {
						ours++
					} else {
						theirs++
					}
				}
				return ours, theirs
			}
			producer, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
			require.NoError(t, err)
			defer producer.Close()
			sent := 0
			send := func() {
				var records []*kgo.Record
				for i := range each {
					records = append(records, &kgo.Record{Topic: topic, Partition: int32(i % partitions), Value: fmt.Append(nil, "v", sent)})
					sent++
				}
				require.NoError(t, producer.ProduceSync(ctx, records...).FirstErr())
			}
			join := func() *consumer.Group {
				m := machineOf("ours")
				g, err := consumer.Join(m, consumer.Config{Group: topic, Protocol: consumer.Coordinator, Brokers: brokers, Topics: map[string]int{topic: 2}, Assignors: []*assign.Assignor{c.ours},
					SessionTimeout: patience, HeartbeatInterval: 50 * time.Millisecond, AutoCommit: true, CommitInterval: 50 * time.Millisecond, MaxWait: 200 * time.Millisecond})
				require.NoError(t, err)
				for _, s := range g.Streams(topic) {
					m.Go("app", func() {
						for {
							msg, err := s.Next()
							if errors.Is(err, consumer.ErrClosed) {
								return
							}
							if err != nil {
								t.Error(err)
								return
							}
							read("ours", msg.Partition, msg.Value)
						}
					})
				}
				return g
			}
			joinTheirs := func() (leave func()) {
				theirs, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.ConsumerGroup(topic), kgo.ConsumeTopics(topic), kgo.Balancers(c.theirs), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
					kgo.SessionTimeout(patience), kgo.HeartbeatInterval(50*time.Millisecond), kgo.DisableAutoCommit(), kgo.BlockRebalanceOnPoll(), kgo.FetchMaxWait(200*time.Millisecond))
				require.NoError(t, err)
				stop, done := context.WithCancel(ctx)
				over := make(chan struct{})
				go func() {
					defer close(over)
					for stop.Err() == nil {
						fetches := theirs.PollFetches(stop)
						fetches.EachRecord(func(r *kgo.Record) { read("theirs", r.Partition, r.Value) })
						if err := theirs.CommitUncommittedOffsets(ctx); err != nil {
							t.Errorf("commit: %v", err)
						}
						theirs.AllowRebalance()
					}
				}()
				return func() { done(); <-over; theirs.Close() }
			}
			// shared has records of all partitions read, again and again, until each of the two gets this many partitions in one round.
			shared := func(ours, theirs int) {
				t.Helper()
				for a, b := -1, -1; a != ours || b != theirs; a, b = shares() {
					mu.Lock()
					clear(owners)
					mu.Unlock()
					send()
					require.Eventually(t, seen(sent), 20*time.Second, 5*time.Millisecond)
					require.NoError(t, ctx.Err(), "%d and %d partitions, want %d and %d", a, b, ours, theirs)
				}
			}
			g := join()
			shared(partitions, 0)
			leave := joinTheirs()
			shared(partitions/2, partitions/2)
			leave()
			shared(partitions, 0)
			require.NoError(t, g.Close())
			leave = joinTheirs() // it leads now
			shared(0, partitions)
			g = join()
			shared(partitions/2, partitions/2)
			require.NoError(t, g.Close())
			shared(0, partitions)
			leave()
			require.Len(t, got, sent)
		})
	}
}
