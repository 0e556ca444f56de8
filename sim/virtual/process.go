package virtual

import (
	"math/rand/v2"
	stdnet "net"
	"time"

	"faultline/sim"
	"faultline/sim/machine"
	"faultline/sim/net"
)

// process is one incarnation of a program on a computer. It implements machine.Machine.
type process struct {
	comp  *Computer
	w     *sim.World
	group *sim.Group
	key   string // "name#boots": entity of its random streams
	disk  machine.Disk
}

func (p *process) Name() string { return p.comp.name }

func (p *process) Now() time.Time { return p.comp.clock.Wall(p.w.Now()) }

func (p *process) Uptime() time.Duration { return p.comp.clock.Uptime(p.w.Now()) }

func (p *process) Sleep(d time.Duration) {
	if d <= 0 {
		p.w.GiveWay()
		return
	}
	p.w.ParkUntil("sleep", "", p.in(d))
}

// in converts a span of this machine's time that starts now to a world time.
func (p *process) in(d time.Duration) time.Duration {
	now := p.w.Now()
	if t := now + p.comp.clock.Span(max(d, 0)); t >= now {
		return t
	}
	return 1<<63 - 1
}

func (p *process) Rand(purpose string) *rand.Rand { return p.w.Stream(purpose, p.key) }

func (p *process) Go(name string, fn func()) {
	p.w.Current()
	p.w.Go(p.group, name, fn)
}

// after is a pending function.
type after struct {
	p     *process
	name  string
	fn    func()
	timer sim.Timer
}

func (p *process) After(d time.Duration, name string, fn func()) machine.Timer {
	p.w.Current()
	a := &after{p: p, name: name, fn: fn}
	a.timer.Init(a)
	p.w.Set(&a.timer, p.in(d), 0)
	return a
}

func (a *after) Fire(uint64) { a.p.w.Go(a.p.group, a.name, a.fn) }

func (a *after) Stop() bool {
	a.p.w.Current()
	return a.p.w.Unset(&a.timer)
}

func (p *process) NewMutex(name string) machine.Mutex { return p.w.NewMutex(name) }

// cond adds this machine's time to the kernel's condition.
type cond struct {
	*sim.Cond
	p *process
}

func (p *process) NewCond(name string, l machine.Mutex) machine.Cond {
	return &cond{p.w.NewCond(name, l.(*sim.Mutex)), p}
}

func (c *cond) WaitTimeout(d time.Duration) bool { return c.WaitUntil(c.p.in(d)) }

func (p *process) Disk() machine.Disk { return p.disk }

func (p *process) Listen(port int) (stdnet.Listener, error) { return p.comp.host.Listen(port) }

func (p *process) Dial(address string, timeout time.Duration) (stdnet.Conn, error) {
	return p.comp.host.Dial(address, timeout)
}

func (p *process) SendFile(dst stdnet.Conn, src machine.File, offset, n int64) (int64, error) {
	return dst.(*net.Conn).SendFile(src, offset, n)
}

func (p *process) Work(work machine.Work) {
	d := p.comp.cluster.cfg.CPU.cost(work)
	if d <= 0 {
		return
	}
	p.w.ParkUntil("cpu", p.comp.name, p.comp.cores.occupy(p.w.Current(), p.w.Now(), d))
}

func (p *process) Trace(e machine.Event) {
	p.w.Current()
	p.w.Record(sim.KindState, p.comp.name, e.Kind.String(), e.Subject, uint64(e.A), uint64(e.B))
	if e.Detail != "" || e.C != 0 {
		p.w.Record(sim.KindState, p.comp.name, e.Detail, "", uint64(e.C), 0)
	}
	if c := p.comp.cluster; c.OnEvent != nil {
		c.event = e // so that e does not escape
		c.OnEvent(p.comp, &c.event)
	}
}

func (p *process) Tracing() bool { return true }

func (p *process) Exit(reason error) {
	p.w.Current()
	p.w.Later(func() {
		if p.comp.proc == p {
			p.comp.ended(reason)
		}
	})
	p.w.GiveWay()
	p.w.Park("end of the process", p.comp.name)
}

var _ machine.Machine = (*process)(nil)
