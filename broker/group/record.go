package group

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Record is a record of the offsets topic, in Kafka's own formats.
type Record struct {
	Key   []byte
	Value []byte // nil: a tombstone
}

// Versions that current Kafka writes.
const (
	offsetKeyVersion           = 1
	offsetValueVersion         = 4 // with the topic's id
	offsetValueOldVersion      = 3 // without
	offsetValueExpiringVersion = 1 // the only one that has an expiry of its own
	groupKeyVersion            = 2
	groupValueVersion          = 3

	newestOffsetValue = 4 // that can be read
	newestGroupValue  = 4
)

// ErrMalformed is a record that does not decode.
var ErrMalformed = errors.New("malformed record of the offsets topic")

func offsetKey(group string, p partition) []byte {
	k := kmsg.NewOffsetCommitKey()
	k.Version, k.Group, k.Topic, k.Partition = offsetKeyVersion, group, p.topic, p.n
	return k.AppendTo(nil)
}

func offsetRecord(group string, p partition, at *committed) Record {
	v := kmsg.NewOffsetCommitValue()
	v.Version, v.Offset, v.LeaderEpoch, v.Metadata, v.CommitTimestamp = offsetValueVersion, at.offset, at.epoch, at.metadata, at.time
	v.TopicID = at.topic
	if at.topic == (TopicID{}) {
		v.Version = offsetValueOldVersion
	}
	if at.expires >= 0 {
		v.Version, v.ExpireTimestamp = offsetValueExpiringVersion, at.expires
	}
	return Record{offsetKey(group, p), v.AppendTo(nil)}
}

func (g *group) tombstones(gone []partition) []Record {
	var records []Record
	for _, p := range gone {
		records = append(records, Record{Key: offsetKey(g.id, p)})
	}
	return records
}

func (g *group) tombstone() Record {
	k := kmsg.NewGroupMetadataKey()
	k.Version, k.Group = groupKeyVersion, g.id
	return Record{Key: k.AppendTo(nil)}
}

// record is the group as it is, since wall, with the assignments that assignment gives its members.
func (g *group) record(wall int64, assignment func(*member) []byte) Record {
	v := kmsg.NewGroupMetadataValue()
	v.Version, v.ProtocolType, v.Generation, v.CurrentStateTimestamp = groupValueVersion, g.protocolType, g.generation, wall
	if g.protocol != "" {
		v.Protocol = kmsg.StringPtr(g.protocol)
	}
	if g.leader != "" {
		v.Leader = kmsg.StringPtr(g.leader)
	}
	for _, m := range g.members {
		v.Members = append(v.Members, kmsg.GroupMetadataValueMember{
			MemberID: m.id, InstanceID: m.instance, ClientID: m.client.ID, ClientHost: m.client.Host,
			RebalanceTimeoutMillis: int32(m.rebalance.Milliseconds()), SessionTimeoutMillis: int32(m.session.Milliseconds()),
			Subscription: m.metadata(g.protocol), Assignment: assignment(m),
		})
	}
	return Record{g.tombstone().Key, v.AppendTo(nil)}
}

// Entry is what a record of the offsets topic says: about an offset when Topic is not empty, else about the group itself.
type Entry struct {
	Group     string
	Topic     string
	Partition int32
	Offset    *kmsg.OffsetCommitValue  // nil: forgotten, or not about an offset
	Metadata  *kmsg.GroupMetadataValue // nil: deleted, or not about the group
}

// Decode reads a record, of which the entry keeps the bytes. known is false for one whose key is of a kind that this package doesn't use, which is no error: newer coordinators write others. Error: ErrMalformed.
func Decode(r Record) (e Entry, known bool, err error) {
	if len(r.Key) < 2 {
		return e, false, fmt.Errorf("%w: key of %d bytes", ErrMalformed, len(r.Key))
	}
	switch version := int16(binary.BigEndian.Uint16(r.Key)); version {
	case 0, offsetKeyVersion:
		k := kmsg.NewOffsetCommitKey()
		if err := k.ReadFrom(r.Key); err != nil {
			return e, false, fmt.Errorf("%w: key of an offset: %w", ErrMalformed, err)
		}
		if k.Topic == "" {
			return e, false, fmt.Errorf("%w: offset of group %q in no topic", ErrMalformed, k.Group)
		}
		e.Group, e.Topic, e.Partition = k.Group, k.Topic, k.Partition
		if r.Value != nil {
			v := kmsg.NewOffsetCommitValue()
			if err := v.ReadFrom(r.Value); err != nil || v.Version < 0 || v.Version > newestOffsetValue {
				return e, false, fmt.Errorf("%w: offset of group %q in %s/%d, version %d, %d bytes", ErrMalformed, k.Group, k.Topic, k.Partition, v.Version, len(r.Value))
			}
			e.Offset = &v
		}
	case groupKeyVersion:
		k := kmsg.NewGroupMetadataKey()
		if err := k.ReadFrom(r.Key); err != nil {
			return e, false, fmt.Errorf("%w: key of a group: %w", ErrMalformed, err)
		}
		e.Group = k.Group
		if r.Value != nil {
			v := kmsg.NewGroupMetadataValue()
			if err := v.ReadFrom(r.Value); err != nil || v.Version < 0 || v.Version > newestGroupValue {
				return e, false, fmt.Errorf("%w: metadata of group %q, version %d, %d bytes", ErrMalformed, k.Group, v.Version, len(r.Value))
			}
			e.Metadata = &v
		}
	default:
		return e, false, nil
	}
	return e, true, nil
}
