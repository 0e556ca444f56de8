package bench

import (
	"math"
	"time"
)

// Speedometer tells how fast this machine's processor is now, beside what a profile says of it: machines that others use too, virtual ones above all, are not as fast at one moment as at another. It
// goes by the wall clock, as throughput does, so that a processor that works for others half of the time is half as fast.
type Speedometer struct {
	g      *gauges
	cpus   cpus
	gauged []gauged
}

// gauged is something that the processor does, and how long it takes by the profile.
type gauged struct {
	run  func() error
	want float64 // nanoseconds
}

const speedSlice = 20 * time.Millisecond // of each gauge, each time

// NewSpeedometer holds a profile against this machine, on the processors on which clients run. It takes Linux.
func NewSpeedometer(p *Profile, pinned bool) (*Speedometer, error) {
	g, err := newGauges()
	if err != nil {
		return nil, err
	}
	s := &Speedometer{g: g, cpus: wholeComputer()}
	if pinned {
		s.cpus = splitComputer()
	}
	c := &p.CPU
	at := func(bytes int, perSecond int64) float64 { return float64(bytes) * 1e9 / float64(perSecond) }
	s.gauged = []gauged{
		{g.pass, 2 * float64(c.Syscall.V().D())},
		{g.copy, at(gaugeBlock, int64(c.Copy.V()))},
		{g.checksum, at(gaugeBlock, int64(c.Sum.V()))},
		{g.check, gaugeRecords*float64(c.Record.V().D()) + at(len(g.whole), int64(c.Sum.V()))},
	}
	return s, nil
}

// Close gives back what it holds.
func (s *Speedometer) Close() { s.g.close() }

// Beside measures with an arm and how fast the processor was before and after each run: see Result.Speed.
func (s *Speedometer) Beside(arm Arm) Arm {
	return func(c *Cell, seed uint64, stop func() bool) (*Result, error) {
		before, err := s.speed()
		if err != nil {
			return nil, err
		}
		r, err := arm(c, seed, stop)
		if err != nil {
			return nil, err
		}
		after, err := s.speed()
		r.Speed = (before + after) / 2
		return r, err
	}
}

// speed is the geometric mean of how much faster than by the profile everything is: a share of 1.
func (s *Speedometer) speed() (float64, error) {
	defer s.cpus.pinClients()()
	log, n := 0.0, 0
	begin := time.Now()
	clock := func() time.Duration { return time.Since(begin) }
	for _, g := range s.gauged {
		ns, err := takes(speedSlice, clock, g.run)
		if err != nil {
			return 0, err
		}
		if g.want > 0 && ns > 0 { // a profile may say that something costs nothing
			log += math.Log(g.want / ns)
			n++
		}
	}
	return math.Exp(log / float64(max(n, 1))), nil
}
