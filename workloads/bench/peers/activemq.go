package peers

import (
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"faultline/sim/machine"
	"faultline/workloads/bench"
)

// activeMQ speaks STOMP: messages go to a virtual topic, of which every group has a queue. They are persistent; what a producer sends together is a transaction, and the server answers when it is
// on disk. STOMP deletes no queue: messages that nobody reads expire.
func activeMQ(x *run) (*bench.System, error) {
	topic := "/topic/VirtualTopic." + x.name
	queue := func(group string) string { return "/queue/Consumer." + group + ".VirtualTopic." + x.name }
	open := func() (*stomp, error) {
		s, err := stompDialed(x.address)
		if err != nil {
			return nil, fmt.Errorf("activemq %s: %w", x.address.Host, err)
		}
		return s, nil
	}
	groups := x.groups
	if len(groups) == 0 {
		groups = []string{"nobody"}
	}
	return &bench.System{
		Name: "activemq", Guarantee: "at least once, synced",
		Outside: func(*bench.Cell) (func(), error) {
			s, err := open()
			if err != nil {
				return nil, err
			}
			defer s.conn.Close()
			for _, g := range groups { // a subscription makes the queue
				s.add("SUBSCRIBE", nil, "id", g, "destination", queue(g), "ack", "client", "activemq.prefetchSize", "1")
				s.add("UNSUBSCRIBE", nil, "id", g, "receipt", g)
				if err := s.flush(); err != nil {
					return nil, err
				}
				f, err := s.next()
				for err == nil && (f.command != "RECEIPT" || f.headers["receipt-id"] != g) {
					f, err = s.next()
				}
				if err != nil {
					return nil, fmt.Errorf("activemq %s: make the queue of %s: %w", x.address.Host, g, err)
				}
			}
			return func() {}, nil
		},
		Send: func(_ machine.Machine, _ *bench.Cell, index int, told func(error)) (bench.Sender, error) {
			s, err := open()
			if err != nil {
				return nil, err
			}
			size, inFlight := x.batches(index)
			out := &stompSender{s: s, topic: topic, size: size, window: newWindow(inFlight, told), under: map[string]int{}, done: make(chan struct{})}
			go out.answers()
			return out, nil
		},
		Receive: func(_ machine.Machine, _ *bench.Cell, group string, _ int, hand func([]byte)) (bench.Receiver, error) {
			s, err := open()
			if err != nil {
				return nil, err
			}
			s.add("SUBSCRIBE", nil, "id", "0", "destination", queue(group), "ack", "client", "activemq.prefetchSize", strconv.Itoa(stompPrefetch))
			if err := s.flush(); err != nil {
				s.conn.Close()
				return nil, err
			}
			c := &closer{end: s.conn.Close}
			c.done.Go(func() {
				for n := 1; ; n++ {
					f, err := s.next()
					if err != nil {
						return // closed
					}
					if f.command != "MESSAGE" {
						continue
					}
					hand(f.body)
					if n%stompAcks == 0 {
						s.add("ACK", nil, "id", f.headers["ack"]) // and all before it
						if s.flush() != nil {
							return
						}
					}
				}
			})
			return c, nil
		},
	}, nil
}

const (
	stompPrefetch = 1000
	stompAcks     = 100 // messages that one acknowledgement is for
	stompExpiry   = 10 * time.Minute
)

// stompSender sends so many messages together as a batch has, in a transaction if there are several.
type stompSender struct {
	s      *stomp
	topic  string
	size   int
	window *window // of batches
	batch  int     // number of the one that is filled
	filled int

	mu    sync.Mutex
	under map[string]int // receipt -> messages that wait for it
	err   error
	done  chan struct{}
}

func (s *stompSender) Send(value []byte) error {
	if s.filled == 0 {
		s.batch++
		if s.size > 1 {
			s.s.add("BEGIN", nil, "transaction", strconv.Itoa(s.batch))
		}
	}
	s.filled++
	headers := []string{"destination", s.topic, "persistent", "true", "expires", strconv.FormatInt(time.Now().Add(stompExpiry).UnixMilli(), 10)}
	if s.size > 1 {
		headers = append(headers, "transaction", strconv.Itoa(s.batch))
	} else {
		headers = append(headers, "receipt", strconv.Itoa(s.batch))
	}
	s.s.add("SEND", value, headers...)
	if s.filled < s.size {
		return nil
	}
	return s.launch()
}

// launch sends the batch that is filled.
func (s *stompSender) launch() error {
	number := strconv.Itoa(s.batch)
	if s.size > 1 {
		s.s.add("COMMIT", nil, "transaction", number, "receipt", number)
	}
	s.window.enter()
	s.mu.Lock()
	err := s.err
	if err == nil {
		s.under[number] = s.filled
	}
	s.mu.Unlock()
	s.filled = 0
	if err != nil {
		s.window.leave(0, nil)
		return err
	}
	return s.s.flush() // when it fails, so do the answers
}

var errStompAnswer = errors.New("an answer to what was not asked")

func (s *stompSender) answers() {
	defer close(s.done)
	for {
		f, err := s.s.next()
		s.mu.Lock()
		n, known := s.under[f.headers["receipt-id"]]
		if err == nil && (f.command != "RECEIPT" || !known) {
			err = fmt.Errorf("%w: %s %s", errStompAnswer, f.command, f.headers["receipt-id"])
		}
		if err == nil {
			delete(s.under, f.headers["receipt-id"])
			s.mu.Unlock()
			s.window.leave(n, nil)
			continue
		}
		s.err = err
		left := s.under
		s.under = map[string]int{}
		s.mu.Unlock()
		for _, n := range left {
			s.window.leave(n, err)
		}
		return
	}
}

func (s *stompSender) Close() error {
	var err error
	if s.filled > 0 {
		err = s.launch()
	}
	s.window.drain()
	s.s.conn.Close()
	<-s.done
	return err
}
