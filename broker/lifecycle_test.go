package broker_test

import (
	"encoding/binary"
	"fmt"
	"net"
	"testing"
	"time"

	"faultline/broker"
	"faultline/broker/client"
	"faultline/broker/log"
	"faultline/broker/wire"
	coordclient "faultline/coord/client"
	"faultline/sim/disk"
	"faultline/sim/machine"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestColdStartWaitsForTheCoordinationService(t *testing.T) {
	x := newWorld(t, 1)
	x.boot(1)
	x.run(time.Minute)
	require.Zero(t, x.count("b1 broker.up "))
	x.bootCoord()
	x.run(10 * time.Second)
	require.Equal(t, 1, x.count("b1 broker.up "))
	require.Empty(t, x.exits)
}

func TestServesWhileTheCoordinationServiceIsAway(t *testing.T) {
	x := newWorld(t, 2)
	x.start(1)
	x.on("setup", func(p *program) { p.create("t", 1) })
	x.zk.PowerLoss()
	x.run(20 * time.Second)
	x.on("app", func(p *program) {
		p.mustSend("t", 0, -1, "a")
		require.Equal(t, []string{"a"}, p.readAll("t", 0, 0))
		require.Error(t, p.cluster.CreateTopic("u", 1, 1))
	})
	x.bootCoord()
	x.run(20 * time.Second)
	x.on("later", func(p *program) {
		require.Equal(t, []string{"1"}, live(t, p, 1))
		p.create("v", 1)
		p.mustSend("v", 0, -1, "b")
	})
}

// TestAnotherBrokerWithTheSameIDIsWaitedFor: it is never fatal, and the one that lives is not pushed out.
func TestAnotherBrokerWithTheSameIDIsWaitedFor(t *testing.T) {
	x := newWorld(t, 3)
	x.start(1)
	x.config = func(c *broker.Config) { c.ID = 1 }
	x.boot(2)
	x.run(30 * time.Second)
	require.Zero(t, x.count("b2 broker.up "))
	require.Empty(t, x.exits)
	x.hosts[1].PowerLoss()
	x.run(20 * time.Second)
	require.Equal(t, 1, x.count("b2 broker.up "))
}

func TestDeletedRegistrationIsMadeAgain(t *testing.T) {
	x := newWorld(t, 4)
	x.start(1)
	x.c.Add("operator").Boot(func(m machine.Machine) error {
		c := coordclient.Connect(m, coordclient.Config{Servers: []string{"zk:2181"}})
		require.NoError(t, c.Delete("/brokers/ids/1", -1))
		m.Sleep(2 * time.Second)
		_, found, err := c.Exists("/brokers/ids/1", false)
		require.NoError(t, err)
		require.True(t, found)
		return c.Close()
	})
	x.run(5 * time.Second)
	require.Equal(t, 1, x.count("b1 broker.up "), "it was up all the time")
}

// States that change all the time, as those of a flapping replica do, must not keep a broker from registering.
func TestDeletedRegistrationIsMadeAgainWhileTopicsChange(t *testing.T) {
	x := newWorld(t, 4)
	x.start(2)
	x.on("app", func(p *program) {
		for i := range 4 {
			require.NoError(t, p.cluster.CreateTopic(fmt.Sprint("t", i), 1, 2))
		}
	})
	for i := range 4 {
		state := fmt.Sprintf("/brokers/topics/t%d/state", i)
		x.c.Add(fmt.Sprint("flapping-", i)).Boot(func(m machine.Machine) error {
			c := coordclient.Connect(m, coordclient.Config{Servers: []string{"zk:2181"}})
			for {
				data, _, err := c.Get(state, false)
				require.NoError(t, err)
				_, err = c.Set(state, data, -1)
				require.NoError(t, err)
			}
		})
	}
	registered := false
	x.c.Add("operator").Boot(func(m machine.Machine) error {
		c := coordclient.Connect(m, coordclient.Config{Servers: []string{"zk:2181"}})
		require.NoError(t, c.Delete("/brokers/ids/1", -1))
		m.Sleep(5 * time.Second)
		var err error
		_, registered, err = c.Exists("/brokers/ids/1", false)
		require.NoError(t, err)
		return c.Close()
	})
	x.run(6 * time.Second)
	require.True(t, registered)
}

// TestForgetfulCoordinationServiceIsNoReasonToDropLogs: a registry without topics that is not the one this broker knows is an operator's mistake or
// a loss, and the data may be all that is left.
func TestForgetfulCoordinationServiceIsNoReasonToDropLogs(t *testing.T) {
	x := newWorld(t, 5)
	x.start(1)
	x.on("setup", func(p *program) {
		p.create("t", 1)
		p.mustSend("t", 0, -1, "precious")
	})
	x.hosts[1].Crash()
	x.zk.PowerLoss()
	x.zk.Disk().Wipe()
	x.bootCoord()
	x.boot(1)
	x.run(5 * time.Second)
	require.Len(t, x.exits, 1)
	require.ErrorContains(t, x.exits[0], "belongs to cluster")
	require.True(t, x.exists(1, "broker/t-0"))
}

func TestDataDirectoryOfAnotherBroker(t *testing.T) {
	x := newWorld(t, 6)
	x.start(1)
	x.hosts[1].Crash()
	x.config = func(c *broker.Config) { c.ID = 7 }
	x.boot(1)
	x.run(time.Second)
	require.Len(t, x.exits, 1)
	require.ErrorContains(t, x.exits[0], "belongs to broker 1, this is broker 7")
}

// TestDamagedPartitionIsOfflineAlone: bytes that were durable rotted away; the others are served.
func TestDamagedPartitionIsOfflineAlone(t *testing.T) {
	x := newWorld(t, 7)
	x.config = func(c *broker.Config) {
		c.Log = log.Config{SegmentBytes: 500, FlushInterval: time.Millisecond}
	}
	x.start(1)
	x.on("setup", func(p *program) {
		p.create("t", 2)
		for i := range 50 {
			p.mustSend("t", 0, -1, fmt.Sprint("value ", i))
			p.mustSend("t", 1, -1, fmt.Sprint("value ", i))
		}
	})
	x.hosts[1].PowerLoss()
	// The first segments lie below the recovery point: there is no excuse for their loss.
	x.hosts[1].Boot(func(m machine.Machine) error {
		for _, suffix := range []string{"log", "index", "timeindex"} {
			if err := m.Disk().Remove("broker/t-0/00000000000000000012." + suffix); err != nil {
				return err
			}
		}
		return m.Disk().SyncDir("broker/t-0")
	})
	x.run(time.Second)
	require.Empty(t, x.exits)
	x.boot(1)
	x.run(time.Second)
	x.on("app", func(p *program) {
		_, err := p.send("t", 0, -1, "more")
		require.ErrorIs(t, err, kerr.KafkaStorageError)
		f, err := p.fetch("t", 0, 0)
		require.NoError(t, err)
		require.Equal(t, kerr.KafkaStorageError.Code, f.code)
		require.Len(t, p.readAll("t", 1, 0), 50)
		require.NoError(t, p.cluster.DeleteTopic("t"))
	})
	x.run(time.Second)
	x.hosts[1].Crash()
	require.False(t, x.exists(1, "broker/t-0"))
}

func TestRetentionMovesTheLogStart(t *testing.T) {
	x := newWorld(t, 8)
	x.config = func(c *broker.Config) { c.RetentionInterval = time.Second }
	x.start(1)
	x.on("app", func(p *program) {
		p.create("t", 1, client.Setting{Name: "segment.bytes", Value: "300"}, client.Setting{Name: "retention.ms", Value: "5000"})
		for i := range 20 {
			p.mustSend("t", 0, -1, fmt.Sprint("old ", i))
		}
		p.m.Sleep(10 * time.Second)
		start, _, err := p.cluster.Offset("t", 0, client.Earliest)
		require.NoError(t, err)
		require.EqualValues(t, 20, start)
		f, err := p.fetch("t", 0, 3)
		require.NoError(t, err)
		require.Equal(t, kerr.OffsetOutOfRange.Code, f.code)
		require.EqualValues(t, 20, f.start)
		require.EqualValues(t, 20, p.mustSend("t", 0, -1, "new"), "offsets go on")
	})
}

func TestFullDiskRefusesAndRecovers(t *testing.T) {
	x := newWorld(t, 9)
	x.start(1)
	x.on("setup", func(p *program) {
		p.create("t", 1)
		p.mustSend("t", 0, -1, "before")
	})
	require.NoError(t, x.hosts[1].Disk().Inject(disk.Fault{ID: "full", Kind: disk.Full, Bytes: 8192}))
	x.on("app", func(p *program) {
		_, err := p.send("t", 0, 1, string(make([]byte, 100_000)))
		require.ErrorIs(t, err, kerr.KafkaStorageError)
		require.Equal(t, []string{"before"}, p.readAll("t", 0, 0))
	})
	x.hosts[1].Disk().HealAll()
	x.on("later", func(p *program) {
		p.mustSend("t", 0, -1, "after")
		require.Equal(t, []string{"before", "after"}, p.readAll("t", 0, 0))
	})
	require.Empty(t, x.exits)
}

func TestAutoCreate(t *testing.T) {
	for _, on := range []bool{false, true} {
		x := newWorld(t, 10)
		x.config = func(c *broker.Config) { c.AutoCreateTopics, c.Partitions, c.Replicas = on, 3, 2 }
		x.start(1)
		x.on("app", func(p *program) {
			conn, err := p.cluster.Any()
			require.NoError(t, err)
			ask := func(allowed bool) kmsg.MetadataResponseTopic {
				req := kmsg.NewPtrMetadataRequest()
				req.AllowAutoTopicCreation = allowed
				rt := kmsg.NewMetadataRequestTopic()
				rt.Topic = kmsg.StringPtr("wish")
				req.Topics = append(req.Topics, rt)
				resp, err := conn.Request(req)
				require.NoError(t, err)
				return resp.(*kmsg.MetadataResponse).Topics[0]
			}
			require.Equal(t, kerr.UnknownTopicOrPartition.Code, ask(false).ErrorCode)
			require.Equal(t, kerr.UnknownTopicOrPartition.Code, ask(true).ErrorCode, "one broker cannot keep two replicas: it is made when there are two")
			x.boot(2)
			p.m.Sleep(2 * time.Second)
			if got := ask(true); on {
				require.Zero(t, got.ErrorCode)
				require.Len(t, got.Partitions, 3)
				for _, part := range got.Partitions {
					require.Len(t, part.Replicas, 2)
				}
			} else {
				require.Equal(t, kerr.UnknownTopicOrPartition.Code, got.ErrorCode)
			}
		})
	}
}

func TestManualAssignmentAndValidation(t *testing.T) {
	x := newWorld(t, 11)
	x.start(2)
	x.on("app", func(p *program) {
		conn, err := p.cluster.Any()
		require.NoError(t, err)
		create := func(change func(*kmsg.CreateTopicsRequest, *kmsg.CreateTopicsRequestTopic)) kmsg.CreateTopicsResponseTopic {
			req := kmsg.NewPtrCreateTopicsRequest()
			rt := kmsg.NewCreateTopicsRequestTopic()
			rt.Topic, rt.NumPartitions, rt.ReplicationFactor = "m", -1, -1
			change(req, &rt)
			req.Topics = append(req.Topics, rt)
			resp, err := conn.Request(req)
			require.NoError(t, err)
			return resp.(*kmsg.CreateTopicsResponse).Topics[0]
		}
		assign := func(leaders ...int32) func(*kmsg.CreateTopicsRequest, *kmsg.CreateTopicsRequestTopic) {
			return func(_ *kmsg.CreateTopicsRequest, rt *kmsg.CreateTopicsRequestTopic) {
				for i, l := range leaders {
					rt.ReplicaAssignment = append(rt.ReplicaAssignment, kmsg.CreateTopicsRequestTopicReplicaAssignment{Partition: int32(i), Replicas: []int32{l}})
				}
			}
		}
		require.Equal(t, kerr.InvalidReplicaAssignment.Code, create(assign(2, 9)).ErrorCode)
		require.Equal(t, kerr.InvalidReplicationFactor.Code, create(func(_ *kmsg.CreateTopicsRequest, rt *kmsg.CreateTopicsRequestTopic) { rt.ReplicationFactor = 3 }).ErrorCode)
		require.Zero(t, create(func(r *kmsg.CreateTopicsRequest, rt *kmsg.CreateTopicsRequestTopic) { r.ValidateOnly = true }).ErrorCode)
		_, err = p.cluster.Topic("m")
		require.ErrorIs(t, err, client.ErrUnknownTopic, "validated, not made")
		made := create(assign(2, 2, 1))
		require.Zero(t, made.ErrorCode)
		require.EqualValues(t, 3, made.NumPartitions)
		topic, err := p.cluster.Topic("m")
		require.NoError(t, err)
		require.Equal(t, []client.Partition{{ID: 0, Leader: 2}, {ID: 1, Leader: 2}, {ID: 2, Leader: 1}}, topic.Partitions)
		require.Equal(t, made.TopicID, topic.ID)
	})
}

// TestStrangePeers: what does not speak the protocol is hung up on, and an unknown version of ApiVersions is answered as KIP-511 says.
func TestStrangePeers(t *testing.T) {
	x := newWorld(t, 12)
	x.config = func(c *broker.Config) { c.MaxRequestBytes = 1000 }
	x.start(1)
	x.on("app", func(p *program) {
		say := func(bytes string) (string, error) {
			nc, err := p.m.Dial("b1:9092", time.Second)
			require.NoError(t, err)
			defer nc.Close()
			_, err = nc.Write([]byte(bytes))
			require.NoError(t, err)
			_ = nc.SetReadDeadline(p.m.Now().Add(5 * time.Second))
			got, err := wire.ReadFrame(nc, nil, 4, 1<<20)
			return string(got), err
		}
		for _, bytes := range []string{
			"GET / HTTP/1.1\r\n\r\n",
			"\x00\x00\x04\x00more than a thousand bytes",
			"\x00\x00\x00\x03abc",
			"\x00\x00\x00\x0a\x00\x63\x00\x00\x00\x00\x00\x05\xff\xff",                 // no such request
			"\x00\x00\x00\x0a\x00\x03\x00\x63\x00\x00\x00\x05\xff\xff",                 // no such version
			"\x00\x00\x00\x0e\x00\x03\x00\x01\x00\x00\x00\x05\xff\xff\x7f\xff\xff\xff", // an array longer than the request
		} {
			_, err := say(bytes)
			require.Error(t, err, "%q", bytes)
			var ne net.Error
			require.NotErrorAs(t, err, &ne, "%q: hung up, not out of time", bytes)
		}
		got, err := say("\x00\x00\x00\x0a\x00\x12\x00\x63\x00\x00\x00\x05\xff\xff")
		require.NoError(t, err)
		require.EqualValues(t, 5, binary.BigEndian.Uint32([]byte(got)))
		var resp kmsg.ApiVersionsResponse
		require.NoError(t, resp.ReadFrom([]byte(got[4:])))
		require.Equal(t, kerr.UnsupportedVersion.Code, resp.ErrorCode)
		require.NotEmpty(t, resp.ApiKeys)
	})
}

func TestIdleConnectionsAreClosed(t *testing.T) {
	x := newWorld(t, 13)
	x.config = func(c *broker.Config) { c.IdleTimeout, c.MaxConnections = 10*time.Second, 5 }
	x.start(1)
	x.on("app", func(p *program) {
		var conns []*client.Conn
		for range 5 {
			c, err := client.Dial(p.m, "b1:9092", client.Config{})
			require.NoError(t, err)
			conns = append(conns, c)
		}
		_, err := client.Dial(p.m, "b1:9092", client.Config{})
		require.Error(t, err, "one too many")
		for range 30 { // this one is not idle
			_, err := conns[0].Request(kmsg.NewPtrMetadataRequest())
			require.NoError(t, err)
			p.m.Sleep(time.Second)
		}
		require.NoError(t, conns[0].Err())
		for _, c := range conns[1:] {
			require.Error(t, c.Err())
		}
	})
}

// TestStopAnswersWhatIsUnderWay: a long poll ends, a produce request that waits for its flush is answered.
func TestStopAnswersWhatIsUnderWay(t *testing.T) {
	x := newWorld(t, 14)
	x.bootCoord()
	b := x.boot(1)
	x.run(time.Second)
	x.on("setup", func(p *program) { p.create("t", 1) })
	var polled, produced error
	reader := x.spawn("reader", func(p *program) {
		_, polled = p.fetch("t", 0, 0, longPoll(time.Hour, 1<<19))
	})
	x.run(time.Second)
	require.NoError(t, x.hosts[1].Disk().Inject(disk.Fault{ID: "slow", Kind: disk.Slow, Ops: disk.OpSync, Delay: 500 * time.Millisecond}))
	writer := x.spawn("writer", func(p *program) {
		_, produced = p.send("t", 0, -1, "last")
	})
	x.run(100 * time.Millisecond)
	require.NoError(t, x.stop(b))
	x.run(time.Second)
	require.True(t, *reader)
	require.True(t, *writer)
	require.NoError(t, polled)
	require.NoError(t, produced)
}
