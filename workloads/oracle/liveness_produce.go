package oracle

import (
	"strings"
	"time"

	"faultline/producer"
	"faultline/workloads/history"
)

// deliveredWithin is how long a producer may need to deliver a record when nothing disturbs, from the end of the last disturbance or from when it was sent. It covers the end of a dead broker's
// session, an election, and the producer's own pauses.
const deliveredWithin = 20 * time.Second

// gaveUp judges a record that its producer gave up because its delivery time-out was over.
func (l *Liveness) gaveUp(e *history.Event, r *record) {
	since := max(l.calm.since, r.sentAt, l.topics)
	parts := l.reg.replicas[r.topic.name]
	if !l.calm.now() || e.At < since+deliveredWithin || l.promise.HealWithin <= 0 || l.promise.Small || len(parts) == 0 || !strings.Contains(e.Text, producer.ErrTimedOut.Error()) {
		return
	}
	for p := range parts { // order: no matter
		if l.promise.Ruins.of(place{r.topic.name, p}) {
			return
		}
	}
	progress := l.delivery.progress(e, r)
	if !l.promise.Replicated(r.topic.name) && progress > since {
		return
	}
	l.Violate(e.At, Live, "record %v, sent to %s at %v, was given up at %v, though nothing disturbs since %v%s: %s", e.ID, r.topic.at(e.Partition), r.sentAt, e.At, l.calm.since, lately(progress), e.Text)
}

// progress is when the producer that gives a record up was acknowledged anything last in the record's partition, or in any of its topic if it had chosen none.
func (d *Delivery) progress(e *history.Event, r *record) time.Duration {
	last, acks := time.Duration(none), d.sources[e.ID.Source()].acks
	for _, p := range r.topic.parts {
		if p != nil && (e.Partition < 0 || p.partition == e.Partition) {
			last = max(last, acks.in(p))
		}
	}
	return last
}

func lately(progress time.Duration) string {
	if progress < 0 {
		return ", and nothing of that producer was ever acked there"
	}
	return ", and something of that producer was acked there last at " + progress.String()
}
