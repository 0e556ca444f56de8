package broker_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// A leader tells where the epochs before its own end, and nothing to who believes in another leader.
func TestWhereLeaderEpochsEnd(t *testing.T) {
	x := newWorld(t, 40)
	x.start(3)
	state := func(p *program) (leader, epoch int32) {
		conn, err := p.cluster.Any()
		require.NoError(t, err)
		resp, err := conn.Request(kmsg.NewPtrMetadataRequest())
		require.NoError(t, err)
		at := resp.(*kmsg.MetadataResponse).Topics[0].Partitions[0]
		return at.Leader, at.LeaderEpoch
	}
	var leader, first, second int32
	x.on("before", func(p *program) {
		require.NoError(t, p.cluster.CreateTopic("t", 1, 3))
		p.mustSend("t", 0, -1, "a", "b", "c")
		leader, first = state(p)
	})
	x.hosts[int(leader)].Crash()
	x.run(20 * time.Second) // its session ends, another broker leads
	x.on("after", func(p *program) {
		p.mustSend("t", 0, -1, "d", "e")
		_, second = state(p)
		require.Greater(t, second, first)
		conn, err := p.leader("t", 0)
		require.NoError(t, err)
		ask := func(topic string, partition, current, of int32) (code int16, epoch int32, end int64) {
			rt := kmsg.NewOffsetForLeaderEpochRequestTopic()
			rt.Topic = topic
			rp := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
			rp.Partition, rp.CurrentLeaderEpoch, rp.LeaderEpoch = partition, current, of
			rt.Partitions = append(rt.Partitions, rp)
			req := kmsg.NewPtrOffsetForLeaderEpochRequest()
			req.ReplicaID, req.Topics = -1, append(req.Topics, rt)
			resp, err := conn.Request(req)
			require.NoError(t, err)
			a := resp.(*kmsg.OffsetForLeaderEpochResponse).Topics[0].Partitions[0]
			require.Equal(t, partition, a.Partition)
			return a.ErrorCode, a.LeaderEpoch, a.EndOffset
		}
		for _, q := range []struct {
			current, of int32
			code        int16
			epoch       int32
			end         int64
		}{
			{-1, first, 0, first, 3},
			{second, second - 1, 0, first, 3}, // the largest that is not above it
			{second, second, 0, second, 5},
			{second, second + 1, 0, -1, -1},
			{second, -1, 0, -1, -1},
			{first, first, kerr.FencedLeaderEpoch.Code, -1, -1},
			{second + 1, first, kerr.UnknownLeaderEpoch.Code, -1, -1},
		} {
			code, epoch, end := ask("t", 0, q.current, q.of)
			require.Equal(t, q.code, code, "%+v", q)
			require.Equal(t, q.epoch, epoch, "%+v", q)
			require.Equal(t, q.end, end, "%+v", q)
		}
		code, _, _ := ask("t", 1, -1, 0)
		require.Equal(t, kerr.UnknownTopicOrPartition.Code, code)
		code, _, _ = ask("none", 0, -1, 0)
		require.Equal(t, kerr.UnknownTopicOrPartition.Code, code)
	})
}
