package producer

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"faultline/broker/client"
	"faultline/sim"
	"faultline/sim/machine"
	"faultline/sim/virtual"
)

// inside runs fn with a producer of a machine in a world without brokers, whose lock it holds.
func inside(t *testing.T, cfg Config, fn func(m machine.Machine, p *Producer)) {
	w := sim.New(sim.Config{Seed: 1})
	t.Cleanup(func() {
		if !t.Failed() {
			w.Close()
		}
	})
	done := false
	cfg.Brokers = []string{"nowhere:9092"}
	virtual.New(w, virtual.Config{}).Add("app").Boot(func(m machine.Machine) error {
		p, err := New(m, cfg)
		require.NoError(t, err)
		p.mu.Lock()
		defer p.mu.Unlock()
		fn(m, p)
		done = true
		return nil
	})
	w.Run(time.Second)
	require.True(t, done)
}

// A partition moves while a batch of it is in flight to the leader before. When that one lands, whatever comes of it, the next batch goes to the new leader; nobody else might wake its sender.
func TestABatchThatLandsAtTheLeaderBeforeLetsTheNextOneGo(t *testing.T) {
	inside(t, Config{Acks: AcksAll, MaxInFlight: 1}, func(m machine.Machine, p *Producer) {
		ledBy := func(broker int32) *sender {
			part := p.acc.learn(&client.Topic{Name: "t", Partitions: []client.Partition{{Leader: broker}}}, m.Uptime()).parts[0]
			return p.sender(part.node)
		}
		add := func() {
			p.acc.add(p.acc.topics["t"].parts[0], &Record{Topic: "t", Value: []byte("x")}, 0, nil, m.Uptime())
		}
		rest := func() {
			p.mu.Unlock()
			m.Sleep(time.Millisecond)
			p.mu.Lock()
		}
		old := ledBy(1)
		add()
		f := old.flight()
		f.batches = p.acc.drain(old.node, m.Uptime(), nil)
		_, err := f.batches[0].encode()
		require.NoError(t, err)
		add()
		led := ledBy(2)
		rest()
		require.Equal(t, never, led.sleepsUntil, "one is in flight")

		answer := kmsg.NewPtrProduceResponse()
		topic := kmsg.NewProduceResponseTopic()
		topic.Topic, topic.Partitions = "t", []kmsg.ProduceResponseTopicPartition{kmsg.NewProduceResponseTopicPartition()}
		answer.Topics = append(answer.Topics, topic)
		old.landed(f, answer, nil)
		require.Zero(t, led.sleepsUntil, "its sender was woken")
	})
}
