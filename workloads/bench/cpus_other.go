//go:build !linux

package bench

import "os/exec"

// cpus: nothing is pinned here.
type cpus struct{}

func wholeComputer() cpus { return cpus{} }
func splitComputer() cpus { return cpus{} }

// Pinned tells how the processors are shared out between servers and clients that are pinned; "" when they cannot be.
func Pinned() string { return "" }

func (cpus) startServer(cmd *exec.Cmd) error { return cmd.Start() }
func (cpus) pinClients() (restore func())    { return func() {} }
