package consumer_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	brokerclient "faultline/broker/client"
	"faultline/broker/record"
	"faultline/consumer"
	"faultline/producer"
	"faultline/sim/machine"
)

func TestSimpleReadsByOffset(t *testing.T) {
	for _, codec := range []producer.Codec{producer.None, producer.Gzip, producer.Snappy, producer.LZ4, producer.Zstd} {
		t.Run(codec.String(), func(t *testing.T) {
			x := newWorld(t, uint64(codec), 2).up()
			x.topic("t", 1)
			x.produce("p", "t", 300, 10*time.Millisecond, func(c *producer.Config) { c.Compression, c.Linger = codec, 50*time.Millisecond })
			x.run(6 * time.Second)
			done := false
			x.on("reader", func(m machine.Machine) {
				s, err := consumer.NewSimple(m, consumer.SimpleConfig{Brokers: x.addresses(), FetchBytes: 500})
				require.NoError(t, err)
				n, err := s.Partitions("t")
				require.NoError(t, err)
				require.EqualValues(t, 1, n)
				r := s.Read("t", 0, 0)
				stamp := int64(0)
				for i := range 300 {
					msg, err := r.Next()
					require.NoError(t, err)
					require.EqualValues(t, i, msg.Offset)
					require.Equal(t, fmt.Sprintf("p-%d", i), string(msg.Value))
					require.Equal(t, msg.Key, msg.Value)
					if i == 200 {
						stamp = msg.Timestamp
					}
				}
				require.EqualValues(t, 300, r.End())
				at, _, err := s.Offset("t", 0, stamp)
				require.NoError(t, err)
				require.EqualValues(t, 200, at)
				r.SeekTo(at)
				msg, err := r.Next()
				require.NoError(t, err)
				require.Equal(t, "p-200", string(msg.Value))
				require.EqualValues(t, 201, r.Position())

				var out *consumer.OutOfRangeError
				r.SeekTo(1000)
				_, err = r.Next()
				require.ErrorAs(t, err, &out)
				require.Equal(t, consumer.OutOfRangeError{Topic: "t", Offset: 1000, Start: 0, End: 300}, *out)
				_, _, err = s.Fetch("t", 0, 1000)
				require.ErrorAs(t, err, &out)
				r.SeekTo(out.End - 1)
				_, err = r.Next()
				require.NoError(t, err)
				_, err = s.Read("nowhere", 0, 0).Next()
				require.ErrorIs(t, err, brokerclient.ErrUnknownTopic)

				raw, end, err := s.Fetch("t", 0, 100)
				require.NoError(t, err)
				require.EqualValues(t, 300, end)
				b, _, err := record.Next(raw)
				require.NoError(t, err)
				require.LessOrEqual(t, b.BaseOffset, int64(100))
				require.Greater(t, b.NextOffset(), int64(100))
				m.After(time.Second, "closer", s.Close)
				_, err = r.Next()
				require.ErrorIs(t, err, consumer.ErrClosed)
				done = true
			})
			x.until(20*time.Second, "done", func() bool { return done })
		})
	}
}

// A reader survives its broker's crash and goes on where it was.
func TestSimpleWaitsForBrokers(t *testing.T) {
	x := newWorld(t, 3, 1).up()
	x.topic("t", 1)
	x.produce("p", "t", 2000, 2*time.Millisecond)
	seen := 0
	x.on("reader", func(m machine.Machine) {
		s, err := consumer.NewSimple(m, consumer.SimpleConfig{Brokers: x.addresses(), RequestTimeout: time.Second})
		require.NoError(t, err)
		r := s.Read("t", 0, 0)
		for {
			msg, err := r.Next()
			if err != nil {
				require.ErrorIs(t, err, brokerclient.ErrUnknownTopic)
				m.Sleep(100 * time.Millisecond)
				continue
			}
			require.EqualValues(t, seen, msg.Offset)
			x.got[string(msg.Value)]++
			seen++
		}
	})
	x.run(2 * time.Second)
	x.brokers[0].PowerLoss()
	x.run(3 * time.Second)
	x.brokerUp(0)
	x.until(20*time.Second, "all read", func() bool { return len(x.sent) > 1900 && x.delivered() })
}
