package oracle

import (
	"slices"
	"time"
)

// loss is a moment when the log may have lost its end.
type loss struct {
	at    time.Duration // forever: it may lose it at any time
	from  int64         // first offset that was not visible then
	all   bool          // durable records too
	below int64         // with all: where the log ended; offsets from from on to there may be given out anew
	old   string        // machine that led before and may not know yet that it does not any more
}

// mayHaveLost reports whether a record that was sent and acked at an offset may be gone without breach of promise. What
// was sent after the loss is not excused, whenever it was acked.
func (p *partLog) mayHaveLost(durable bool, sentAt time.Duration, offset int64) bool {
	for _, l := range p.losses {
		if sentAt <= l.at && offset >= l.from && (l.all || !durable) {
			return true
		}
	}
	return false
}

// ruin frees a partition with several replicas.
func (d *Delivery) ruin(topic string, partition int32) {
	if d.dead(topic) {
		return
	}
	if p := d.part(d.topic(topic), partition); p.several && !p.freed {
		p.freed = true
		p.lose(forever, true, 0)
	}
}

// decay notes that the only copy of the log may lose anything at any time. Several are freed as a whole.
func (p *partLog) decay() {
	if !p.several {
		p.lose(forever, true, 0)
	}
}

// lose notes what may be lost of every log on a machine.
func (d *Delivery) lose(machine string, how func(*partLog)) {
	for _, t := range d.topics {
		for _, p := range t.parts {
			if p != nil && p.broker == machine {
				how(p)
			}
		}
	}
}

// anew reports whether the offset may hold, or come to hold, another record than it once did.
func (p *partLog) anew(offset int64) bool {
	for _, l := range p.losses {
		if l.all && offset >= l.from && (l.at == forever || offset < l.below) {
			return true
		}
	}
	return false
}

// ruined reports whether the log was ever on a ruined disk.
func (p *partLog) ruined() bool {
	return slices.ContainsFunc(p.losses, func(l loss) bool { return l.all })
}

// mend notes that nothing more is lost.
func (p *partLog) mend(at time.Duration) {
	for i := range p.losses {
		if l := &p.losses[i]; l.at == forever && l.old == "" && !p.freed {
			l.at, l.below = at, p.ends()
		}
	}
}

// lose notes that the log may have lost what was not visible or, with all, what lies at the offset and behind it.
func (p *partLog) lose(at time.Duration, all bool, from int64) {
	if !all {
		from = max(p.visible, 0)
	}
	p.losses = append(p.losses, loss{at: at, from: from, all: all, below: p.ends()})
	for o := max(from, p.entries.base); o < p.entries.end(); o++ {
		if e := p.entries.at(o); e.flags != 0 && (all || e.flags&isDurable == 0 && (!p.several || e.flags&isSeen == 0)) {
			e.flags |= isLost
		}
	}
}
