package assign

import (
	"errors"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg" // encoders and decoders of generated code: no goroutine, clock, randomness or map
)

// ProtocolType is the type of group that the assignors of this package serve.
const ProtocolType = "consumer"

// ErrMalformed is a metadata or an assignment that does not decode.
var ErrMalformed = errors.New("malformed consumer protocol message")

// where says in which part of its metadata a member claims partitions. It depends on the assignor, as in Kafka.
type where int

const (
	nowhere    where = iota
	inUserData       // Sticky: in the assignor's own user data, since the partitions were given up before joining
	inMetadata       // CooperativeSticky: among the owned partitions of the consumer protocol
)

const (
	metadataVersion = 3 // with owned partitions (KIP-429), generation (KIP-792) and rack
	// All versions of an assignment are alike; the first is understood by all.
	assignmentVersion = 0
)

// Metadata is what a member sends with JoinGroup for this assignor. The same member makes the same bytes, in whatever order its topics and
// partitions are, so that the coordinator does not see a change where there is none.
func (a *Assignor) Metadata(m Member) []byte {
	meta := kmsg.NewConsumerMemberMetadata()
	meta.Version = metadataVersion
	meta.Topics = slices.Clone(m.Topics)
	slices.Sort(meta.Topics)
	meta.Topics = slices.Compact(meta.Topics)
	meta.Generation = m.Generation
	switch a.claims {
	case inMetadata:
		byTopic(m.Owned, func(topic string, partitions []int32) {
			meta.OwnedPartitions = append(meta.OwnedPartitions, kmsg.ConsumerMemberMetadataOwnedPartition{Topic: topic, Partitions: partitions})
		})
	case inUserData:
		user := kmsg.NewStickyMemberMetadata()
		user.Generation = m.Generation
		byTopic(m.Owned, func(topic string, partitions []int32) {
			user.CurrentAssignment = append(user.CurrentAssignment, kmsg.StickyMemberMetadataCurrentAssignment{Topic: topic, Partitions: partitions})
		})
		meta.UserData = user.AppendTo(nil)
	}
	return meta.AppendTo(nil)
}

// Parse reads the metadata of a member that joined with this assignor, written by this package or by another client. Instance is empty for a
// dynamic member. Versions above the known one are read as far as they are known. Sticky user data that does
// not decode claims nothing. Error: ErrMalformed.
func (a *Assignor) Parse(id, instance string, metadata []byte) (Member, error) {
	meta := kmsg.NewConsumerMemberMetadata()
	if err := meta.ReadFrom(metadata); err != nil || meta.Version < 0 {
		return Member{}, fmt.Errorf("%w: metadata of member %q for %s, %d bytes", ErrMalformed, id, a.name, len(metadata))
	}
	m := Member{ID: id, Instance: instance, Topics: meta.Topics, Generation: meta.Generation}
	switch a.claims {
	case inMetadata:
		for i := range meta.OwnedPartitions {
			m.own(meta.OwnedPartitions[i].Topic, meta.OwnedPartitions[i].Partitions)
		}
	case inUserData:
		m.Generation = -1
		user := kmsg.NewStickyMemberMetadata()
		if len(meta.UserData) == 0 || user.ReadFrom(meta.UserData) != nil {
			break // a member that never had anything, or whose user data is of another kind: what it had is not known
		}
		m.Generation = user.Generation
		for i := range user.CurrentAssignment {
			m.own(user.CurrentAssignment[i].Topic, user.CurrentAssignment[i].Partitions)
		}
	}
	return m, nil
}

func (m *Member) own(topic string, partitions []int32) {
	for _, p := range partitions {
		m.Owned = append(m.Owned, Partition{topic, p})
	}
}

// Members reads the members that JoinGroup told the leader of.
func (a *Assignor) Members(joined []kmsg.JoinGroupResponseMember) ([]Member, error) {
	members := make([]Member, 0, len(joined))
	for i := range joined {
		var instance string
		if joined[i].InstanceID != nil {
			instance = *joined[i].InstanceID
		}
		m, err := a.Parse(joined[i].MemberID, instance, joined[i].ProtocolMetadata)
		if err != nil {
			return nil, err
		}
		members = append(members, m)
	}
	return members, nil
}

// Topics are the topics that somebody subscribes to, sorted: those whose partition counts Assign needs.
func Topics(members []Member) []string {
	var topics []string
	for i := range members {
		topics = append(topics, members[i].Topics...)
	}
	slices.Sort(topics)
	return slices.Compact(topics)
}

// Encode is the plan as the leader sends it with SyncGroup.
func (p Plan) Encode() []kmsg.SyncGroupRequestGroupAssignment {
	out := make([]kmsg.SyncGroupRequestGroupAssignment, 0, len(p))
	for _, s := range p {
		a := kmsg.NewConsumerMemberAssignment()
		a.Version = assignmentVersion
		byTopic(s.Partitions, func(topic string, partitions []int32) {
			a.Topics = append(a.Topics, kmsg.ConsumerMemberAssignmentTopic{Topic: topic, Partitions: partitions})
		})
		g := kmsg.NewSyncGroupRequestGroupAssignment()
		g.MemberID, g.MemberAssignment = s.Member, a.AppendTo(nil)
		out = append(out, g)
	}
	return out
}

// ParseAssignment reads what SyncGroup gave a member, sorted. Nothing at all (the leader did not know of the member) is no partition. Error: ErrMalformed.
func ParseAssignment(b []byte) ([]Partition, error) {
	if len(b) == 0 {
		return nil, nil
	}
	a := kmsg.NewConsumerMemberAssignment()
	if err := a.ReadFrom(b); err != nil || a.Version < 0 {
		return nil, fmt.Errorf("%w: assignment of %d bytes", ErrMalformed, len(b))
	}
	var m Member
	for i := range a.Topics {
		m.own(a.Topics[i].Topic, a.Topics[i].Partitions)
	}
	return sorted(m.Owned), nil
}

func sorted(partitions []Partition) []Partition {
	s := slices.Clone(partitions)
	slices.SortFunc(s, Partition.Compare)
	return slices.Compact(s)
}

// byTopic calls f for each topic, in order, with its partitions, in order.
func byTopic(partitions []Partition, f func(topic string, partitions []int32)) {
	s := sorted(partitions)
	for len(s) > 0 {
		topic := s[0].Topic
		n := slices.IndexFunc(s, func(p Partition) bool { return p.Topic != topic })
		if n < 0 {
			n = len(s)
		}
		numbers := make([]int32, n)
		for i := range numbers {
			numbers[i] = s[i].Partition
		}
		f(topic, numbers)
		s = s[n:]
	}
}
