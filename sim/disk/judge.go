package disk

import (
	"strings"
	"time"

	"faultline/sim/machine"
)

// verdict is what the faults have decided about one operation.
type verdict struct {
	err       error
	delay     time.Duration
	count     int     // bytes it may move
	misdirect *active // not nil: the first page goes astray,
	astray    int64   // to this one
	lie       bool    // success is reported and nothing becomes durable
	stall     *stall  // not nil: it waits
}

// stall is what holds an operation.
type stall struct {
	op     Ops
	path   string
	by     []*active // all of these must be healed
	judged int64     // faults up to this one have judged the operation
}

// judge asks every fault in force about an operation that begins, once each, whatever the others say. Of a write, page is the first one and pages
// is how many the file has; both are 0 for other operations.
func (v *view) judge(op Ops, path string, count int, page, pages int64) verdict {
	c := verdict{count: count}
	if len(v.m.faults) == 0 {
		return c
	}
	for _, a := range v.m.faults {
		switch a.Kind {
		case Full, Rot:
			continue
		case Short:
			if count <= 1 {
				continue
			}
		case Misdirect:
			if pages < 2 {
				continue
			}
		}
		if !a.hits(op, path) {
			continue
		}
		h := Hit{At: v.w.Now(), Op: op, Path: path}
		switch a.Kind {
		case Error:
			c.err = machine.ErrIO
		case Short:
			moved := 1 + a.draw(path).IntN(count-1)
			c.count = min(c.count, moved)
			h.From, h.To = int64(count), int64(moved)
		case Slow:
			c.delay += a.Delay
		case Misdirect:
			c.misdirect, c.astray = a, a.draw(path).Int64N(pages-1)
			if c.astray >= page {
				c.astray++
			}
			h.From, h.To = page, c.astray
		case Lie:
			c.lie = true
		case Stall:
			if c.stall == nil {
				c.stall = &stall{op: op, path: path, judged: v.m.faultSeq}
			}
			c.stall.by = append(c.stall.by, a)
		}
		a.hit(h)
	}
	return c
}

// hold blocks while a fault stalls the operation. A stall that was injected meanwhile holds it too.
func (v *view) hold(c *verdict) {
	if c.stall == nil {
		return
	}
	for s := c.stall; len(s.by) > 0; s.by = s.by[1:] {
		for a := s.by[0]; !a.healed; {
			a.held = append(a.held, v.w.Waker())
			v.w.Park()
		}
		for _, a := range v.m.faults {
			if a.Kind == Stall && a.seq > s.judged && a.hits(s.op, s.path) {
				a.hit(Hit{At: v.w.Now(), Op: s.op, Path: s.path})
				s.by = append(s.by, a)
			}
		}
		s.judged = v.m.faultSeq
	}
	if c.misdirect != nil && c.misdirect.healed {
		c.misdirect = nil
	}
}

// consult is judge and hold for operations that have no effect before.
func (v *view) consult(op Ops, path string, count int) verdict {
	c := v.judge(op, path, count, 0, 0)
	v.hold(&c)
	return c
}

// match tells whether a path matches a glob.
func match(glob, path string) bool {
	for glob != "" {
		if strings.HasPrefix(glob, "*") {
			deep := strings.HasPrefix(glob, "**")
			rest := strings.TrimLeft(glob, "*")
			for i := 0; ; i++ {
				if match(rest, path[i:]) {
					return true
				}
				if i == len(path) || !deep && path[i] == '/' {
					return false
				}
			}
		}
		if path == "" || glob[0] != path[0] && (glob[0] != '?' || path[0] == '/') {
			return false
		}
		glob, path = glob[1:], path[1:]
	}
	return path == ""
}
