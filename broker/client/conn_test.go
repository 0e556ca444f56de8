package client_test

import (
	"testing"
	"time"

	"faultline/broker/client"
	"faultline/sim/machine"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestPipelinedRequestsAreAnsweredInOrder(t *testing.T) {
	for seed := range uint64(20) {
		x := newWorld(t, seed)
		s := &scripted{}
		s.answer = func(req kmsg.Request) (kmsg.Response, after) {
			s.m.Sleep(time.Duration(s.m.Rand("delay").IntN(3)) * time.Millisecond)
			return echoOffset(req)
		}
		x.broker("b", s)
		tap := &calls{}
		x.app(func(m machine.Machine) {
			c, err := client.Dial(m, "b:9092", client.Config{Tap: tap})
			require.NoError(t, err)
			const tasks, each = 5, 20
			left := tasks
			for task := range tasks {
				m.Go("asker", func() {
					var pending []*client.Pending
					for i := range each {
						pending = append(pending, c.Start(ask(int64(task*each+i))))
					}
					for i, p := range pending {
						resp, err := p.Wait()
						require.NoError(t, err)
						require.EqualValues(t, task*each+i, told(resp))
					}
					left--
				})
			}
			for left > 0 {
				m.Sleep(10 * time.Millisecond)
			}
			c.Close()
		})
		require.Equal(t, 1, s.requests[18], "versions are asked for once")
		require.Len(t, tap.all, 101)
		for _, call := range tap.all {
			require.True(t, call.Sent)
			require.NoError(t, call.Err)
			require.Equal(t, "b:9092", call.Broker)
			require.Equal(t, "app", call.Machine)
			require.GreaterOrEqual(t, call.End, call.Start)
		}
	}
}

func TestTimeoutClosesTheConnection(t *testing.T) {
	x := newWorld(t, 1)
	s := &scripted{answer: func(req kmsg.Request) (kmsg.Response, after) {
		if req.(*kmsg.ListOffsetsRequest).Topics[0].Partitions[0].Timestamp == 2 {
			return nil, goOn
		}
		return echoOffset(req)
	}}
	x.broker("b", s)
	tap := &calls{}
	x.app(func(m machine.Machine) {
		c, err := client.Dial(m, "b:9092", client.Config{RequestTimeout: time.Second, Tap: tap})
		require.NoError(t, err)
		one, two := c.Start(ask(1)), c.Start(ask(2))
		_, err = one.Wait()
		require.NoError(t, err)
		start := m.Uptime()
		_, err = two.Wait()
		require.Equal(t, "unknown", kind(err))
		require.ErrorIs(t, err, machine.ErrTimeout)
		require.InDelta(t, 1, (m.Uptime() - start).Seconds(), 0.1)
		require.ErrorIs(t, c.Err(), machine.ErrTimeout)
		_, err = c.Request(ask(3))
		require.Equal(t, "not sent", kind(err))
	})
	require.True(t, tap.all[2].Sent)
	require.False(t, tap.all[3].Sent)
}

func TestFetchWaitsLongerByItsOwnMaxWait(t *testing.T) {
	x := newWorld(t, 1)
	s := &scripted{}
	s.answer = func(req kmsg.Request) (kmsg.Response, after) {
		s.m.Sleep(3 * time.Second)
		return kmsg.NewPtrFetchResponse(), goOn
	}
	x.broker("b", s)
	x.app(func(m machine.Machine) {
		c, err := client.Dial(m, "b:9092", client.Config{RequestTimeout: time.Second})
		require.NoError(t, err)
		req := kmsg.NewPtrFetchRequest()
		req.MaxWaitMillis = 3000
		_, err = c.Request(req)
		require.NoError(t, err)
		require.EqualValues(t, 12, req.Version, "topics by name")
	})
}

func TestPeerHangsUp(t *testing.T) {
	x := newWorld(t, 1)
	x.broker("b", &scripted{answer: func(req kmsg.Request) (kmsg.Response, after) { return nil, hangUp }})
	x.app(func(m machine.Machine) {
		c, err := client.Dial(m, "b:9092", client.Config{})
		require.NoError(t, err)
		one, two := c.Start(ask(1)), c.Start(ask(2))
		_, err = one.Wait()
		require.Equal(t, "unknown", kind(err))
		require.ErrorIs(t, err, machine.ErrConnReset)
		_, err = two.Wait()
		require.Equal(t, "unknown", kind(err))
	})
}

func TestGarbageAnswers(t *testing.T) {
	for name, raw := range map[string]func([]byte) []byte{
		"wrong correlation id": func(b []byte) []byte { b[7]++; return b },
		"cut body":             func(b []byte) []byte { b[3] -= 5; return b[:len(b)-5] },
		"too long":             func(b []byte) []byte { return []byte{0x7f, 0, 0, 0} },
		"twice":                func(b []byte) []byte { return append(b, b...) },
	} {
		x := newWorld(t, 1)
		x.broker("b", &scripted{answer: echoOffset, raw: raw})
		x.app(func(m machine.Machine) {
			c, err := client.Dial(m, "b:9092", client.Config{})
			require.NoError(t, err)
			_, err = c.Request(ask(1))
			if name != "twice" {
				require.Equal(t, "unknown", kind(err), name)
			}
			m.Sleep(time.Second)
			require.Error(t, c.Err(), name)
		})
	}
}

func TestDialErrorsAreNotSent(t *testing.T) {
	x := newWorld(t, 1)
	x.c.Add("deaf").Boot(func(m machine.Machine) error {
		l, err := m.Listen(9092)
		if err != nil {
			return err
		}
		for {
			if _, err := l.Accept(); err != nil {
				return err
			}
		}
	})
	x.c.Add("empty").Boot(func(m machine.Machine) error { m.Sleep(time.Hour); return nil })
	x.app(func(m machine.Machine) {
		_, err := client.Dial(m, "empty:9092", client.Config{})
		require.Equal(t, "not sent", kind(err))
		require.ErrorIs(t, err, machine.ErrConnRefused)
		_, err = client.Dial(m, "nowhere:9092", client.Config{})
		require.Equal(t, "not sent", kind(err))
		require.ErrorIs(t, err, machine.ErrNoHost)
		start := m.Uptime()
		_, err = client.Dial(m, "deaf:9092", client.Config{DialTimeout: time.Second})
		require.Equal(t, "not sent", kind(err))
		require.ErrorIs(t, err, machine.ErrTimeout)
		require.InDelta(t, 1, (m.Uptime() - start).Seconds(), 0.1)
	})
}

func TestVersionsAreNegotiated(t *testing.T) {
	x := newWorld(t, 1)
	var seen []int16
	x.broker("b", &scripted{
		ancient: true,
		versions: []kmsg.ApiVersionsResponseApiKey{
			{ApiKey: 2, MinVersion: 1, MaxVersion: 3}, {ApiKey: 1, MinVersion: 0, MaxVersion: 2}, {ApiKey: 18}, {ApiKey: -5}, {ApiKey: 3, MinVersion: 90, MaxVersion: 99},
		},
		answer: func(req kmsg.Request) (kmsg.Response, after) {
			seen = append(seen, req.GetVersion())
			return echoOffset(req)
		},
	})
	x.app(func(m machine.Machine) {
		c, err := client.Dial(m, "b:9092", client.Config{})
		require.NoError(t, err)
		_, err = c.Request(ask(1))
		require.NoError(t, err)
		for _, req := range []kmsg.Request{kmsg.NewPtrFetchRequest(), kmsg.NewPtrMetadataRequest(), kmsg.NewPtrProduceRequest(), kmsg.NewPtrCreateTopicsRequest()} {
			_, err = c.Request(req)
			require.Equal(t, "not sent", kind(err))
			require.ErrorIs(t, err, client.ErrUnsupported)
		}
		_, err = c.Request(ask(2))
		require.NoError(t, err, "the connection lives on")
	})
	require.Equal(t, []int16{3, 3}, seen)
}

func TestAcksZeroIsNotAnswered(t *testing.T) {
	x := newWorld(t, 1)
	got := 0
	x.broker("b", &scripted{answer: func(req kmsg.Request) (kmsg.Response, after) {
		if _, ok := req.(*kmsg.ProduceRequest); ok {
			got++
			return nil, goOn
		}
		return echoOffset(req)
	}})
	x.app(func(m machine.Machine) {
		c, err := client.Dial(m, "b:9092", client.Config{})
		require.NoError(t, err)
		for i := range 10 {
			resp, err := c.Request(kmsg.NewPtrProduceRequest()) // acks 0 is the default of the type
			require.NoError(t, err)
			require.Nil(t, resp)
			resp, err = c.Request(ask(int64(i)))
			require.NoError(t, err)
			require.EqualValues(t, i, told(resp))
		}
	})
	require.Equal(t, 10, got)
}

func TestFetchedBytesStayTheCallers(t *testing.T) {
	x := newWorld(t, 1)
	n := byte(0)
	x.broker("b", &scripted{answer: func(req kmsg.Request) (kmsg.Response, after) {
		n++
		resp := kmsg.NewPtrFetchResponse()
		p := kmsg.NewFetchResponseTopicPartition()
		p.RecordBatches = make([]byte, 1000*int(n%4+1))
		for i := range p.RecordBatches {
			p.RecordBatches[i] = n
		}
		resp.Topics = []kmsg.FetchResponseTopic{{Topic: string('a' + rune(n)), Partitions: []kmsg.FetchResponseTopicPartition{p}}}
		return resp, goOn
	}})
	x.app(func(m machine.Machine) {
		c, err := client.Dial(m, "b:9092", client.Config{})
		require.NoError(t, err)
		var all []*kmsg.FetchResponse
		for range 20 {
			resp, err := c.Request(kmsg.NewPtrFetchRequest())
			require.NoError(t, err)
			all = append(all, resp.(*kmsg.FetchResponse))
		}
		for i, resp := range all {
			require.Equal(t, string('a'+rune(i+1)), resp.Topics[0].Topic)
			for _, b := range resp.Topics[0].Partitions[0].RecordBatches {
				require.Equal(t, byte(i+1), b)
			}
		}
	})
}

func TestCloseFailsWhatIsPending(t *testing.T) {
	x := newWorld(t, 1)
	x.broker("b", &scripted{answer: func(req kmsg.Request) (kmsg.Response, after) { return nil, goOn }})
	x.app(func(m machine.Machine) {
		c, err := client.Dial(m, "b:9092", client.Config{})
		require.NoError(t, err)
		p := c.Start(ask(1))
		m.Go("closer", func() { m.Sleep(time.Second); c.Close() })
		_, err = p.Wait()
		require.Equal(t, "unknown", kind(err))
		require.ErrorIs(t, err, client.ErrClosed)
	})
}
