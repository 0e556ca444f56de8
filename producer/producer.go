package producer

import (
	"fmt"
	"math/rand/v2"
	"time"

	"faultline/broker/client"
	"faultline/broker/record"
	"faultline/sim/machine"
)

// Record is what Send takes. Nothing of it is kept when Send has returned.
type Record struct {
	Topic      string
	Partition  int32 // -1: the partitioner decides
	Key, Value []byte
	Headers    []record.RecordHeader
	Time       time.Time // zero: now
}

// Result is the outcome of a record.
type Result struct {
	Topic     string
	TopicID   [16]byte // of the topic that it was sent to, which may not be the first of its name; zero: the brokers tell none
	Partition int32
	Offset    int64 // -1 with acks 0, or when Err is set
	Err       error // nil: delivered. errors.Is(Err, ErrUnknown): nobody knows. Any other: surely not in the log
}

// Producer sends records. All methods may be called by many tasks at once.
type Producer struct {
	m       machine.Machine
	cfg     Config
	cluster *client.Cluster

	// mu guards what follows; it is never held across I/O or a callback.
	mu       machine.Mutex
	acc      *accumulator
	pick     Pick
	picking  Record // what pick looks at: a copy, so that no record of Send is on the heap
	rng      *rand.Rand
	space    machine.Cond // Send: the buffer has room, a topic became known, Close
	keep     machine.Cond // the keeper: metadata is stale, another id is needed
	expiring machine.Cond // the expirer: a batch must have its outcome sooner than any other
	settled  machine.Cond // Flush, Close: callbacks ran
	finished machine.Cond // the results task
	senders  []*sender    // by broker id
	stale    []string     // topics whose metadata is to be looked at
	expiryBy time.Duration
	results  []*batch // finished, callbacks to run
	flushers int
	closing  bool
	closed   bool
}

// New starts a producer. It contacts nobody before the first Send. The error is a Config that makes no sense.
func New(m machine.Machine, cfg Config) (*Producer, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	p := &Producer{
		m: m, cfg: cfg,
		cluster: client.NewCluster(m, cfg.Brokers, client.Config{
			ClientID:       cfg.ClientID,
			DialTimeout:    cfg.RequestTimeout,
			RequestTimeout: cfg.RequestTimeout,
			Tap:            cfg.Tap,
		}),
		mu:       m.NewMutex("producer"),
		acc:      newAccumulator(cfg),
		pick:     cfg.Partitioner(m.Rand("producer/partitioner"), cfg.BatchBytes),
		rng:      m.Rand("producer/backoff"),
		expiryBy: never,
	}
	p.space = m.NewCond("producer/space", p.mu)
	p.keep = m.NewCond("producer/keeper", p.mu)
	p.expiring = m.NewCond("producer/expirer", p.mu)
	p.settled = m.NewCond("producer/settled", p.mu)
	p.finished = m.NewCond("producer/results", p.mu)
	m.Go("producer/keeper", p.keeper)
	m.Go("producer/expirer", p.expirer)
	m.Go("producer/results", p.callBack)
	return p, nil
}

// Send puts the record into a batch. done, unless nil, runs once in a task of the producer, with no lock held; while it runs no other callback
// does. It must not call Flush or Close; it may call Send, but while that waits for room no other callback runs.
//
// Send blocks while the buffer is full, and until the topic is known. When it returns an error the record is not sent and done never runs: ErrTooLarge,
// ErrNoPartition, ErrClosed, or ErrTimedOut when the topic did not show up within DeliveryTimeout.
func (p *Producer) Send(r Record, done func(Result)) error {
	need := cost(&r)
	if need > p.cfg.BufferBytes {
		return fmt.Errorf("send to %s: %w: %d bytes, the buffer holds %d", r.Topic, ErrTooLarge, need, p.cfg.BufferBytes)
	}
	if r.Time.IsZero() {
		r.Time = p.m.Now()
	}
	early := p.m.Failpoint("fault/producer/send-early") // a batch may go before its time
	p.mu.Lock()
	defer p.mu.Unlock()
	t, err := p.topic(r.Topic)
	if err != nil {
		return err
	}
	now := p.m.Uptime()
	for !p.closing && !p.acc.fits(need) {
		p.m.Mark("mark/producer/buffer-full")
		p.acc.starved++
		if p.acc.starved == 1 {
			p.wakeSenders()
		}
		p.space.Wait()
		p.acc.starved--
		now = p.m.Uptime()
	}
	if p.closing {
		p.m.Mark("mark/producer/closed-while-sending")
		return fmt.Errorf("send to %s: %w", r.Topic, ErrClosed)
	}
	if r.Partition < 0 {
		p.picking = r
		r.Partition = p.pick(&p.picking, Partitions{Count: int32(t.count), Available: t.available})
	}
	if r.Partition < 0 || int(r.Partition) >= t.count {
		return fmt.Errorf("send to %s/%d: %w: the topic has %d", r.Topic, r.Partition, ErrNoPartition, t.count)
	}
	part := t.parts[r.Partition]
	p.acc.add(part, &r, r.Time.UnixMilli(), done, now)
	p.nudge(part, now)
	if early {
		p.acc.closeOpen()
		p.wakeSenders()
	}
	return nil
}

// topic returns a topic that is known to have partitions; it waits for that. Called with the lock held.
func (p *Producer) topic(name string) (*topic, error) {
	now := p.m.Uptime()
	t := p.acc.topics[name]
	if t != nil && len(t.parts) > 0 {
		if now-t.refreshed > p.cfg.MetadataMaxAge {
			t.refreshed = now
			p.refresh(name)
		}
		return t, nil
	}
	until := now + p.cfg.DeliveryTimeout
	for !p.closing {
		left := until - p.m.Uptime()
		if left <= 0 {
			p.m.Mark("mark/producer/topic-did-not-show-up")
			return nil, fmt.Errorf("send to %s: %w: no broker knows the topic", name, ErrTimedOut)
		}
		p.refresh(name)
		p.space.WaitTimeout(left)
		if t := p.acc.topics[name]; t != nil && len(t.parts) > 0 {
			return t, nil
		}
	}
	return nil, fmt.Errorf("send to %s: %w", name, ErrClosed)
}

// nudge wakes who has to know of a new record: the sender, if it sleeps beyond the time at which the batch is due, or the keeper, if there is no leader, and the expirer, if it does
// not watch over the time-out yet. Called with the lock held.
func (p *Producer) nudge(part *partition, now time.Duration) {
	if part.node == nil {
		p.m.Mark("mark/producer/no-leader")
		p.refresh(part.topic.name)
	} else {
		p.rouse(part)
	}
	p.expireBy(now + p.cfg.DeliveryTimeout)
}

// rouse wakes the sender of the broker that leads the partition, if there is one and it sleeps beyond the time at which the partition's next batch is due. Called with the lock held.
func (p *Producer) rouse(part *partition) {
	if part.node == nil {
		return
	}
	s := p.sender(part.node)
	if s.sleepsUntil > 0 && p.acc.due(part) < s.sleepsUntil {
		s.sleepsUntil = 0
		s.wake.Signal()
	}
}

func (p *Producer) wakeSenders() {
	for _, s := range p.senders {
		if s.sleepsUntil > 0 {
			s.sleepsUntil = 0
			s.wake.Signal()
		}
	}
}

// Flush returns when every record that was sent before has its outcome and its callback has run.
func (p *Producer) Flush() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.flush()
}

func (p *Producer) flush() {
	id := p.acc.closeOpen()
	p.wakeSenders()
	p.flushers++
	for !p.acc.doneBelow(id) {
		p.m.Mark("mark/producer/flush-waits")
		p.settled.Wait()
	}
	p.flushers--
}

// Close delivers what was sent, within the time-outs, and ends the producer. Sends that wait, and later ones, fail with ErrClosed.
func (p *Producer) Close() {
	p.m.Failpoint("fault/producer/close-slow")
	p.mu.Lock()
	p.closing = true
	p.space.Broadcast()
	p.flush()
	p.closed = true
	p.keep.Broadcast()
	p.expiring.Broadcast()
	p.finished.Broadcast()
	for _, s := range p.senders {
		s.wake.Broadcast()
		s.answers.Broadcast()
	}
	p.mu.Unlock()
	p.cluster.Close()
}

// finish ends a batch and hands it to the results task. Called with the lock held.
func (p *Producer) finish(b *batch) {
	p.results = append(p.results, b)
	if len(p.results) == 1 {
		p.finished.Signal()
	}
	if p.acc.starved > 0 {
		p.space.Broadcast() // not by the results task: a callback may be what waits
	}
}

// callBack is the results task: it runs callbacks, batch by batch in the order in which they finished.
func (p *Producer) callBack() {
	var work []*batch
	p.mu.Lock()
	for {
		for len(p.results) == 0 && !p.closed {
			p.finished.Wait()
		}
		if len(p.results) == 0 {
			p.mu.Unlock()
			return
		}
		work, p.results = p.results, work[:0]
		p.mu.Unlock()
		p.m.Failpoint("fault/producer/report-slow")
		for _, b := range work {
			b.report()
		}
		p.mu.Lock()
		for i, b := range work {
			p.acc.forget(b)
			work[i] = nil
		}
		if p.flushers > 0 {
			p.settled.Broadcast()
		}
	}
}

// report runs the callbacks. Each record gets the outcome of this batch and no other.
func (b *batch) report() {
	r := Result{Topic: b.part.topic.name, TopicID: b.topic, Partition: b.part.id, Offset: -1, Err: b.err}
	for i, done := range b.done {
		if done == nil {
			continue
		}
		if b.err == nil && b.base >= 0 {
			r.Offset = b.base + int64(i)
		}
		done(r)
	}
}

// backoff is the pause after so many failures before. Called with the lock held.
func (p *Producer) backoff(failures int) time.Duration {
	d := min(p.cfg.RetryBackoff<<min(failures, 10), 10*p.cfg.RetryBackoff)
	return d - d/4 + time.Duration(p.rng.Int64N(int64(d/2)+1))
}
