package oracle

// Finish implements [Oracle].
func (d *Delivery) Finish(end End) {
	if end.Cut || end.Trouble != "" {
		return
	}
	for _, p := range d.sorted() {
		for _, s := range p.seats {
			if d.owes(s) {
				d.missing(s, func(o int64, en *entry) bool { d.lost(end, s, o, en); return true })
			}
		}
	}
}

// owes reports whether every acked record of the partition is owed to the group.
func (d *Delivery) owes(s *seatLog) bool {
	return d.promise.group(s.group.Name) != nil && s.group.reads(s.part.place.topic) && (s.begun || s.group.Reset == Smallest)
}

// unopened reports whether the broker may refuse to open the log, and has not opened it.
func (d *Delivery) unopened(p *partLog) bool {
	return p.freed || p.closed && d.promise.Ruins.Hurt(p.broker)
}

// missing shows the records that are owed and did not come, until fn returns false.
func (d *Delivery) missing(s *seatLog, fn func(offset int64, e *entry) bool) {
	p := s.part
	if d.unopened(p) {
		return
	}
	from := max(s.done.base, p.entries.base, d.logStart(p))
	if s.group.Delivery == AtMostOnce {
		from = max(from, s.committed, s.high)
	}
	for o := from; o < p.entries.end(); o++ {
		if e := p.entries.at(o); e.flags&isAcked != 0 && e.flags&isLost == 0 && !s.done.has(o) && !d.compacted(p, o, o+1) && !fn(o, e) {
			return
		}
	}
}

// lost reports a record that never came to a group.
func (d *Delivery) lost(end End, s *seatLog, o int64, en *entry) {
	how := "the group was handed nothing from there on"
	if s.high > o {
		how = "the group went on to offset " + itoa(s.high-1)
	}
	from, sent := "", "long ago"
	if src, r, _ := d.find(en.id); src != nil {
		from = src.producer.Name
		if r != nil {
			sent = "at " + r.sentAt.String()
		}
	}
	d.Violate(end.At, Deliver, "group %s never got record %v, which %s sent %s and which was acked at offset %d of %v; %s; committed is %s, the log starts at %d",
		s.group.Name, en.id, from, sent, o, s.part.place, how, offsetText(s.committed), d.logStart(s.part))
}

// position is where the claimant reads on, once what it has taken before a reset is handed over; none: nowhere yet.
func (c *claimant) position() int64 {
	switch n := len(c.jumps); {
	case c.target >= 0:
		return c.target
	case n > 0:
		return c.jumps[n-1].to
	}
	return c.next
}

// lagging lists the claims that read from below the start of their log: what they ask for does not exist any more, so they must
// reset. A claim without a position must find one, too. A log that is not open is Liveness' affair.
func (d *Delivery) lagging() []string {
	var out []string
	for _, p := range d.sorted() {
		if p.visible < 0 || d.unopened(p) {
			continue
		}
		for _, s := range p.seats {
			if d.promise.group(s.group.Name) == nil || s.group.Loner {
				continue
			}
			for i := range s.claims {
				c := &s.claims[i]
				switch at, start := c.position(), d.servedFrom(p); {
				case at < 0:
					out = append(out, c.consumer+" owns "+s.seat.String()+" but reads from nowhere: nothing was committed, and it has not reset; the log has "+itoa(start)+" to "+itoa(p.visible))
				case at < start:
					out = append(out, c.consumer+" owns "+s.seat.String()+" and reads from offset "+itoa(at)+", which retention deleted, and has not reset; the log has "+itoa(start)+" to "+itoa(p.visible))
				}
			}
		}
	}
	return out
}

// Waits tells what is owed and not delivered yet, "" when nothing is. It takes time in proportion to what is in flight.
func (d *Delivery) Waits() string {
	if s := d.standing(); len(s) > 0 {
		return s[0]
	}
	if s := d.lagging(); len(s) > 0 {
		return s[0]
	}
	return ""
}

// standing lists the seats that still owe deliveries, each with the first record that is missing and where the group stands.
func (d *Delivery) standing() []string {
	var out []string
	if d.promise.Ruins.Records() {
		return nil
	}
	for _, p := range d.sorted() {
		for _, s := range p.seats {
			if !d.owes(s) {
				continue
			}
			d.missing(s, func(o int64, en *entry) bool {
				where := "was handed nothing so far"
				if s.high > 0 {
					where = "was handed offset " + itoa(s.high-1) + " last"
				}
				out = append(out, "group "+s.group.Name+" has not processed record "+en.id.String()+", acked at offset "+itoa(o)+" of "+p.place.String()+
					"; it "+where+", the log ends at "+itoa(max(p.end, p.entries.end())))
				return false
			})
		}
	}
	return out
}
