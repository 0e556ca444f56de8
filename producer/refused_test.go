package producer

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"

	"faultline/broker/client"
	"faultline/sim/machine"
)

// The log has forgotten the producer while the outcome of several batches is open. All of them are sent again together and refused: the first one settles what becomes of them, though the others are under way too, and the producer
// goes on in the next epoch. Were they only ever sent again, they would be until their time is over.
func TestBatchesThatAreRefusedTogetherAreSettled(t *testing.T) {
	inside(t, Config{Acks: AcksAll, Idempotent: true, MaxInFlight: 3, BatchRecords: 1}, func(m machine.Machine, p *Producer) {
		p.acc.as = identity{producer: 7}
		part := p.acc.learn(&client.Topic{Name: "t", Partitions: []client.Partition{{Leader: 1}}}, m.Uptime()).parts[0]
		for range 3 {
			p.acc.add(part, &Record{Topic: "t", Value: []byte("x")}, 0, func(Result) {}, m.Uptime())
		}
		send := func() (sent []*batch) {
			for {
				list := p.acc.drain(part.node, never-1, nil)
				if len(list) == 0 {
					return sent
				}
				sent = append(sent, list...)
			}
		}
		for _, b := range send() {
			p.settle(b, -1, client.ErrUnknown)
		}
		again := send()
		require.Len(t, again, 3)
		for _, b := range again {
			p.settle(b, -1, kerr.UnknownProducerID)
		}
		for _, b := range again {
			require.ErrorIs(t, b.err, ErrUnknown, "it may be in the log, and cannot be sent again under another number")
		}
		require.Equal(t, identity{producer: 7, epoch: 1}, p.acc.as)
	})
}
