package oracle

import (
	"time"

	"faultline/workloads/history"
)

// calm tells since when nothing disturbs a run from outside: no fault is active, nothing is paused, the coordination service is up.
type calm struct {
	coord  map[string]bool // machines of the coordination service
	faults map[int]bool    // active
	paused map[string]bool
	down   map[string]bool // coordination servers
	since  time.Duration
	heal   time.Duration // when the heal phase began; none: not yet
}

func newCalm(p *Promise) *calm {
	c := &calm{coord: map[string]bool{}, faults: map[int]bool{}, paused: map[string]bool{}, down: map[string]bool{}, heal: none}
	for _, m := range p.Coord {
		c.coord[m] = true
		c.down[m] = true
	}
	return c
}

// observe follows an event and reports whether it disturbs or ends a disturbance.
func (c *calm) observe(e *history.Event) bool {
	switch e.Kind {
	case history.FaultInjected:
		c.faults[e.Number] = true
	case history.FaultHealed:
		delete(c.faults, e.Number)
	case history.MachineCrashed, history.MachineExited:
		delete(c.paused, e.Machine)
		if c.coord[e.Machine] {
			c.down[e.Machine] = true
		}
	case history.MachineStarted:
		delete(c.paused, e.Machine)
		delete(c.down, e.Machine)
	case history.MachinePaused:
		c.paused[e.Machine] = true
	case history.MachineResumed:
		delete(c.paused, e.Machine)
	case history.PhaseBegan:
		switch e.Phase {
		case history.Heal:
			c.heal = e.At
		case history.Quiesce, history.End: // change nothing
			return false
		}
	case history.MachineWiped:
	default:
		return false
	}
	c.since = e.At
	return true
}

// now reports whether nothing disturbs at present. Disturbances end with the time since.
func (c *calm) now() bool { return len(c.faults) == 0 && len(c.paused) == 0 && len(c.down) == 0 }

// settled tells whether everything ought to be in its place at the end of the run: the time to heal is over, or nothing moves any more though nothing disturbs.
func (c *calm) settled(end End, within time.Duration) bool {
	healed := within > 0 && c.heal >= 0 && end.At >= c.heal+within && end.Trouble == ""
	return healed || end.Trouble == "stuck" && c.now()
}
