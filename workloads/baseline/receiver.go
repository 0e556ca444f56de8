package baseline

import (
	"fmt"
	"time"

	"faultline/sim/machine"
)

// ReceiverConfig says how to receive. Zero fields take the default.
type ReceiverConfig struct {
	Addrs    []string      // of all brokers: each has messages of its own
	Queues   []Binding     // they are made if they are not there, and read
	Window   int           // messages of each queue and broker that may be pushed without being acknowledged (default 1000)
	AckBatch int           // messages that are acknowledged in one frame at most (default 1000); fewer when no further message is there
	Backoff  time.Duration // between attempts to connect (default 100 ms)
	Silence  time.Duration // a connection is given up when nothing came so long; more than the server's heartbeat (default 10 s)

	// Hand takes a message, which is acknowledged when it returns. The value is valid until then. Each broker's messages come from a task of their own.
	Hand func(m Message)
}

// Message is what a receiver hands over.
type Message struct {
	Queue int32 // number of the queue at its broker
	ID    uint64
	Again bool // it may have been handed over before
	Value []byte
}

// Receiver receives messages, from all brokers at once, until it is closed.
type Receiver struct {
	m   machine.Machine
	cfg ReceiverConfig

	mu    machine.Mutex
	ended machine.Cond
	links []*link // by broker; nil: not connected
	tasks int
	over  bool
}

// NewReceiver starts a receiver. It connects by itself, and again when a connection ends.
func NewReceiver(m machine.Machine, cfg ReceiverConfig) (*Receiver, error) {
	if err := checkBindings(cfg.Queues); err != nil {
		return nil, fmt.Errorf("new receiver: %w", err)
	}
	orElse(&cfg.Window, 1000)
	orElse(&cfg.AckBatch, 1000)
	cfg.AckBatch = min(cfg.AckBatch, max(cfg.Window/2, 1)) // the broker must not run dry while acknowledgements gather
	orElse(&cfg.Backoff, 100*time.Millisecond)
	orElse(&cfg.Silence, 10*time.Second)
	mu := m.NewMutex("queue.receiver")
	r := &Receiver{m: m, cfg: cfg, mu: mu, ended: m.NewCond("queue.receiver.ended", mu), links: make([]*link, len(cfg.Addrs)), tasks: len(cfg.Addrs)}
	for i := range cfg.Addrs {
		m.Go("queue.receiver", func() { r.run(i) })
	}
	return r, nil
}

// run is the task of one broker.
func (r *Receiver) run(broker int) {
	r.mu.Lock()
	for !r.over {
		r.mu.Unlock()
		l, err := dial(r.m, r.cfg.Addrs[broker], r.cfg.Silence, r.cfg.Queues)
		r.mu.Lock()
		if err != nil {
			if !r.over {
				r.ended.WaitTimeout(r.cfg.Backoff)
			}
			continue
		}
		if !r.over {
			r.links[broker] = l
			r.mu.Unlock()
			_ = r.receive(l) // whatever it is, a new connection is the answer
			r.mu.Lock()
			r.links[broker] = nil
		}
		l.nc.Close()
	}
	r.tasks--
	r.ended.Broadcast()
	r.mu.Unlock()
}

// receive takes what a connection brings. It never returns nil.
func (r *Receiver) receive(l *link) error {
	var out []byte
	for _, q := range r.cfg.Queues {
		out = consumeFrame(out, r.cfg.Window, q.Queue)
	}
	if _, err := l.nc.Write(out); err != nil {
		return err
	}
	a := &acks{l: l, most: r.cfg.AckBatch}
	for {
		kind, body, err := l.next()
		if err != nil {
			return err
		}
		if kind != frameDeliver {
			return fmt.Errorf("%w: kind %d, want messages", errFrame, kind)
		}
		msg := Message{Queue: int32(body.u32())}
		n := body.count(deliverHead)
		r.m.Work(machine.Work{Queue: machine.QueueWork{Received: n}, Copied: int64(len(body.rest))})
		for range n {
			msg.ID, msg.Again = body.u64(), body.u8()&redelivered != 0
			if msg.Value = body.take(body.u32()); body.err != nil {
				return body.err
			}
			r.cfg.Hand(msg)
			if err := a.add(msg.Queue, msg.ID); err != nil {
				return err
			}
		}
		if err := body.end(); err != nil {
			return err
		}
		if l.r.Buffered() == 0 {
			if err := a.send(); err != nil {
				return err
			}
		}
	}
}

// Close ends the receiver. What it has acknowledged last may come again.
func (r *Receiver) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.over = true
	for _, l := range r.links {
		if l != nil {
			l.nc.Close()
		}
	}
	r.ended.Broadcast()
	for r.tasks > 0 {
		r.ended.Wait()
	}
	return nil
}

// acks gathers acknowledgements for one frame.
type acks struct {
	l     *link
	most  int
	queue int32
	n     int
	spans []span
	out   []byte
}

func (a *acks) add(queue int32, id uint64) error {
	if a.n > 0 && queue != a.queue {
		if err := a.send(); err != nil {
			return err
		}
	}
	a.queue, a.spans = queue, addSpan(a.spans, id)
	if a.n++; a.n < a.most {
		return nil
	}
	return a.send()
}

func (a *acks) send() error {
	if a.n == 0 {
		return nil
	}
	var start int
	a.out, start = beginFrame(a.out[:0], frameAck)
	a.out = endFrame(appendSpans(a.out, a.queue, a.spans), start)
	a.l.m.Work(machine.Work{Queue: machine.QueueWork{Arrived: 1}, Moved: int64(len(a.out)), Syscalls: 1})
	a.n, a.spans = 0, a.spans[:0]
	_, err := a.l.nc.Write(a.out)
	return err
}
