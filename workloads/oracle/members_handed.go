package oracle

import (
	"slices"

	"faultline/workloads/history"
)

// chair is a partition of a group.
type chair struct {
	at     seat
	party  *party
	claims []claimedBy
	last   claimedBy // who claimed last, whatever became of that
	fine   claimedBy // who was found to be the owner, in that version
	ver    int
}

func (o *Members) chair(subject string) *chair {
	c := o.chairs[subject]
	if c == nil {
		at, ok := parseSeat(subject)
		if !ok {
			return nil
		}
		p := o.party(at.group)
		if p == nil {
			return nil
		}
		c = &chair{at: at, party: p}
		o.chairs[subject] = c
	}
	return c
}

// handed judges a hand-over, and remembers its chair when all is well.
func (o *Members) handed(e *history.Event, c *chair, who claimedBy) {
	p := c.party
	a := p.actors[actorKey{e.Machine, e.Incarnation}]
	owner, owned := p.given[c.at.place]
	last := p.last[c.at.place]
	fault := ""
	switch {
	case !slices.Contains(c.claims, who):
		fault = "it has no claim"
	case c.last != who:
		fault = c.last.consumer + " on " + c.last.machine + " claimed it later"
	case a == nil || a.member == "":
		fault = "it was never synced"
	case !p.members[a.member]:
		fault = "it is no member any more: the coordinator has not counted " + a.member + " since " + p.went[a.member].String()
	case owned && owner != a.member:
		fault = "the assignment of generation " + itoa(p.stable) + " gives it to " + owner
	case last.member == "":
		fault = "no assignment ever gave it to anybody"
	case last.member != a.member:
		fault = "generation " + itoa(last.generation) + ", the last that gave it to anybody, gave it to " + last.member
	case p.group.Eager && a.generation != p.generation, a.generation > p.generation:
		fault = "it is in generation " + itoa(a.generation) + ", the group is in " + itoa(p.generation)
	default:
		c.fine, c.ver = who, p.version
		return
	}
	o.accuse(p, e.At, Own1, "%s on %s is handed offset %d of %v, but %s", who.consumer, e.Machine, e.Trace.A, c.at, fault)
}
