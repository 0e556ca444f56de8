package oracle

import (
	"slices"
	"time"
)

// owned reports whether the seat has an owner, and that one knows it.
func (o *Members) owned(p *party, at seat) bool {
	member, given := p.given[at.place]
	c := o.chair(at.String())
	return given && p.state == "Stable" && slices.ContainsFunc(c.claims, func(x claimedBy) bool {
		a := p.actors[actorKey{x.machine, x.inc}]
		return a != nil && a.member == member
	})
}

// look notes whether a seat should have an owner and has none.
func (o *Members) look(now time.Duration, at seat) {
	p := o.party(at.group)
	if _, exists := o.reg.topics[at.topic][at.partition]; exists && len(p.actors) > 0 && !o.owned(p, at) {
		if _, already := o.unowned[at]; !already {
			o.unowned[at] = now
		}
		return
	}
	delete(o.unowned, at)
	delete(o.told, at)
}

// survey looks at every seat anew.
func (o *Members) survey(now time.Duration) {
	for _, at := range sortedSeats(o.unowned) {
		o.look(now, at)
	}
	for _, p := range o.groups {
		for _, topic := range p.group.Topics {
			for partition := range o.reg.topics[topic] { // order: no matter
				o.look(now, seat{p.group.Name, place{topic, partition}})
			}
		}
	}
	o.plan()
}

// unmissed reports the groups that are stable without a member that went a moment ago.
func (o *Members) unmissed() {
	for _, p := range o.groups {
		if p.missing != "" {
			o.accuse(p, o.parted, OwnAll, "group %s stays stable in generation %d without %s, which is no member since %v: what it was given is nobody's", p.group.Name, p.generation, p.missing, o.parted)
			p.missing = ""
		}
	}
	o.parted = none
}

// due is when a seat that is unowned since then becomes overdue, if nothing changes.
func (o *Members) due(at seat, since time.Duration) time.Duration {
	return max(since, o.calm.since, o.party(at.group).moved) + o.promise.OwnedWithin
}

// plan finds the next moment to look.
func (o *Members) plan() {
	o.deadline = none
	if o.promise.OwnedWithin <= 0 || !o.calm.now() {
		return
	}
	for at, since := range o.unowned { // order: the least is the same in any order
		if due := o.due(at, since); !o.told[at] && (o.deadline < 0 || due < o.deadline) {
			o.deadline = due
		}
	}
}

// overdue reports the seats that are unowned for too long.
func (o *Members) overdue(now time.Duration) {
	for _, at := range sortedSeats(o.unowned) {
		if since := o.unowned[at]; !o.told[at] && now > o.due(at, since) {
			o.told[at] = true
			o.accuse(o.party(at.group), now, OwnAll, "%v has no owner since %v (%s), though nothing disturbs since %v and nothing changed since %v; the limit is %v",
				at, since, o.standing(at), o.calm.since, o.party(at.group).moved, o.promise.OwnedWithin)
		}
	}
	o.plan()
}

// standing says why a seat has no owner.
func (o *Members) standing(at seat) string {
	p := o.party(at.group)
	member, given := p.given[at.place]
	switch {
	case p.state != "Stable":
		return "the group is " + p.state + " in generation " + itoa(p.generation)
	case given:
		return member + ", to whom generation " + itoa(p.stable) + " gives it, has no claim"
	}
	return "generation " + itoa(p.stable) + " gives it to nobody"
}
