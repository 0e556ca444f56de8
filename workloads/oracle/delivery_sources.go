package oracle

import (
	"time"

	"faultline/workloads/history"
)

// source is what one source of records sent.
type source struct {
	producer    Producer
	machine     string
	incarnation int
	dead        bool // its process is gone: what is pending stays so
	known       bool
	recent      queue[record]    // by sequence number
	old         map[int64]record // what is not settled though much that came later is
	sweep       int              // size of old at which it is cleaned up
	marks       []mark           // by partition number
	retries     moments          // when it sent a batch of a partition once more
	acks        moments          // when a record in a partition was acked
}

// record is what is known of one record.
type record struct {
	hash      uint64
	sentAt    time.Duration
	offset    int64 // acked at or, before that, first seen at; none
	topic     *topicLog
	partition int32 // none while nobody knows
	state     state
	seen      bool // some group processed it
	once      bool // acked at an offset, and never sent a second time
}

const none = -1

type state uint8

const (
	pending state = iota
	acked
	failed
	unknown
)

// mark is the last acked record of a source in a partition.
type mark struct {
	seq    int64
	offset int64
	sentAt time.Duration
	set    bool
}

func (d *Delivery) sent(e *history.Event) {
	n := e.ID.Source()
	for n >= len(d.sources) {
		d.sources = append(d.sources, &source{})
	}
	s := d.sources[n]
	if !s.known {
		*s = source{known: true, producer: d.promise.producer(e.Producer), machine: e.Machine, incarnation: e.Incarnation, old: map[int64]record{}, sweep: 1024}
	}
	if e.ID.Seq() != s.recent.end() {
		d.Violate(e.At, Deliver, "the history is broken: %v was sent after %v", e.ID, history.NewID(n, s.recent.end()-1))
		return
	}
	*s.recent.push() = record{hash: e.Hash, sentAt: e.At, offset: none, topic: d.topic(e.Topic), partition: e.Partition}
	d.stats.Sent++
}

// find returns what is known of a record: nil when it is settled. ok is false when it was never sent.
func (d *Delivery) find(id history.ID) (s *source, r *record, ok bool) {
	n := id.Source()
	if n >= len(d.sources) || !d.sources[n].known {
		return nil, nil, false
	}
	s = d.sources[n]
	if id.Seq() >= s.recent.end() {
		return s, nil, false
	}
	if r = s.recent.at(id.Seq()); r == nil {
		if o, is := s.old[id.Seq()]; is {
			r = &o // a copy: save stores it again
		}
	}
	return s, r, true
}

// save stores a record that find returned and that was changed.
func (s *source) save(id history.ID, r *record) {
	if id.Seq() < s.recent.base {
		s.old[id.Seq()] = *r
	}
}

// joins tells whether a record may be in the topic: the one that it was sent to or, as it was under way when that was deleted, the next of the name. What was known of its place in the other counts no more.
func (d *Delivery) joins(r *record, topic string) bool {
	done := r.state == acked && r.topic.gone // and what is acknowledged was under way no more
	if r.topic.name != topic && BaseTopic(r.topic.name) == BaseTopic(topic) && !done {
		r.topic, r.partition, r.offset, r.seen, r.once = d.topic(topic), none, none, false, false
	}
	return r.topic.name == topic
}

// retried notes that a producer sends a batch of a partition once more, as it says itself.
func (d *Delivery) retried(e *history.Event) {
	pl, ok := parsePlace(e.Trace.Subject)
	if !ok || d.dead(pl.topic) {
		return
	}
	part := d.part(d.topic(pl.topic), pl.partition)
	for _, s := range d.sources {
		if s.machine != e.Machine || s.incarnation != e.Incarnation {
			continue
		}
		s.retries.set(part, e.At)
	}
}

// moments are when something happened last in a partition, by its number.
type moments []time.Duration

func (m *moments) set(p *partLog, at time.Duration) {
	for p.number >= len(*m) {
		*m = append(*m, none)
	}
	(*m)[p.number] = at
}

// in is none where it never happened.
func (m moments) in(p *partLog) time.Duration {
	if p == nil || p.number >= len(m) {
		return none
	}
	return m[p.number]
}

// gone notes that a process is no more.
func (d *Delivery) gone(e *history.Event) {
	for _, s := range d.sources {
		if s.machine == e.Machine && s.incarnation == e.Incarnation {
			s.dead = true
		}
	}
	for _, s := range d.paths.all {
		s.drop(func(c *claimant) bool { return c.machine == e.Machine && c.incarnation == e.Incarnation })
	}
}
