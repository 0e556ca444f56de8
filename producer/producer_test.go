package producer_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"faultline/broker"
	"faultline/broker/client"
	"faultline/broker/log"
	"faultline/coord"
	"faultline/producer"
	"faultline/sim"
	"faultline/sim/machine"
	"faultline/sim/virtual"
)

// world is a coordination server, one broker "b" and applications on simulated computers.
type world struct {
	t *testing.T
	w *sim.World
	c *virtual.Cluster
	b *virtual.Computer
}

func newWorld(t *testing.T, seed uint64) *world {
	w := sim.New(sim.Config{Seed: seed})
	x := &world{t: t, w: w, c: virtual.New(w, virtual.Config{})}
	x.c.Add("zk").Boot(func(m machine.Machine) error {
		return coord.Run(m, coord.Config{Port: 2181, TickTime: 100 * time.Millisecond})
	})
	x.b = x.c.Add("b")
	x.up()
	t.Cleanup(func() {
		if !t.Failed() {
			w.Close()
		}
	})
	return x
}

func (x *world) up() {
	x.b.Boot(func(m machine.Machine) error {
		return broker.Run(m, broker.Config{Coord: []string{"zk:2181"}, SessionTimeout: 2 * time.Second, Log: log.Config{FlushInterval: 5 * time.Millisecond}})
	})
}

// app runs a story with a producer, after topic t of 2 partitions was made. The story must end within d.
func (x *world) app(d time.Duration, cfg producer.Config, story func(m machine.Machine, p *producer.Producer)) {
	x.t.Helper()
	done := false
	x.c.Add(fmt.Sprintf("app%d", len(x.c.Computers()))).Boot(func(m machine.Machine) error {
		c := client.NewCluster(m, []string{"b:9092"}, client.Config{})
		for {
			if t, err := c.Topic("t"); err == nil && len(t.Partitions) > 0 {
				break
			}
			_ = c.CreateTopic("t", 2, 1)
			m.Sleep(50 * time.Millisecond)
		}
		c.Close()
		cfg.Brokers = []string{"b:9092"}
		p, err := producer.New(m, cfg)
		require.NoError(x.t, err)
		story(m, p)
		done = true
		return nil
	})
	end := x.w.Now() + d
	for !done && x.w.Now() < end {
		if out := x.w.Run(x.w.Now() + 50*time.Millisecond); out.Kind != sim.Deadline && !done {
			x.t.Fatal(out)
		}
	}
	require.True(x.t, done, "the story ends within %v", d)
}

func record(i int) producer.Record {
	return producer.Record{Topic: "t", Partition: int32(i % 2), Value: fmt.Appendf(nil, "value %d", i)}
}

// counter is a tap that counts produce requests.
type counter struct{ produced, all int }

func (c *counter) Done(call client.Call) {
	c.all++
	if _, ok := call.Req.(*kmsg.ProduceRequest); ok {
		c.produced++
	}
}

// librdkafka 1389: nothing is repeated in a tight loop while a broker is away, and what was never sent fails for sure.
func TestBrokerAwayIsNotHammered(t *testing.T) {
	x := newWorld(t, 1)
	var tap counter
	x.app(40*time.Second, producer.Config{Acks: producer.AcksAll, DeliveryTimeout: 10 * time.Second, RequestTimeout: time.Second, Tap: &tap}, func(m machine.Machine, p *producer.Producer) {
		require.NoError(t, p.Send(record(0), nil))
		p.Flush()
		x.w.Later(x.b.Crash)
		m.Sleep(3 * time.Second)
		before := tap.all
		var unsent error
		require.NoError(t, p.Send(record(1), func(r producer.Result) { unsent = r.Err }))
		begin := m.Uptime()
		p.Flush()
		require.ErrorIs(t, unsent, producer.ErrTimedOut)
		require.NotErrorIs(t, unsent, producer.ErrUnknown)
		require.Less(t, m.Uptime()-begin, 12*time.Second)
		require.Less(t, tap.all-before, 60)
		p.Close()
	})
}

// A request without an answer leaves the outcome unknown, and that sticks to the batch whatever the later attempts say.
func TestUnansweredRequestIsUnknown(t *testing.T) {
	x := newWorld(t, 2)
	x.app(30*time.Second, producer.Config{Acks: producer.AcksAll, DeliveryTimeout: 5 * time.Second, RequestTimeout: time.Second}, func(m machine.Machine, p *producer.Producer) {
		require.NoError(t, p.Send(record(0), nil))
		p.Flush()
		heal := x.c.Net.Block("b", m.Name()) // requests arrive, answers do not
		var err error
		require.NoError(t, p.Send(record(1), func(r producer.Result) { err = r.Err }))
		p.Flush()
		require.ErrorIs(t, err, producer.ErrUnknown)
		heal()
		var offset int64
		require.NoError(t, p.Send(record(3), func(r producer.Result) { err, offset = r.Err, r.Offset }))
		p.Flush()
		require.NoError(t, err)
		require.Positive(t, offset, "the unknown ones are in the log, this time")
		p.Close()
	})
}

// Send waits while the buffer is full, also from within a callback, and goes on when there is room.
func TestFullBufferBlocksSend(t *testing.T) {
	x := newWorld(t, 3)
	x.app(60*time.Second, producer.Config{Acks: producer.AcksAll, BufferBytes: 2000, Linger: time.Hour}, func(m machine.Machine, p *producer.Producer) {
		acked := 0
		for i := range 500 {
			require.NoError(t, p.Send(record(i), func(r producer.Result) {
				require.NoError(t, r.Err)
				acked++
				if i%10 == 0 {
					require.NoError(t, p.Send(record(i), func(producer.Result) { acked++ }))
				}
			}))
		}
		p.Flush() // the first callbacks send more
		p.Flush()
		require.Equal(t, 550, acked)
		p.Close()
		require.ErrorIs(t, p.Send(producer.Record{Topic: "t", Value: make([]byte, 3000)}, nil), producer.ErrTooLarge)
	})
}

func TestWithoutAcksNobodyKnowsTheOffset(t *testing.T) {
	x := newWorld(t, 4)
	x.app(20*time.Second, producer.Config{Acks: producer.AcksNone, MaxInFlight: 3}, func(m machine.Machine, p *producer.Producer) {
		n := 0
		for i := range 100 {
			require.NoError(t, p.Send(record(i), func(r producer.Result) {
				require.Equal(t, producer.Result{Topic: "t", TopicID: r.TopicID, Partition: int32(i % 2), Offset: -1}, r)
				n++
			}))
		}
		p.Flush()
		require.Equal(t, 100, n)
		p.Close()
	})
}

func TestUnknownTopicIsWaitedFor(t *testing.T) {
	x := newWorld(t, 5)
	x.app(30*time.Second, producer.Config{Acks: producer.AcksOne, DeliveryTimeout: 3 * time.Second}, func(m machine.Machine, p *producer.Producer) {
		begin := m.Uptime()
		require.ErrorIs(t, p.Send(producer.Record{Topic: "later", Partition: -1}, nil), producer.ErrTimedOut)
		require.GreaterOrEqual(t, m.Uptime()-begin, 3*time.Second)
		m.After(time.Second, "create", func() {
			c := client.NewCluster(m, []string{"b:9092"}, client.Config{})
			require.NoError(t, c.CreateTopic("later", 1, 1))
			c.Close()
		})
		require.NoError(t, p.Send(producer.Record{Topic: "later", Partition: -1}, nil))
		p.Close()
	})
}
