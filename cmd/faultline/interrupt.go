package main

import (
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
)

// onInterrupt makes the first Ctrl-C (or SIGTERM) a wish that stop tells of; a second one ends the program at once.
func onInterrupt() (stop func() bool, release func()) {
	var asked atomic.Bool
	c := make(chan os.Signal, 1)
	signal.Notify(c, os.Interrupt, syscall.SIGTERM)
	go func() {
		if _, ok := <-c; ok {
			asked.Store(true)
			signal.Stop(c)
		}
	}()
	return asked.Load, func() { signal.Stop(c) }
}
