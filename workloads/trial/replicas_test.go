package trial_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"faultline/workloads/history"
	"faultline/workloads/scenario"
	"faultline/workloads/trial"
)

// fate is what became of each acknowledged record.
type fate struct {
	acked, processed map[history.ID]bool
}

func (f *fate) Observe(e *history.Event) {
	switch e.Kind {
	case history.Acked:
		f.acked[e.ID] = true
	case history.Processed:
		f.processed[e.ID] = true
	}
}

// Row R18, a control: a leader that only its producers still reach acknowledges with acks=1 what no other replica gets. When another one leads these records are gone, and that is no
// violation. With acks=all, in the same run of events, nothing is gone.
func TestLossWithAcksOneInALeaderMoveIsNoAlarm(t *testing.T) {
	for acks, loses := range map[string]bool{"1": true, "all": false} {
		sc, err := scenario.Parse("test.yaml", []byte(`
name: test
topology:
  brokers: {count: 3, session_timeout: 1s, replica_lag: 500ms}
  topics: [{name: visits, partitions: 3, replicas: 3, min_isr: 2}]
  producers: [{acks: "`+acks+`", retry_backoff: 50ms, request_timeout: 1s}]
  groups: [{name: readers, session_timeout: 1s}]
workload: {rate: 100/s, duration: 6s}
faults:
  - {at: 1s, fault: partition, target: broker-1, peer: "broker-2, broker-3, coord-*", for: 3s}
`))
		require.NoError(t, err)
		lost := 0
		for seed := range uint64(3) {
			f := &fate{acked: map[history.ID]bool{}, processed: map[history.ID]bool{}}
			res := trial.Run(sc, seed, trial.Options{Observe: []history.Observer{f}})
			require.Equal(t, trial.Pass, res.Verdict, "acks=%s, seed %d: %v %v", acks, seed, res.Violations, res.Unjudged)
			for id := range f.acked {
				if !f.processed[id] {
					lost++
				}
			}
		}
		require.Equal(t, loses, lost > 0, "acks=%s: %d records", acks, lost)
	}
}
