package peers

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"faultline/sim/machine"
	"faultline/workloads/bench"
)

// jetStream: one stream on disk, a durable consumer for each group. The server answers a message when it has written it, without waiting for the disk.
func jetStream(x *run) (*bench.System, error) {
	connect := func() (*nats.Conn, error) {
		nc, err := nats.Connect(x.address.String(), nats.Name(x.name))
		if err != nil {
			return nil, fmt.Errorf("nats %s: %w", x.address.Host, err)
		}
		return nc, nil
	}
	return &bench.System{
		Name: "nats", Guarantee: "at least once, not synced",
		Outside: func(*bench.Cell) (func(), error) {
			nc, err := connect()
			if err != nil {
				return nil, err
			}
			js, err := jetstream.New(nc)
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			defer cancel()
			if err == nil {
				_, err = js.CreateStream(ctx, jetstream.StreamConfig{Name: x.name, Subjects: []string{x.name}, Storage: jetstream.FileStorage})
			}
			for _, g := range x.groups {
				if err == nil {
					_, err = js.CreateConsumer(ctx, x.name, jetstream.ConsumerConfig{Durable: g, AckPolicy: jetstream.AckExplicitPolicy, MaxAckPending: 20_000})
				}
			}
			if err != nil {
				nc.Close()
				return nil, fmt.Errorf("nats %s: %w", x.address.Host, err)
			}
			return func() {
				ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
				defer cancel()
				js.DeleteStream(ctx, x.name)
				nc.Close()
			}, nil
		},
		Send: func(_ machine.Machine, _ *bench.Cell, index int, told func(error)) (bench.Sender, error) {
			nc, err := connect()
			if err != nil {
				return nil, err
			}
			size, inFlight := x.batches(index)
			js, err := jetstream.New(nc, jetstream.WithPublishAsyncMaxPending(2*size*inFlight))
			if err != nil {
				nc.Close()
				return nil, err
			}
			s := &natsSender{nc: nc, js: js, subject: x.name, window: newWindow(size*inFlight, told), asked: make(chan jetstream.PubAckFuture, size*inFlight), done: make(chan struct{})}
			go s.answers()
			return s, nil
		},
		Receive: func(_ machine.Machine, _ *bench.Cell, group string, _ int, hand func([]byte)) (bench.Receiver, error) {
			nc, err := connect()
			if err != nil {
				return nil, err
			}
			js, err := jetstream.New(nc)
			if err != nil {
				nc.Close()
				return nil, err
			}
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			defer cancel()
			consumer, err := js.Consumer(ctx, x.name, group)
			if err != nil {
				nc.Close()
				return nil, err
			}
			consuming, err := consumer.Consume(func(m jetstream.Msg) {
				hand(m.Data())
				m.Ack()
			}, jetstream.PullMaxMessages(5000))
			if err != nil {
				nc.Close()
				return nil, err
			}
			return &closer{end: func() error {
				consuming.Stop()
				nc.Close()
				return nil
			}}, nil
		},
	}, nil
}

// natsSender has a message answered after the other, in the order in which they were sent.
type natsSender struct {
	nc      *nats.Conn
	js      jetstream.JetStream
	subject string
	window  *window
	asked   chan jetstream.PubAckFuture
	done    chan struct{}
}

func (s *natsSender) Send(value []byte) error {
	s.window.enter()
	f, err := s.js.PublishAsync(s.subject, append([]byte(nil), value...))
	if err != nil {
		s.window.leave(0, nil)
		return err
	}
	s.asked <- f
	return nil
}

func (s *natsSender) answers() {
	defer close(s.done)
	for f := range s.asked {
		select {
		case <-f.Ok():
			s.window.leave(1, nil)
		case err := <-f.Err():
			s.window.leave(1, err)
		}
	}
}

func (s *natsSender) Close() error {
	s.window.drain()
	close(s.asked)
	<-s.done
	s.nc.Close()
	return nil
}
