// Package trial runs a scenario with a seed and judges it: it builds the world, boots the machines, drives load and faults, heals, waits
// until everything came to rest, and asks the oracles.
//
// The course of a trial, in virtual time:
//
//	set-up   machines start; the administrator creates the topics. Ends when they exist, or after a second.
//	load     producers send, consumers process, faults strike as planned (their times count from here).
//	heal     faults are over, every machine is started again.
//	quiesce  no more load: waits until every group has what it is owed and owns what there is, within the promised bound.
//	end      the oracles say what was broken.
package trial

import (
	"time"

	"faultline/sim"
	"faultline/sim/machine"
	"faultline/sim/virtual"
	"faultline/workloads/history"
	"faultline/workloads/oracle"
	"faultline/workloads/scenario"
)

// Verdicts.
const (
	Pass         = "pass"
	Fail         = "fail"
	Inconclusive = "inconclusive" // nothing wrong was seen, but something could not be judged
)

// Options of one trial. The zero value runs it to its end, quietly.
type Options struct {
	Policy     sim.Policy
	Trace      func(*sim.Entry)   // sees every event of the world
	Observe    []history.Observer // see the history, live
	Without    []int              // numbers of faults of the drawn plan that are left out, from 1
	Until      time.Duration      // stop at this world time (the trial is then cut: what is owed at the end is not judged)
	Stop       func() bool        // asked now and then: true cuts the trial
	PictureDir string             // folder for pictures of linearizability violations
	Hardware   *virtual.Config    // instead of the scenario's
	Unjudged   bool               // no oracle watches: a benchmark
	Passages   bool               // count failpoints and marks

	// Program gives a machine another program than the scenario's, nil: it keeps that. With it the trial ends with its load, without healing: a benchmark.
	Program  func(m scenario.Machine) func(machine.Machine) error
	SetUp    time.Duration // how long the set-up may take before the load begins all the same. Default: a second
	Foreign  bool          // the servers are not this system's: nobody makes topics, and the load begins when the time of the set-up is over
	Retained *Retained
	Window   sim.Window                                       // from the start of the load: how long machines are busy within is counted, see Result.Used
	OnLoad   func(at time.Duration, now func() time.Duration) // told when the load begins, and how to read the world's clock
}

// Result is what a trial came to.
type Result struct {
	Scenario   string
	Seed       uint64
	Verdict    string
	Hash       uint64
	Violations []oracle.Violation
	Unjudged   []string // why the verdict is inconclusive
	Virtual    time.Duration
	Wall       time.Duration
	Events     uint64
	Produced   int64 // records that a log acknowledged
	Delivered  int64 // records that consumers processed, duplicates included, over all groups
	Duplicates int64 // records that a group processed again
	Cut        bool  // ended early
	Drawn      *scenario.Scenario
	Passages   virtual.Passages // nil unless asked for
	Used       []Used           // of every machine
	Err        error            // the trial could not be carried out: an input file that cannot be read
}

// Used is how long a machine was busy within Options.Window.
type Used struct {
	Name, Role string
	virtual.Usage
}

// Run carries a scenario out with a seed.
func Run(sc *scenario.Scenario, seed uint64, o Options) *Result {
	start := time.Now()
	r, err := newRun(sc.Draw(seed), seed, o)
	if err != nil {
		return &Result{Scenario: sc.Name, Seed: seed, Verdict: Inconclusive, Err: err, Drawn: sc}
	}
	defer r.close()
	r.live()
	res := r.judge()
	res.Wall = time.Since(start)
	return res
}
