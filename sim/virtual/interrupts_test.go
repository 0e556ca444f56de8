package virtual_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"faultline/sim"
	"faultline/sim/machine"
	"faultline/sim/virtual"
)

// Interrupts hold single pieces of work up, each as long as the other, and leave what work costs on average as it is.
func TestInterruptsChangeNoMean(t *testing.T) {
	const us = time.Microsecond
	lasting := func(seed uint64, i virtual.Interrupts) (all []time.Duration) {
		w := sim.New(sim.Config{Seed: seed})
		defer w.Close()
		c := virtual.New(w, virtual.Config{CPU: virtual.CPU{Request: 20 * us, Interrupts: i}})
		c.Add("a").Boot(func(m machine.Machine) error {
			for range 20_000 {
				begin := m.Uptime()
				m.Work(machine.Work{Requests: 1})
				all = append(all, m.Uptime()-begin)
			}
			return nil
		})
		w.Run(forever)
		return all
	}
	for _, took := range lasting(1, virtual.Interrupts{Every: 150 * us}) {
		require.Equal(t, 20*us, took, "without their length there are none")
	}
	i := virtual.Interrupts{Every: 150 * us, Takes: 50 * us}
	all := lasting(1, i)
	require.Equal(t, all, lasting(1, i))
	require.NotEqual(t, all, lasting(2, i))
	total, held := time.Duration(0), 0
	for _, took := range all {
		total += took
		if took != 15*us {
			held++
			require.Zero(t, (took-15*us)%(50*us), "found %v", took)
		}
	}
	require.InDelta(t, 20_000*20, total.Microseconds(), 20_000*20/50)
	require.InDelta(t, 20_000/10, held, 200, "one in ten pieces of 15 us has at least one")
}
