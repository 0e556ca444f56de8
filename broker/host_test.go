package broker_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"faultline/broker"
	"faultline/broker/log"
	"faultline/coord"
	"faultline/sim/host"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// real is a coordination service and brokers in this process, on files and TCP.
type real struct {
	t       *testing.T
	coord   string
	roots   map[int]string
	brokers map[int]*broker.Broker
	hosts   map[int]*host.Machine
	ports   map[int]int
}

func newReal(t *testing.T, brokers int) *real {
	x := &real{t: t, roots: map[int]string{}, brokers: map[int]*broker.Broker{}, hosts: map[int]*host.Machine{}, ports: map[int]int{}}
	m, err := host.New(host.Options{Name: "zk", Root: t.TempDir(), OnExit: func(err error) {
		if err != nil {
			t.Errorf("zk: %v", err)
		}
	}})
	require.NoError(t, err)
	s, err := coord.Start(m, coord.Config{})
	require.NoError(t, err)
	x.coord = fmt.Sprintf("127.0.0.1:%d", s.Port())
	t.Cleanup(func() { m.Shutdown() })
	for id := 1; id <= brokers; id++ {
		x.roots[id] = t.TempDir()
		x.boot(id)
	}
	return x
}

// boot starts a broker on its directory and, from the second time on, its port.
func (x *real) boot(id int) {
	x.t.Helper()
	m, err := host.New(host.Options{Name: fmt.Sprint("broker-", id), Root: x.roots[id], OnExit: func(err error) {
		if err != nil {
			x.t.Errorf("broker %d: %v", id, err)
		}
	}})
	require.NoError(x.t, err)
	port := x.ports[id]
	if port == 0 {
		port = -1
	}
	b, err := broker.Start(m, broker.Config{
		ID: int32(id), Port: port, AdvertisedHost: "127.0.0.1", Coord: []string{x.coord}, AutoCreateTopics: true, OffsetsPartitions: 4, GroupDelay: -1,
		Log: log.Config{FlushInterval: 5 * time.Millisecond},
	})
	require.NoError(x.t, err)
	x.brokers[id], x.hosts[id] = b, m
	if x.ports[id] == 0 {
		_, err := fmt.Sscanf(b.Addr(), "127.0.0.1:%d", &port)
		require.NoError(x.t, err)
		x.ports[id] = port
		x.t.Cleanup(func() { x.hosts[id].Shutdown() })
	}
}

func (x *real) kill(id int) { x.hosts[id].Shutdown() }

func (x *real) stop(id int) {
	require.NoError(x.t, x.brokers[id].Stop())
	x.hosts[id].Shutdown()
}

func (x *real) client(opts ...kgo.Opt) *kgo.Client {
	var seeds []string
	for id := range x.ports {
		seeds = append(seeds, fmt.Sprintf("127.0.0.1:%d", x.ports[id]))
	}
	opts = append([]kgo.Opt{kgo.SeedBrokers(seeds...), kgo.MetadataMinAge(50 * time.Millisecond)}, opts...)
	cl, err := kgo.NewClient(opts...)
	require.NoError(x.t, err)
	x.t.Cleanup(cl.Close)
	return cl
}

func withTimeout(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func createTopic(ctx context.Context, cl *kgo.Client, name string, partitions int32, configs map[string]string) error {
	req := kmsg.NewPtrCreateTopicsRequest()
	req.TimeoutMillis = 10_000
	rt := kmsg.NewCreateTopicsRequestTopic()
	rt.Topic, rt.NumPartitions, rt.ReplicationFactor = name, partitions, 1
	for k, v := range configs {
		rt.Configs = append(rt.Configs, kmsg.CreateTopicsRequestTopicConfig{Name: k, Value: kmsg.StringPtr(v)})
	}
	req.Topics = append(req.Topics, rt)
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return err
	}
	return kerr.ErrorForCode(resp.Topics[0].ErrorCode)
}

func (x *real) produce(ctx context.Context, cl *kgo.Client, topic string, from, n int) {
	x.t.Helper()
	var records []*kgo.Record
	for i := from; i < from+n; i++ {
		records = append(records, &kgo.Record{Topic: topic, Partition: int32(i % 3), Key: []byte(fmt.Sprint("key", i)), Value: []byte(fmt.Sprint("value", i)), Headers: []kgo.RecordHeader{{Key: "n", Value: []byte{byte(i)}}}})
	}
	require.NoError(x.t, cl.ProduceSync(ctx, records...).FirstErr())
}

// consume reads n records from the start of the topic.
func (x *real) consume(ctx context.Context, topic string, n int, opts ...kgo.Opt) map[string]int {
	x.t.Helper()
	cl := x.client(append([]kgo.Opt{kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(500 * time.Millisecond)}, opts...)...)
	got := map[string]int{}
	next := map[int32]int64{}
	for seen := 0; seen < n; {
		fetches := cl.PollFetches(ctx)
		require.NoError(x.t, ctx.Err(), "got %d of %d", seen, n)
		for _, e := range fetches.Errors() {
			x.t.Logf("fetch %s/%d: %v", e.Topic, e.Partition, e.Err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			require.Equal(x.t, next[r.Partition], r.Offset, "partition %d", r.Partition)
			next[r.Partition]++
			got[string(r.Value)]++
			seen++
		})
	}
	return got
}

func wantValues(n int) map[string]int {
	want := map[string]int{}
	for i := range n {
		want[fmt.Sprint("value", i)] = 1
	}
	return want
}

func TestRealClientProducesAndConsumesOverRestarts(t *testing.T) {
	x := newReal(t, 2)
	ctx := withTimeout(t)
	cl := x.client(kgo.RecordPartitioner(kgo.ManualPartitioner()))
	require.NoError(t, createTopic(ctx, cl, "clicks", 3, map[string]string{"segment.bytes": "20000"}))
	require.ErrorIs(t, createTopic(ctx, cl, "clicks", 3, nil), kerr.TopicAlreadyExists)
	x.produce(ctx, cl, "clicks", 0, 1000)
	require.Equal(t, wantValues(1000), x.consume(ctx, "clicks", 1000))

	x.stop(1)
	x.boot(1)
	x.produce(ctx, cl, "clicks", 1000, 500)
	require.Equal(t, wantValues(1500), x.consume(ctx, "clicks", 1500))

	x.kill(2)
	x.boot(2)
	x.produce(ctx, cl, "clicks", 1500, 500)
	require.Equal(t, wantValues(2000), x.consume(ctx, "clicks", 2000))
}

func TestRealClientInEveryFetchVersion(t *testing.T) {
	x := newReal(t, 1)
	ctx := withTimeout(t)
	cl := x.client(kgo.RecordPartitioner(kgo.ManualPartitioner()))
	require.NoError(t, createTopic(ctx, cl, "v", 3, nil))
	x.produce(ctx, cl, "v", 0, 300)
	for v := int16(4); v <= 18; v++ {
		req := kmsg.NewPtrMetadataRequest()
		rt := kmsg.NewMetadataRequestTopic()
		rt.Topic = kmsg.StringPtr("v")
		req.Topics = append(req.Topics, rt)
		meta, err := req.RequestWith(ctx, cl)
		require.NoError(t, err)

		f := kmsg.NewPtrFetchRequest()
		f.MaxWaitMillis, f.MinBytes, f.MaxBytes, f.SessionEpoch = 100, 1, 1<<20, -1
		ft := kmsg.NewFetchRequestTopic()
		ft.Topic, ft.TopicID = "v", meta.Topics[0].TopicID
		for p := range int32(3) {
			fp := kmsg.NewFetchRequestTopicPartition()
			fp.Partition, fp.PartitionMaxBytes, fp.CurrentLeaderEpoch = p, 1<<20, -1
			ft.Partitions = append(ft.Partitions, fp)
		}
		f.Topics = append(f.Topics, ft)
		f.Version = v
		resp, err := cl.Broker(1).Request(ctx, &pinned{f, v})
		require.NoError(t, err, "version %d", v)
		for _, p := range resp.(*kmsg.FetchResponse).Topics[0].Partitions {
			require.Zero(t, p.ErrorCode, "version %d", v)
			require.EqualValues(t, 100, p.HighWatermark)
			require.NotEmpty(t, p.RecordBatches)
		}
	}
}

// pinned is a request whose version a client may not choose.
type pinned struct {
	kmsg.Request
	version int16
}

func (p *pinned) MaxVersion() int16 { return p.version }

func TestRealClientWithCompressionAndAcks(t *testing.T) {
	x := newReal(t, 1)
	ctx := withTimeout(t)
	total := 0
	for _, codec := range []kgo.CompressionCodec{kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression()} {
		for _, acks := range []kgo.Acks{kgo.NoAck(), kgo.LeaderAck(), kgo.AllISRAcks()} {
			opts := []kgo.Opt{kgo.ProducerBatchCompression(codec), kgo.RequiredAcks(acks), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.AllowAutoTopicCreation()}
			if acks != kgo.AllISRAcks() {
				opts = append(opts, kgo.DisableIdempotentWrite())
			}
			cl := x.client(opts...)
			var records []*kgo.Record
			for range 50 {
				records = append(records, &kgo.Record{Topic: "auto", Value: []byte(fmt.Sprint("value", total))})
				total++
			}
			require.NoError(t, cl.ProduceSync(ctx, records...).FirstErr())
			cl.Close()
		}
	}
	require.Equal(t, wantValues(total), x.consume(ctx, "auto", total))
}

func TestRealClientAdministers(t *testing.T) {
	x := newReal(t, 1)
	ctx := withTimeout(t)
	cl := x.client(kgo.RecordPartitioner(kgo.ManualPartitioner()))
	require.NoError(t, createTopic(ctx, cl, "t", 3, map[string]string{"retention.ms": "60000"}))
	before := time.Now().Add(-time.Hour)
	x.produce(ctx, cl, "t", 0, 30)

	offsets := kmsg.NewPtrListOffsetsRequest()
	ot := kmsg.NewListOffsetsRequestTopic()
	ot.Topic = "t"
	for _, ts := range []int64{-2, -1, -3, before.UnixMilli(), time.Now().Add(time.Hour).UnixMilli()} {
		op := kmsg.NewListOffsetsRequestTopicPartition()
		op.Timestamp = ts
		ot.Partitions = []kmsg.ListOffsetsRequestTopicPartition{op}
		offsets.Topics = []kmsg.ListOffsetsRequestTopic{ot}
		resp, err := offsets.RequestWith(ctx, cl)
		require.NoError(t, err)
		p := resp.Topics[0].Partitions[0]
		require.Zero(t, p.ErrorCode)
		switch ts {
		case -2, before.UnixMilli():
			require.EqualValues(t, 0, p.Offset)
		case -1:
			require.EqualValues(t, 10, p.Offset)
		case -3:
			require.GreaterOrEqual(t, p.Timestamp, before.UnixMilli())
		default:
			require.EqualValues(t, -1, p.Offset)
		}
	}

	describe := kmsg.NewPtrDescribeConfigsRequest()
	describe.IncludeSynonyms, describe.IncludeDocumentation = true, true
	dr := kmsg.NewDescribeConfigsRequestResource()
	dr.ResourceType, dr.ResourceName = kmsg.ConfigResourceTypeTopic, "t"
	describe.Resources = append(describe.Resources, dr)
	configs, err := describe.RequestWith(ctx, cl)
	require.NoError(t, err)
	found := map[string]string{}
	for _, e := range configs.Resources[0].Configs {
		found[e.Name] = *e.Value
	}
	require.Equal(t, "60000", found["retention.ms"])
	require.Equal(t, "1073741824", found["segment.bytes"])

	del := kmsg.NewPtrDeleteTopicsRequest()
	del.TimeoutMillis = 5000
	del.TopicNames = []string{"t"}
	dt := kmsg.NewDeleteTopicsRequestTopic()
	dt.Topic = kmsg.StringPtr("t")
	del.Topics = append(del.Topics, dt)
	deleted, err := del.RequestWith(ctx, cl)
	require.NoError(t, err)
	require.Zero(t, deleted.Topics[0].ErrorCode)
	deleted, err = del.RequestWith(ctx, cl)
	require.NoError(t, err)
	require.True(t, errors.Is(kerr.ErrorForCode(deleted.Topics[0].ErrorCode), kerr.UnknownTopicOrPartition))
}

func TestRealBrokersDoNotShareAPort(t *testing.T) {
	x := newReal(t, 1)
	m, err := host.New(host.Options{Root: t.TempDir()})
	require.NoError(t, err)
	defer m.Shutdown()
	_, err = broker.Start(m, broker.Config{ID: 2, Port: x.ports[1], Coord: []string{x.coord}})
	require.ErrorContains(t, err, "address already in use")
}

// Real clients form a group: it is balanced over its members, goes on from its commits after the coordinator was restarted, and tools see it.
func TestRealClientGroup(t *testing.T) {
	x := newReal(t, 2)
	ctx := withTimeout(t)
	producer := x.client(kgo.AllowAutoTopicCreation(), kgo.RecordPartitioner(kgo.RoundRobinPartitioner()))
	send := func(from, n int) {
		var records []*kgo.Record
		for i := range n {
			records = append(records, &kgo.Record{Topic: "auto", Value: []byte(fmt.Sprint("value", from+i))})
		}
		require.NoError(t, producer.ProduceSync(ctx, records...).FirstErr())
	}
	send(0, 50)
	join := func() *kgo.Client {
		return x.client(kgo.ConsumerGroup("readers"), kgo.ConsumeTopics("auto"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
			kgo.SessionTimeout(6*time.Second), kgo.HeartbeatInterval(200*time.Millisecond), kgo.DisableAutoCommit())
	}
	got := map[string]int{}
	read := func(n int, clients ...*kgo.Client) {
		for len(got) < n {
			for _, cl := range clients {
				poll, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
				fetches := cl.PollFetches(poll)
				cancel()
				fetches.EachRecord(func(r *kgo.Record) { got[string(r.Value)]++ })
				require.NoError(t, cl.CommitUncommittedOffsets(ctx))
			}
			require.NoError(t, ctx.Err(), "%d of %d", len(got), n)
		}
	}
	a := join()
	read(50, a)
	b := join()
	send(50, 50)
	read(100, a, b)
	a.Close()
	send(100, 50)
	read(150, b)
	b.Close()
	for v, n := range got {
		require.Equal(t, 1, n, v)
	}
	for id := range x.ports {
		x.stop(id)
		x.boot(id)
	}
	send(150, 10)
	c := join()
	read(160, c)
	require.Equal(t, 1, got["value0"], "committed records do not come again")
}
