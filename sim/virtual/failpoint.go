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

// site is an armed failpoint with its own random stream for each process that passes it.
type site struct {
	Misfortune
	rng map[string]*rand.Rand
}

// Arm makes a failpoint ("fault/<room>/<place>") fire from now on. The registry is github.com/pingcap/failpoint, an instance of this world's own;
// whether it fires is drawn from the world's keyed streams.
func (c *Cluster) Arm(place string, m Misfortune) error {
	if err := c.points.Enable(place, "return(true)"); err != nil {
		return fmt.Errorf("arm failpoint %q: %w", place, err)
	}
	c.armed[place] = &site{Misfortune: m, rng: map[string]*rand.Rand{}}
	return nil
}

// Disarm ends all misfortunes.
func (c *Cluster) Disarm() {
	for _, place := range c.points.List() {
		c.points.Disable(place)
	}
	clear(c.armed)
}

func (p *process) Failpoint(place string) bool {
	p.w.Current()
	c := p.comp.cluster
	if c.passages != nil {
		c.passages.at(place).Passed++
	}
	if len(c.armed) == 0 {
		return false
	}
	s := c.armed[place]
	if s == nil {
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
	if s.Delay > 0 {
		p.w.ParkUntil("failpoint", place, p.in(time.Duration(rng.Int64N(int64(s.Delay)+1))))
	} else if !s.Fail {
		p.w.GiveWay()
	}
	return s.Fail
}
