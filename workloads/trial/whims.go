package trial

import (
	"math/rand/v2"
	"time"

	"faultline/consumer"
	"faultline/workloads/history"
	"faultline/workloads/scenario"
)

// whims are what an application asks of its consumer beyond the next record: it pauses partitions for a while, and goes back in time. It does so when it gets a record, in the task that reads the record's stream, so that
// nothing of the partition is handed over meanwhile. (When it is done with one it must ask for the next at once: oracles take what it processed for what it told its consumer.)
type whims struct {
	r    *run
	p    *running
	c    *scenario.Group
	g    *consumer.Group
	dice *rand.Rand
}

// newWhims has dice of its own for a stream: those of groups without whims roll as ever.
func newWhims(r *run, p *running, c *scenario.Group, g *consumer.Group, s *consumer.Stream) *whims {
	w := &whims{r: r, p: p, c: c, g: g}
	if c.HoldChance.V() > 0 || c.RewindChance.V() > 0 {
		w.dice = p.Rand("trial/whims/" + c.Name + "/" + s.Topic())
	}
	return w
}

// goBack has the application do what comes to its mind when it gets a record. It tells whether the application went back, so that the record comes again.
func (w *whims) goBack(m *consumer.Message) bool {
	if w.dice == nil {
		return false
	}
	if w.c.HoldChance.V().Hit(w.dice.Int64N(1_000_000)) {
		w.hold(m, w.c.Hold.Draw(w.dice).D())
	}
	return w.c.RewindChance.V().Hit(w.dice.Int64N(1_000_000)) && w.rewind(m, w.c.Rewind.Draw(w.dice).D())
}

// rewind goes back to the first record that is at most so much older. It never goes ahead: what it left out would be owed to nobody.
func (w *whims) rewind(m *consumer.Message, by time.Duration) bool {
	if w.r.phase > history.Load {
		return false // the group is to come to rest
	}
	offset, _, err := w.g.OffsetForTime(m.Topic, m.Partition, max(m.Timestamp-by.Milliseconds(), 0))
	if err != nil || offset < 0 || offset > m.Offset {
		return false
	}
	w.r.rec.Sought(w.p.who, w.c.Name, w.g.ID(), w.r.topicName(m.Topic, m.TopicID), m.Partition, offset)
	return w.g.Seek(m.Topic, m.Partition, offset) == nil // else the partition is somebody else's by now
}

// hold pauses the record's partition, and resumes it later.
func (w *whims) hold(m *consumer.Message, d time.Duration) {
	r, topic, called, partition := w.r, m.Topic, w.r.topicName(m.Topic, m.TopicID), m.Partition
	r.rec.Suspended(w.p.who, w.c.Name, w.g.ID(), called, partition)
	if w.g.Pause(topic, partition) != nil {
		r.rec.Continued(w.p.who, w.c.Name, w.g.ID(), called, partition)
		return
	}
	w.p.Go("app resumes", func() { // without m, so that no record costs memory because of it
		w.p.Sleep(d)
		r.rec.Continued(w.p.who, w.c.Name, w.g.ID(), called, partition)
		_ = w.g.Resume(topic, partition) // likewise
	})
}
