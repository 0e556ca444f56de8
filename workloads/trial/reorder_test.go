package trial_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"faultline/faults/quantity"
	"faultline/scenarios"
	"faultline/workloads/history"
	"faultline/workloads/trial"
)

// reorders counts acknowledgements that put a record behind one that its producer sent later.
type reorders struct {
	last map[reorderKey]reorderAt
	n    int
}

type reorderKey struct {
	source    int
	topic     string
	partition int32
}

type reorderAt struct{ seq, offset int64 }

func (r *reorders) Observe(e *history.Event) {
	if e.Kind != history.Acked || e.Offset < 0 {
		return
	}
	k := reorderKey{e.ID.Source(), e.Topic, e.Partition}
	was, ok := r.last[k]
	now := reorderAt{e.ID.Seq(), e.Offset}
	if ok && (now.seq > was.seq) != (now.offset > was.offset) {
		r.n++
	}
	if !ok || now.seq > was.seq {
		r.last[k] = now
	}
}

// With several batches in flight a retry may come behind a later batch, unless the producer is idempotent (sarama 2619). Who was not promised order gets no alarm.
func TestSeveralInFlightReorderOnlyWithoutIdempotence(t *testing.T) {
	sc, err := scenarios.Load("idempotent-retry")
	require.NoError(t, err)
	sc.Topology.Producers = sc.Topology.Producers[:1]
	sc.Topology.Producers[0].InFlight = quantity.Just(quantity.Count(5))
	run := func(idempotent string, seed uint64) int {
		s := sc.Clone()
		s.Topology.Producers[0].Idempotent.Options = []string{idempotent}
		r := &reorders{last: map[reorderKey]reorderAt{}}
		res := trial.Run(s, seed, trial.Options{Observe: []history.Observer{r}})
		require.Equal(t, trial.Pass, res.Verdict, "idempotent: %s, seed %d: %v %v", idempotent, seed, res.Violations, res.Unjudged)
		return r.n
	}
	some := 0
	for seed := uint64(1); seed <= 3; seed++ {
		some += run("no", seed)
		require.Zero(t, run("yes", seed))
	}
	require.NotZero(t, some)
}
