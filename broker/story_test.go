package broker_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"faultline/broker"
	"faultline/broker/client"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestProduceAndFetch(t *testing.T) {
	x := newWorld(t, 1)
	x.start(1)
	x.on("app", func(p *program) {
		p.create("clicks", 2)
		require.EqualValues(t, 0, p.mustSend("clicks", 0, -1, "a", "b"))
		require.EqualValues(t, 2, p.mustSend("clicks", 0, -1, "c"))
		require.EqualValues(t, 0, p.mustSend("clicks", 1, 1, "d"))
		require.Equal(t, []string{"a", "b", "c"}, p.readAll("clicks", 0, 0))
		require.Equal(t, []string{"b", "c"}, p.readAll("clicks", 0, 1))
	})
}

func TestUnflushedRecordsAreInvisible(t *testing.T) {
	x := newWorld(t, 2)
	x.start(1)
	x.on("app", func(p *program) {
		p.create("t", 1, client.Setting{Name: "flush.ms", Value: "1000"}, client.Setting{Name: "flush.messages", Value: "1000"})
		p.mustSend("t", 0, 1, "early")
		f, err := p.fetch("t", 0, 0)
		require.NoError(t, err)
		require.Empty(t, f.values)
		require.EqualValues(t, 0, f.visible)
		p.m.Sleep(1100 * time.Millisecond)
		f, err = p.fetch("t", 0, 0)
		require.NoError(t, err)
		require.Equal(t, []string{"early"}, f.values)
		require.EqualValues(t, 1, f.visible)
	})
}

func TestAcksAllSurvivesPowerLoss(t *testing.T) {
	for seed := range uint64(20) {
		x := newWorld(t, seed)
		x.start(1)
		var sent []string
		x.on("app", func(p *program) {
			p.create("t", 1)
			for i := range 20 {
				v := fmt.Sprint("v", i)
				p.mustSend("t", 0, -1, v)
				sent = append(sent, v)
			}
		})
		x.hosts[1].PowerLoss()
		x.boot(1)
		x.on("reader", func(p *program) {
			require.Equal(t, sent, p.readAll("t", 0, 0))
		})
	}
}

func TestAcksOneSurvivesProcessCrash(t *testing.T) {
	x := newWorld(t, 3)
	x.config = nil
	x.start(1)
	x.on("app", func(p *program) {
		p.create("t", 1, client.Setting{Name: "flush.ms", Value: "100000"})
		p.mustSend("t", 0, 1, "kept")
	})
	x.hosts[1].Crash()
	x.boot(1)
	x.on("reader", func(p *program) {
		require.Equal(t, []string{"kept"}, p.readAll("t", 0, 0))
	})
}

func TestRestartWithinTheSessionTakesTheNodeOver(t *testing.T) {
	x := newWorld(t, 4)
	x.start(1)
	x.hosts[1].Crash()
	x.boot(1)
	x.run(time.Second) // far less than the session time-out
	require.Equal(t, 2, x.count("b1 broker.up "))
	x.on("app", func(p *program) {
		p.create("t", 1)
		p.mustSend("t", 0, -1, "a")
		p.m.Sleep(20 * time.Second) // the old session expires meanwhile; ours must stay
		conn, err := p.cluster.Any()
		require.NoError(t, err)
		resp, err := conn.Request(kmsg.NewPtrMetadataRequest())
		require.NoError(t, err)
		require.Len(t, resp.(*kmsg.MetadataResponse).Brokers, 1)
		require.EqualValues(t, 1, resp.(*kmsg.MetadataResponse).Topics[0].Partitions[0].Leader)
	})
}

func TestRegistersAgainAfterSessionExpiry(t *testing.T) {
	x := newWorld(t, 5)
	x.start(2)
	x.on("app", func(p *program) {
		p.create("t", 2)
		p.mustSend("t", 0, -1, "a")
		p.mustSend("t", 1, -1, "a")
	})
	heal := []func(){x.c.Net.Block("b1", "zk"), x.c.Net.Block("zk", "b1")}
	x.run(20 * time.Second)
	x.on("during", func(p *program) {
		// Broker 2 sees the other gone; broker 1 goes on serving what it has to whoever asks it.
		require.Equal(t, []string{"2"}, live(t, p, 2))
		require.Equal(t, []string{"1", "2"}, live(t, p, 1))
	})
	for _, h := range heal {
		h()
	}
	x.run(20 * time.Second)
	x.on("after", func(p *program) {
		require.Equal(t, []string{"1", "2"}, live(t, p, 2))
		require.Equal(t, []string{"a"}, p.readAll("t", 0, 0))
		require.Equal(t, []string{"a"}, p.readAll("t", 1, 0))
	})
}

// live asks one broker for the list of live ones.
func live(t *testing.T, p *program, broker int) (ids []string) {
	conn, err := client.Dial(p.m, fmt.Sprintf("b%d:9092", broker), client.Config{})
	require.NoError(t, err)
	defer conn.Close()
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = []kmsg.MetadataRequestTopic{}
	resp, err := conn.Request(req)
	require.NoError(t, err)
	for _, b := range resp.(*kmsg.MetadataResponse).Brokers {
		ids = append(ids, fmt.Sprint(b.NodeID))
	}
	return ids
}

func TestCleanStopNeedsNoRecovery(t *testing.T) {
	x := newWorld(t, 6)
	x.bootCoord()
	b := x.boot(1)
	x.run(time.Second)
	x.on("app", func(p *program) {
		p.create("t", 1)
		p.mustSend("t", 0, 1, "a", "b")
	})
	require.NoError(t, x.stop(b))
	require.Equal(t, 1, x.count("b1 broker.down "))
	require.True(t, x.exists(1, "broker/clean-shutdown"))
	x.boot(1)
	x.run(time.Second)
	x.hosts[1].PowerLoss()
	require.False(t, x.exists(1, "broker/clean-shutdown"), "the marker is gone, durably, before the broker serves")
	x.boot(1)
	x.on("reader", func(p *program) {
		require.Equal(t, []string{"a", "b"}, p.readAll("t", 0, 0))
	})
}

func TestLongPollIsWokenByTheFlush(t *testing.T) {
	x := newWorld(t, 7)
	x.start(1)
	x.on("setup", func(p *program) { p.create("t", 2) })
	var took time.Duration
	var got []string
	done := x.spawn("reader", func(p *program) {
		_, err := p.leader("t", 0)
		require.NoError(t, err)
		start := p.m.Uptime()
		f, err := p.fetch("t", 0, 0, longPoll(30*time.Second, 1))
		require.NoError(t, err)
		took, got = p.m.Uptime()-start, f.values
	})
	x.on("writer", func(p *program) {
		p.m.Sleep(2 * time.Second)
		p.mustSend("t", 1, -1, "other partition")
		p.mustSend("t", 0, -1, "news")
	})
	x.run(time.Second)
	require.True(t, *done)
	require.Equal(t, []string{"news"}, got)
	require.Less(t, took, 3*time.Second)
	require.Greater(t, took, time.Second)
}

func TestLongPollEndsWithEnoughBytesOrInTime(t *testing.T) {
	x := newWorld(t, 8)
	x.start(1)
	x.on("app", func(p *program) {
		p.create("t", 1)
		p.mustSend("t", 0, -1, "small")
		start := p.m.Uptime()
		f, err := p.fetch("t", 0, 0, longPoll(2*time.Second, 1<<19))
		require.NoError(t, err)
		require.Equal(t, []string{"small"}, f.values, "out of time: what there is")
		require.InDelta(t, 2, (p.m.Uptime() - start).Seconds(), 0.1)
	})
}

func TestFetchLimitsAreSoftByOneBatch(t *testing.T) {
	x := newWorld(t, 9)
	x.start(1)
	x.on("app", func(p *program) {
		p.create("t", 2)
		for range 3 {
			p.mustSend("t", 0, -1, "0123456789")
			p.mustSend("t", 1, -1, "0123456789")
		}
		one, err := p.fetch("t", 0, 0, func(r *kmsg.FetchRequest) { r.MaxBytes, r.Topics[0].Partitions[0].PartitionMaxBytes = 1, 1 })
		require.NoError(t, err)
		require.Len(t, one.values, 1, "a first batch, whatever its size")
		two, err := p.fetch("t", 0, 0, func(r *kmsg.FetchRequest) { r.Topics[0].Partitions[0].PartitionMaxBytes = int32(2*one.bytes + 1) })
		require.NoError(t, err)
		require.Len(t, two.values, 2)

		conn, err := p.leader("t", 0)
		require.NoError(t, err)
		both := fetchRequest("t", 0, 0, func(r *kmsg.FetchRequest) {
			second := r.Topics[0].Partitions[0]
			second.Partition = 1
			r.Topics[0].Partitions = append(r.Topics[0].Partitions, second)
			r.MaxBytes = int32(one.bytes*3 + one.bytes/2)
		})
		resp, err := conn.Request(both)
		require.NoError(t, err)
		parts := resp.(*kmsg.FetchResponse).Topics[0].Partitions
		require.Len(t, parts[0].RecordBatches, 3*one.bytes)
		require.Empty(t, parts[1].RecordBatches, "half a batch is left: not the first partition, so none")
	})
}

func TestOffsetsOutOfRange(t *testing.T) {
	x := newWorld(t, 10)
	x.start(1)
	x.on("app", func(p *program) {
		p.create("t", 1)
		p.mustSend("t", 0, -1, "a")
		f, err := p.fetch("t", 0, 5, longPoll(10*time.Second, 1))
		require.NoError(t, err)
		require.Equal(t, kerr.OffsetOutOfRange.Code, f.code)
		require.EqualValues(t, 0, f.start)
		require.EqualValues(t, 1, f.visible)
	})
}

func TestListOffsets(t *testing.T) {
	x := newWorld(t, 11)
	x.start(1)
	x.on("app", func(p *program) {
		p.create("t", 1)
		at := func(ts int64) [2]int64 {
			o, when, err := p.cluster.Offset("t", 0, ts)
			require.NoError(t, err)
			return [2]int64{o, when}
		}
		p.leader("t", 0)
		require.Equal(t, [2]int64{0, -1}, at(client.Earliest))
		require.Equal(t, [2]int64{0, -1}, at(client.Latest))
		require.Equal(t, [2]int64{-1, -1}, at(client.MaxTimestamp))
		require.Equal(t, [2]int64{-1, -1}, at(0))
		var times []int64
		for i := range 5 {
			times = append(times, p.m.Now().UnixMilli())
			p.mustSend("t", 0, -1, fmt.Sprint(i))
			p.m.Sleep(time.Second)
		}
		require.Equal(t, [2]int64{5, -1}, at(client.Latest))
		require.Equal(t, [2]int64{4, times[4]}, at(client.MaxTimestamp))
		require.Equal(t, [2]int64{0, times[0]}, at(0))
		require.Equal(t, [2]int64{2, times[2]}, at(times[2]))
		require.Equal(t, [2]int64{3, times[3]}, at(times[2]+1))
		require.Equal(t, [2]int64{-1, -1}, at(times[4]+1))
	})
}

func TestRefusals(t *testing.T) {
	x := newWorld(t, 12)
	x.start(2)
	x.on("app", func(p *program) {
		p.create("t", 2)
		p.mustSend("t", 0, -1, "a")
		conn, err := p.leader("t", 0)
		require.NoError(t, err)
		code := func(req *kmsg.ProduceRequest) int16 {
			resp, err := conn.Request(req)
			require.NoError(t, err)
			return resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode
		}
		good := func() []byte { return batchOf(p.m.Now(), "x") }
		require.Equal(t, kerr.UnknownTopicOrPartition.Code, code(produceBytes("none", 0, 1, good())))
		require.Equal(t, kerr.UnknownTopicOrPartition.Code, code(produceBytes("t", 2, 1, good())))
		require.Equal(t, kerr.NotLeaderForPartition.Code, code(produceBytes("t", 1, 1, good())))
		require.Equal(t, kerr.InvalidRequiredAcks.Code, code(produceBytes("t", 0, 2, good())))
		require.Equal(t, kerr.InvalidRecord.Code, code(produceBytes("t", 0, 1, nil)))
		require.Equal(t, kerr.CorruptMessage.Code, code(produceBytes("t", 0, 1, good()[:20])))
		for magic, want := range map[byte]int16{0: kerr.UnsupportedForMessageFormat.Code, 1: kerr.UnsupportedForMessageFormat.Code, 3: kerr.CorruptMessage.Code} {
			bad := good()
			bad[16] = magic
			require.Equal(t, want, code(produceBytes("t", 0, 1, bad)))
		}
		flipped := good()
		flipped[len(flipped)-1] ^= 1
		require.Equal(t, kerr.CorruptMessage.Code, code(produceBytes("t", 0, 1, flipped)))
		idempotent := good()
		for i := 43; i < 51; i++ {
			idempotent[i] = 0
		}
		require.Equal(t, kerr.CorruptMessage.Code, code(produceBytes("t", 0, 1, idempotent)), "the CRC is that of a batch without producer id")
		long := make([]byte, 2<<20)
		require.Equal(t, kerr.MessageTooLarge.Code, code(produceBytes("t", 0, 1, batchOf(p.m.Now(), string(long)))))
		require.Equal(t, []string{"a"}, p.readAll("t", 0, 0), "none of it is in the log")

		session := fetchRequest("t", 0, 0, func(r *kmsg.FetchRequest) { r.SessionID, r.SessionEpoch = 7, 3 })
		resp, err := conn.Request(session)
		require.NoError(t, err)
		require.Equal(t, kerr.FetchSessionIDNotFound.Code, resp.(*kmsg.FetchResponse).ErrorCode)
	})
}

func TestAcksZeroFailureClosesTheConnection(t *testing.T) {
	x := newWorld(t, 13)
	x.start(1)
	x.on("app", func(p *program) {
		p.create("t", 1)
		_, err := p.send("t", 0, 0, "quiet")
		require.NoError(t, err)
		p.m.Sleep(time.Second)
		require.Equal(t, []string{"quiet"}, p.readAll("t", 0, 0))
		conn, err := p.leader("t", 0)
		require.NoError(t, err)
		_, err = conn.Request(produceRequest(p.m.Now(), "none", 0, 0, "x"))
		require.NoError(t, err)
		p.m.Sleep(time.Second)
		require.Error(t, conn.Err())
	})
}

func TestPipelinedAcksAllShareFlushesAndStayInOrder(t *testing.T) {
	x := newWorld(t, 14)
	x.start(1)
	x.on("app", func(p *program) {
		p.create("t", 1)
		p.mustSend("t", 0, -1, "first")
		conn, err := p.leader("t", 0)
		require.NoError(t, err)
		var pending []*client.Pending
		for i := range 200 { // more than the broker lets wait at once
			acks := int16(-1)
			if i%7 == 0 {
				acks = 1
			}
			pending = append(pending, conn.Start(produceRequest(p.m.Now(), "t", 0, acks, fmt.Sprint(i))))
		}
		for i, c := range pending {
			resp, err := c.Wait()
			require.NoError(t, err)
			pp := resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0]
			require.EqualValues(t, 0, pp.ErrorCode)
			require.EqualValues(t, i+1, pp.BaseOffset)
		}
	})
}

func TestTopicsComeAndGo(t *testing.T) {
	x := newWorld(t, 15)
	x.start(2)
	x.on("app", func(p *program) {
		p.create("t", 4)
		require.ErrorIs(t, p.cluster.CreateTopic("t", 4, 1), kerr.TopicAlreadyExists)
		require.ErrorIs(t, p.cluster.CreateTopic("no/slash", 1, 1), kerr.InvalidTopicException)
		require.ErrorIs(t, p.cluster.CreateTopic("u", 0, 1), kerr.InvalidPartitions)
		require.ErrorIs(t, p.cluster.CreateTopic("u", 1, 1, client.Setting{Name: "retention.ms", Value: "soon"}), kerr.InvalidConfig)
		require.ErrorIs(t, p.cluster.CreateTopic("u", 1, 1, client.Setting{Name: "nonsense", Value: "1"}), kerr.InvalidConfig)
		topic, err := p.cluster.Topic("t")
		require.NoError(t, err)
		leaders := map[int32]int{}
		for _, tp := range topic.Partitions {
			leaders[tp.Leader]++
		}
		require.Equal(t, map[int32]int{1: 2, 2: 2}, leaders, "spread")
		for i := range int32(4) {
			p.mustSend("t", i, -1, "old")
		}
		require.NoError(t, p.cluster.DeleteTopic("t"))
		require.ErrorIs(t, p.cluster.DeleteTopic("t"), kerr.UnknownTopicOrPartition)
		_, err = p.cluster.Topic("t")
		require.ErrorIs(t, err, client.ErrUnknownTopic)
		p.create("t", 4)
		for i := range int32(4) {
			require.EqualValues(t, 0, p.mustSend("t", i, -1, "new"))
			require.Equal(t, []string{"new"}, p.readAll("t", i, 0))
		}
	})
	require.Equal(t, 1, x.count("b1 topic.removed t"))
	require.Equal(t, 1, x.count("b2 topic.removed t"))
}

func TestTopicDeletedWhileItsBrokerWasDown(t *testing.T) {
	x := newWorld(t, 16)
	x.start(2)
	x.on("app", func(p *program) {
		p.create("gone", 2)
		p.create("again", 2)
		for i := range int32(2) {
			p.mustSend("gone", i, -1, "old")
			p.mustSend("again", i, -1, "old")
		}
	})
	x.hosts[1].Crash()
	x.on("admin", func(p *program) {
		require.NoError(t, p.cluster.DeleteTopic("gone"))
		require.NoError(t, p.cluster.DeleteTopic("again"))
		p.m.Sleep(10 * time.Second)
		p.create("again", 2)
	})
	x.boot(1)
	x.run(5 * time.Second)
	x.hosts[1].Crash()
	require.False(t, x.exists(1, "broker/gone-0"))
	require.False(t, x.exists(1, "broker/gone-1"))
	x.boot(1)
	x.on("reader", func(p *program) {
		for i := range int32(2) {
			require.Empty(t, p.readAll("again", i, 0))
		}
	})
}

// Copied or not, consumers get the same.
func TestReadsThroughMemory(t *testing.T) {
	for _, copied := range []bool{false, true} {
		x := newWorld(t, 7)
		x.config = func(c *broker.Config) { c.CopyReads = copied }
		points := x.c.CountPassages()
		x.start(1)
		var want []string
		x.on("app", func(p *program) {
			p.create("t", 1)
			for i := range 60 {
				want = append(want, strings.Repeat(fmt.Sprint(i), 500))
				p.mustSend("t", 0, -1, want[i])
			}
			require.Equal(t, want, p.readAll("t", 0, 0))
		})
		require.Equal(t, !copied, points["mark/broker/fetch-sends-file"] != nil)
	}
}
