// Package campaign runs many trials: scenarios by seeds, on as many workers as there are cores, with the determinism self-check on a sample.
package campaign

import (
	"os"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"faultline/workloads/oracle"
	"faultline/workloads/scenario"
	"faultline/workloads/trial"
)

// Campaign is what to run. Results come seed after seed, each with all scenarios, whatever the workers do: a campaign that ends early has seen every scenario.
type Campaign struct {
	Scenarios []*scenario.Scenario
	Seeds     []uint64
	Workers   int           // default: one for each processor
	Budget    time.Duration // of wall time: no trial starts after it, and what is under way is cut; 0: no limit
	FailFast  bool          // no trial starts after the first that did not pass
	// SelfCheck runs the first of so many trials of each scenario again and compares the hashes; 0: never.
	SelfCheck int
	Options   trial.Options
	// Stop, if set, is asked now and then; true ends the campaign: trials under way are cut.
	Stop func() bool
	// Done is told of each result, in order, by one goroutine at a time.
	Done func(*trial.Result)
}

// maxWorkers bounds how many worlds live at a time.
const maxWorkers = 256

// CollectAt is by how many percent the heap grows between two collections while a campaign runs, unless GOGC says otherwise. A world keeps little of what it allocates: with twice the runtime's default
// a campaign takes 7% less CPU time, with four times no less than that.
const CollectAt = 200

// Determinism is the invariant of the house itself: same seed, same hash.
const Determinism = "DETERMINISM"

// Summary is how a campaign came out.
type Summary struct {
	Trials       int
	Passed       int
	Failed       int
	Inconclusive int
	Skipped      int // not run, or cut: time budget, interrupt or fail-fast
	Checked      int // trials that the self-check repeated
	Wall         time.Duration
	Virtual      time.Duration
	Events       uint64
	Produced     int64
	Delivered    int64
	Duplicates   int64
}

// Clean tells whether everything that was asked for was run and passed.
func (s *Summary) Clean() bool { return s.Failed == 0 && s.Inconclusive == 0 }

// Run carries the campaign out.
func (c *Campaign) Run() *Summary {
	if os.Getenv("GOGC") == "" {
		defer debug.SetGCPercent(debug.SetGCPercent(CollectAt))
	}
	HugePages()
	start := time.Now()
	total := len(c.Scenarios) * len(c.Seeds)
	workers := c.Workers
	if workers <= 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	var (
		next    atomic.Int64
		failed  atomic.Bool
		mu      sync.Mutex
		results = map[int]*trial.Result{} // done, but an earlier one is not
		turn    int
		sum     = &Summary{}
		wg      sync.WaitGroup
	)
	late := func() bool { return c.Stop != nil && c.Stop() || c.Budget > 0 && time.Since(start) > c.Budget }
	over := func() bool { return late() || c.FailFast && failed.Load() }
	for range min(workers, max(total, 1), maxWorkers) {
		wg.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= total {
					return
				}
				var res *trial.Result
				if !over() {
					res = c.trial(i, late)
					if res.Verdict != trial.Pass && !res.Cut {
						failed.Store(true)
					}
				}
				mu.Lock()
				results[i] = res
				for r, ok := results[turn]; ok; r, ok = results[turn] {
					delete(results, turn)
					if r == nil || r.Cut && len(r.Violations) == 0 {
						sum.Skipped++
					} else {
						sum.add(r)
						if c.checked(turn) {
							sum.Checked++
						}
						c.Done(r)
					}
					turn++
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	sum.Wall = time.Since(start)
	return sum
}

func (c *Campaign) checked(i int) bool {
	return c.SelfCheck > 0 && i/len(c.Scenarios)%c.SelfCheck == 0
}

// trial runs the i-th trial and, if it is in the sample, runs it again.
func (c *Campaign) trial(i int, stop func() bool) *trial.Result {
	sc, seed := c.Scenarios[i%len(c.Scenarios)], c.Seeds[i/len(c.Scenarios)]
	o := c.Options
	o.Stop = stop
	res := trial.Run(sc, seed, o)
	if res.Cut || res.Err != nil || !c.checked(i) {
		return res
	}
	again := trial.Run(sc, seed, o)
	if again.Cut || again.Hash == res.Hash {
		return res
	}
	message := "two runs of this seed have different hashes"
	if d := trial.Compare(sc, seed); d != nil {
		message += "; " + d.String()
	}
	res.Verdict = trial.Fail
	res.Violations = append(res.Violations, oracle.Violation{Invariant: Determinism, Message: message, At: res.Virtual})
	return res
}

func (s *Summary) add(r *trial.Result) {
	s.Trials++
	switch r.Verdict {
	case trial.Pass:
		s.Passed++
	case trial.Fail:
		s.Failed++
	default:
		s.Inconclusive++
	}
	s.Virtual += r.Virtual
	s.Events += r.Events
	s.Produced += r.Produced
	s.Delivered += r.Delivered
	s.Duplicates += r.Duplicates
}
