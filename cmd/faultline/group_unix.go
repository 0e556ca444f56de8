//go:build unix

package main

import (
	"os/exec"
	"syscall"
)

// ownGroup puts a program into a process group of its own, so that the terminal's signals do not reach it.
func ownGroup(c *exec.Cmd) { c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }
