package producer

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"faultline/broker/client"
	"faultline/sim"
	"faultline/sim/machine"
	"faultline/sim/virtual"
)

// The only broker takes connections and answers nothing, so whoever looks for a leader waits for it for long. The record has its outcome in time all the same.
func TestARecordIsGivenUpInTimeThoughNoBrokerAnswers(t *testing.T) {
	w := sim.New(sim.Config{Seed: 1})
	t.Cleanup(func() {
		if !t.Failed() {
			w.Close()
		}
	})
	c := virtual.New(w, virtual.Config{})
	c.Add("silent").Boot(func(m machine.Machine) error {
		l, err := m.Listen(9092)
		for err == nil {
			_, err = l.Accept()
		}
		return err
	})
	took := time.Duration(0)
	c.Add("app").Boot(func(m machine.Machine) error {
		p, err := New(m, Config{Brokers: []string{"silent:9092"}, RequestTimeout: 10 * time.Second, DeliveryTimeout: time.Second})
		require.NoError(t, err)
		p.mu.Lock()
		p.acc.learn(&client.Topic{Name: "t", Partitions: []client.Partition{{Leader: -1}}}, m.Uptime())
		p.mu.Unlock()
		begin := m.Uptime()
		require.NoError(t, p.Send(Record{Topic: "t", Partition: -1, Value: []byte("x")}, func(r Result) {
			require.ErrorIs(t, r.Err, ErrTimedOut)
			took = m.Uptime() - begin
		}))
		p.Flush()
		return nil
	})
	w.Run(time.Minute)
	require.InDelta(t, time.Second, took, float64(50*time.Millisecond))
}
