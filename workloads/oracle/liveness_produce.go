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

// gaveUp judges a record that its producer gave up because its delivery time-out was over. Topics with one replica are not judged: acks=all waits for a flush there, so that what piled up while the broker was away may take longer than the time-out (broker-power-loss, seed 9).
func (l *Liveness) gaveUp(e *history.Event, r *record) {
	since := max(l.calm.since, r.sentAt, l.topics)
	parts := l.reg.replicas[r.topic.name]
	if !l.promise.Replicated(r.topic.name) || !l.calm.now() || e.At < since+deliveredWithin || l.promise.HealWithin <= 0 || l.promise.Small || len(parts) == 0 || !strings.Contains(e.Text, producer.ErrTimedOut.Error()) {
		return
	}
	for p := range parts { // order: no matter
		if l.promise.Ruins.of(place{r.topic.name, p}) {
			return
		}
	}
	l.Violate(e.At, Live, "record %v, sent to %s at %v, was given up at %v, though nothing disturbs since %v: %s", e.ID, r.topic.name, r.sentAt, e.At, l.calm.since, e.Text)
}
