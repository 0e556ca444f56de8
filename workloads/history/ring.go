package history

// Ring keeps the last events of a run. It is an observer.
//
// Of requests to brokers it keeps the summary, without the request and response themselves, which belong to their caller.
type Ring struct {
	events []Event
	kafka  []KafkaCall
	coord  []CoordCall
	said   []CoordSaid
	n      int64
}

// NewRing keeps the last size events (at least one).
func NewRing(size int) *Ring {
	size = max(size, 1)
	return &Ring{events: make([]Event, size), kafka: make([]KafkaCall, size), coord: make([]CoordCall, size), said: make([]CoordSaid, size)}
}

// Observe keeps a copy of the event.
func (r *Ring) Observe(e *Event) {
	i := int(r.n % int64(len(r.events)))
	r.n++
	r.events[i] = *e
	if e.Kafka != nil {
		r.kafka[i] = *e.Kafka
		r.kafka[i].Req, r.kafka[i].Resp = nil, nil
		r.events[i].Kafka = &r.kafka[i]
	}
	if e.Coord != nil {
		r.coord[i] = *e.Coord
		c := &r.coord[i]
		c.Data = append([]byte(nil), c.Data...)
		c.Value = append([]byte(nil), c.Value...)
		c.Children = append([]string(nil), c.Children...)
		c.Ops = append([]CoordCall(nil), c.Ops...)
		for j := range c.Ops {
			c.Ops[j].Data = append([]byte(nil), c.Ops[j].Data...)
		}
		r.events[i].Coord = c
	}
	if e.Heard != nil {
		r.said[i] = *e.Heard
		r.events[i].Heard = &r.said[i]
	}
}

// Each shows the events kept, oldest first.
func (r *Ring) Each(fn func(e *Event)) {
	size := int64(len(r.events))
	for i := max(0, r.n-size); i < r.n; i++ {
		fn(&r.events[i%size])
	}
}

// Dropped is how many older events are gone.
func (r *Ring) Dropped() int64 { return max(0, r.n-int64(len(r.events))) }
