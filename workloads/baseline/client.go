package baseline

import (
	"bufio"
	"fmt"
	"net"
	"time"

	"faultline/broker/wire"
	"faultline/sim/machine"
)

// link is a client's end of a connection.
type link struct {
	m      machine.Machine
	nc     net.Conn
	calls  *wire.Calls
	r      *bufio.Reader
	frame  []byte
	silent time.Duration // the connection is given up after so long without a frame
	by     time.Duration // uptime of the read deadline that is set
}

// dial connects and makes the queues of which each is a topic and a name.
func dial(m machine.Machine, addr string, silent time.Duration, queues []Binding) (*link, error) {
	nc, err := m.Dial(addr, silent)
	if err != nil {
		return nil, err
	}
	calls := wire.NewCalls(nc)
	l := &link{m: m, nc: nc, calls: calls, r: bufio.NewReaderSize(calls, 64<<10), silent: silent}
	var out []byte
	for _, q := range queues {
		out = bindFrame(out, q.Topic, q.Queue)
	}
	m.Work(machine.Work{Queue: machine.QueueWork{Frames: len(queues)}, Moved: int64(len(out)), Syscalls: 1})
	if _, err = nc.Write(out); err == nil {
		err = l.awaitBound(len(queues))
	}
	if err != nil {
		nc.Close()
		return nil, fmt.Errorf("%s: %w", addr, err)
	}
	return l, nil
}

// Await returns once a broker has read its journal and serves the queues, which are made if they are not there.
func Await(m machine.Machine, addr string, patience time.Duration, queues []Binding) error {
	l, err := dial(m, addr, patience, queues)
	if err != nil {
		return fmt.Errorf("await: %w", err)
	}
	return l.nc.Close()
}

func (l *link) awaitBound(n int) error {
	for n > 0 {
		kind, _, err := l.next()
		if err != nil {
			return err
		}
		if kind != frameBound {
			return fmt.Errorf("%w: kind %d, want that a queue was made", errFrame, kind)
		}
		n--
	}
	return nil
}

// next reads a frame; it answers signs of life by itself. The body is valid until the next call.
func (l *link) next() (kind byte, body *reader, err error) {
	for {
		// Setting a deadline costs a timer, so it is not done for each frame.
		if now := l.m.Uptime(); l.by-now < l.silent/2 {
			l.by = now + l.silent
			if err := l.nc.SetReadDeadline(l.m.Now().Add(l.silent)); err != nil {
				return 0, nil, err
			}
		}
		frame, err := wire.ReadFrame(l.r, l.frame, 1, maxFrame)
		if err != nil {
			return 0, nil, err
		}
		l.frame = frame
		work := machine.QueueWork{}
		if frame[0] == frameDeliver {
			work.Arrived = 1
		}
		l.m.Work(machine.Work{Queue: work, Moved: int64(len(frame)), Syscalls: l.calls.Take()})
		if frame[0] != framePing {
			return frame[0], &reader{rest: frame[1:]}, nil
		}
		if _, err := l.nc.Write(emptyFrame(nil, framePong)); err != nil {
			return 0, nil, err
		}
	}
}

// Binding lets the messages of a topic go to a queue.
type Binding struct{ Topic, Queue string }

func checkBindings(list []Binding) error {
	for _, b := range list {
		if len(b.Topic) == 0 || len(b.Queue) == 0 || len(b.Topic) > 255 || len(b.Queue) > 255 {
			return fmt.Errorf("binding of topic %q to queue %q: names have 1 to 255 bytes", b.Topic, b.Queue)
		}
	}
	return nil
}
