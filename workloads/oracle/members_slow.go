package oracle

import (
	"time"

	"faultline/workloads/history"
)

// slowSlack is how long a member needs to give up its partitions and to leave, when nothing disturbs, after its application has worked for too long.
const slowSlack = time.Second

// begun notes that a record is handed over: from now on the application works on it.
func (p *party) begun(e *history.Event, at place) {
	if p.group.MaxPoll > 0 {
		p.working[workplace{actorKey{e.Machine, e.Incarnation}, at}] = e.At
	}
}

// workplace is a partition as a process works on it, one record after the other.
type workplace struct {
	actorKey
	place
}

// processed judges whether an application that worked for longer than it may was still counted as a member all the time.
func (o *Members) processed(e *history.Event) {
	p := o.party(e.Group)
	if p == nil || p.group.MaxPoll <= 0 {
		return
	}
	key := workplace{actorKey{e.Machine, e.Incarnation}, place{e.Topic, e.Partition}}
	began, known := p.working[key]
	delete(p.working, key)
	may := p.group.MaxPoll + p.group.Extra[e.Machine].MaxPoll
	if !known || e.At < began+may+slowSlack {
		return
	}
	a := p.actors[key.actorKey]
	slow := began + may // who cannot tell then that it leaves is counted out by its session
	if a == nil || !p.members[a.member] || p.state != "Stable" || e.At <= max(slow, p.changed)+slowSlack || !o.quiet.sinceBefore(slow-slowSlack) {
		return
	}
	o.accuse(p, e.At, OwnAll, "%s on %s works on offset %d of %v since %v, for longer than the %v that it may, and is a member all the same: its partitions stand still and nobody else gets them",
		a.member, e.Machine, e.Offset, seat{e.Group, key.place}, began, may)
}
