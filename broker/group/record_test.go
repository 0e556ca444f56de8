package group_test

import (
	"encoding/hex"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"faultline/broker/group"
)

// The bytes are those that Kafka writes: a change of them loses the groups of every cluster that has some.
func TestRecordsAreKafkas(t *testing.T) {
	c := group.New(group.Defaults(func() string { return "u" }))
	c.Loaded(group.Time{Up: time.Second, Wall: 258})
	r := kmsg.NewPtrOffsetCommitRequest()
	r.Version, r.Group, r.Generation = 8, "gr", -1
	at := kmsg.NewOffsetCommitRequestTopicPartition()
	at.Partition, at.Offset, at.LeaderEpoch, at.Metadata = 3, 7, 2, kmsg.StringPtr("m")
	r.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: "top", Partitions: []kmsg.OffsetCommitRequestTopicPartition{at}}}
	c.Commit(group.Time{Up: time.Second, Wall: 258}, 1, r)
	e := c.Effects()
	require.Len(t, e, 1)
	require.Equal(t, "0001"+"00026772"+"0003746f70"+"00000003", hex.EncodeToString(e[0].Records[0].Key))
	require.Equal(t, "0003"+"0000000000000007"+"00000002"+"00016d"+"0000000000000102", hex.EncodeToString(e[0].Records[0].Value))
}

func TestUnknownKindsOfRecordsArePassedOver(t *testing.T) {
	c := group.New(group.Defaults(nil))
	require.NoError(t, c.Load(group.Record{Key: []byte{0, 9, 1, 2, 3}, Value: []byte{1}}))
	require.ErrorIs(t, c.Load(group.Record{Key: []byte{0, 1, 0}}), group.ErrMalformed)
	require.ErrorIs(t, c.Load(group.Record{Key: []byte{7}}), group.ErrMalformed)
	c.Loaded(group.Time{})
	groups, code := c.List(nil, nil)
	require.Zero(t, code)
	require.Empty(t, groups)
}

// The hashes are Java's of these strings.
func TestPartitionOf(t *testing.T) {
	require.EqualValues(t, 97, group.PartitionOf("a", 1000))
	require.EqualValues(t, 96354%50, group.PartitionOf("abc", 50))
	require.EqualValues(t, 0, group.PartitionOf("polygenelubricants", 50), "its hash is the least number")
	require.EqualValues(t, (55357*31+56832)%50, group.PartitionOf("😀", 50), "two units of UTF-16")
}

// What the coordinator keeps of a request must not be its buffer, which the connection uses again.
func TestNothingOfARequestsBufferIsKept(t *testing.T) {
	cfg := group.Defaults(func() string { return "u" })
	cfg.InitialDelay = 0
	c := group.New(cfg)
	now := group.Time{Up: time.Second}
	c.Loaded(now)
	join := kmsg.NewPtrJoinGroupRequest()
	join.Version, join.Group, join.SessionTimeoutMillis, join.ProtocolType = 3, "g", 10_000, "consumer"
	buffer := []byte("said")
	join.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: buffer}}
	c.Join(now, 1, group.Client{ID: "c"}, join)
	copy(buffer, "XXXX")
	sync := kmsg.NewPtrSyncGroupRequest()
	sync.Group, sync.MemberID, sync.Generation = "g", "c-u", 1
	given := []byte("gave")
	sync.GroupAssignment = []kmsg.SyncGroupRequestGroupAssignment{{MemberID: "c-u", MemberAssignment: given}}
	c.Sync(now, 2, sync)
	copy(given, "XXXX")
	e := c.Effects()
	last := e[len(e)-1]
	require.Equal(t, group.Append, last.Kind)
	c.Appended(now, last.Token, true)
	d := c.Describe("g")
	require.Equal(t, "said", string(d.Members[0].ProtocolMetadata))
	require.Equal(t, "gave", string(d.Members[0].MemberAssignment))

	next := group.New(cfg)
	value := append([]byte{}, last.Records[0].Value...)
	require.NoError(t, next.Load(group.Record{Key: last.Records[0].Key, Value: value}))
	clear(value)
	next.Loaded(now)
	require.Equal(t, d, next.Describe("g"))
}
