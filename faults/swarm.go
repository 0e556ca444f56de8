package faults

import (
	"faultline/faults/quantity"
)

// Swarm asks for faults that the seed draws: each family is in or out by the flip of a coin, and then has rates, durations and targets of its own.
type Swarm struct {
	// Families that may be drawn. Default: all.
	Families []string `yaml:"families"`
	// How many faults each family that is in gives.
	Intensity quantity.Choice `yaml:"intensity" default:"[low, normal, high]" oneof:"low|normal|high"`
	// Faults begin in this part of the load.
	Within quantity.Durations `yaml:"within" each:"true"`
}
