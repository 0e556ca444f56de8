package consumer

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

func sample() *membership {
	return &membership{
		brokers: []brokerState{{"0", "b0:9092", 10}, {"2", "b2:9092", 11}},
		topics: []topicState{
			{"t", "id-t", []placement{{0, "0"}, {1, "1"}, {2, "2"}, {3, "0"}}},
			{"u", "id-u", []placement{{0, "2"}}},
		},
		members: []peer{{"a", []subscribed{{"t", 2}}}, {"b", []subscribed{{"t", 1}, {"u", 1}}}},
	}
}

// Partitions of brokers that are away are not divided, and each topic is divided among those who subscribe to it.
func TestDivideAvailablePartitions(t *testing.T) {
	m := sample()
	show := func(id string) string {
		out := ""
		for _, k := range m.divide(id) {
			out += fmt.Sprintf("%s/%d->%d@%s ", k.topic, k.partition, k.stream, k.broker.addr)
		}
		return out
	}
	require.Equal(t, "t/0->0@b0:9092 t/2->1@b2:9092 ", show("a"))
	require.Equal(t, "t/3->0@b0:9092 u/0->0@b2:9092 ", show("b"))
	require.Empty(t, show("nobody"))
}

// Every change that matters asks for a rebalance; a failed attempt, which leaves nothing behind, matches nothing.
func TestMembershipNoticesEveryChange(t *testing.T) {
	require.True(t, sample().equal(sample()))
	var none *membership
	require.False(t, none.equal(sample()))
	for i, change := range []func(m *membership){
		func(m *membership) { m.brokers = m.brokers[:1] },
		func(m *membership) { m.brokers[0].czxid++ }, // the broker was away and came back
		func(m *membership) { m.brokers[0].addr = "b9:9092" },
		func(m *membership) { m.topics[0].parts = append(m.topics[0].parts, placement{4, "0"}) },
		func(m *membership) { m.topics[0].parts[1].leader = "2" },
		func(m *membership) { m.topics[1].id = "another" },
		func(m *membership) { m.members = m.members[1:] },
		func(m *membership) { m.members[0].topics[0].streams++ },
	} {
		m := sample()
		change(m)
		require.False(t, sample().equal(m), i)
	}
}
