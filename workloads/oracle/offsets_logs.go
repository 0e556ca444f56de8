package oracle

import (
	"faultline/sim/machine"
	"faultline/workloads/history"
)

// extent is where a log starts and ends.
type extent struct {
	start, end int64
	broker     string
	ruined     bool // its disk was, or it is freed: it may give offsets out anew
	several    bool // replicas
}

// logged follows where a log starts and ends.
func (o *Offsets) logged(e *history.Event) {
	t := &e.Trace
	l := o.logs.get(t.Subject)
	if l == nil {
		at, _ := parsePlace(t.Subject)
		l = &extent{several: o.promise.Replicated(at.topic), ruined: o.promise.Ruins.of(at)}
		o.logs.set(t.Subject, l)
	}
	if l.broker != e.Machine {
		l.broker = e.Machine
		l.ruined = l.ruined || !l.several && o.promise.Ruins.Decays(e.Machine)
	}
	switch t.Kind {
	case machine.LogOpened:
		if l.several {
			l.end = max(l.end, t.B)
		} else {
			l.start, l.end = t.A, t.B
		}
	case machine.LogDeleted:
		l.start = max(l.start, t.B)
	case machine.LogTruncated:
		if !l.several {
			l.end = t.B
		}
	default:
		l.end = max(l.end, t.B)
	}
}

// decided notes where an unclean election lets offsets be given out anew.
func (o *Offsets) decided(topic string, now []PartitionState) {
	t := o.promise.topic(topic)
	if t == nil || !t.Unclean {
		return
	}
	was := o.reg.states[topic]
	for i := range now {
		if i < len(was) && was[i].Unclean(&now[i]) {
			o.givenAnew(place{topic, int32(i)})
		}
	}
}

// givenAnew notes that a replicated log may give offsets out anew.
func (o *Offsets) givenAnew(at place) {
	l := o.logs.get(at.String())
	if l == nil {
		l = &extent{several: true}
		o.logs.set(at.String(), l)
	}
	l.ruined = true
}

// ruin notes that the logs on a machine may give offsets out anew.
func (o *Offsets) ruin(machine string) {
	for _, l := range o.logs.all {
		l.ruined = l.ruined || !l.several && l.broker == machine
	}
}

// loose reports whether offsets of the partition need not mean the records that they once did.
func (o *Offsets) loose(at place) bool {
	l := o.logs.get(at.String())
	return l != nil && l.ruined || o.promise.Ruins.Records()
}

func (o *Offsets) extent(at place) (start, end int64) {
	if l := o.logs.get(at.String()); l != nil {
		start, end = l.start, l.end
	}
	if o.disk != nil {
		if _, exists := o.reg.topics[at.topic]; exists {
			start = max(start, o.disk.LogStart(at.topic, at.partition))
		}
	}
	return start, end
}
