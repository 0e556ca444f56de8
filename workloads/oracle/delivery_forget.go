package oracle

// removeTopic forgets a deleted topic. Records under way to it are owed to nobody.
func (d *Delivery) removeTopic(name string) {
	t := d.topics[name]
	if t == nil {
		return
	}
	t.gone = true
	delete(d.topics, name)
	d.deleted[name] = t
	for _, p := range t.parts {
		if p == nil {
			continue
		}
		d.logs.delete(p.place.String())
		for _, s := range p.seats {
			d.paths.delete(s.seat.String())
			d.near[p.partition&15] = nil
		}
	}
}

// forget drops what is settled.
func (d *Delivery) forget() {
	for _, t := range d.topics {
		for _, p := range t.parts {
			if p == nil {
				continue
			}
			low := p.entries.end()
			for _, s := range p.seats {
				low = min(low, s.settled())
			}
			p.entries.dropBelow(low)
		}
	}
	for _, s := range d.sources {
		if s.known {
			s.forget(d)
		}
	}
}

func (s *source) forget(d *Delivery) {
	q := &s.recent
	for q.n > 0 {
		r := q.at(q.base)
		switch settled, open := s.settled(r); {
		case settled:
		case open:
			return
		default:
			s.old[q.base] = *r
		}
		q.dropBelow(q.base + 1)
	}
	if len(s.old) > s.sweep {
		for seq, r := range s.old {
			if settled, _ := s.settled(&r); settled {
				delete(s.old, seq)
			}
		}
		s.sweep = max(1024, 2*len(s.old))
	}
}

// settled reports whether nothing more can be said of a record, and otherwise whether it is open: its outcome or its delivery will come.
// Those that are neither may never show again, or at any time.
func (s *source) settled(r *record) (settled, open bool) {
	switch {
	case r.topic.gone && r.state != pending && r.state != unknown:
		return true, false
	case r.state == pending && !s.dead:
		return false, true
	case r.topic.gone: // it may turn up in another topic of the name
		return false, false
	case r.offset < 0 || r.partition < 0 || int(r.partition) >= len(r.topic.parts) || r.topic.parts[r.partition] == nil:
		return false, false
	case r.offset < r.topic.parts[r.partition].entries.base:
		return true, false
	}
	return false, r.state == acked
}
