package oracle

import (
	"time"

	"faultline/sim/machine"
	"faultline/workloads/history"
)

// replica follows what the brokers say of a log with several replicas.
func (d *Delivery) replica(e *history.Event, p *partLog) {
	t := &e.Trace
	switch t.Kind {
	case machine.LogAppended:
		p.end = max(p.end, t.B)
	case machine.LogOpened:
		p.closed = false
		p.end, p.visible = max(p.end, t.B), max(p.visible, 0)
	case machine.LogDeleted:
		if e.Machine == p.broker {
			p.start = max(p.start, t.B)
		}
	case machine.LogTruncated:
		p.begun.Note(t)
		d.learnt(e.At, e.Machine, p)
	case machine.LogFailed:
		p.lose(e.At, false, 0)
	case machine.HighWatermark:
		switch {
		case t.C == 1:
			p.visible = max(p.visible, t.A)
		case t.B >= 0:
			d.learnt(e.At, e.Machine, p)
		}
	case machine.LeaderBegan:
		d.moved(e, p)
	}
}

// moved notes that another leader begins.
func (d *Delivery) moved(e *history.Event, p *partLog) {
	t := &e.Trace
	d.learnt(e.At, e.Machine, p)
	if p.unclean {
		p.unclean = false
		p.lose(forever, true, min(t.B, t.C))
		p.losses[len(p.losses)-1].old = p.broker
	}
	if p.broker != "" {
		p.lose(forever, false, 0)
		p.losses[len(p.losses)-1].old = p.broker
		if p.broker == e.Machine { // it leads anew, in another epoch: what it appended is there
			d.learnt(e.At, e.Machine, p)
		}
	}
	p.broker, p.closed = e.Machine, false
	p.visible = max(p.visible, t.C)
}

// learnt ends the losses that a leader may bring which does not know that it is none any more; of all logs if p is nil.
func (d *Delivery) learnt(at time.Duration, machine string, p *partLog) {
	if p == nil {
		for _, t := range d.topics {
			for _, p := range t.parts {
				if p != nil && p.several {
					d.learnt(at, machine, p)
				}
			}
		}
		return
	}
	for i := range p.losses {
		if l := &p.losses[i]; l.at == forever && l.old == machine {
			l.at, l.below = at, p.ends()
		}
	}
}

// decided follows who leads the partitions of a topic.
func (d *Delivery) decided(e *history.Event, topic string) {
	if d.dead(topic) {
		return
	}
	was, now := d.states[e.Trace.Subject], ParseStates(e.Trace.Detail)
	d.states[e.Trace.Subject] = now
	t := d.promise.topic(topic)
	for i := range now {
		if i < len(was) && was[i].Unclean(&now[i]) && t != nil && t.Unclean {
			d.part(d.topic(topic), int32(i)).unclean = true
		}
	}
}
