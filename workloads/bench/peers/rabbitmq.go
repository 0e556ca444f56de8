package peers

import (
	"context"
	"errors"
	"fmt"

	amqp "github.com/rabbitmq/amqp091-go"

	"faultline/sim/machine"
	"faultline/workloads/bench"
)

// rabbitMQ: a durable queue for each group behind one exchange; persistent messages that the server confirms when they are on disk.
func rabbitMQ(x *run) (*bench.System, error) {
	open := func() (*amqp.Connection, *amqp.Channel, error) {
		conn, err := amqp.Dial(x.address.String())
		if err != nil {
			return nil, nil, fmt.Errorf("rabbitmq %s: %w", x.address.Host, err)
		}
		ch, err := conn.Channel()
		if err != nil {
			conn.Close()
			return nil, nil, fmt.Errorf("rabbitmq %s: %w", x.address.Host, err)
		}
		return conn, ch, nil
	}
	return &bench.System{
		Name: "rabbitmq", Guarantee: "at least once, synced",
		Outside: func(*bench.Cell) (func(), error) {
			conn, ch, err := open()
			if err != nil {
				return nil, err
			}
			err = ch.ExchangeDeclare(x.name, amqp.ExchangeFanout, true, false, false, false, nil)
			for _, q := range x.queues() {
				if err == nil {
					_, err = ch.QueueDeclare(q, true, false, false, false, nil)
				}
				if err == nil {
					err = ch.QueueBind(q, "", x.name, false, nil)
				}
			}
			if err != nil {
				conn.Close()
				return nil, fmt.Errorf("rabbitmq %s: %w", x.address.Host, err)
			}
			return func() {
				for _, q := range x.queues() {
					ch.QueueDelete(q, false, false, false)
				}
				ch.ExchangeDelete(x.name, false, false)
				conn.Close()
			}, nil
		},
		Send: func(_ machine.Machine, _ *bench.Cell, index int, told func(error)) (bench.Sender, error) {
			conn, ch, err := open()
			if err != nil {
				return nil, err
			}
			if err := ch.Confirm(false); err != nil {
				conn.Close()
				return nil, err
			}
			size, inFlight := x.batches(index)
			s := &rabbitSender{conn: conn, ch: ch, exchange: x.name, window: newWindow(size*inFlight, told), asked: make(chan *amqp.DeferredConfirmation, size*inFlight), done: make(chan struct{})}
			go s.answers()
			return s, nil
		},
		Receive: func(_ machine.Machine, _ *bench.Cell, group string, _ int, hand func([]byte)) (bench.Receiver, error) {
			conn, ch, err := open()
			if err != nil {
				return nil, err
			}
			if err := ch.Qos(rabbitPrefetch, 0, false); err != nil {
				conn.Close()
				return nil, err
			}
			deliveries, err := ch.Consume(x.queue(group), "", false, false, false, false, nil)
			if err != nil {
				conn.Close()
				return nil, err
			}
			c := &closer{end: conn.Close}
			c.done.Go(func() {
				n := 0
				for d := range deliveries {
					hand(d.Body)
					if n++; n%rabbitAcks == 0 {
						d.Ack(true) // and all before it
					}
				}
			})
			return c, nil
		},
	}, nil
}

const (
	rabbitPrefetch = 1000
	rabbitAcks     = 100 // messages that one acknowledgement is for
)

var errNack = errors.New("the server refused the message")

// rabbitSender has a message confirmed after the other, in the order in which they were sent.
type rabbitSender struct {
	conn     *amqp.Connection
	ch       *amqp.Channel
	exchange string
	window   *window
	asked    chan *amqp.DeferredConfirmation
	done     chan struct{}
}

func (s *rabbitSender) Send(value []byte) error {
	s.window.enter()
	c, err := s.ch.PublishWithDeferredConfirmWithContext(context.Background(), s.exchange, "", false, false, amqp.Publishing{DeliveryMode: amqp.Persistent, Body: value})
	if err != nil {
		s.window.leave(0, nil)
		return err
	}
	s.asked <- c
	return nil
}

func (s *rabbitSender) answers() {
	defer close(s.done)
	for c := range s.asked {
		if c.Wait() {
			s.window.leave(1, nil)
		} else {
			s.window.leave(1, errNack)
		}
	}
}

func (s *rabbitSender) Close() error {
	s.window.drain()
	close(s.asked)
	<-s.done
	return s.conn.Close()
}
