package host

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"faultline/sim/machine"
	"faultline/sim/machine/conformance"
)

// pairArm is two machines of this computer under one temporary directory.
type pairArm struct {
	t    testing.TB
	root string
}

func (a *pairArm) machine(name string, onExit func(error)) *Machine {
	m, err := New(Options{Name: name, Root: filepath.Join(a.root, name), OnExit: onExit,
		Hosts: map[string]string{"alpha": loopback, "beta": loopback}})
	require.NoError(a.t, err)
	return m
}

func (a *pairArm) Run(body func(alpha, beta machine.Machine)) error {
	ended := make(chan error, 1)
	alpha := a.machine("alpha", func(reason error) { ended <- reason })
	beta := a.machine("beta", func(error) {})
	defer beta.Shutdown()
	alpha.Go("main", func() {
		body(alpha, beta)
		alpha.Exit(nil)
	})
	return <-ended
}

func TestConformance(t *testing.T) {
	conformance.Run(t, func(t testing.TB) conformance.Arm { return &pairArm{t, t.TempDir()} })
}
