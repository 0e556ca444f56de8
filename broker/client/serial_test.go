package client_test

import (
	"testing"
	"time"

	"faultline/broker/client"
	"faultline/sim/machine"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// On a serial connection whoever asks reads the answer: what can become of a request is the same.
func TestSerialConnection(t *testing.T) {
	const silence, end = 2, 3
	x := newWorld(t, 1)
	x.broker("b", &scripted{answer: func(req kmsg.Request) (kmsg.Response, after) {
		switch req.(*kmsg.ListOffsetsRequest).Topics[0].Partitions[0].Timestamp {
		case silence:
			return nil, goOn
		case end:
			return nil, hangUp
		}
		return echoOffset(req)
	}})
	x.app(func(m machine.Machine) {
		dial := func() *client.Conn {
			c, err := client.Dial(m, "b:9092", client.Config{RequestTimeout: time.Second, Serial: true})
			require.NoError(t, err)
			return c
		}
		c := dial()
		for at := int64(10); at < 20; at++ {
			resp, err := c.Request(ask(at))
			require.NoError(t, err)
			require.Equal(t, at, told(resp))
		}
		start := m.Uptime()
		_, err := c.Request(ask(silence))
		require.Equal(t, "unknown", kind(err))
		require.ErrorIs(t, err, machine.ErrTimeout)
		require.InDelta(t, 1, (m.Uptime() - start).Seconds(), 0.1)
		_, err = c.Request(ask(1))
		require.Equal(t, "not sent", kind(err))

		_, err = dial().Request(ask(end))
		require.Equal(t, "unknown", kind(err))
		require.ErrorIs(t, err, machine.ErrConnReset)

		c = dial()
		m.Go("closer", func() {
			m.Sleep(100 * time.Millisecond)
			c.Close()
		})
		start = m.Uptime()
		_, err = c.Request(ask(silence))
		require.Equal(t, "unknown", kind(err))
		require.ErrorIs(t, err, client.ErrClosed)
		require.InDelta(t, 0.1, (m.Uptime() - start).Seconds(), 0.01)
	})
}

// The answer to a fetch is in the memory of the one before; its records are not.
func TestSerialConnectionKeepsRecordsApart(t *testing.T) {
	x := newWorld(t, 1)
	n := byte(0)
	x.broker("b", &scripted{answer: func(req kmsg.Request) (kmsg.Response, after) {
		n++
		resp := kmsg.NewPtrFetchResponse()
		resp.Topics = []kmsg.FetchResponseTopic{{Topic: "t", Partitions: []kmsg.FetchResponseTopicPartition{{RecordBatches: []byte{n, n, n}}}}}
		return resp, goOn
	}})
	x.app(func(m machine.Machine) {
		c, err := client.Dial(m, "b:9092", client.Config{Serial: true})
		require.NoError(t, err)
		var kept [][]byte
		var last kmsg.Response
		for range 3 {
			resp, err := c.Request(kmsg.NewPtrFetchRequest())
			require.NoError(t, err)
			require.True(t, last == nil || last == resp)
			last = resp
			kept = append(kept, resp.(*kmsg.FetchResponse).Topics[0].Partitions[0].RecordBatches)
		}
		require.Equal(t, [][]byte{{1, 1, 1}, {2, 2, 2}, {3, 3, 3}}, kept)
	})
}
