package oracle

import (
	"time"

	"faultline/sim/machine"
	"faultline/workloads/history"
)

// commit is the last change of a committed offset.
type commit struct {
	at    time.Duration
	value int64
	owner int64 // session of the partition's owner then
}

// committed judges a change of the offset's znode.
func (o *Offsets) committed(e *history.Event, at seat) {
	p := o.seat(at)
	if p == nil {
		return
	}
	t := &e.Trace
	if t.Kind == machine.ZnodeDeleted {
		if p.committed >= 0 {
			o.Violate(e.At, CMono, "the committed offset %d of %v vanished: its node was deleted", p.committed, at)
		}
		p.committed, p.sure = none, none
		return
	}
	v, ok := parseOffset(t.Detail)
	if !ok || v < 0 {
		o.Violate(e.At, CMono, "the committed offset of %v became %q, which is no offset", at, t.Detail)
		return
	}
	o.moves(e, p, v)
	own, owned := o.reg.owners[at]
	if !owned {
		o.Violate(e.At, Gen, "offset %d of %v is committed while nobody owns the partition", v, at)
	}
	p.last = commit{at: e.At, value: v, owner: own.session}
}

// stored judges a commit that a group coordinator stored.
func (o *Offsets) stored(e *history.Event, at seat) {
	p := o.seat(at)
	if p == nil || !p.group.Coordinated {
		return
	}
	if e.Trace.A < 0 {
		o.Violate(e.At, CMono, "the committed offset of %v became %d, which is no offset", at, e.Trace.A)
		return
	}
	if e.Trace.B < 0 && e.Trace.Detail == "" && e.Trace.A >= p.sure {
		// As a new coordinator found it. It may be a commit that nobody was told of, and that the next one does not find.
		sure := p.sure
		o.moves(e, p, e.Trace.A)
		p.sure = sure
		return
	}
	o.moves(e, p, e.Trace.A)
}

// moves judges that the committed offset of a seat is v now.
func (o *Offsets) moves(e *history.Event, p *progress, v int64) {
	at := p.seat
	loose := o.loose(at.place)
	switch {
	case v >= p.sure:
	case p.goesBack(v):
		p.acks = nil
	case !loose:
		o.Violate(e.At, CMono, "the committed offset of %v went back from %d to %d", at, p.sure, v)
	}
	p.sure = v
	for v > p.done.base && o.disk != nil && o.promise.Compacts(at.topic) && o.disk.Compacted(at.topic, at.partition, p.done.base) {
		p.done.moveBase(p.done.base + 1)
	}
	if p.group.Delivery == AtLeastOnce && v > p.done.base {
		if !loose {
			o.Violate(e.At, CommitP, "offset %d of %v is committed, but offset %d was never processed", v, at, p.done.base)
		}
		p.done.moveBase(min(v, p.done.base+windowLimit)) // told once
	}
	if _, end := o.extent(at.place); p.group.Delivery == AtMostOnce && end > 0 && v > end && v > p.committed && !loose {
		o.Violate(e.At, CommitP, "offset %d of %v is committed, but the log ends at %d: what comes next is lost without being handed over", v, at, end)
	}
	p.committed = v
}

// called holds an acknowledged request against the owner at the time when it took effect.
func (o *Offsets) called(e *history.Event) {
	c := e.Coord
	if c.Err != nil {
		return
	}
	if c.Op == "multi" {
		for i := range c.Ops {
			o.wrote(e, &c.Ops[i])
		}
		return
	}
	o.wrote(e, c)
}

func (o *Offsets) wrote(e *history.Event, op *history.CoordCall) {
	if op.Op != "set" && op.Op != "create" {
		return
	}
	at, ok := parseSeatPath(op.Path, "offsets")
	at.topic = o.promise.Incarnations.Last(at.topic)
	p := o.seat(at)
	if !ok || p == nil {
		return
	}
	v, ok := parseOffset(string(op.Data))
	last := &p.last
	if !ok || last.value != v || last.at < e.Coord.Start || last.at > e.Coord.End || last.owner == 0 || last.owner == e.Coord.Session {
		return
	}
	o.Violate(e.At, Gen, "%s committed offset %d of %v with session 0x%x at %v, when session 0x%x owned the partition",
		e.Machine, v, at, e.Coord.Session, last.at, last.owner)
	last.owner = 0 // told once
}

func offsetText(o int64) string {
	if o < 0 {
		return "none"
	}
	return itoa(o)
}
