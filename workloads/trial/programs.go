package trial

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"faultline/broker"
	"faultline/broker/record"
	"faultline/consumer"
	"faultline/consumer/assign"
	"faultline/coord"
	"faultline/producer"
	"faultline/workloads/history"
	"faultline/workloads/scenario"
)

// programOf is what a machine of the scenario runs.
func (r *run) programOf(m scenario.Machine) program {
	switch m.Role {
	case roleCoord:
		return func(p *running) error { return r.coordinate(p, m.Index) }
	case roleBroker:
		return func(p *running) error { return r.serve(p, int32(m.Index)) }
	case roleProducer:
		return func(p *running) error { return r.produce(p, m.Index, m.Producer) }
	default:
		return func(p *running) error { return r.consume(p, m.Group) }
	}
}

// coordinate runs a server of the coordination service.
func (r *run) coordinate(p *running, id int) error {
	c := r.sc.Topology.Coordinators
	s, err := coord.Start(p, coord.Config{Port: coordPort, Peers: r.addrs(roleCoord, peerPort), ID: id, DataDir: "coord", TickTime: c.Tick.V().D(), SnapshotEvery: int(c.SnapshotEvery.V())})
	if err != nil {
		return err
	}
	p.stoppable(func() { p.Exit(s.Stop()) })
	return s.Wait()
}

// serve runs a broker.
func (r *run) serve(p *running, id int32) error {
	c := r.sc.Topology.Brokers
	_, zk := p.taps()
	b, err := broker.Start(p, broker.Config{
		ID: id, Port: brokerPort, Coord: r.coordAddrs(), SessionTimeout: c.SessionTimeout.V().D(), DataDir: "broker",
		ReplicaLag: c.ReplicaLag.V().D(), PreferredInterval: c.PreferredInterval.V().D(),
		RetentionInterval: c.RetentionInterval.V().D(), CoordTap: zk,
		OffsetsPartitions: int32(c.OffsetsPartitions.V()), OffsetsReplicas: r.offsetsReplicas(), OffsetsLeastISR: 1 + r.offsetsReplicas()/2,
		OffsetsSegmentBytes: int64(c.OffsetsSegmentBytes.V()),
		MinGroupSession:     time.Millisecond, GroupDelay: groupDelay(c.GroupDelay.V().D()),
	})
	if err != nil {
		return err
	}
	p.stoppable(func() { p.Exit(b.Stop()) })
	return b.Wait()
}

// offsetsReplicas is how many replicas the offsets topic has.
func (r *run) offsetsReplicas() int {
	c := &r.sc.Topology.Brokers
	return int(min(c.OffsetsReplicas.V(), c.Count.V()))
}

// groupDelay is the scenario's duration in the broker's words.
func groupDelay(d time.Duration) time.Duration {
	if d == 0 {
		return -1
	}
	return d
}

// taps are what record the requests of a process.
func (p *running) taps() (*history.KafkaTap, *history.CoordTap) {
	world := func(uptime time.Duration) time.Duration { return p.node.comp.Clock().World(uptime) }
	return &history.KafkaTap{Recorder: p.r.rec, Who: p.who, World: world}, &history.CoordTap{Recorder: p.r.rec, Who: p.who, World: world}
}

var (
	codecs    = map[string]record.Codec{"none": record.None, "gzip": record.Gzip, "snappy": record.Snappy, "lz4": record.LZ4, "zstd": record.Zstd}
	ackValues = map[string]int16{"0": 0, "1": 1, "all": -1}
)

// idHeader is the record header that carries a message's identity, so that values stay byte for byte.
const idHeader = "id"

// produce takes messages from the feed at the producer's share of the rate and sends them.
func (r *run) produce(p *running, index int, c *scenario.Producer) error {
	r.feed.ReturnAll(index) // what a crashed incarnation had under way
	source := r.sources
	r.sources++
	kafka, _ := p.taps()
	cfg := producer.Config{
		Brokers: r.brokerAddrs(), ClientID: p.Name(), Acks: ackValues[c.Acks.V()],
		BatchBytes: int(c.Batch.V()), BatchRecords: int(unlimited(int64(c.BatchRecords.V()), 0)), Linger: c.Linger.V().D(), BufferBytes: int(c.Buffer.V()),
		Retries: retries(int64(c.Retries.V())), RetryBackoff: c.RetryBackoff.V().D(), RequestTimeout: c.RequestTimeout.V().D(),
		DeliveryTimeout: c.DeliveryTimeout.V().D(), MaxInFlight: int(c.InFlight.V()), Idempotent: c.Idempotent.V() == "yes", MetadataMaxAge: time.Second, Compression: codecs[c.Compression.V()], Tap: kafka,
	}
	if c.Partitioner.V() == "random" {
		cfg.Partitioner = producer.Random
	}
	pr, err := producer.New(p, cfg)
	if err != nil {
		return err
	}
	stop := false
	p.stoppable(func() { stop = true })
	untold := 0 // records without an outcome yet
	every := time.Duration(int64(time.Second) * int64(r.producers) / int64(r.sc.Workload.Rate.V()))
	due := p.Uptime()
	topics := r.sc.Topology.Topics
	tombstones, dice := r.sc.Workload.Tombstones.V(), p.Rand("trial/tombstones")
	headers := []record.RecordHeader{{Key: []byte(idHeader), Value: make([]byte, 8)}}
	for seq := int64(0); !stop && !r.feed.Over(); {
		if r.tally.lag() >= r.mostLag() {
			p.Sleep(lagPause)
			due = p.Uptime()
			continue
		}
		h := r.feed.Take(index)
		if h == nil {
			if r.feed.Ended() {
				if pr.Flush(); untold > 0 {
					break // the producer forgot a record: nothing more will come. Delivery tells
				}
			}
			p.Sleep(lagPause)
			continue
		}
		id := history.NewID(source, seq)
		topic := topics[int(seq)%len(topics)].Name
		seq++
		key, value := h.Key(), h.Value()
		if tombstones > 0 && tombstones.Hit(dice.Int64N(1_000_000)) {
			value = nil
		}
		r.longest = max(r.longest, int64(len(key)+len(value)))
		untold++
		r.rec.Sent(p.who, id, p.Name(), topic, -1, history.HashRecord(key, value))
		binary.BigEndian.PutUint64(headers[0].Value, uint64(id))
		err := pr.Send(producer.Record{Topic: topic, Partition: -1, Key: key, Value: value, Headers: headers}, func(res producer.Result) {
			untold--
			switch {
			case res.Err == nil:
				r.rec.Acked(p.who, id, r.topicName(res.Topic, res.TopicID), res.Partition, res.Offset)
				r.feed.Settle(h)
			case errors.Is(res.Err, producer.ErrUnknown):
				r.rec.Unknown(p.who, id, res.Err.Error())
				r.feed.Return(h)
			default:
				r.rec.Failed(p.who, id, res.Err.Error())
				r.feed.Return(h)
			}
		})
		if err != nil {
			untold--
			r.rec.Failed(p.who, id, err.Error())
			r.feed.Return(h)
		}
		due += every
		if ahead := due - p.Uptime(); ahead > burst {
			p.Sleep(ahead)
		}
	}
	pr.Close()
	if untold > 0 {
		r.feed.ReturnAll(index)
	}
	if r.feed.Over() {
		p.node.done = true
	}
	return nil
}

// topicName is what histories call the topic with an id: who sends a record, or processes it, knows which one of the name it was.
func (r *run) topicName(name string, id [16]byte) string {
	return r.names.Of(name, int64(binary.BigEndian.Uint64(id[:])))
}

// retries is the scenario's number in the producer's words.
func retries(n int64) int {
	switch n {
	case 0:
		return -1
	case math.MaxInt64:
		return 0 // as long as the delivery time-out lasts
	}
	return int(min(n, math.MaxInt32))
}

const (
	lagPause = 20 * time.Millisecond
	burst    = time.Millisecond // a producer sends what is due within this at once
)

// consume joins a group and processes what its streams hand over.
func (r *run) consume(p *running, c *scenario.Group) error {
	kafka, zk := p.taps()
	topics := map[string]int{}
	for _, t := range r.sc.TopicsOf(c) {
		topics[t] = int(c.Streams.V())
	}
	cfg := consumer.Config{
		Group: c.Name, ID: p.Name(), Coord: r.coordAddrs(), SessionTimeout: c.SessionTimeout.V().D(), Topics: topics,
		AutoCommit: c.Commit.V() == "auto", CommitInterval: c.CommitInterval.V().D(),
		FetchBytes: int32(c.FetchBytes.V()), FetchMinBytes: int32(c.FetchMin.V()), MaxWait: c.FetchWait.V().D(), QueueRecords: int(c.Queue.V()),
		RebalanceRetries: int(unlimited(int64(c.RebalanceRetries.V()), 0)), RebalanceBackoff: c.RebalanceBackoff.V().D(),
		RequestTimeout: 2 * time.Second, Tap: kafka, CoordTap: zk,
	}
	if c.Protocol.V() == "coordinator" {
		assignor, _ := assign.ByName(c.Assignor.V())
		cfg.Protocol, cfg.Coord, cfg.Brokers, cfg.Assignors = consumer.Coordinator, nil, r.brokerAddrs(), []*assign.Assignor{assignor}
		cfg.MaxPollInterval, cfg.MetadataMaxAge = c.MaxPollInterval.V().D(), time.Second
		cfg.RequestTimeout, cfg.Old = time.Second, c.Clients.V() == "old"
		if c.Static.V() == "yes" {
			cfg.Instance = p.Name()
		}
	}
	if c.Reset.V() == "largest" {
		cfg.Reset = consumer.Largest
	}
	if c.Delivery.V() == "at-most-once" {
		cfg.Delivery = consumer.AtMostOnce
	} else {
		cfg.OutOfOrder = c.Workers.V() > 1
	}
	g, err := consumer.Join(p, cfg)
	if err != nil {
		return err
	}
	p.stoppable(func() {
		g.Close() // an error says that the registry could not be told; it learns when the session expires
		p.Exit(nil)
	})
	mu := p.NewMutex("consumer app")
	ended := p.NewCond("streams", mu)
	var open int
	for _, t := range r.sc.TopicsOf(c) {
		for i, s := range g.Streams(t) {
			open++
			p.Go("app", func() {
				err := r.process(p, c, g, s, p.Rand(fmt.Sprintf("trial/stall/%s/%d", t, i)))
				mu.Lock()
				open--
				if err != nil {
					p.Exit(err)
				}
				ended.Broadcast()
				mu.Unlock()
			})
		}
	}
	manual := c.Commit.V() == "manual" && cfg.Delivery == consumer.AtLeastOnce
	mu.Lock()
	for open > 0 {
		if !manual {
			ended.Wait()
			continue
		}
		if !ended.WaitTimeout(cfg.CommitInterval) {
			mu.Unlock()
			if err := g.Commit(); err != nil {
				p.Sleep(cfg.CommitInterval) // the records come again, which at-least-once allows
			}
			mu.Lock()
		}
	}
	mu.Unlock()
	g.Close()
	return nil
}

// process works through one stream until the group is closed, with several workers if the group has some. Now and then the application stalls.
func (r *run) process(p *running, c *scenario.Group, g *consumer.Group, s *consumer.Stream, stalls *rand.Rand) error {
	chance := c.StallChance.V()
	rng := p.Rand("trial/process")
	w := newWorkers(p, int(c.Workers.V()))
	parallel := w.most > 1 && c.Delivery.V() != "at-most-once"
	for {
		m, err := s.Next()
		if errors.Is(err, consumer.ErrClosed) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read %s: %w", s.Topic(), err)
		}
		id := history.ID(^uint64(0))
		for h := range m.Headers {
			if string(h.Key) == idHeader && len(h.Value) == 8 {
				id = history.ID(binary.BigEndian.Uint64(h.Value))
			}
		}
		hash := history.HashRecord(m.Key, m.Value)
		var takes time.Duration
		if c.Process.Max > 0 {
			takes = c.Process.Draw(rng).D()
		}
		if chance > 0 && chance.Hit(stalls.Int64N(1_000_000)) {
			takes += c.Stall.Draw(stalls).D()
		}
		if parallel {
			r.delegate(w, c, g, m, id, hash, takes)
			continue
		}
		if takes > 0 {
			p.Sleep(takes)
		}
		r.rec.Processed(p.who, c.Name, g.ID(), r.topicName(m.Topic, m.TopicID), m.Partition, m.Offset, id, hash)
	}
}

// delegate leaves a record to a worker.
func (r *run) delegate(w *workers, c *scenario.Group, g *consumer.Group, m consumer.Message, id history.ID, hash uint64, takes time.Duration) {
	w.do(func() {
		if takes > 0 {
			w.p.Sleep(takes)
		}
		r.rec.Processed(w.p.who, c.Name, g.ID(), r.topicName(m.Topic, m.TopicID), m.Partition, m.Offset, id, hash)
		m.Done()
	})
}
