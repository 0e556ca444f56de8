package client_test

import (
	"fmt"
	"testing"
	"time"

	"faultline/broker/client"
	"faultline/sim/machine"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// metadata answers Metadata from a table: topic -> leader of each partition. Brokers 1..n are "b1", ...
func metadata(brokers int, topics map[string][]int32) func(req kmsg.Request) (kmsg.Response, after) {
	return func(req kmsg.Request) (kmsg.Response, after) {
		r, ok := req.(*kmsg.MetadataRequest)
		if !ok {
			return echoOffset(req)
		}
		resp := kmsg.NewPtrMetadataResponse()
		for id := 1; id <= brokers; id++ {
			b := kmsg.NewMetadataResponseBroker()
			b.NodeID, b.Host, b.Port = int32(id), fmt.Sprint("b", id), 9092
			resp.Brokers = append(resp.Brokers, b)
		}
		for _, rt := range r.Topics {
			t := kmsg.NewMetadataResponseTopic()
			t.Topic = rt.Topic
			leaders, ok := topics[*rt.Topic]
			if !ok {
				t.ErrorCode = kerr.UnknownTopicOrPartition.Code
			}
			for i, l := range leaders {
				p := kmsg.NewMetadataResponseTopicPartition()
				p.Partition, p.Leader = int32(i), l
				t.Partitions = append(t.Partitions, p)
			}
			resp.Topics = append(resp.Topics, t)
		}
		return resp, goOn
	}
}

func TestClusterFindsLeadersAndKeepsConnections(t *testing.T) {
	x := newWorld(t, 1)
	table := map[string][]int32{"a": {1, 2, 1}, "b": {2}}
	b1, b2 := &scripted{answer: metadata(2, table)}, &scripted{answer: metadata(2, table)}
	x.broker("b1", b1)
	x.broker("b2", b2)
	x.app(func(m machine.Machine) {
		c := client.NewCluster(m, []string{"b1:9092"}, client.Config{})
		topic, err := c.Topic("a")
		require.NoError(t, err)
		require.Equal(t, []client.Partition{{ID: 0, Leader: 1, Epoch: -1}, {ID: 1, Leader: 2, Epoch: -1}, {ID: 2, Leader: 1, Epoch: -1}}, topic.Partitions)
		start := m.Uptime()
		for range 3 {
			for i, want := range []string{"b1:9092", "b2:9092", "b1:9092"} {
				conn, err := c.Leader("a", int32(i))
				require.NoError(t, err)
				require.Equal(t, want, conn.Broker())
			}
			conn, err := c.Leader("b", 0)
			require.NoError(t, err)
			require.Equal(t, "b2:9092", conn.Broker())
		}
		require.Less(t, m.Uptime()-start, 20*time.Millisecond, "new topics need not wait while all is well")
		_, err = c.Broker(2)
		require.NoError(t, err)
		_, err = c.Leader("a", 3)
		require.ErrorIs(t, err, client.ErrUnknownTopic)
		c.Close()
		_, err = c.Leader("a", 0)
		require.ErrorIs(t, err, client.ErrClosed)
		require.Equal(t, "not sent", kind(err))
	})
	require.Equal(t, 1, b1.dials)
	require.Equal(t, 1, b2.dials)
}

// TestClusterPacesTightLoops: callers that loop as fast as they can cause few requests and dials (librdkafka 1389).
func TestClusterPacesTightLoops(t *testing.T) {
	const span = 30 * time.Second
	for name, loop := range map[string]func(c *client.Cluster) error{
		"unknown topic": func(c *client.Cluster) error { _, err := c.Leader("none", 0); return err },
		"no leader":     func(c *client.Cluster) error { _, err := c.Leader("headless", 0); return err },
		"partition":     func(c *client.Cluster) error { _, err := c.Leader("a", 7); return err },
		"leader down":   func(c *client.Cluster) error { _, err := c.Leader("down", 0); return err },
		"wrong leader":  func(c *client.Cluster) error { c.Invalidate("a"); _, err := c.Leader("a", 0); return err },
		"dies at once": func(c *client.Cluster) error {
			conn, err := c.Leader("a", 0)
			if err == nil {
				conn.Close()
			}
			return err
		},
	} {
		x := newWorld(t, 1)
		s := &scripted{answer: metadata(2, map[string][]int32{"a": {1}, "headless": {-1}, "down": {2}})}
		x.broker("b1", s)
		x.c.Add("b2").Boot(func(m machine.Machine) error { m.Sleep(time.Hour); return nil })
		turns := 0
		x.app(func(m machine.Machine) {
			c := client.NewCluster(m, []string{"b1:9092", "b2:9092"}, client.Config{})
			running := 4
			for range running {
				m.Go("loop", func() {
					for m.Uptime() < span {
						_ = loop(c)
						turns++
						if turns > 1_000_000 {
							t.Errorf("%s: tight loop", name)
							break
						}
						m.Sleep(0)
					}
					running--
				})
			}
			for running > 0 {
				m.Sleep(time.Second)
			}
			c.Close()
		})
		t.Logf("%s: %d turns, %d metadata requests, %d dials", name, turns, s.requests[3], s.dials)
		require.Less(t, s.requests[3], 450, name)
		require.Less(t, s.dials, 450, name)
	}
}

// TestLeaderlessPartitionDoesNotSlowTheOthers: the wait for one leader is the affair of who wants that one.
func TestLeaderlessPartitionDoesNotSlowTheOthers(t *testing.T) {
	x := newWorld(t, 1)
	x.broker("b1", &scripted{answer: metadata(1, map[string][]int32{"a": {1, -1}})})
	x.app(func(m machine.Machine) {
		c := client.NewCluster(m, []string{"b1:9092"}, client.Config{})
		stop := false
		m.Go("wants the other", func() {
			for !stop {
				if _, err := c.Leader("a", 1); !stop { // else it may be closed
					require.ErrorIs(t, err, client.ErrNoLeader)
				}
			}
		})
		for range 1000 {
			start := m.Uptime()
			_, err := c.Leader("a", 0)
			require.NoError(t, err)
			require.Less(t, m.Uptime()-start, 50*time.Millisecond)
			m.Sleep(10 * time.Millisecond)
		}
		stop = true
		c.Close()
	})
}

func TestClusterFollowsAMove(t *testing.T) {
	x := newWorld(t, 1)
	table := map[string][]int32{"a": {1}}
	x.broker("b1", &scripted{answer: metadata(2, table)})
	x.broker("b2", &scripted{answer: metadata(2, table)})
	x.app(func(m machine.Machine) {
		c := client.NewCluster(m, []string{"b1:9092"}, client.Config{})
		conn, err := c.Leader("a", 0)
		require.NoError(t, err)
		require.Equal(t, "b1:9092", conn.Broker())
		table["a"] = []int32{2}
		conn, err = c.Leader("a", 0)
		require.NoError(t, err)
		require.Equal(t, "b1:9092", conn.Broker(), "cached")
		c.Invalidate("a")
		conn, err = c.Leader("a", 0)
		require.NoError(t, err)
		require.Equal(t, "b2:9092", conn.Broker())
		m.Sleep(6 * time.Minute)
		table["a"] = []int32{1}
		conn, err = c.Leader("a", 0)
		require.NoError(t, err)
		require.Equal(t, "b1:9092", conn.Broker(), "old metadata is refreshed")
	})
}

// Who tells of an older leader epoch than is known lags behind. That holds as long as the topic has its id, also after a time in which nobody knew it; the next topic of its name begins anew.
func TestLeaderEpochsGoWithTheirTopic(t *testing.T) {
	x := newWorld(t, 1)
	table := map[string][]int32{"a": {1}}
	id, epoch := [16]byte{1}, int32(5)
	x.broker("b1", &scripted{answer: func(req kmsg.Request) (kmsg.Response, after) {
		resp, then := metadata(2, table)(req)
		for i := range resp.(*kmsg.MetadataResponse).Topics {
			rt := &resp.(*kmsg.MetadataResponse).Topics[i]
			rt.TopicID = id
			for j := range rt.Partitions {
				rt.Partitions[j].LeaderEpoch = epoch
			}
		}
		return resp, then
	}})
	x.app(func(m machine.Machine) {
		c := client.NewCluster(m, []string{"b1:9092"}, client.Config{})
		told := func() client.Partition {
			c.Invalidate("a")
			topic, err := c.Topic("a")
			require.NoError(t, err)
			return topic.Partitions[0]
		}
		require.Equal(t, client.Partition{Leader: 1, Epoch: 5}, told())
		table["a"], epoch = []int32{2}, 4
		require.Equal(t, client.Partition{Leader: 1, Epoch: 5}, told())
		delete(table, "a")
		c.Invalidate("a")
		_, err := c.Topic("a")
		require.ErrorIs(t, err, client.ErrUnknownTopic)
		table["a"] = []int32{2}
		require.Equal(t, client.Partition{Leader: -1, Epoch: 5}, told())
		delete(table, "a")
		c.Invalidate("a")
		_, err = c.Topic("a")
		require.ErrorIs(t, err, client.ErrUnknownTopic)
		table["a"], id, epoch = []int32{2}, [16]byte{2}, 0
		require.Equal(t, client.Partition{Leader: 2, Epoch: 0}, told())
	})
}

// TestMetadataTimeoutIsNotTheCallersUnknown: a request whose leader could not be found was surely not sent.
func TestMetadataTimeoutIsNotTheCallersUnknown(t *testing.T) {
	x := newWorld(t, 1)
	x.broker("b1", &scripted{answer: func(kmsg.Request) (kmsg.Response, after) { return nil, goOn }})
	x.app(func(m machine.Machine) {
		c := client.NewCluster(m, []string{"b1:9092"}, client.Config{RequestTimeout: time.Second})
		_, err := c.Leader("a", 0)
		require.Equal(t, "not sent", kind(err))
		require.ErrorIs(t, err, machine.ErrTimeout)
	})
}

func TestClusterGoesOnWhenABrokerComesBack(t *testing.T) {
	x := newWorld(t, 1)
	table := map[string][]int32{"a": {1}}
	s := &scripted{answer: metadata(1, table)}
	comp := x.broker("b1", s)
	x.w.At(5*time.Second, func() { comp.PowerLoss() })
	x.w.At(20*time.Second, func() {
		comp.Boot(func(m machine.Machine) error {
			s.m = m
			l, err := m.Listen(9092)
			if err != nil {
				return err
			}
			for {
				nc, err := l.Accept()
				if err != nil {
					return err
				}
				m.Go("conn", func() { s.serve(nc) })
			}
		})
	})
	x.app(func(m machine.Machine) {
		c := client.NewCluster(m, []string{"b1:9092"}, client.Config{DialTimeout: time.Second, RequestTimeout: time.Second})
		outcomes := map[string]int{}
		var last string
		for m.Uptime() < 25*time.Second {
			conn, err := c.Leader("a", 0)
			if err == nil {
				_, err = conn.Request(ask(1))
			}
			if err != nil {
				c.Invalidate("a")
			}
			last = kind(err)
			outcomes[last]++
			m.Sleep(10 * time.Millisecond)
		}
		require.Equal(t, "ok", last)
		require.Equal(t, 1, outcomes["unknown"], "the one that was under way")
		require.Len(t, outcomes, 3)
	})
}
