//go:build unix

package main

import (
	"errors"
	"os"
	"syscall"
)

// lockFile takes a file for this process alone, until it ends or closes it; false: another one has it.
func lockFile(f *os.File) (bool, error) {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}
