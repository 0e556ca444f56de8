package assign_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"faultline/consumer/assign"
)

// Claims are contested when they are of different generations, whoever is first.
func TestContested(t *testing.T) {
	claim := func(generation int32, partitions ...int32) assign.Member {
		m := assign.Member{Generation: generation}
		for _, p := range partitions {
			m.Owned = append(m.Owned, assign.Partition{Topic: "t", Partition: p})
		}
		return m
	}
	require.False(t, assign.Contested(nil))
	require.False(t, assign.Contested([]assign.Member{claim(3, 0, 1), claim(4, 2), claim(-1)}))
	require.False(t, assign.Contested([]assign.Member{claim(3, 0, 1), claim(3, 1)}), "of one generation: they contradict each other")
	require.True(t, assign.Contested([]assign.Member{claim(3, 0, 1), claim(4, 1)}))
	require.True(t, assign.Contested([]assign.Member{claim(4, 1), claim(3, 0, 1)}))
}
