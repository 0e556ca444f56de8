package bench

import (
	"fmt"
	"time"

	"faultline/broker/log"
	"faultline/broker/record"
	"faultline/producer"
	"faultline/sim"
	"faultline/workloads/deploy"
	"faultline/workloads/load"
	"faultline/workloads/scenario"
	"faultline/workloads/trial"
)

// retained is what the cell's logs hold before the load; nil: nothing.
func (c *Cell) retained() (*trial.Retained, error) {
	keep := int64(c.Load.Retained.V())
	if keep == 0 {
		return nil, nil
	}
	batch, err := visitsBatch(int(c.Scenario.Workload.MessageBytes.Max), c.filler())
	if err != nil {
		return nil, err
	}
	for i := range c.Scenario.Topology.Topics {
		if segment := int64(c.Scenario.Topology.Topics[i].SegmentBytes.V()); keep%segment != 0 {
			return nil, fmt.Errorf("retained: found %v in segments of %d bytes, allowed are whole segments", c.Load.Retained, segment)
		}
	}
	return &trial.Retained{Warm: c.Load.Cached.V() == "yes", Of: func(t *scenario.Topic) ([]log.UniformFile, error) {
		policy := deploy.TopicPolicy(t)
		files, _, err := log.Uniform(policy, batch, keep/policy.SegmentBytes)
		return files, err
	}}, nil
}

// filler is the producer that logs are filled by before the load: the cell's first one, whose batches are full.
func (c *Cell) filler() producer.Config {
	cfg := deploy.Producer(deploy.Addresses{}, machineOf(c, "producer", 1).Producer)
	return producer.Config{
		Acks: producer.AcksOne, BatchBytes: cfg.BatchBytes, BatchRecords: cfg.BatchRecords, Compression: cfg.Compression,
		Linger: time.Second, MaxInFlight: 5,
	}
}

// visitsBatch is a batch of visits of the size, as many as the producer puts into one, stamped as due before the load.
func visitsBatch(size int, by producer.Config) ([]byte, error) {
	visits := load.NewVisits(sim.NewStream(0, "bench/retained", ""), load.VisitsConfig{Count: -1, MinBytes: size, MaxBytes: size, Now: func() time.Time { return sim.Epoch }})
	stamp := sim.Epoch.UnixMilli()
	var b record.Builder
	b.Reset(by.Compression)
	for by.BatchRecords == 0 || b.Count() < by.BatchRecords {
		_, v, _ := visits.Next()
		for i := range stampBytes {
			v[i] = 0xff // -1: it was there before the load
		}
		if b.Count() > 0 && b.SizeWith(stamp, nil, v, nil) > by.BatchBytes {
			break
		}
		b.Add(stamp, nil, v, nil)
	}
	return b.Finish()
}
