package assign_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"faultline/consumer/assign"
)

// FuzzParse: bytes of another client are a member whose metadata reads back as the same, or an error.
func FuzzParse(f *testing.F) {
	m := assign.Member{ID: "m", Topics: []string{"b", "a"}, Owned: []assign.Partition{{Topic: "a", Partition: 1}, {Topic: "a", Partition: 0}}, Generation: 7}
	for _, a := range assign.All() {
		f.Add(a.Metadata(m))
	}
	f.Add([]byte{0, 0, 0, 0, 0, 0, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, a := range assign.All() {
			first, err := a.Parse("m", "", b)
			if err != nil {
				require.ErrorIs(t, err, assign.ErrMalformed)
				continue
			}
			second, err := a.Parse("m", "", a.Metadata(first))
			require.NoError(t, err)
			require.Subset(t, first.Topics, second.Topics)
			require.Subset(t, first.Owned, second.Owned)
			require.Equal(t, a.Metadata(first), a.Metadata(second))
		}
	})
}

func FuzzParseAssignment(f *testing.F) {
	plan := assign.Range.Assign([]assign.Member{{ID: "m", Topics: []string{"a", "b"}}}, map[string]int32{"a": 2, "b": 1})
	f.Add(plan.Encode()[0].MemberAssignment)
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		first, err := assign.ParseAssignment(b)
		if err != nil {
			require.ErrorIs(t, err, assign.ErrMalformed)
			return
		}
		second, err := assign.ParseAssignment(assign.Plan{{Member: "m", Partitions: first}}.Encode()[0].MemberAssignment)
		require.NoError(t, err)
		require.Equal(t, len(first), len(second))
	})
}
