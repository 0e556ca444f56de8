package broker_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"faultline/broker"
	"faultline/broker/client"
	"faultline/broker/log"
	"faultline/broker/record"
	"faultline/coord"
	"faultline/sim"
	"faultline/sim/machine"
	"faultline/sim/virtual"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// world is a coordination server "zk", brokers "b1", "b2", ... and client programs, each on a computer of its own.
type world struct {
	t      *testing.T
	w      *sim.World
	c      *virtual.Cluster
	zk     *virtual.Computer
	hosts  map[int]*virtual.Computer
	config func(*broker.Config)
	events []string // of brokers, "machine kind subject"
	exits  []error
}

func newWorld(t *testing.T, seed uint64) *world {
	x := &world{t: t, w: sim.New(sim.Config{Seed: seed}), hosts: map[int]*virtual.Computer{}}
	x.c = virtual.New(x.w, virtual.Config{})
	x.c.OnEvent = func(c *virtual.Computer, e *machine.Event) {
		switch e.Kind {
		case machine.BrokerUp, machine.BrokerDown, machine.LogOpened, machine.TopicRemoved, machine.LogFailed:
			x.events = append(x.events, fmt.Sprintf("%s %s %s", c.Name(), e.Kind, e.Subject))
		}
	}
	x.c.OnExit = func(c *virtual.Computer, err error) {
		var p *virtual.Panic
		if errors.As(err, &p) {
			t.Fatalf("seed %d: %s: %v", seed, c.Name(), err)
		}
		if err != nil {
			x.exits = append(x.exits, err)
		}
	}
	x.zk = x.c.Add("zk")
	t.Cleanup(func() {
		if !t.Failed() {
			x.w.Close()
		}
	})
	return x
}

func (x *world) bootCoord() {
	x.zk.Boot(func(m machine.Machine) error { return coord.Run(m, coord.Config{Port: 2181}) })
}

// boot starts a broker. *b is set once it is up.
func (x *world) boot(id int) **broker.Broker {
	host := x.hosts[id]
	if host == nil {
		host = x.c.Add(fmt.Sprintf("b%d", id))
		x.hosts[id] = host
	}
	b := new(*broker.Broker)
	host.Boot(func(m machine.Machine) error {
		cfg := broker.Config{ID: int32(id), Coord: []string{"zk:2181"}, Log: log.Config{FlushInterval: 10 * time.Millisecond}}
		if x.config != nil {
			x.config(&cfg)
		}
		started, err := broker.Start(m, cfg)
		if err != nil {
			return err
		}
		*b = started
		return started.Wait()
	})
	return b
}

// start boots the coordination service and n brokers, and waits until they are up.
func (x *world) start(n int) {
	x.t.Helper()
	x.bootCoord()
	for id := 1; id <= n; id++ {
		x.boot(id)
	}
	x.run(2 * time.Second)
	for id := 1; id <= n; id++ {
		require.Contains(x.t, x.events, fmt.Sprintf("b%d broker.up ", id))
	}
}

// run lets the world live for d.
func (x *world) run(d time.Duration) {
	x.t.Helper()
	end := x.w.Now() + d
	x.w.At(end, func() {})
	if out := x.w.Run(end); out.Kind != sim.Deadline && out.Kind != sim.Done && (out.Kind != sim.Stuck || out.At < end) {
		x.t.Fatal(out)
	}
}

// on runs a client program and waits until it is through, for at most a virtual minute.
func (x *world) on(name string, story func(p *program)) {
	x.t.Helper()
	done := x.spawn(name, story)
	for range 600 {
		x.run(100 * time.Millisecond)
		if *done {
			return
		}
	}
	x.t.Fatalf("program %s is not through after a minute", name)
}

// spawn runs a client program; *done tells when it is through.
func (x *world) spawn(name string, story func(p *program)) (done *bool) {
	done = new(bool)
	x.c.Add(name).Boot(func(m machine.Machine) error {
		var servers []string
		for id := range 10 {
			if x.hosts[id] != nil {
				servers = append(servers, fmt.Sprintf("b%d:9092", id))
			}
		}
		p := &program{t: x.t, m: m, cluster: client.NewCluster(m, servers, client.Config{ClientID: name, DialTimeout: 2 * time.Second, RequestTimeout: 5 * time.Second})}
		story(p)
		p.cluster.Close()
		*done = true
		return nil
	})
	return done
}

// program is a client program's view.
type program struct {
	t       *testing.T
	m       machine.Machine
	cluster *client.Cluster
}

func (p *program) create(topic string, partitions int32, settings ...client.Setting) {
	p.t.Helper()
	require.NoError(p.t, p.cluster.CreateTopic(topic, partitions, 1, settings...))
}

// send produces one batch with the values and returns its base offset, or the error code.
func (p *program) send(topic string, partition int32, acks int16, values ...string) (int64, error) {
	conn, err := p.leader(topic, partition)
	if err != nil {
		return -1, err
	}
	resp, err := conn.Request(produceRequest(p.m.Now(), topic, partition, acks, values...))
	if err != nil || acks == 0 {
		return -1, err
	}
	pp := resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0]
	return pp.BaseOffset, kerr.ErrorForCode(pp.ErrorCode)
}

// leader waits for the partition's broker.
func (p *program) leader(topic string, partition int32) (conn *client.Conn, err error) {
	for end := p.m.Uptime() + 20*time.Second; p.m.Uptime() < end; {
		if conn, err = p.cluster.Leader(topic, partition); err == nil {
			return conn, nil
		}
	}
	return nil, err
}

// mustSend sends until it succeeds.
func (p *program) mustSend(topic string, partition int32, acks int16, values ...string) int64 {
	p.t.Helper()
	var err error
	for range 100 {
		var base int64
		if base, err = p.send(topic, partition, acks, values...); err == nil {
			return base
		}
		p.cluster.Invalidate(topic)
		p.m.Sleep(50 * time.Millisecond)
	}
	require.NoError(p.t, err)
	return -1
}

// fetch makes one fetch request for a partition.
func (p *program) fetch(topic string, partition int32, offset int64, change ...func(*kmsg.FetchRequest)) (fetched, error) {
	conn, err := p.leader(topic, partition)
	if err != nil {
		return fetched{}, err
	}
	resp, err := conn.Request(fetchRequest(topic, partition, offset, change...))
	if err != nil {
		return fetched{}, err
	}
	return readFetched(p.t, resp.(*kmsg.FetchResponse), offset), nil
}

// readAll reads a partition from the offset to its visible end.
func (p *program) readAll(topic string, partition int32, offset int64) (values []string) {
	p.t.Helper()
	for range 1000 {
		f, err := p.fetch(topic, partition, offset)
		if err != nil || f.code != 0 {
			p.cluster.Invalidate(topic)
			p.m.Sleep(50 * time.Millisecond)
			continue
		}
		values = append(values, f.values...)
		offset += int64(len(f.values))
		if offset >= f.visible {
			return values
		}
	}
	p.t.Fatalf("could not read %s/%d from %d", topic, partition, offset)
	return nil
}

// fetched is a decoded fetch response of one partition.
type fetched struct {
	code           int16
	start, visible int64
	values         []string // from the offset asked for
	keyed          [][2]string
	next           int64 // where to read on
	bytes          int
}

func readFetched(t *testing.T, resp *kmsg.FetchResponse, offset int64) (f fetched) {
	t.Helper()
	require.Len(t, resp.Topics, 1)
	require.Len(t, resp.Topics[0].Partitions, 1)
	p := resp.Topics[0].Partitions[0]
	f = fetched{code: p.ErrorCode, start: p.LogStartOffset, visible: p.HighWatermark, bytes: len(p.RecordBatches)}
	for rest := p.RecordBatches; len(rest) > 0; {
		var b record.Batch
		var err error
		b, rest, err = record.Next(rest)
		require.NoError(t, err)
		require.NoError(t, b.Check())
		f.next = b.NextOffset()
		var it record.Iterator
		for it.Reset(b); it.Next(); {
			if it.Record.Offset >= offset {
				f.keyed = append(f.keyed, [2]string{string(it.Record.Key), string(it.Record.Value)})
				f.values = append(f.values, string(it.Record.Value))
			}
		}
		require.NoError(t, it.Err())
	}
	return f
}

// batchOf encodes one record batch.
func batchOf(now time.Time, values ...string) []byte {
	var b kmsg.RecordBatch
	b.Magic, b.ProducerID, b.ProducerEpoch, b.FirstSequence = 2, -1, -1, -1
	b.PartitionLeaderEpoch = -1
	b.FirstTimestamp, b.MaxTimestamp = now.UnixMilli(), now.UnixMilli()
	b.NumRecords, b.LastOffsetDelta = int32(len(values)), int32(len(values)-1)
	for i, v := range values {
		r := kmsg.NewRecord()
		r.OffsetDelta = int32(i)
		r.Value = []byte(v)
		body := r.AppendTo(nil)
		r.Length = int32(len(body)) - 1 // the length of a zero length is one byte
		b.Records = r.AppendTo(b.Records)
	}
	raw := b.AppendTo(nil)
	b.Length = int32(len(raw) - 12)
	raw = b.AppendTo(nil)
	b.CRC = int32(record.Sum(raw))
	return b.AppendTo(nil)
}

func produceRequest(now time.Time, topic string, partition int32, acks int16, values ...string) *kmsg.ProduceRequest {
	return produceBytes(topic, partition, acks, batchOf(now, values...))
}

func produceBytes(topic string, partition int32, acks int16, records []byte) *kmsg.ProduceRequest {
	req := kmsg.NewPtrProduceRequest()
	req.Acks, req.TimeoutMillis = acks, 3000
	t := kmsg.NewProduceRequestTopic()
	t.Topic = topic
	tp := kmsg.NewProduceRequestTopicPartition()
	tp.Partition, tp.Records = partition, records
	t.Partitions = append(t.Partitions, tp)
	req.Topics = append(req.Topics, t)
	return req
}

func fetchRequest(topic string, partition int32, offset int64, change ...func(*kmsg.FetchRequest)) *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.MaxBytes, req.MinBytes, req.MaxWaitMillis = 1<<20, 0, 0
	t := kmsg.NewFetchRequestTopic()
	t.Topic = topic
	tp := kmsg.NewFetchRequestTopicPartition()
	tp.Partition, tp.FetchOffset, tp.PartitionMaxBytes, tp.CurrentLeaderEpoch = partition, offset, 1<<20, -1
	t.Partitions = append(t.Partitions, tp)
	req.Topics = append(req.Topics, t)
	for _, fn := range change {
		fn(req)
	}
	return req
}

func longPoll(wait time.Duration, least int32) func(*kmsg.FetchRequest) {
	return func(r *kmsg.FetchRequest) { r.MaxWaitMillis, r.MinBytes = int32(wait.Milliseconds()), least }
}

func (x *world) count(event string) int {
	n := 0
	for _, e := range x.events {
		if e == event {
			n++
		}
	}
	return n
}

// stop stops a running broker regularly.
func (x *world) stop(b **broker.Broker) (err error) {
	done := false
	x.w.Go(nil, "stop", func() {
		err = (*b).Stop()
		done = true
	})
	for range 100 {
		x.run(100 * time.Millisecond)
		if done {
			return err
		}
	}
	x.t.Fatal("the broker does not stop")
	return nil
}

// exists looks at the disk of a broker that is down.
func (x *world) exists(id int, name string) (found bool) {
	x.hosts[id].Boot(func(m machine.Machine) error {
		_, err := m.Disk().Stat(name)
		found = err == nil
		return nil
	})
	x.run(100 * time.Millisecond)
	return found
}
