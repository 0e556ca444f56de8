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
	ends             map[partition]int64 // after the highest offset acknowledged
	visible          map[partition]int64 // first offset that consumers may not see
	several          map[string]bool     // topics with several replicas
	groups           map[string]*progress
	parsed           map[string]partition
	seats            map[string]seat
	names            *oracle.Incarnations
}

type partition struct {
	topic string
	index int32
}

type seat struct {
	group string
	partition
}

// progress is one group's.
type progress struct {
	topics      map[string]bool
	coordinated bool                // by a broker
	next        map[partition]int64 // after the highest offset processed
	stored      map[partition]int64 // committed
	reset       map[partition]int64 // after the last reset: nothing below is there to be read
	lag         int64               // acked records above next, over all partitions of the run
}

func newTally(groups map[string][]string, several map[string]bool) *tally {
	t := &tally{several: several, ends: map[partition]int64{}, visible: map[partition]int64{}, groups: map[string]*progress{}, parsed: map[string]partition{}, seats: map[string]seat{}}
	for name, topics := range groups {
		g := &progress{topics: map[string]bool{}, next: map[partition]int64{}, stored: map[partition]int64{}, reset: map[partition]int64{}}
		for _, topic := range topics {
			g.topics[topic] = true
		}
		t.groups[name] = g
	}
	return t
}

// Observe implements history.Observer.
func (t *tally) Observe(e *history.Event) {
	switch e.Kind {
	case history.Acked:
		t.acked++
		p := partition{e.Topic, e.Partition}
		if t.names.Dead(p.topic) {
			return
		}
		if more := e.Offset + 1 - t.ends[p]; more > 0 {
			t.ends[p] += more
			for _, g := range t.groups {
				if g.reads(p) {
					g.lag += min(more, max(0, t.ends[p]-g.next[p]))
				}
			}
		}
	case history.Processed:
		t.processed++
		p := partition{e.Topic, e.Partition}
		g := t.groups[e.Group]
		if t.names.Dead(p.topic) {
			return
		}
		if old := g.next[p]; e.Offset+1 > old {
			g.next[p] = e.Offset + 1
			g.lag -= max(0, min(e.Offset+1, t.ends[p])-old)
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
			s := t.seat(e.Trace.Subject)
			if g := t.groups[s.group]; g != nil {
				g.stored[s.partition] = e.Trace.A
			}
		case machine.ConsumerClaimed: // what was committed, though who committed it may not have lived to hear of that
			s := t.seat(e.Trace.Subject)
			if g := t.groups[s.group]; g != nil && e.Trace.A >= 0 {
				g.stored[s.partition] = e.Trace.A
			}
		case machine.ConsumerReset:
			s := t.seat(e.Trace.Subject)
			if g := t.groups[s.group]; g != nil {
				g.reset[s.partition] = e.Trace.B
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
		t.visible[p] = visible
	}
}

// forget takes a topic that was deleted out of the account: nobody waits for what it held.
func (t *tally) forget(topic string) {
	for p, end := range t.ends {
		if p.topic != topic {
			continue
		}
		for _, g := range t.groups { // order: each for itself
			if g.reads(p) {
				g.lag -= max(0, end-g.next[p])
			}
		}
		delete(t.ends, p)
	}
	maps.DeleteFunc(t.visible, func(p partition, _ int64) bool { return p.topic == topic })
}

// reads tells whether the group reads the partition.
func (g *progress) reads(p partition) bool { return g.topics[oracle.BaseTopic(p.topic)] }

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

// seat parses "group/topic/partition".
func (t *tally) seat(subject string) seat {
	s, ok := t.seats[subject]
	if !ok {
		group, rest, _ := strings.Cut(subject, "/")
		s = seat{group, t.partition(rest)}
		t.seats[subject] = s
	}
	return s
}

// lag is how many acknowledged records the slowest group has not processed.
func (t *tally) lag() int64 {
	most := int64(math.MinInt64)
	for _, g := range t.groups {
		most = max(most, g.lag)
	}
	return most
}

// behind tells which group has not processed, or committed, all that is visible, and has not skipped it legally; "" when none is. Partitions
// that may be closed for good count for nobody.
func (t *tally) behind(closed func(partition) bool) string {
	var out []string
	for name, g := range t.groups {
		for p, end := range t.visible {
			if at := max(g.next[p], g.stored[p], g.reset[p]); g.reads(p) && at < end && !closed(p) {
				out = append(out, fmt.Sprintf("group %s is at offset %d of %s/%d, of which offsets below %d are visible", name, at, p.topic, p.index, end))
			}
		}
	}
	if len(out) == 0 {
		return ""
	}
	return slices.Min(out)
}
