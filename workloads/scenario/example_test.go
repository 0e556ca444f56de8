package scenario_test

import (
	"fmt"

	"faultline/workloads/scenario"
)

// A scenario is drawn for a seed; what was drawn is a scenario of its own.
func ExampleParse() {
	s, err := scenario.Parse("crash.yaml", []byte(`
name: crash
topology:
  brokers: 1..3
workload:
  duration: 5s
faults:
  - {at: 1s..3s, fault: crash, target: any broker, for: 500ms}
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%s", s.Draw(7).Marshal())
	// Output:
	// name: crash
	// topology:
	//   brokers: 2
	//   topics:
	//     - name: visits
	//   producers:
	//     - {}
	//   groups:
	//     - name: readers
	// workload:
	//   duration: 5s
	// disk:
	//   seek: 172us
	//   flush: 1.35ms
	// faults:
	//   - {at: 1.28s, fault: crash, target: broker-1, for: 500ms}
}

// Everything that is wrong with a file is reported at once.
func ExampleParse_problems() {
	_, err := scenario.Parse("crash.yaml", []byte(`
name: crash
topology: {brokers: 0}
workload: {rate: 2000}
faults:
  - {at: 1s, fault: crsh, target: broker-1}
`))
	fmt.Println(err)
	// Output:
	// crash.yaml:3:21: topology.brokers.count: found 0, allowed is 1 to 128
	// crash.yaml:4:18: workload.rate: found "2000", allowed is a rate such as 2000/s (it does not end with "/s")
	// crash.yaml:6:21: faults[0].fault: found "crsh", allowed is crash, power-loss, stop, start, rolling-restart, pause, freeze, partition, isolate, slow-link, clog, swizzle-clog, loss, corruption, reset-connections, cut-connections, session-expiry, clock-jump, clock-drift, disk-error, disk-full, disk-short, disk-slow, disk-stall, bit-rot, misdirected-write, lying-disk, replace-disk, slow-cpu, add-partitions, create-topic, renew-topic, reassign, misfortune; did you mean "crash"?
}
