package bench

import (
	"fmt"
	"time"

	"faultline/broker/log"
	"faultline/broker/record"
	"faultline/sim"
	"faultline/workloads/deploy"
	"faultline/workloads/load"
	"faultline/workloads/scenario"
	"faultline/workloads/trial"
)

// retainedBatch is the size of the batches of retained logs: segments are a multiple of it.
const retainedBatch = 16 << 10

// retained is what the cell's logs hold before the load; nil: nothing.
func (c *Cell) retained() (*trial.Retained, error) {
	keep := int64(c.Load.Retained.V())
	if keep == 0 {
		return nil, nil
	}
	batch, err := visitsBatch(int(c.Scenario.Workload.MessageBytes.Max))
	if err != nil {
		return nil, err
	}
	for i := range c.Scenario.Topology.Topics {
		if segment := int64(c.Scenario.Topology.Topics[i].SegmentBytes.V()); segment%retainedBatch != 0 || keep%segment != 0 {
			return nil, fmt.Errorf("retained: found %v in segments of %d bytes, allowed are whole segments, each a multiple of %d bytes", c.Load.Retained, segment, retainedBatch)
		}
	}
	return &trial.Retained{Warm: c.Load.Cached.V() == "yes", Of: func(t *scenario.Topic) ([]log.UniformFile, error) {
		policy := deploy.TopicPolicy(t)
		files, _, err := log.Uniform(policy, batch, keep/policy.SegmentBytes)
		return files, err
	}}, nil
}

// visitsBatch is a batch of visits of the size, but for the last, which fills it up. It is stamped as due before the load.
func visitsBatch(size int) ([]byte, error) {
	visits := load.NewVisits(sim.NewStream(0, "bench/retained", ""), load.VisitsConfig{Count: -1, MinBytes: size, MaxBytes: size, Now: func() time.Time { return sim.Epoch }})
	stamp := sim.Epoch.UnixMilli()
	var b record.Builder
	b.Reset(record.None)
	value := func(n int) []byte {
		_, v, _ := visits.Next()
		v = append(append([]byte(nil), v...), make([]byte, max(0, n-len(v)))...)[:n]
		for i := range stampBytes {
			v[i] = 0xff // -1: it was there before the load
		}
		return v
	}
	for b.SizeWith(stamp, nil, value(size), nil) <= retainedBatch-2*size-200 {
		b.Add(stamp, nil, value(size), nil)
	}
	for n := retainedBatch - b.Size(); ; n-- {
		if v := value(n); b.SizeWith(stamp, nil, v, nil) == retainedBatch {
			b.Add(stamp, nil, v, nil)
			return b.Finish()
		}
		if n < stampBytes {
			return nil, fmt.Errorf("no batch of %d-byte messages has %d bytes", size, retainedBatch)
		}
	}
}
