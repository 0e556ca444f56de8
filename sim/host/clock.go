package host

import (
	"runtime"
	"time"

	"faultline/sim/machine"
)

func (m *Machine) Sleep(d time.Duration) {
	m.alive()
	if d <= 0 {
		runtime.Gosched()
		m.alive()
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		m.alive()
	case <-m.dead.Done():
		runtime.Goexit()
	}
}

// timer is a pending After.
type timer struct {
	m *Machine
	t *time.Timer
}

func (m *Machine) After(d time.Duration, name string, fn func()) machine.Timer {
	m.alive()
	return &timer{m, time.AfterFunc(max(d, 0), func() {
		if m.enter() {
			m.run(name, fn)
		}
	})}
}

func (t *timer) Stop() bool {
	t.m.alive()
	return t.t.Stop()
}
