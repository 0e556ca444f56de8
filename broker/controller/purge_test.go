package controller

import (
	"testing"

	"github.com/stretchr/testify/require"

	"faultline/broker/replica"
)

// Broker 2 lost its tail as an eligible replica, then broker 3 as the only one in sync. Broker 3 leads on, and 2 is eligible no more: the registration that says that 2 lost something must not
// make it whole.
func TestWhoLostItsTailIsNotEligibleAgain(t *testing.T) {
	state := replica.State{Leader: 3, LeaderEpoch: 1, ISR: []replica.Member{{ID: 3, Epoch: 1}}, ELR: []replica.Member{{ID: 2, Epoch: 1}}}
	view := View{
		Brokers: []Broker{{ID: 2, Epoch: 2, CleanSince: 2}, {ID: 3, Epoch: 2, CleanSince: 2}},
		Topics:  []Topic{{Name: "t", LeastISR: 2, Partitions: []Partition{{Replicas: []int32{1, 2, 3}, State: &state}}}},
	}
	writes := view.Decide()
	require.Len(t, writes, 1)
	next := writes[0].State
	require.Equal(t, replica.State{Leader: 3, LeaderEpoch: 2, ISR: []replica.Member{{ID: 3, Epoch: 2}}}, next)

	view.Brokers, view.Topics[0].Partitions[0].State = view.Brokers[:1], &next // and then broker 3 is gone
	writes = view.Decide()
	require.Len(t, writes, 1)
	require.Equal(t, replica.NoLeader, writes[0].State.Leader)
}

// Broker 2, the only one in sync, lost its tail while broker 1, which is eligible, is away. Nobody leads until 1 is back: it does when it kept all that it had, else 2 does.
func TestWhoIsEligibleIsWaitedFor(t *testing.T) {
	state := replica.State{Leader: 2, LeaderEpoch: 2, ISR: []replica.Member{{ID: 2, Epoch: 1}}, ELR: []replica.Member{{ID: 1, Epoch: 1}}}
	view := View{
		Brokers: []Broker{{ID: 2, Epoch: 2, CleanSince: 2}, {ID: 3, Epoch: 2, CleanSince: 2}},
		Topics:  []Topic{{Name: "t", LeastISR: 2, Partitions: []Partition{{Replicas: []int32{1, 2, 3}, State: &state}}}},
	}
	next := func() replica.State {
		writes := view.Decide()
		require.Len(t, writes, 1)
		return writes[0].State
	}
	waits := next()
	require.Equal(t, replica.State{Leader: replica.NoLeader, LeaderEpoch: 3, ISR: state.ISR, ELR: state.ELR}, waits)
	view.Topics[0].Partitions[0].State = &waits
	require.Empty(t, view.Decide())
	others := view.Brokers
	view.Brokers = append([]Broker{{ID: 1, Epoch: 1, CleanSince: 1}}, others...)
	require.Equal(t, replica.State{Leader: 1, LeaderEpoch: 4, ISR: []replica.Member{{ID: 1, Epoch: 1}}}, next())
	view.Brokers = append([]Broker{{ID: 1, Epoch: 2, CleanSince: 2}}, others...)
	require.Equal(t, replica.State{Leader: 2, LeaderEpoch: 4, ISR: []replica.Member{{ID: 2, Epoch: 2}}}, next())
}
