package faults_test

import (
	"fmt"

	"faultline/faults"
	"faultline/faults/quantity"
)

// A swarm draws a plan for a seed; each fault prints as the line of a scenario file that makes it.
func ExampleSwarm_Generate() {
	env := faults.Env{
		Machines: map[string][]string{"broker": {"broker-1", "broker-2"}, "coord": {"coord-1"}, "consumer": {"consumer-1"}},
		Load:     10_000_000_000,
	}
	swarm := faults.Swarm{Families: []string{"crash", "partition", "disk-error"}, Intensity: quantity.Choose("normal")}
	for _, f := range swarm.Generate(3, env) {
		fmt.Println(f)
	}
	// Output:
	// {at: 1.209s, fault: crash, target: broker-2, for: 310ms}
	// {at: 2.316s, fault: crash, target: broker-2, for: 2.936s}
	// {at: 4.538s, fault: crash, target: broker-2, for: 79ms}
}
