package oracle

import (
	"slices"
	"time"

	"faultline/faults"
	"faultline/workloads/history"
)

// goneSlack is how much later than its session's end a coordinator may count out a member whose process is gone: it hears of nothing, and looks when its timer tells.
const goneSlack = time.Second

// ghost is a member whose process is gone.
type ghost struct {
	party   *party
	key     actorKey
	member  string
	since   time.Duration
	overdue time.Duration
}

// departed notes whom the coordinator will have to count out.
func (o *Members) departed(at time.Duration, p *party, key actorKey) {
	a := p.actors[key]
	if a == nil || a.member == "" || !p.members[a.member] || p.group.SessionTimeout <= 0 {
		return
	}
	session := p.group.session(key.machine)
	session += time.Duration(float64(session) * o.promise.Drift)
	o.ghosts = append(o.ghosts, ghost{p, key, a.member, at, at + session + goneSlack})
}

// haunted reports members that are counted for longer than their session, though their process is gone: by a coordinator that nothing disturbs, in a group that has been stable all the time, so that nothing but the session's end
// shows that they are.
func (o *Members) haunted(now time.Duration) {
	o.ghosts = slices.DeleteFunc(o.ghosts, func(g ghost) bool {
		p := g.party
		if !p.members[g.member] || p.state != "Stable" || p.changed >= g.since || !o.servers.sinceBefore(g.since) {
			return true
		}
		if now <= g.overdue {
			return false
		}
		o.accuse(p, now, Live, "group %s has counted %s as a member until %v, though its process on %s is gone since %v, and its session is of %v: nobody gets what it was given",
			p.group.Name, g.member, now, g.key.machine, g.since, p.group.session(g.key.machine))
		return true
	})
}

// servers tells since when nothing disturbs brokers and coordination servers: no fault is active but such that stop, start, crash or cut the power of others, and all of them are up.
type servers struct {
	quiet
	others map[int]bool // faults that end processes of others, and are active
}

func newServers(p *Promise) *servers {
	return &servers{*newQuiet(p), map[int]bool{}}
}

func (s *servers) observe(e *history.Event) {
	switch e.Kind {
	case history.FaultInjected:
		if f := e.Fault; f != nil && (f.Kind == faults.Crash || f.Kind == faults.PowerLoss) && !slices.ContainsFunc(f.Hit, func(m string) bool { return slices.Contains(s.brokers, m) || s.coord[m] }) {
			s.others[e.Number] = true
			return
		}
	case history.FaultHealed:
		if s.others[e.Number] {
			delete(s.others, e.Number)
			return
		}
	case history.MachineCrashed:
		if !slices.Contains(s.brokers, e.Machine) && !s.coord[e.Machine] {
			return
		}
	}
	s.quiet.observe(e)
}
