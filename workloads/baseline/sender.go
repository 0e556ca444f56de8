package baseline

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"faultline/sim/machine"
)

// ErrTimedOut: the broker did not confirm a message in time; it may have it.
var ErrTimedOut = errors.New("not confirmed in time")

// SenderConfig says how to send. Zero fields take the default.
type SenderConfig struct {
	Addr          string
	Queues        []Binding     // they are made when the sender connects
	Confirm       Confirm       // when a message counts as delivered
	BatchMessages int           // messages in one frame at most (default: no limit)
	BatchBytes    int           // and bytes (default 16 KiB)
	Linger        time.Duration // a frame that is not full waits so long for more
	BufferBytes   int           // Send blocks while so much is not confirmed (default 4 MiB)
	InFlight      int           // frames that are not confirmed at most (default 1)
	Backoff       time.Duration // between attempts to connect (default 100 ms)
	Timeout       time.Duration // a message is given up so long after Send (default 30 s)
	Silence       time.Duration // a connection is given up when nothing came so long; more than the server's heartbeat (default 10 s)

	// Told is told of every message that Send took: nil, or why it was given up. It must not call the sender.
	Told func(err error)
}

// Sender sends messages and sends those again that were not confirmed when a connection ended: a broker may have a message twice.
type Sender struct {
	m   machine.Machine
	cfg SenderConfig

	mu    machine.Mutex
	work  machine.Cond // for the sending task
	room  machine.Cond // for Send and Close
	open  []*frame     // one for each topic, by when it came first
	ready []*frame     // oldest first: full, or to be sent again
	gone  []*frame     // on their way, oldest first
	free  []*frame
	used  int
	link  *link
	count uint64 // frames sent on this connection
	alarm bool   // the sending task sleeps until a frame is due
	over  bool   // Close was called
	ended bool
}

// frame is messages of a topic.
type frame struct {
	topic  string
	data   []byte
	head   int // where the first message begins
	n      int
	since  time.Duration
	number uint64 // on the connection
}

// NewSender starts a sender. It connects by itself, and again when a connection ends.
func NewSender(m machine.Machine, cfg SenderConfig) (*Sender, error) {
	if err := checkBindings(cfg.Queues); err != nil {
		return nil, fmt.Errorf("new sender: %w", err)
	}
	orElse(&cfg.BatchMessages, math.MaxInt)
	orElse(&cfg.BatchBytes, 16<<10)
	orElse(&cfg.BufferBytes, 4<<20)
	orElse(&cfg.InFlight, 1)
	orElse(&cfg.Backoff, 100*time.Millisecond)
	orElse(&cfg.Timeout, 30*time.Second)
	orElse(&cfg.Silence, 10*time.Second)
	mu := m.NewMutex("queue.sender")
	s := &Sender{m: m, cfg: cfg, mu: mu, work: m.NewCond("queue.sender.work", mu), room: m.NewCond("queue.sender.room", mu)}
	m.Go("queue.sender", s.run)
	return s, nil
}

// Send takes a message, of which it keeps nothing. It blocks while the buffer is full. The only error is ErrClosed.
func (s *Sender) Send(topic string, value []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	size := len(value) + 4
	for s.used > 0 && s.used+size > s.cfg.BufferBytes && !s.over {
		s.room.Wait()
	}
	if s.over {
		return ErrClosed
	}
	i := slices.IndexFunc(s.open, func(f *frame) bool { return f.topic == topic })
	if i >= 0 && len(s.open[i].data)+size > s.cfg.BatchBytes {
		s.close(i)
		i = -1
	}
	if i < 0 {
		i = len(s.open)
		s.open = append(s.open, s.begin(topic))
		if s.alarm || s.cfg.Linger <= 0 {
			s.work.Signal() // the task must learn when the frame is due
		}
	}
	f := s.open[i]
	f.data = binary.BigEndian.AppendUint32(f.data, uint32(len(value)))
	f.data = append(f.data, value...)
	f.n++
	s.used += size
	if f.n >= s.cfg.BatchMessages || len(f.data) >= s.cfg.BatchBytes {
		s.close(i)
	}
	return nil
}

// begin makes a frame.
func (s *Sender) begin(topic string) *frame {
	f := &frame{}
	if n := len(s.free); n > 0 {
		f, s.free = s.free[n-1], s.free[:n-1]
	}
	data, _ := beginFrame(f.data[:0], framePublish)
	data = append(data, byte(s.cfg.Confirm))
	data = binary.BigEndian.AppendUint32(appendText(data, topic), 0)
	*f = frame{topic: topic, data: data, head: len(data), since: s.m.Uptime()}
	return f
}

// close lets an open frame go.
func (s *Sender) close(i int) {
	f := s.open[i]
	binary.BigEndian.PutUint32(f.data[f.head-4:], uint32(f.n))
	endFrame(f.data, 0)
	s.ready = append(s.ready, f)
	s.open = slices.Delete(s.open, i, i+1)
	s.work.Signal()
}

// settle ends a frame.
func (s *Sender) settle(f *frame, err error) {
	for range f.n {
		s.cfg.Told(err)
	}
	s.used -= len(f.data) - f.head
	if cap(f.data) <= 1<<20 && len(s.free) < 64 {
		s.free = append(s.free, f)
	}
	s.room.Broadcast()
}

// run is the sending task.
func (s *Sender) run() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		s.expire()
		if s.over && len(s.open)+len(s.ready)+len(s.gone) == 0 {
			if s.link != nil {
				s.link.nc.Close()
			}
			s.ended = true
			s.room.Broadcast()
			return
		}
		if s.link == nil {
			s.connect()
			continue
		}
		now := s.m.Uptime()
		wait := s.due(now)
		if len(s.ready) == 0 || len(s.gone) >= s.cfg.InFlight {
			s.alarm = true
			s.work.WaitTimeout(wait)
			s.alarm = false
			continue
		}
		f := s.ready[0]
		s.ready = slices.Delete(s.ready, 0, 1)
		s.count++
		f.number = s.count
		l := s.link
		if s.cfg.Confirm != Unconfirmed {
			s.gone = append(s.gone, f) // before it is written, so that a quick answer finds it
		}
		size, n := int64(len(f.data)), f.n
		s.mu.Unlock()
		s.m.Work(machine.Work{Queue: machine.QueueWork{Frames: 1, Sent: n}, Moved: size, Syscalls: 1})
		_, err := l.nc.Write(f.data)
		s.mu.Lock()
		switch {
		case err != nil:
			if s.cfg.Confirm == Unconfirmed {
				s.ready = slices.Insert(s.ready, 0, f)
			}
			s.lost(l)
		case s.cfg.Confirm == Unconfirmed:
			s.settle(f, nil)
		}
	}
}

// due closes the frames that have waited long enough, and says how long until something is to be done.
func (s *Sender) due(now time.Duration) time.Duration {
	wait := s.cfg.Timeout
	if len(s.gone) > 0 {
		wait = s.gone[0].since + s.cfg.Timeout - now
	}
	for i := 0; i < len(s.open); {
		left := s.open[i].since + s.cfg.Linger - now
		if left <= 0 && len(s.gone) < s.cfg.InFlight || s.over {
			s.close(i)
			continue
		}
		if left > 0 {
			wait = min(wait, left)
		}
		i++
	}
	return wait
}

// expire gives up what is too old.
func (s *Sender) expire() {
	before := s.m.Uptime() - s.cfg.Timeout
	for len(s.gone) > 0 && s.gone[0].since <= before && s.link != nil {
		s.lost(s.link) // what was sent is sent again or given up; its confirmation must not come any more
	}
	for len(s.ready) > 0 && s.ready[0].since <= before {
		f := s.ready[0]
		s.ready = slices.Delete(s.ready, 0, 1)
		s.settle(f, ErrTimedOut)
	}
}

// connect tries to connect. The lock is held.
func (s *Sender) connect() {
	s.mu.Unlock()
	l, err := dial(s.m, s.cfg.Addr, s.cfg.Silence, s.cfg.Queues)
	s.mu.Lock()
	if err != nil {
		for i := 0; i < len(s.open); { // so that they get old as the others do
			s.close(i)
		}
		s.work.WaitTimeout(s.cfg.Backoff)
		return
	}
	s.link, s.count = l, 0
	s.m.Go("queue.sender.answers", func() { s.answers(l) })
}

// lost ends a connection: what it did not confirm is sent again. The lock is held.
func (s *Sender) lost(l *link) {
	if s.link != l {
		return
	}
	l.nc.Close()
	s.link = nil
	s.ready = slices.Insert(s.ready, 0, s.gone...)
	s.gone = s.gone[:0]
	s.work.Signal()
}

// answers is the task that takes the confirmations of a connection.
func (s *Sender) answers(l *link) {
	for {
		kind, r, err := l.next()
		number := uint64(0)
		if err == nil {
			number = r.u64()
			err = r.end()
		}
		s.mu.Lock()
		if err != nil || kind != frameConfirm || s.link != l {
			s.lost(l)
			s.mu.Unlock()
			return
		}
		n := 0
		for n < len(s.gone) && s.gone[n].number <= number {
			s.settle(s.gone[n], nil)
			n++
		}
		s.gone = slices.Delete(s.gone, 0, n)
		s.work.Signal()
		s.mu.Unlock()
		s.m.Work(machine.Work{Queue: machine.QueueWork{Answers: n}})
	}
}

// Close sends what is left, waits until it is confirmed or given up, and ends.
func (s *Sender) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
	s.work.Signal()
	for !s.ended {
		s.room.Wait()
	}
	return nil
}
