package trial_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"faultline/workloads/scenario"
	"faultline/workloads/trial"
)

// A leader that takes a state of its partition fences the log first, which may take a while. When the answer to its own next change of the in-sync replicas came meanwhile, it went back to the state before:
// it committed without a replica that the registry listed as in sync. The smallest case of isr-shrink's seed 38.
func TestLeaderDoesNotGoBackToAStateThatItsOwnChangeOvertook(t *testing.T) {
	sc, err := scenario.Parse("test.yaml", []byte(`
name: test
topology:
  brokers: {count: 2, session_timeout: 4s, replica_lag: 200ms}
  topics: [{name: visits, partitions: 1, replicas: 2}]
  producers: [{acks: "1"}]
  groups: [{name: readers, consumers: 1}]
workload: {rate: 500/s, duration: 5s}
faults:
  - {at: 1s, fault: partition, target: broker-1, peer: broker-2, for: 400ms, every: 600ms, until: 5s}
  - {at: 500ms, fault: misfortune, place: fault/broker/role-slow, probability: 100%, latency: 300ms, for: 5s}
  - {at: 500ms, fault: reset-connections, target: broker-*, peer: coord-1, every: 30ms, until: 5s}
`))
	require.NoError(t, err)
	for seed := range uint64(10) {
		res := trial.Run(sc, seed, trial.Options{})
		require.Equal(t, trial.Pass, res.Verdict, "seed %d: %v %v", seed, res.Violations, res.Unjudged)
	}
}
