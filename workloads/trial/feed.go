package trial

import (
	"fmt"
	"math"
	"path/filepath"
	"time"

	"faultline/sim"
	"faultline/workloads/load"
)

// openFeed makes the workload's messages. Lines of a file are sent until each is acknowledged; page visits once.
func (r *run) openFeed() (*load.Feed, error) {
	w := &r.sc.Workload
	if w.Kind != "lines" {
		now := func() time.Time {
			if r.w == nil {
				return sim.Epoch
			}
			return sim.Epoch.Add(r.w.Now())
		}
		return load.NewFeed(load.NewVisits(sim.NewStream(r.seed, "workload/visits", ""), load.VisitsConfig{
			Count: -1, Visitors: int(w.Visitors.V()), MinBytes: int(w.MessageBytes.Min), MaxBytes: int(w.MessageBytes.Max), Now: now,
		}), false), nil
	}
	if w.Input == "" {
		return nil, fmt.Errorf("scenario %s: its messages are the lines of a file, and none is given: set workload.input or use --input FILE", r.sc.Name)
	}
	lines, err := load.OpenLines(filepath.Clean(w.Input), r.maxLine())
	if err != nil {
		return nil, err
	}
	r.closers = append(r.closers, lines)
	return load.NewFeed(lines, true), nil
}

// maxLine is the longest line that every topic takes as a message.
func (r *run) maxLine() int {
	longest := 1 << 30
	for _, t := range r.sc.Topology.Topics {
		longest = min(longest, int(t.MaxBatch.V())-batchOverhead)
	}
	return longest
}

// batchOverhead is more than a batch of one record adds to its value: batch header, record header, id.
const batchOverhead = 512

// mostLag is how many records the slowest group may be behind before producers wait: what the scenario says, and no more than half of what a
// partition keeps, so that retention never takes what is still to be read.
func (r *run) mostLag() int64 {
	most := int64(r.sc.Workload.MaxLag.V())
	if most == math.MaxInt64 {
		return most
	}
	for i := range r.sc.Topology.Topics {
		if keep := int64(r.sc.Topology.Topics[i].RetentionBytes.V()); keep != math.MaxInt64 {
			most = min(most, max(1, keep/2/(r.longest+recordOverhead)))
		}
	}
	return most
}

// recordOverhead is more than a record adds to key and value, its share of a small batch included.
const recordOverhead = 96
