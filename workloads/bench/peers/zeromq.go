package peers

import (
	"context"
	"fmt"
	"sync"

	"github.com/go-zeromq/zmq4"

	"faultline/sim/machine"
	"faultline/workloads/bench"
)

// zeroMQ has no broker: every consumer listens, and a producer shares its messages out among the consumers of each group. A message counts as sent when its socket took it; nobody keeps it.
func zeroMQ(x *run) (*bench.System, error) {
	z := &zero{x: x, listening: map[string][]*zeroReceiver{}}
	return &bench.System{
		Name: "zeromq", Guarantee: "at most once, no broker",
		Outside: z.listen,
		Send: func(m machine.Machine, _ *bench.Cell, _ int, told func(error)) (bench.Sender, error) {
			s := &zeroSender{told: told}
			for _, group := range z.groups {
				socket := zmq4.NewPush(context.Background())
				s.sockets = append(s.sockets, socket)
				for _, r := range z.listening[group] {
					if err := socket.Dial("tcp://" + r.address); err != nil {
						s.Close()
						return nil, fmt.Errorf("zeromq %s: %w", r.address, err)
					}
				}
			}
			return s, nil
		},
		Receive: func(_ machine.Machine, _ *bench.Cell, group string, _ int, hand func([]byte)) (bench.Receiver, error) {
			return z.next(group).start(hand), nil
		},
	}, nil
}

// zero is one run.
type zero struct {
	x         *run
	groups    []string
	mu        sync.Mutex
	listening map[string][]*zeroReceiver // by group
	taken     map[string]int
}

// listen opens the sockets of all consumers, before any producer dials. Without groups there is one that nobody hears.
func (z *zero) listen(*bench.Cell) (func(), error) {
	z.groups, z.taken = nil, map[string]int{}
	add := func(group string) error {
		socket := zmq4.NewPull(context.Background())
		if err := socket.Listen("tcp://" + z.x.address.Hostname() + ":0"); err != nil {
			socket.Close()
			return fmt.Errorf("zeromq on %s: %w", z.x.address.Hostname(), err)
		}
		if len(z.listening[group]) == 0 {
			z.groups = append(z.groups, group)
		}
		z.listening[group] = append(z.listening[group], &zeroReceiver{socket: socket, address: socket.Addr().String()})
		return nil
	}
	release := func() {
		for _, g := range z.groups {
			for _, r := range z.listening[g] {
				r.Close()
			}
		}
		clear(z.listening)
	}
	var err error
	for _, m := range z.x.cell.Scenario.Machines(0) {
		if m.Role == "consumer" && !m.Spare && err == nil {
			err = add(m.Group.Name)
		}
	}
	if len(z.groups) == 0 && err == nil {
		if err = add(z.x.name); err == nil {
			z.listening[z.x.name][0].start(func([]byte) {})
		}
	}
	if err != nil {
		release()
		return nil, err
	}
	return release, nil
}

// next is the socket of a consumer that has none yet.
func (z *zero) next(group string) *zeroReceiver {
	z.mu.Lock()
	defer z.mu.Unlock()
	r := z.listening[group][z.taken[group]]
	z.taken[group]++
	return r
}

type zeroReceiver struct {
	socket  zmq4.Socket
	address string
	once    sync.Once
	done    sync.WaitGroup
}

func (r *zeroReceiver) start(hand func([]byte)) *zeroReceiver {
	r.done.Go(func() {
		for {
			msg, err := r.socket.Recv()
			if err != nil {
				return
			}
			hand(msg.Bytes())
		}
	})
	return r
}

func (r *zeroReceiver) Close() error {
	r.once.Do(func() { r.socket.Close() })
	r.done.Wait()
	return nil
}

type zeroSender struct {
	sockets []zmq4.Socket
	told    func(error)
}

func (s *zeroSender) Send(value []byte) error {
	for _, socket := range s.sockets {
		if err := socket.Send(zmq4.NewMsg(append([]byte(nil), value...))); err != nil {
			return err
		}
	}
	s.told(nil)
	return nil
}

func (s *zeroSender) Close() error {
	for _, socket := range s.sockets {
		socket.Close()
	}
	return nil
}
