package oracle

import (
	"slices"
	"strconv"
	"time"

	"faultline/sim/machine"
	"faultline/workloads/history"
)

// party is a coordinator group.
type party struct {
	group      *Group
	version    int // rises whenever something changes
	state      string
	generation int64
	stable     int64                       // of the stored assignment; none
	members    map[string]bool             // by member id
	went       map[string]time.Duration    // those that were members
	given      map[place]string            // by the stored assignment
	last       map[place]gift              // by the last stored assignment that gave it to anybody
	spans      []genSpan                   // which generation there was, from when on
	actors     map[actorKey]*actor         // processes that are up and joined
	moved      time.Duration               // last change of what may make it rebalance
	changed    time.Duration               // last change of its state
	working    map[workplace]time.Duration // since when the application works on a record
	missing    string                      // the member that went while it was stable, and it has not changed since; empty: none
}

// genSpan is a time in which a group had a generation; it ends where the next begins.
type genSpan struct {
	from       time.Duration
	generation int64
}

// gift is what an assignment gave to a member.
type gift struct {
	member     string
	generation int64
}

type actorKey struct {
	machine     string
	incarnation int
}

// actor is what a process says that it is.
type actor struct {
	member     string // empty: it was never synced
	generation int64
}

func (o *Members) party(name string) *party {
	for _, p := range o.groups {
		if p.group.Name == name {
			return p
		}
	}
	return nil
}

// gone notes that a process of the group is no more, or left.
func (o *Members) gone(e *history.Event, p *party) {
	key := actorKey{e.Machine, e.Incarnation}
	if p.actors[key] != nil {
		delete(p.actors, key)
		p.moved = e.At
		p.version++
	}
}

// coordinated follows the present coordinator of a group.
func (o *Members) coordinated(e *history.Event) {
	t := &e.Trace
	if t.Kind == machine.GroupsLoaded {
		at, _ := parsePlace(t.Subject)
		for _, p := range o.groups {
			if o.coords.of(at.partition, p.group.Name) {
				o.begin(e.At, p)
			}
		}
		o.survey(e.At)
		return
	}
	name := t.Subject
	at, isSeat := parseSeat(t.Subject)
	if isSeat {
		name = at.group
	}
	p := o.party(name)
	if p == nil {
		return
	}
	p.version++
	switch t.Kind {
	case machine.GroupCame:
		p.members[t.Detail] = true
	case machine.GroupWent:
		delete(p.members, t.Detail)
		p.went[t.Detail] = e.At
		if p.state == "Stable" && !p.group.Static {
			p.missing, o.parted = t.Detail, e.At
		}
	case machine.GroupChanged:
		p.state, p.missing, p.changed = t.Detail, "", e.At
		p.pass(e.At, t.A)
		if t.Detail == "Stable" {
			p.stable = t.A
			clear(p.given)
		}
	case machine.GroupGiven:
		p.given[at.place] = t.Detail
		p.last[at.place] = gift{t.Detail, p.stable}
	case machine.GroupStored:
		o.stored(e, p, at)
		return
	}
	o.survey(e.At)
}

// begin forgets what an earlier coordinator knew of the group: the new one tells what it found in the log.
func (o *Members) begin(at time.Duration, p *party) {
	for id := range p.members {
		p.went[id] = at
	}
	clear(p.members)
	clear(p.given)
	p.state, p.stable, p.moved, p.missing = "", none, at, ""
	p.pass(at, none)
	p.version++
}

func (p *party) pass(at time.Duration, generation int64) {
	if generation != p.generation || len(p.spans) == 0 {
		p.generation = generation
		p.spans = append(p.spans, genSpan{at, generation})
	}
}

// had reports whether the group had the generation at some moment of a time.
func (p *party) had(generation int64, start, end time.Duration) bool {
	for i, s := range p.spans {
		if s.generation == generation && s.from <= end && (i+1 == len(p.spans) || p.spans[i+1].from >= start) {
			return true
		}
	}
	return false
}

// between lists the generations of a time.
func (p *party) between(start, end time.Duration) string {
	out := "none"
	for i, s := range p.spans {
		if s.from <= end && (i+1 == len(p.spans) || p.spans[i+1].from >= start) {
			if out == "none" {
				out = ""
			} else {
				out += ", "
			}
			out += strconv.FormatInt(s.generation, 10)
		}
	}
	return out
}

// keys are the group's processes in order.
func (p *party) keys() []actorKey {
	var keys []actorKey
	for k := range p.actors { // order: sorted below
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b actorKey) int {
		if a.machine != b.machine {
			if a.machine < b.machine {
				return -1
			}
			return 1
		}
		return a.incarnation - b.incarnation
	})
	return keys
}
