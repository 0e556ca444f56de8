package virtual

import (
	"fmt"
	"math/rand/v2"
	"time"

	"faultline/sim"
)

// Misfortune is what an armed failpoint does when it fires.
type Misfortune struct {
	Chance float64       // of firing, at each passage
	Fail   bool          // the caller takes its early-return path
	Delay  time.Duration // at most; uniform from 0
}

// site is a failpoint that was armed, with its own random stream for each process that passes it. The streams go on when it is armed anew.
type site struct {
	Misfortune
	rng map[string]*rand.Rand
}

// Arm makes a failpoint ("fault/<room>/<place>") fire from now on; with chance 0 it no longer does. The registry is
// github.com/pingcap/failpoint, an instance of this world's own; whether it fires is drawn from the world's keyed streams.
func (c *Cluster) Arm(place string, m Misfortune) error {
	s := c.armed[place]
	if m.Chance <= 0 {
		if s != nil && s.Chance > 0 {
			s.Misfortune = Misfortune{}
			c.active--
			c.points.Disable(place)
		}
		return nil
	}
	if err := c.points.Enable(place, "return(true)"); err != nil {
		return fmt.Errorf("arm failpoint %q: %w", place, err)
	}
	if s == nil {
		s = &site{rng: map[string]*rand.Rand{}}
		c.armed[place] = s
	}
	if s.Chance <= 0 {
		c.active++
	}
	s.Misfortune = m
	return nil
}

// Disarm ends all misfortunes.
func (c *Cluster) Disarm() {
	for _, place := range c.points.List() {
		c.Arm(place, Misfortune{})
	}
}

func (p *process) Failpoint(place string) bool {
	p.w.Current()
	c := p.comp.cluster
	if c.passages != nil {
		c.passages.at(place).Passed++
	}
	if c.active == 0 {
		return false
	}
	s := c.armed[place]
	if s == nil || s.Chance <= 0 {
		return false
	}
	if _, err := c.points.Eval(place); err != nil {
		return false
	}
	rng := s.rng[p.key]
	if rng == nil {
		rng = p.w.Stream("failpoint/"+place, p.key)
		s.rng[p.key] = rng
	}
	if rng.Float64() >= s.Chance {
		return false
	}
	p.w.Record(sim.KindDraw, p.comp.name, place, "", 1, 0)
	if c.passages != nil {
		c.passages.at(place).Fired++
	}
	fail := s.Fail // the place may be disarmed meanwhile
	if s.Delay > 0 {
		p.w.ParkUntil("failpoint", place, p.in(time.Duration(rng.Int64N(int64(s.Delay)+1))))
	} else {
		p.w.GiveWay()
	}
	return fail
}
