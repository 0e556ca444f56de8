package group_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"faultline/broker/group"
)

// seeds are records that a coordinator wrote.
func seeds(f *testing.F) []group.Record {
	n := 0
	cfg := group.Defaults(func() string { n++; return strconv.Itoa(n) })
	cfg.InitialDelay = 0
	c := group.New(cfg)
	now := group.Time{Up: time.Second, Wall: 1000}
	c.Loaded(now)
	var records []group.Record
	run := func() {
		for _, e := range append([]group.Effect{}, c.Effects()...) {
			if e.Kind == group.Append {
				records = append(records, e.Records...)
				c.Appended(now, e.Token, true)
			}
		}
	}
	commit := kmsg.NewPtrOffsetCommitRequest()
	commit.Version, commit.Group, commit.Generation, commit.RetentionTimeMillis = 4, "g", -1, 60
	commit.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: "t", Partitions: []kmsg.OffsetCommitRequestTopicPartition{{Partition: 1, Offset: 5, Metadata: kmsg.StringPtr("m")}}}}
	c.Commit(now, 1, commit)
	commit.Version = 8
	c.Commit(now, 1, commit)
	run()
	join := kmsg.NewPtrJoinGroupRequest()
	join.Version, join.Group, join.SessionTimeoutMillis, join.ProtocolType, join.InstanceID = 5, "g", 10_000, "consumer", kmsg.StringPtr("i")
	join.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: []byte("what it says")}}
	c.Join(now, 2, group.Client{ID: "c", Host: "/h"}, join)
	sync := kmsg.NewPtrSyncGroupRequest()
	sync.Group, sync.MemberID, sync.Generation = "g", "i-1", 1
	c.Sync(now, 3, sync)
	run()
	c.TopicDeleted(group.Named{Name: "t"})
	leave := kmsg.NewPtrLeaveGroupRequest()
	leave.Group, leave.MemberID = "g", "i-1"
	c.Leave(now, 4, leave)
	c.DeleteGroup(now, 5, "g", 2)
	run()
	require.Len(f, records, 6)
	return records
}

// FuzzRecord: whatever is in the log loads, or is an error; and what was loaded can be worked with.
func FuzzRecord(f *testing.F) {
	for _, r := range seeds(f) {
		f.Add(r.Key, r.Value, r.Value == nil)
	}
	f.Fuzz(func(t *testing.T, key, value []byte, tombstone bool) {
		r := group.Record{Key: key, Value: value}
		if tombstone {
			r.Value = nil
		} else if value == nil {
			r.Value = []byte{}
		}
		e, known, err := group.Decode(r)
		if err != nil {
			require.ErrorIs(t, err, group.ErrMalformed)
		}
		n := 0
		c := group.New(group.Defaults(func() string { n++; return strconv.Itoa(n) }))
		require.Equal(t, err, c.Load(r))
		now := group.Time{Up: time.Hour, Wall: 1 << 40}
		c.Loaded(now)
		if known && e.Group != "" {
			join := kmsg.NewPtrJoinGroupRequest()
			join.Group, join.SessionTimeoutMillis, join.ProtocolType = e.Group, 10_000, "consumer"
			join.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range"}}
			c.Join(now, 1, group.Client{}, join)
			c.Describe(e.Group)
			c.Fetch(&kmsg.OffsetFetchRequestGroup{Group: e.Group})
			for range 20 {
				at, ok := c.Next()
				if !ok {
					break
				}
				now.Up = max(now.Up, at)
				c.Tick(now)
				for _, e := range append([]group.Effect{}, c.Effects()...) {
					if e.Kind == group.Append {
						for _, r := range e.Records {
							_, known, err := group.Decode(r)
							require.NoError(t, err)
							require.True(t, known)
						}
						c.Appended(now, e.Token, true)
					}
				}
			}
		}
		c.Unload()
	})
}
