//go:build unix

package trial_test

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"syscall"
	"testing"
	"time"

	"faultline/workloads/campaign"
	"faultline/workloads/scenario"
	"faultline/workloads/trial"
)

// The world of [BenchmarkCluster], configured as deployments are: sessions of 6 s with a tick of 1 s at the coordination service, fetches that wait 500 ms; what scenarios use by default is shorter,
// so that more happens in a run. The swarm draws what leaves acks=all its promise: no two replicas lose power at once.
const cluster = `
name: cluster
about: Three brokers, three replicas, three coordination servers, four producers, two groups of six consumers, and faults that the seed draws.
topology:
  brokers: {count: 3, session_timeout: 6s}
  coordinators: {count: 3, tick: 1s}
  topics: [{name: visits, partitions: 6, replicas: 3, min_isr: 2, flush_interval: 1s, segment_bytes: 256KiB}]
  producers: [{count: 4, acks: all, linger: %s, partitioner: %s}]
  groups:
    - {name: readers, consumers: 6, session_timeout: 6s, fetch_wait: 500ms}
    - {name: audit, consumers: 6, session_timeout: 6s, fetch_wait: 500ms}
workload: {rate: 2000/s, duration: 20s}
swarm:
  families: [crash, pause, freeze, partition, flapping, slow-link, jitter, loss, swizzle, reset, cut, session, clock, disk-slow, disk-hiccup, slow-cpu, churn, topics, misfortune]
  within: 1s..15s
`

// BenchmarkCluster is how much faster than its clock the world of a replicated cluster runs on one core under a swarm of faults, oracles included, with the collector as a campaign sets it: virtual-s/cpu-s, and
// virtual-s/s by the wall clock, which others on the machine slow down. What it costs hangs on how many messages share a batch. Records without a key, as Kafka's clients send them by default, share the batch of one
// partition for a while (sticky); those with keys are spread over all six. The linger decides the rest.
func BenchmarkCluster(b *testing.B) {
	for _, partitioner := range []string{"sticky", "key"} {
		for _, linger := range []time.Duration{5 * time.Millisecond, 20 * time.Millisecond, 100 * time.Millisecond} {
			b.Run(fmt.Sprint(partitioner, "/linger=", linger), func(b *testing.B) {
				clusterRuns(b, fmt.Sprintf(cluster, linger, partitioner))
			})
		}
	}
}

// A cluster that grows with its load: each broker brings 2 partitions, 2 consumers in each group, and 500 messages a second. The replicas of a partition stay 3,
// so the cost of a message should stay what it is.
const growing = `
name: growing
about: As many brokers as the benchmark says, without faults.
topology:
  brokers: {count: %d, session_timeout: 6s}
  coordinators: {count: 3}
  topics: [{name: visits, partitions: %d, replicas: 3, min_isr: 2, flush_interval: 1s, segment_bytes: 1MiB}]
  producers: [{count: 4, acks: all, linger: 20ms}]
  groups:
    - {name: readers, consumers: %d, session_timeout: 6s}
    - {name: audit, consumers: %d, session_timeout: 6s}
workload: {rate: %d/s, duration: 8s}
`

// BenchmarkClusterGrowth is what a delivered message costs in clusters of several sizes, with the same load for each broker.
func BenchmarkClusterGrowth(b *testing.B) {
	for _, n := range []int{3, 9, 27} {
		b.Run(fmt.Sprintf("brokers=%d", n), func(b *testing.B) { clusterRuns(b, fmt.Sprintf(growing, n, 2*n, 2*n, 2*n, 500*n)) })
	}
}

// clusterRuns runs a scenario with the seeds 1, 2, 3, ...
func clusterRuns(b *testing.B, text string) {
	sc, err := scenario.Parse("cluster.yaml", []byte(text))
	if err != nil {
		b.Fatal(err)
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	defer debug.SetGCPercent(debug.SetGCPercent(campaign.CollectAt))
	campaign.HugePages()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	var virtual time.Duration
	var delivered int64
	var events uint64
	b.ResetTimer()
	spent := cpuTime()
	for i := range b.N {
		res := trial.Run(sc, uint64(i+1), trial.Options{})
		if res.Verdict == trial.Fail { // a search for an order of a hundred clients' requests may run out of steps
			b.Fatal(res.Seed, res.Verdict, res.Violations, res.Unjudged)
		}
		virtual += res.Virtual
		delivered += res.Delivered
		events += res.Events
	}
	b.StopTimer()
	spent = cpuTime() - spent
	runtime.ReadMemStats(&after)
	messages := float64(delivered)
	b.ReportMetric(virtual.Seconds()/b.Elapsed().Seconds(), "virtual-s/s")
	b.ReportMetric(virtual.Seconds()/spent.Seconds(), "virtual-s/cpu-s")
	b.ReportMetric(float64(spent.Nanoseconds())/messages, "cpu-ns/message")
	b.ReportMetric(float64(events)/messages, "events/message")
	b.ReportMetric(float64(after.Mallocs-before.Mallocs)/messages, "allocs/message")
	b.ReportMetric(float64(after.TotalAlloc-before.TotalAlloc)/messages, "B/message")
}

// cpuTime is the CPU time of this process so far: what a run costs on a machine that others use too, collector included.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
