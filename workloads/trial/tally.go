package trial

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"faultline/sim/machine"
	"faultline/workloads/history"
	"faultline/workloads/oracle"
)

// tally counts for the summary of a run, and follows how far the slowest group is behind.
type tally struct {
	acked, processed int64
	shares           map[partition]*share
	near             [64]*share      // by the partition's number: the one looked up last
	several          map[string]bool // topics with several replicas
	groups           map[string]*progress
	order            []*progress
	parsed           map[string]partition
	seats            map[string]*reader // by "group/topic/partition"
	names            *oracle.Incarnations
}

type partition struct {
	topic string
	index int32
}

// share is the account of a partition.
type share struct {
	partition
	end     int64 // after the highest offset acknowledged
	shown   bool
	visible int64    // if shown: first offset that consumers may not see
	readers []reader // one for each group, as in tally.order
}

// reader is how far a group has got in a partition.
type reader struct {
	reads  bool  // it reads the topic
	next   int64 // after the highest offset processed
	stored int64 // committed
	reset  int64 // after the last reset: nothing below is there to be read
}

// progress is one group's.
type progress struct {
	name        string
	number      int // in tally.order
	topics      map[string]bool
	coordinated bool  // by a broker
	lag         int64 // acked records above next, over all partitions of the run
}

func newTally(groups map[string][]string, several map[string]bool) *tally {
	t := &tally{several: several, shares: map[partition]*share{}, groups: map[string]*progress{}, parsed: map[string]partition{}, seats: map[string]*reader{}}
	for _, name := range slices.Sorted(maps.Keys(groups)) {
		g := &progress{name: name, number: len(t.order), topics: map[string]bool{}}
		for _, topic := range groups[name] {
			g.topics[topic] = true
		}
		t.groups[name] = g
		t.order = append(t.order, g)
	}
	return t
}

// share is the account of a partition.
func (t *tally) share(topic string, index int32) *share {
	near := &t.near[index&63]
	if s := *near; s != nil && s.index == index && s.topic == topic {
		return s
	}
	p := partition{topic, index}
	s := t.shares[p]
	if s == nil {
		s = &share{partition: p, readers: make([]reader, len(t.order))}
		for i, g := range t.order {
			s.readers[i].reads = g.topics[oracle.BaseTopic(topic)]
		}
		t.shares[p] = s
	}
	*near = s
	return s
}

// Needs implements [history.Selective].
func (*tally) Needs() history.Steps { return history.Acking | history.Processing | history.Committing }

// Observe implements history.Observer.
func (t *tally) Observe(e *history.Event) {
	switch e.Kind {
	case history.Acked:
		t.acked++
		if t.names.Dead(e.Topic) {
			return
		}
		s := t.share(e.Topic, e.Partition)
		if more := e.Offset + 1 - s.end; more > 0 {
			s.end += more
			for i := range s.readers {
				if r := &s.readers[i]; r.reads {
					t.order[i].lag += min(more, max(0, s.end-r.next))
				}
			}
		}
	case history.Processed:
		t.processed++
		if t.names.Dead(e.Topic) {
			return
		}
		g, s := t.groups[e.Group], t.share(e.Topic, e.Partition)
		if r := &s.readers[g.number]; e.Offset+1 > r.next {
			g.lag -= max(0, min(e.Offset+1, s.end)-r.next)
			r.next = e.Offset + 1
		}
	case history.Traced:
		switch e.Trace.Kind {
		case machine.LogVisible:
			t.shown(e.Trace.Subject, false, e.Trace.A)
		case machine.LogOpened:
			t.shown(e.Trace.Subject, false, e.Trace.B)
		case machine.LeaderBegan:
			t.shown(e.Trace.Subject, true, e.Trace.C)
		case machine.HighWatermark:
			if e.Trace.C == 1 {
				t.shown(e.Trace.Subject, true, e.Trace.A)
			}
		case machine.ConsumerCommitted:
			if r := t.reader(e.Trace.Subject); r != nil {
				r.stored = e.Trace.A
			}
		case machine.ConsumerClaimed: // what was committed, though who committed it may not have lived to hear of that
			if r := t.reader(e.Trace.Subject); r != nil && e.Trace.A >= 0 {
				r.stored = e.Trace.A
			}
		case machine.ConsumerReset:
			if r := t.reader(e.Trace.Subject); r != nil {
				r.reset = e.Trace.B
			}
		case machine.ZnodeDeleted:
			if topic, ok := strings.CutPrefix(e.Trace.Subject, topicsPath); ok {
				t.forget(topic)
			}
		}
	}
}

// shown notes what consumers may see of a partition, as who has its only log says, or, of several replicas, its leader.
func (t *tally) shown(subject string, leader bool, visible int64) {
	if p := t.partition(subject); t.several[oracle.BaseTopic(p.topic)] == leader && !t.names.Dead(p.topic) {
		s := t.share(p.topic, p.index)
		s.shown, s.visible = true, visible
	}
}

// forget takes a topic that was deleted out of the account: nobody waits for what it held.
func (t *tally) forget(topic string) {
	for p, s := range t.shares { // order: each for itself
		if p.topic != topic {
			continue
		}
		for i := range s.readers {
			if r := &s.readers[i]; r.reads {
				t.order[i].lag -= max(0, s.end-r.next)
			}
		}
		s.end, s.shown = 0, false
	}
}

// partition parses "topic/partition".
func (t *tally) partition(subject string) partition {
	p, ok := t.parsed[subject]
	if !ok {
		topic, index, _ := strings.Cut(subject, "/")
		i, _ := strconv.ParseInt(index, 10, 32)
		p = partition{topic, int32(i)}
		t.parsed[subject] = p
	}
	return p
}

// reader is what is known of "group/topic/partition"; nil when there is no such group.
func (t *tally) reader(subject string) *reader {
	r, ok := t.seats[subject]
	if !ok {
		group, rest, _ := strings.Cut(subject, "/")
		if g := t.groups[group]; g != nil {
			p := t.partition(rest)
			r = &t.share(p.topic, p.index).readers[g.number]
		}
		t.seats[subject] = r
	}
	return r
}

// lag is how many acknowledged records the slowest group has not processed.
func (t *tally) lag() int64 {
	most := int64(math.MinInt64)
	for _, g := range t.order {
		most = max(most, g.lag)
	}
	return most
}

// behind tells which group has not processed, or committed, all that is visible, and has not skipped it legally; "" when none is. Partitions
// that may be closed for good count for nobody.
func (t *tally) behind(closed func(partition) bool) string {
	var out []string
	for _, s := range t.shares { // order: the least is told
		if !s.shown {
			continue
		}
		for i, r := range s.readers {
			if at := max(r.next, r.stored, r.reset); r.reads && at < s.visible && !closed(s.partition) {
				out = append(out, fmt.Sprintf("group %s is at offset %d of %s/%d, of which offsets below %d are visible", t.order[i].name, at, s.topic, s.index, s.visible))
			}
		}
	}
	if len(out) == 0 {
		return ""
	}
	return slices.Min(out)
}
