package baseline

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"net"
	"slices"
	"time"

	"faultline/broker/wire"
	"faultline/sim/machine"
)

// conn is a client's connection: a task that reads and one that writes. The server's lock guards what both use.
type conn struct {
	s     *Server
	nc    net.Conn
	calls *wire.Calls
	r     *bufio.Reader
	wake  machine.Cond // for the writer

	number    uint64 // of frames with messages so far
	heard     time.Duration
	consumers []*consumer
	answers   []answer // in the order of what they answer
	awaits    bool     // it is in Server.awaiting
	ping      bool
	dead      bool

	frame []byte // the reader's
	keep  bool   // the reader's: messages of the next frame stay in memory
	spans []span // the reader's
	turn  int    // the writer's: whose messages go next
	out   []byte // the writer's
	pages []byte // the writer's
}

// answer is something to be told when the journal has got so far.
type answer struct {
	number   uint64 // of the frame with messages that is confirmed; 0: a queue was bound
	position int64
	synced   bool
}

func newConn(s *Server, nc net.Conn) *conn {
	calls := wire.NewCalls(nc)
	return &conn{s: s, nc: nc, calls: calls, r: bufio.NewReaderSize(calls, 64<<10), wake: s.m.NewCond("queue.conn", s.mu), keep: true, heard: s.m.Uptime()}
}

// end closes the connection; what it has is ready for others. The lock is held.
func (c *conn) end() {
	if c.dead {
		return
	}
	c.dead = true
	c.nc.Close()
	c.wake.Signal()
	s := c.s
	for _, u := range c.consumers {
		u.queue.leave(u)
	}
	for _, u := range c.consumers {
		u.queue.dispatch()
	}
	c.consumers = nil
	gone := func(o *conn) bool { return o == c }
	s.conns, s.awaiting = slices.DeleteFunc(s.conns, gone), slices.DeleteFunc(s.awaiting, gone)
}

// read is the reading task. A frame that makes no sense ends the connection.
func (c *conn) read() {
	for c.handle() == nil {
	}
	c.s.mu.Lock()
	c.end()
	c.s.mu.Unlock()
}

// handle handles one frame.
func (c *conn) handle() error {
	head, err := c.r.Peek(frameHead)
	if err != nil {
		return err
	}
	buf, kept := c.frame, c.keep && head[4] == framePublish
	if kept { // by the messages
		buf = make([]byte, min(max(binary.BigEndian.Uint32(head), 4), 64<<10))
	}
	frame, err := wire.ReadFrame(c.r, buf, 1, maxFrame)
	if err != nil {
		return err
	}
	if !kept {
		c.frame = frame
	}
	s := c.s
	s.m.Work(machine.Work{Queue: machine.QueueWork{Served: 1}, Moved: int64(len(frame)), Syscalls: c.calls.Take()})
	r := &reader{rest: frame[1:]}
	switch frame[0] {
	case framePublish:
		return c.publish(r)
	case frameAck:
		return c.acknowledge(r)
	case frameConsume:
		return c.consume(r)
	case frameBind:
		return c.bind(r)
	case framePong:
		s.mu.Lock()
		c.heard = s.m.Uptime()
		s.mu.Unlock()
		return r.end()
	}
	return fmt.Errorf("%w: kind %d", errFrame, frame[0])
}

// bind makes a queue.
func (c *conn) bind(r *reader) error {
	topic, name := string(r.text()), string(r.text())
	if err := r.end(); err != nil {
		return err
	}
	s := c.s
	s.mu.Lock()
	defer s.mu.Unlock()
	c.heard = s.m.Uptime()
	if s.x.bind(topic, name) {
		rec, start := s.j.begin(recordBind)
		rec.data = appendText(appendText(rec.data, topic), name)
		s.j.end(rec, start)
	} else if q := s.x.byName[name]; q.topic != topic {
		return fmt.Errorf("queue %s has the messages of topic %s, not of %s", name, q.topic, topic)
	}
	c.answer(answer{position: s.j.appended, synced: true})
	return nil
}

// answer queues an answer. The lock is held.
func (c *conn) answer(a answer) {
	if c.dead {
		return
	}
	if c.answers = append(c.answers, a); !c.awaits {
		c.awaits = true
		c.s.awaiting = append(c.s.awaiting, c)
	}
	if a.synced {
		c.s.j.want(a.position)
	}
	if c.answerable(0) {
		c.wake.Signal()
	}
}

// answerable tells whether there is an answer n, from 0, whose time has come.
func (c *conn) answerable(n int) bool {
	if n >= len(c.answers) {
		return false
	}
	if a := c.answers[n]; a.synced {
		return c.s.j.synced >= a.position
	} else {
		return c.s.j.written >= a.position
	}
}

// publish takes messages in.
func (c *conn) publish(r *reader) error {
	confirm, topic := Confirm(r.u8()), r.text()
	n := r.count(4)
	body := r.rest
	for range n {
		r.take(r.u32())
	}
	if err := r.end(); err != nil {
		return err
	}
	s := c.s
	s.mu.Lock()
	queues := s.x.topics[string(topic)]
	s.mu.Unlock()
	s.m.Work(machine.Work{Queue: machine.QueueWork{Taken: n * (1 + len(queues))}, Copied: int64(len(body))})

	s.mu.Lock()
	for s.j.appended-s.j.written > s.cfg.BacklogBytes && !c.dead {
		s.j.moved.Wait()
	}
	c.heard = s.m.Uptime()
	c.number++
	if queues = s.x.topics[string(topic)]; len(queues) > 0 && n > 0 { // otherwise nobody will ever want them
		seg, at := s.j.messages(s.x.next, string(topic), n, body)
		for b := (&reader{rest: body}); len(b.rest) > 0; {
			m := b.take(b.u32())
			s.x.add(queues, seg, at+int64(len(body)-len(b.rest)-len(m)), m, c.keep)
		}
	}
	c.keep = s.x.memory < s.cfg.MemoryBytes
	given := 0
	for _, q := range queues {
		given += q.dispatch()
	}
	if confirm != Unconfirmed {
		c.answer(answer{number: c.number, position: s.j.appended, synced: confirm == Synced})
	}
	s.mu.Unlock()
	s.m.Work(machine.Work{Queue: machine.QueueWork{Passed: given}})
	return nil
}

// consume begins to push messages.
func (c *conn) consume(r *reader) error {
	window, name := r.u32(), string(r.text())
	if err := r.end(); err != nil {
		return err
	}
	s := c.s
	s.mu.Lock()
	c.heard = s.m.Uptime()
	q := s.x.byName[name]
	if q == nil || window < 1 || c.dead {
		s.mu.Unlock()
		return fmt.Errorf("consume %q with a window of %d: there is no such queue, or no such window", name, window)
	}
	u := &consumer{conn: c, queue: q, window: window}
	q.consumers = append(q.consumers, u)
	c.consumers = append(c.consumers, u)
	given := q.dispatch()
	s.mu.Unlock()
	s.m.Work(machine.Work{Queue: machine.QueueWork{Passed: given}})
	return nil
}

// acknowledge takes acknowledgements.
func (c *conn) acknowledge(r *reader) error {
	var number int32
	if number, c.spans = r.spans(c.spans[:0]); r.end() != nil {
		return r.err
	}
	n := 0
	for _, p := range c.spans {
		if n += int(p.count); n > maxFrame {
			return fmt.Errorf("%w: %d acknowledgements", errFrame, n)
		}
	}
	s := c.s
	s.m.Work(machine.Work{Queue: machine.QueueWork{Passed: n}})
	s.mu.Lock()
	c.heard = s.m.Uptime()
	i := slices.IndexFunc(c.consumers, func(u *consumer) bool { return u.queue.number == number })
	if i < 0 {
		s.mu.Unlock()
		return fmt.Errorf("acknowledgements in queue %d, which it does not consume", number)
	}
	u := c.consumers[i]
	var done []span
	for _, p := range c.spans {
		for id := p.first; id < p.first+uint64(p.count); id++ {
			if s.x.ack(u, id) {
				done = addSpan(done, id)
			}
		}
	}
	if len(done) > 0 {
		rec, start := s.j.begin(recordAcks)
		rec.data = appendSpans(rec.data, number, done)
		s.j.end(rec, start)
	}
	given := u.queue.dispatch()
	s.mu.Unlock()
	s.m.Work(machine.Work{Queue: machine.QueueWork{Passed: given}})
	return nil
}

// write is the writing task.
func (c *conn) write() {
	s := c.s
	s.mu.Lock()
	defer s.mu.Unlock()
	for !c.dead {
		c.out = c.out[:0]
		work := machine.QueueWork{Told: c.answerAll()}
		if c.ping {
			c.ping = false
			c.out = emptyFrame(c.out, framePing)
		}
		u := c.next()
		if u == nil && len(c.out) == 0 {
			c.wake.Wait()
			continue
		}
		var list []parcel
		if u != nil {
			list = c.collect(u)
			work.Pushed = 1
		}
		s.mu.Unlock()
		if u != nil {
			c.pack(u.queue.number, list)
		}
		s.m.Work(machine.Work{Queue: work, Moved: int64(len(c.out)), Syscalls: 1})
		_, err := c.nc.Write(c.out)
		s.mu.Lock()
		if err != nil {
			c.end()
		}
	}
}

// answerAll appends the answers that can go and says how many these are; a confirmation speaks for those before it, too.
func (c *conn) answerAll() (n int) {
	confirmed := uint64(0)
	for ; c.answerable(n); n++ {
		if a := c.answers[n]; a.number > 0 {
			confirmed = a.number
		} else {
			c.out = emptyFrame(c.out, frameBound)
		}
	}
	c.answers = c.answers[:copy(c.answers, c.answers[n:])]
	if confirmed > 0 {
		c.out = confirmFrame(c.out, confirmed)
	}
	return n
}
