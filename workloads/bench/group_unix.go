//go:build unix

package bench

import (
	"os/exec"
	"syscall"
)

// ownGroup keeps the terminal's signals from a server: it ends when the bench has it end, or with it.
func ownGroup(c *exec.Cmd) { c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }
