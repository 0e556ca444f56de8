package trial_test

import (
	"testing"

	"faultline/scenarios"
	"faultline/workloads/scenario"
	"faultline/workloads/trial"
)

// BenchmarkRebalanceStorm is the speed of a whole run, oracles included, on one core: messages delivered per second of wall time.
func BenchmarkRebalanceStorm(b *testing.B) {
	sc, err := scenarios.Load("rebalance-storm")
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	var delivered int64
	var events uint64
	for i := range b.N {
		res := trial.Run(sc, uint64(i+1), trial.Options{})
		if res.Verdict != trial.Pass {
			b.Fatal(res.Seed, res.Verdict, res.Violations)
		}
		delivered += res.Delivered
		events += res.Events
	}
	b.ReportMetric(float64(delivered)/b.Elapsed().Seconds(), "messages/s")
	b.ReportMetric(float64(events)/b.Elapsed().Seconds(), "events/s")
}

const idle = `
name: idle
about: Three brokers and six consumers with nothing to do.
topology:
  brokers: {count: 3, session_timeout: 6s}
  coordinators: {count: 1, tick: 1s}
  topics: [{name: visits, partitions: 6}]
  producers: [{count: 1, start: 9m}]
  groups:
    - {name: readers, consumers: 6, session_timeout: 6s, fetch_wait: 500ms, commit_interval: 1s}
workload: {rate: 1/s, duration: 10m}
`

// BenchmarkIdleWorld is how much faster than its clock a world runs in which nothing happens but heartbeats and long polls.
func BenchmarkIdleWorld(b *testing.B) {
	sc, err := scenario.Parse("idle.yaml", []byte(idle))
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	virtual := 0.0
	for i := range b.N {
		res := trial.Run(sc, uint64(i+1), trial.Options{})
		if res.Verdict != trial.Pass {
			b.Fatal(res.Verdict, res.Violations, res.Unjudged)
		}
		virtual += res.Virtual.Seconds()
	}
	b.ReportMetric(virtual/b.Elapsed().Seconds(), "virtual-s/s")
}
