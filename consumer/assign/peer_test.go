package assign_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"

	"faultline/consumer/assign"
)

// peer asks the balancer of another Kafka client, which gets its members and gives its plan in the bytes of the wire.
func peer(t *rapid.T, b kgo.GroupBalancer, a *assign.Assignor, g group) assign.Plan {
	var joined []kmsg.JoinGroupResponseMember
	for _, m := range g.members {
		j := kmsg.JoinGroupResponseMember{MemberID: m.ID, ProtocolMetadata: a.Metadata(m)}
		if m.Instance != "" {
			j.InstanceID = kmsg.StringPtr(m.Instance)
		}
		joined = append(joined, j)
	}
	read, err := a.Members(joined)
	require.NoError(t, err)
	slices.SortFunc(joined, func(a, b kmsg.JoinGroupResponseMember) int { // as that client does before it asks the balancer
		x, y := a.InstanceID, b.InstanceID
		switch {
		case x != nil && y != nil:
			return strings.Compare(*x, *y)
		case x != nil:
			return -1
		case y != nil:
			return 1
		}
		return strings.Compare(a.MemberID, b.MemberID)
	})
	m, _, err := b.MemberBalancer(joined)
	require.NoError(t, err)
	counts := map[string]int32{}
	for _, topic := range assign.Topics(read) { // it wants no others
		if g.counts[topic] > 0 {
			counts[topic] = g.counts[topic]
		}
	}
	var plan assign.Plan
	balanced, err := m.(kgo.GroupMemberBalancerOrError).BalanceOrError(counts)
	require.NoError(t, err)
	for _, s := range balanced.IntoSyncAssignment() {
		got, err := assign.ParseAssignment(s.MemberAssignment)
		require.NoError(t, err)
		plan = append(plan, assign.Share{Member: s.MemberID, Partitions: got})
	}
	for _, m := range g.members {
		if !slices.ContainsFunc(plan, func(s assign.Share) bool { return s.Member == m.ID }) {
			plan = append(plan, assign.Share{Member: m.ID})
		}
	}
	slices.SortFunc(plan, func(a, b assign.Share) int { return strings.Compare(a.Member, b.Member) })
	return plan
}

func TestRangeAndRoundRobinEqualThePeer(t *testing.T) {
	for a, b := range map[*assign.Assignor]kgo.GroupBalancer{assign.Range: kgo.RangeBalancer(), assign.RoundRobin: kgo.RoundRobinBalancer()} {
		t.Run(a.Name(), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				g := draw(t, false)
				require.Equal(t, print(peer(t, b, a, g)), print(a.Assign(g.members, g.counts)))
			})
		})
	}
}

func TestStickyIsAsGoodAsThePeer(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := draw(t, false)
		g.apart()
		ours, theirs := assign.Sticky.Assign(g.members, g.counts), peer(t, kgo.StickyBalancer(), assign.Sticky, g)
		require.Equal(t, loads(theirs), loads(ours))
		require.GreaterOrEqual(t, g.kept(owners(t, ours)), g.kept(owners(t, theirs)))
	})
}
