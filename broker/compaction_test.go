package broker_test

import (
	"strings"
	"testing"
	"time"

	"faultline/broker"
	"faultline/broker/client"
	"faultline/broker/record"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// sizeOf is the bytes of a partition's segments on a broker's disk.
func (x *world) sizeOf(id int, partition string) (n int64) {
	for _, f := range x.hosts[id].Disk().Files() {
		if strings.Contains(f.Path, "/"+partition+"/") && strings.HasSuffix(f.Path, ".log") {
			n += f.Size
		}
	}
	return n
}

// commitRequest commits an offset for a group without members.
func commitRequest(group string, offset int64) *kmsg.OffsetCommitRequest {
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group, req.Generation = group, -1
	rt := kmsg.NewOffsetCommitRequestTopic()
	rt.Topic = "visits"
	rp := kmsg.NewOffsetCommitRequestTopicPartition()
	rp.Offset = offset
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	return req
}

func (p *program) commit(group string, offset int64) {
	resp := p.coordinator(group, commitRequest(group, offset)).(*kmsg.OffsetCommitResponse)
	require.NoError(p.t, kerr.ErrorForCode(resp.Topics[0].Partitions[0].ErrorCode))
}

// committed is the offset that a group committed.
func (p *program) committed(group string) int64 {
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Group = group
	rt := kmsg.NewOffsetFetchRequestTopic()
	rt.Topic, rt.Partitions = "visits", []int32{0}
	req.Topics = append(req.Topics, rt)
	rg := kmsg.NewOffsetFetchRequestGroup()
	rg.Group = group
	rgt := kmsg.NewOffsetFetchRequestGroupTopic()
	rgt.Topic, rgt.Partitions = "visits", []int32{0}
	rg.Topics = append(rg.Topics, rgt)
	req.Groups = append(req.Groups, rg)
	resp := p.coordinator(group, req).(*kmsg.OffsetFetchResponse)
	if len(resp.Groups) > 0 {
		return resp.Groups[0].Topics[0].Partitions[0].Offset
	}
	return resp.Topics[0].Partitions[0].Offset
}

// coordinator sends a request to the only broker until its answer is no passing error.
func (p *program) coordinator(group string, req kmsg.Request) kmsg.Response {
	for range 200 {
		find := kmsg.NewPtrFindCoordinatorRequest()
		find.CoordinatorKey, find.CoordinatorKeys = group, []string{group}
		conn, err := p.cluster.Any()
		if err == nil {
			_, err = conn.Request(find)
		}
		var resp kmsg.Response
		if err == nil {
			resp, err = conn.Request(req)
		}
		passing := err != nil
		switch r := resp.(type) {
		case *kmsg.OffsetCommitResponse:
			passing = passing || kerr.IsRetriable(kerr.ErrorForCode(r.Topics[0].Partitions[0].ErrorCode))
		case *kmsg.OffsetFetchResponse:
			passing = passing || kerr.IsRetriable(kerr.ErrorForCode(r.ErrorCode)) || len(r.Groups) > 0 && kerr.IsRetriable(kerr.ErrorForCode(r.Groups[0].ErrorCode))
		}
		if !passing {
			return resp
		}
		p.m.Sleep(100 * time.Millisecond)
	}
	require.Fail(p.t, "the coordinator does not answer")
	return nil
}

// The offsets log of a group that commits again and again stays small, and whoever loads it finds the last commit.
func TestCommittedOffsetsAreCompacted(t *testing.T) {
	x := newWorld(t, 1)
	x.config = func(c *broker.Config) {
		c.OffsetsPartitions, c.OffsetsSegmentBytes, c.RetentionInterval = 1, 4<<10, time.Second
	}
	x.start(1)
	x.on("app", func(p *program) {
		p.create("visits", 1)
		for i := range int64(2000) {
			p.commit("readers", i)
		}
		p.commit("others", 7)
		require.EqualValues(t, 1999, p.committed("readers"))
	})
	x.run(2 * time.Second)
	require.Less(t, x.sizeOf(1, "__consumer_offsets-0"), int64(12<<10))
	x.hosts[1].PowerLoss()
	x.boot(1)
	x.run(2 * time.Second)
	x.on("app2", func(p *program) {
		require.EqualValues(t, 1999, p.committed("readers"))
		require.EqualValues(t, 7, p.committed("others"))
	})
}

// Records without a key cannot be compacted; the others are, and followers of a leader that compacts do so by themselves.
func TestCompactedTopic(t *testing.T) {
	x := newWorld(t, 1)
	x.config = func(c *broker.Config) { c.RetentionInterval = 500 * time.Millisecond }
	x.start(3)
	x.on("app", func(p *program) {
		require.NoError(t, p.cluster.CreateTopic("table", 1, 3, client.Setting{Name: "cleanup.policy", Value: "compact"}, client.Setting{Name: "segment.bytes", Value: "2000"},
			client.Setting{Name: "min.cleanable.dirty.ratio", Value: "0.1"}))
		_, err := p.send("table", 0, -1, "no key")
		require.ErrorIs(t, err, kerr.InvalidRecord)
		for i := range 300 {
			var b record.Builder
			b.Reset(record.None)
			b.Add(p.m.Now().UnixMilli(), []byte{'k', byte('0' + i%7)}, []byte(strings.Repeat("v", i)), nil)
			batch, err := b.Finish()
			require.NoError(t, err)
			conn, err := p.leader("table", 0)
			require.NoError(t, err)
			req := produceRequest(p.m.Now(), "table", 0, -1, "x")
			req.Topics[0].Partitions[0].Records = batch
			resp, err := conn.Request(req)
			require.NoError(t, err)
			require.NoError(t, kerr.ErrorForCode(resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode))
		}
		p.m.Sleep(3 * time.Second)
		last := map[string]int{}
		for at := int64(0); at < 300; {
			got, err := p.fetch("table", 0, at)
			require.NoError(t, err)
			for _, kv := range got.keyed {
				last[kv[0]] = len(kv[1])
			}
			at = max(at, got.next)
		}
		require.Equal(t, map[string]int{"k0": 294, "k1": 295, "k2": 296, "k3": 297, "k4": 298, "k5": 299, "k6": 293}, last)
	})
	for id := 1; id <= 3; id++ {
		require.Less(t, x.sizeOf(id, "table-0"), int64(8000))
	}
}
