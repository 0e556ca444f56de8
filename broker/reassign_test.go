package broker_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func reassignment(topic string, partition int32, replicas ...int32) *kmsg.AlterPartitionAssignmentsRequest {
	req := kmsg.NewPtrAlterPartitionAssignmentsRequest()
	req.TimeoutMillis = 10_000
	rt := kmsg.NewAlterPartitionAssignmentsRequestTopic()
	rt.Topic = topic
	rp := kmsg.NewAlterPartitionAssignmentsRequestTopicPartition()
	rp.Partition, rp.Replicas = partition, replicas
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	return req
}

// ask sends a request to any broker.
func ask[Resp kmsg.Response](p *program, req kmsg.Request) Resp {
	conn, err := p.cluster.Any()
	require.NoError(p.t, err)
	resp, err := conn.Request(req)
	require.NoError(p.t, err)
	return resp.(Resp)
}

// move asks for a reassignment and returns its code.
func (p *program) move(topic string, partition int32, replicas ...int32) error {
	resp := ask[*kmsg.AlterPartitionAssignmentsResponse](p, reassignment(topic, partition, replicas...))
	return kerr.ErrorForCode(resp.Topics[0].Partitions[0].ErrorCode)
}

// moved waits until nothing is reassigned any more.
func (p *program) moved() {
	for range 200 {
		if resp := ask[*kmsg.ListPartitionReassignmentsResponse](p, kmsg.NewPtrListPartitionReassignmentsRequest()); len(resp.Topics) == 0 {
			return
		}
		p.m.Sleep(100 * time.Millisecond)
	}
	require.Fail(p.t, "the reassignment does not end")
}

// dirs are the partitions of a topic on a broker's disk.
func (x *world) dirs(id int, topic string) (n int) {
	seen := map[string]bool{}
	for _, f := range x.hosts[id].Disk().Files() {
		for _, part := range strings.Split(f.Path, "/") {
			if strings.HasPrefix(part, topic+"-") && !seen[part] {
				seen[part] = true
				n++
			}
		}
	}
	return n
}

func TestReassignment(t *testing.T) {
	x := newWorld(t, 3)
	x.start(5)
	var want []string
	x.on("app", func(p *program) {
		require.NoError(t, p.cluster.CreateTopic("visits", 1, 3))
		for i := range 20 {
			want = append(want, fmt.Sprint("v", i))
			p.mustSend("visits", 0, -1, want[i])
		}
		require.ErrorIs(t, p.move("visits", 0, 1, 1, 2), kerr.InvalidReplicaAssignment)
		require.ErrorIs(t, p.move("visits", 0, 1, 2, 9), kerr.InvalidReplicaAssignment)
		require.ErrorIs(t, p.move("visits", 7, 1, 2, 3), kerr.UnknownTopicOrPartition)
		require.ErrorIs(t, p.move("visits", 0), kerr.NoReassignmentInProgress)
		require.NoError(t, p.move("visits", 0, 5, 4, 3))
		p.moved()
		want = append(want, "after")
		p.mustSend("visits", 0, -1, "after")
		require.Equal(t, want, p.readAll("visits", 0, 0))
	})
	x.run(2 * time.Second)
	for id := 1; id <= 5; id++ {
		require.Equal(t, map[bool]int{true: 1}[id >= 3], x.dirs(id, "visits"), "broker %d", id)
	}
	// A broker that is to get a replica is away: it goes on when it is back. One that loses its replica is away meanwhile: it drops the log when it is back.
	x.on("app2", func(p *program) { require.NoError(t, p.move("visits", 0, 1, 2)) })
	x.hosts[2].Crash()
	x.hosts[5].Crash()
	x.run(20 * time.Second)
	x.boot(2)
	x.run(5 * time.Second)
	x.boot(5)
	x.run(5 * time.Second)
	x.on("app3", func(p *program) {
		p.moved()
		require.Equal(t, want, p.readAll("visits", 0, 0))
	})
	x.run(2 * time.Second)
	for id := 1; id <= 5; id++ {
		require.Equal(t, map[bool]int{true: 1}[id <= 2], x.dirs(id, "visits"), "broker %d", id)
	}
}

// Topic operations by a real client.
func TestTopicOperationsOnHost(t *testing.T) {
	x := newReal(t, 4)
	cl := x.client(kgo.DefaultProduceTopic("visits"), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	ctx := withTimeout(t)
	req := kmsg.NewPtrCreateTopicsRequest()
	req.TimeoutMillis = 10_000
	rt := kmsg.NewCreateTopicsRequestTopic()
	rt.Topic, rt.NumPartitions, rt.ReplicationFactor = "visits", -1, -1
	rt.ReplicaAssignment = []kmsg.CreateTopicsRequestTopicReplicaAssignment{{Partition: 0, Replicas: []int32{1, 2, 3}}}
	req.Topics = append(req.Topics, rt)
	made, err := req.RequestWith(ctx, cl)
	require.NoError(t, err)
	require.NoError(t, kerr.ErrorForCode(made.Topics[0].ErrorCode))

	more := kmsg.NewPtrCreatePartitionsRequest()
	more.TimeoutMillis = 10_000
	more.Topics = []kmsg.CreatePartitionsRequestTopic{{Topic: "visits", Count: 3}}
	grown, err := more.RequestWith(ctx, cl)
	require.NoError(t, err)
	require.NoError(t, kerr.ErrorForCode(grown.Topics[0].ErrorCode))
	grown, err = more.RequestWith(ctx, cl)
	require.NoError(t, err)
	require.ErrorIs(t, kerr.ErrorForCode(grown.Topics[0].ErrorCode), kerr.InvalidPartitions)
	cl.ForceMetadataRefresh()
	for p := range int32(3) {
		require.NoError(t, cl.ProduceSync(ctx, &kgo.Record{Partition: p, Value: []byte("v")}).FirstErr())
	}

	moved, err := reassignment("visits", 0, 4, 2, 3).RequestWith(ctx, cl)
	require.NoError(t, err)
	require.NoError(t, kerr.ErrorForCode(moved.Topics[0].Partitions[0].ErrorCode))
	require.Eventually(t, func() bool {
		list, err := kmsg.NewPtrListPartitionReassignmentsRequest().RequestWith(ctx, cl)
		return err == nil && len(list.Topics) == 0
	}, 20*time.Second, 50*time.Millisecond)

	elect := kmsg.NewPtrElectLeadersRequest()
	elect.TimeoutMillis = 10_000
	elect.Topics = []kmsg.ElectLeadersRequestTopic{{Topic: "visits", Partitions: []int32{0}}}
	require.Eventually(t, func() bool {
		elected, err := elect.RequestWith(ctx, cl)
		if err != nil || len(elected.Topics) != 1 {
			return false
		}
		err = kerr.ErrorForCode(elected.Topics[0].Partitions[0].ErrorCode)
		return err == nil || err == kerr.ElectionNotNeeded
	}, 20*time.Second, 50*time.Millisecond)
	require.Eventually(t, func() bool {
		meta := kmsg.NewPtrMetadataRequest()
		name := kmsg.NewMetadataRequestTopic()
		name.Topic = kmsg.StringPtr("visits")
		meta.Topics = append(meta.Topics, name)
		got, err := meta.RequestWith(ctx, cl)
		if err != nil || len(got.Topics) != 1 || len(got.Topics[0].Partitions) != 3 {
			return false
		}
		p := got.Topics[0].Partitions[0]
		return p.Partition == 0 && p.Leader == 4 && fmt.Sprint(p.Replicas) == "[4 2 3]"
	}, 20*time.Second, 50*time.Millisecond)
	require.NoError(t, cl.ProduceSync(ctx, &kgo.Record{Partition: 0, Value: []byte("after")}).FirstErr())
}
