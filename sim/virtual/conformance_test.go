package virtual_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"faultline/sim"
	"faultline/sim/machine"
	"faultline/sim/machine/conformance"
	"faultline/sim/virtual"
)

// arm is a world of two computers.
type arm struct {
	t           testing.TB
	world       *sim.World
	alpha, beta *virtual.Computer
	reason      error
}

func newArm(t testing.TB, cfg sim.Config) *arm {
	a := &arm{t: t, world: sim.New(cfg)}
	c := virtual.New(a.world, virtual.Config{})
	c.OnExit = func(who *virtual.Computer, reason error) {
		if who == a.alpha {
			a.reason = reason
			a.world.Halt()
		}
	}
	a.alpha, a.beta = c.Add("alpha"), c.Add("beta")
	t.Cleanup(a.world.Close)
	return a
}

func (a *arm) Run(body func(alpha, beta machine.Machine)) error {
	var beta machine.Machine
	a.beta.Boot(func(m machine.Machine) error {
		beta = m
		a.alpha.Boot(func(m machine.Machine) error {
			body(m, beta)
			return nil
		})
		for {
			m.Sleep(time.Hour)
		}
	})
	out := a.world.Run(a.world.Now() + 24*time.Hour)
	require.Equal(a.t, sim.Halted, out.Kind, "%s", out)
	a.beta.Crash()
	return a.reason
}

func TestConformance(t *testing.T) {
	for _, cfg := range []sim.Config{{Policy: sim.Random, Seed: 1}, {Policy: sim.Random, Seed: 2}, {Policy: sim.FIFO}, {Policy: sim.PCT}} {
		t.Run(fmt.Sprintf("policy %d seed %d", cfg.Policy, cfg.Seed), func(t *testing.T) {
			conformance.Run(t, func(t testing.TB) conformance.Arm { return newArm(t, cfg) })
		})
	}
}
