package trial

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"faultline/broker"
	"faultline/broker/record"
	"faultline/consumer"
	"faultline/coord"
	"faultline/producer"
	"faultline/workloads/deploy"
	"faultline/workloads/history"
	"faultline/workloads/scenario"
)

// programOf is what a machine of the scenario runs.
func (r *run) programOf(m scenario.Machine) program {
	if r.o.Program != nil {
		if main := r.o.Program(m); main != nil {
			return func(p *running) error { return main(p) }
		}
	}
	switch m.Role {
	case roleCoord:
		return func(p *running) error { return r.coordinate(p, m.Index) }
	case roleBroker:
		return func(p *running) error { return r.serve(p, int32(m.Index)) }
	case roleClient:
		return r.useRecipes
	case roleProducer:
		return func(p *running) error { return r.produce(p, m.Index, m.Producer) }
	default:
		return func(p *running) error { return r.consume(p, m) }
	}
}

// coordinate runs a server of the coordination service.
func (r *run) coordinate(p *running, id int) error {
	s, err := coord.Start(p, deploy.Coord(r.sc, r.addrs, id))
	if err != nil {
		return err
	}
	p.stoppable(func() { p.Exit(s.Stop()) })
	return s.Wait()
}

// serve runs a broker.
func (r *run) serve(p *running, id int32) error {
	cfg := deploy.Broker(r.sc, r.addrs, id)
	_, cfg.CoordTap = p.taps()
	b, err := broker.Start(p, cfg)
	if err != nil {
		return err
	}
	p.stoppable(func() { p.Exit(b.Stop()) })
	return b.Wait()
}

// taps are what record the requests of a process.
func (p *running) taps() (*history.KafkaTap, *history.CoordTap) {
	world := func(uptime time.Duration) time.Duration { return p.node.comp.Clock().World(uptime) }
	return &history.KafkaTap{Recorder: p.r.rec, Who: p.who, World: world}, &history.CoordTap{Recorder: p.r.rec, Who: p.who, World: world}
}

// idHeader is the record header that carries a message's identity, so that values stay byte for byte.
const idHeader = "id"

// produce takes messages from the feed at the producer's share of the rate and sends them.
func (r *run) produce(p *running, index int, c *scenario.Producer) error {
	r.feed.ReturnAll(index) // what a crashed incarnation had under way
	source := r.sources
	r.sources++
	cfg := deploy.Producer(r.addrs, c)
	cfg.ClientID = p.Name()
	cfg.Tap, _ = p.taps()
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
		r.rec.Sent(p.who, id, p.Name(), topic, -1, history.HashKey(key), history.HashRecord(key, value))
		binary.BigEndian.PutUint64(headers[0].Value, uint64(id))
		err := pr.Send(producer.Record{Topic: topic, Partition: -1, Key: key, Value: value, Headers: headers}, func(res producer.Result) {
			untold--
			switch {
			case res.Err == nil:
				r.rec.Acked(p.who, id, r.topicName(res.Topic, res.TopicID), res.Partition, res.Offset)
				r.feed.Settle(h)
			case errors.Is(res.Err, producer.ErrUnknown):
				r.rec.Unknown(p.who, id, res.Partition, res.Err.Error())
				r.feed.Return(h)
			default:
				r.rec.Failed(p.who, id, res.Partition, res.Err.Error())
				r.feed.Return(h)
			}
		})
		if err != nil {
			untold--
			r.rec.Failed(p.who, id, -1, err.Error())
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

const (
	lagPause = 20 * time.Millisecond
	burst    = time.Millisecond // a producer sends what is due within this at once
)

// consume joins a group and processes what its streams hand over.
func (r *run) consume(p *running, m scenario.Machine) error {
	c := m.Group
	cfg := deploy.Consumer(r.sc, r.addrs, c, p.Name())
	cfg.SessionTimeout += m.SessionExtra
	cfg.MaxPollInterval += m.MaxPollExtra
	cfg.Tap, cfg.CoordTap = p.taps()
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
	whims := newWhims(r, p, c, g, s)
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
		if whims.goBack(&m) {
			continue
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
