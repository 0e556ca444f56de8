package peers

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"faultline/sim/machine"
	"faultline/workloads/bench"
)

// redisLists: a list for each group. RPUSH adds to all of them, BLPOP takes off: what was taken and not processed is lost.
func redisLists(x *run) (*bench.System, error) {
	push := func(p redis.Pipeliner, value []byte) {
		for _, q := range x.queues() {
			p.RPush(context.Background(), q, value)
		}
	}
	s := x.redis("at most once (a message taken off a list is gone; the server writes its log as it is configured)", push)
	s.Receive = func(_ machine.Machine, _ *bench.Cell, group string, _ int, hand func([]byte)) (bench.Receiver, error) {
		return x.reader(func(ctx context.Context, cl *redis.Client) error {
			// Some at a time: one LPOP with a count when there are any, a wait for the first otherwise.
			got, err := cl.LPopCount(ctx, x.queue(group), redisRead).Result()
			if errors.Is(err, redis.Nil) {
				var first []string
				if first, err = cl.BLPop(ctx, redisWait, x.queue(group)).Result(); err == nil {
					got = first[1:]
				}
			}
			for _, v := range got {
				hand([]byte(v))
			}
			return err
		}), nil
	}
	return s, nil
}

// redisStreams: one stream with a consumer group for each group. What a consumer has not acknowledged can be claimed by another.
func redisStreams(x *run) (*bench.System, error) {
	push := func(p redis.Pipeliner, value []byte) {
		p.XAdd(context.Background(), &redis.XAddArgs{Stream: x.name, Values: []any{"v", value}})
	}
	s := x.redis("at least once (acknowledged by consumers; the server writes its log as it is configured)", push)
	plain := s.Outside
	s.Outside = func(c *bench.Cell) (func(), error) {
		release, err := plain(c)
		if err != nil {
			return nil, err
		}
		cl := x.client()
		defer cl.Close()
		for _, g := range x.groups {
			if err := cl.XGroupCreateMkStream(context.Background(), x.name, g, "0").Err(); err != nil {
				release()
				return nil, fmt.Errorf("redis %s: create group %s: %w", x.address.Host, g, err)
			}
		}
		return release, nil
	}
	s.Receive = func(_ machine.Machine, _ *bench.Cell, group string, index int, hand func([]byte)) (bench.Receiver, error) {
		return x.reader(func(ctx context.Context, cl *redis.Client) error {
			got, err := cl.XReadGroup(ctx, &redis.XReadGroupArgs{Group: group, Consumer: fmt.Sprint("consumer-", index), Streams: []string{x.name, ">"}, Count: redisRead, Block: redisWait}).Result()
			if err != nil {
				return err
			}
			var ids []string
			for _, stream := range got {
				for _, m := range stream.Messages {
					v, _ := m.Values["v"].(string)
					hand([]byte(v))
					ids = append(ids, m.ID)
				}
			}
			return cl.XAck(ctx, x.name, group, ids...).Err()
		}), nil
	}
	return s, nil
}

const (
	redisRead = 1000        // messages at a time
	redisWait = time.Second // for the first of them; the client takes no less for a list
)

func (x *run) client() *redis.Client {
	password, _ := x.address.User.Password()
	return redis.NewClient(&redis.Options{Addr: x.address.Host, Username: x.address.User.Username(), Password: password, MaxRetries: -1, ReadTimeout: 10 * time.Second})
}

// redis is what lists and streams have in common: a producer whose batches are pipelines, each on a connection that it has while it is unanswered.
func (x *run) redis(guarantee string, push func(redis.Pipeliner, []byte)) *bench.System {
	return &bench.System{
		Name: x.address.Scheme, Guarantee: guarantee,
		Outside: func(*bench.Cell) (func(), error) {
			cl := x.client()
			if err := cl.Ping(context.Background()).Err(); err != nil {
				cl.Close()
				return nil, fmt.Errorf("redis %s: %w", x.address.Host, err)
			}
			return func() {
				cl.Del(context.Background(), append(x.queues(), x.name)...)
				cl.Close()
			}, nil
		},
		Send: func(_ machine.Machine, _ *bench.Cell, index int, told func(error)) (bench.Sender, error) {
			size, inFlight := x.batches(index)
			cl := x.client()
			return &redisSender{cl: cl, push: push, size: size, pipe: cl.Pipeline(), window: newWindow(inFlight, told)}, nil
		},
	}
}

type redisSender struct {
	cl     *redis.Client
	push   func(redis.Pipeliner, []byte)
	size   int
	n      int // messages in pipe
	pipe   redis.Pipeliner
	window *window
}

func (s *redisSender) Send(value []byte) error {
	s.push(s.pipe, append([]byte(nil), value...))
	if s.n++; s.n >= s.size {
		s.flush()
	}
	return nil
}

func (s *redisSender) flush() {
	if s.n == 0 {
		return
	}
	pipe, n := s.pipe, s.n
	s.pipe, s.n = s.cl.Pipeline(), 0
	s.window.enter()
	go func() {
		_, err := pipe.Exec(context.Background())
		s.window.leave(n, err)
	}()
}

func (s *redisSender) Close() error {
	s.flush()
	s.window.drain()
	return s.cl.Close()
}

// reader reads until it is closed.
func (x *run) reader(read func(context.Context, *redis.Client) error) bench.Receiver {
	ctx, cancel := context.WithCancel(context.Background())
	cl := x.client()
	c := &closer{end: func() error { cancel(); return nil }}
	c.done.Go(func() {
		defer cl.Close()
		for ctx.Err() == nil {
			if err := read(ctx, cl); err != nil && !errors.Is(err, redis.Nil) && ctx.Err() == nil {
				time.Sleep(redisWait) // what it misses shows in the figures
			}
		}
	})
	return c
}
