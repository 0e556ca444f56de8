package bench

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// What a request costs is told apart from what a record costs only where the two producers differ in their batches.
func TestCalibrationRunsSmallAndLargeBatches(t *testing.T) {
	s, err := ParseSuite("calibrate.yaml", []byte(pathSuite))
	require.NoError(t, err)
	var batches []int64
	for i := range s.Series[:2] {
		c, err := s.Cell(&s.Series[i], "1")
		require.NoError(t, err)
		batches = append(batches, int64(c.Scenario.Topology.Producers[0].BatchRecords.V()))
	}
	require.Equal(t, []int64{1, 500}, batches)
}
