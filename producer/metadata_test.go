package producer_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"faultline/broker/client"
	"faultline/producer"
	"faultline/sim/machine"
)

// lookUps counts requests for metadata.
type lookUps int

func (n *lookUps) Done(c client.Call) {
	if _, ok := c.Req.(*kmsg.MetadataRequest); ok {
		*n++
	}
}

// A topic in use is looked at again when what is known of it is old, so that new partitions get records.
func TestMetadataGrowsOld(t *testing.T) {
	look := func(age time.Duration) int {
		n := lookUps(0)
		newWorld(t, 5).app(time.Minute, producer.Config{Acks: producer.AcksOne, MetadataMaxAge: age, Tap: &n}, func(m machine.Machine, p *producer.Producer) {
			for range 100 {
				require.NoError(t, p.Send(producer.Record{Topic: "t", Partition: -1, Value: []byte("x")}, nil))
				m.Sleep(100 * time.Millisecond)
			}
			p.Close()
		})
		return int(n)
	}
	seldom := look(0)
	require.InDelta(t, seldom+9, look(time.Second), 2)
}
