package faults

import _ "embed"

// The files whose comments document the fields of faults and of the swarm.
var (
	//go:embed plan.go
	PlanSource string
	//go:embed swarm.go
	SwarmSource string
)
