package oracle

import (
	"time"

	"faultline/workloads/history"
)

// entrants tells who is a member of a generation and never asked to be.
type entrants struct {
	members map[string]bool
	since   map[string]genesis // by member: the first generation that was made since its last join was answered
	unsure  map[string]bool    // members whose last join was refused, or not answered: it may wait at the coordinator
}

// genesis is when a group got a generation.
type genesis struct {
	at         time.Duration
	generation int64
}

func newEntrants() entrants {
	return entrants{members: map[string]bool{}, since: map[string]genesis{}, unsure: map[string]bool{}}
}

// begin forgets what an earlier coordinator knew.
func (j *entrants) begin() {
	clear(j.members)
	clear(j.since)
}

func (j *entrants) went(member string) {
	delete(j.members, member)
	delete(j.since, member)
}

// made notes that a generation was made of the members.
func (j *entrants) made(at time.Duration, generation int64) {
	for m := range j.members { // order: each on its own
		if _, earlier := j.since[m]; !earlier && !j.unsure[m] {
			j.since[m] = genesis{at, generation}
		}
	}
}

// joined judges, when a join is over, whether the member was in a generation before it asked for that. It asks in one request after the other.
func (o *Reasons) joined(e *history.Event, g *reasons, member string, answered bool) {
	if member == "" {
		return
	}
	first, made := g.entrants.since[member]
	delete(g.entrants.since, member)
	g.entrants.unsure[member] = !answered
	if made && e.Kafka.Start > first.at+skew {
		o.accuse(g, e.At, Live, "%s on %s is a member of group %s in generation %d since %v, though it did not ask to join before %v: what it was given there stood still",
			member, e.Machine, g.group.Name, first.generation, first.at, e.Kafka.Start)
	}
}
