package oracle

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"faultline/sim/machine"
	"faultline/workloads/history"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// tape keeps a history, to be changed and told again.
type tape struct{ events []history.Event }

func (l *tape) Observe(e *history.Event) {
	c := *e
	if e.Coord != nil {
		call := *e.Coord
		c.Coord = &call
	}
	l.events = append(l.events, c)
}

// recordTiny draws a run of the tiny system.
func recordTiny(t *rapid.T, least int) (*Promise, []history.Event) {
	tape := &tape{}
	w := newTiny(t, tape)
	for range rapid.IntRange(least, 200).Draw(t, "steps") {
		w.step()
	}
	w.heal()
	return w.p, tape.events
}

// say tells all oracles a history and returns what they say.
func say(p *Promise, events []history.Event) []Violation {
	oracles, _ := New(p, nil)
	var all []Violation
	end := time.Duration(0)
	for _, o := range oracles {
		for i := range events {
			o.Observe(&events[i])
			end = max(end, events[i].At)
		}
	}
	for _, o := range oracles {
		o.Finish(End{At: end + time.Second})
		all = append(all, o.Violations()...)
	}
	return all
}

func TestOraclesAreSilentOnACorrectSystem(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, events := recordTiny(t, 0)
		require.Empty(t, say(p, events))
	})
}

// A corruption changes one thing in a history. It returns nil when there is nothing that it could change.
type corruption struct {
	name   string
	expect []string // one of these must be reported
	change func(t *rapid.T, p *Promise, events []history.Event) []history.Event
}

// pick draws the index of an event that fits, -1 when none does.
func pick(t *rapid.T, events []history.Event, fits func(i int, e *history.Event) bool) int {
	var all []int
	for i := range events {
		if fits(i, &events[i]) {
			all = append(all, i)
		}
	}
	if len(all) == 0 {
		return -1
	}
	return rapid.SampledFrom(all).Draw(t, "event")
}

func traced(kind machine.Kind) func(int, *history.Event) bool {
	return func(_ int, e *history.Event) bool { return e.Kind == history.Traced && e.Trace.Kind == kind }
}

func isOffset(e *history.Event) bool {
	return e.Kind == history.Traced && strings.Contains(e.Trace.Subject, "/offsets/")
}

// edit changes a drawn event in place.
func edit(fits func(int, *history.Event) bool, change func(*history.Event)) func(*rapid.T, *Promise, []history.Event) []history.Event {
	return func(t *rapid.T, _ *Promise, events []history.Event) []history.Event {
		i := pick(t, events, fits)
		if i < 0 {
			return nil
		}
		change(&events[i])
		return events
	}
}

func remove(fits func(int, *history.Event) bool) func(*rapid.T, *Promise, []history.Event) []history.Event {
	return func(t *rapid.T, _ *Promise, events []history.Event) []history.Event {
		i := pick(t, events, fits)
		if i < 0 {
			return nil
		}
		return slices.Delete(events, i, i+1)
	}
}

var corruptions = []corruption{
	{"a record is not processed", []string{Deliver, CommitP}, func(t *rapid.T, p *Promise, events []history.Event) []history.Event {
		// One that is processed once only, and that nobody may leave out later.
		if p.Groups[0].Reset == Largest {
			return nil
		}
		starts := map[string]int64{}
		for i := range events {
			if traced(machine.LogDeleted)(i, &events[i]) {
				starts[events[i].Trace.Subject] = events[i].Trace.B
			}
		}
		times := map[[2]int64]int{}
		at := func(e *history.Event) [2]int64 { return [2]int64{int64(e.Partition), e.Offset} }
		for i := range events {
			if events[i].Kind == history.Processed {
				times[at(&events[i])]++
			}
		}
		return remove(func(_ int, e *history.Event) bool {
			return e.Kind == history.Processed && times[at(e)] == 1 && e.Offset >= starts[place{e.Topic, e.Partition}.String()]
		})(t, nil, events)
	}},
	{"a record is not handed over", []string{Deliver}, func(t *rapid.T, _ *Promise, events []history.Event) []history.Event {
		// The next one of its claim is.
		return remove(func(i int, e *history.Event) bool {
			if !traced(machine.ConsumerHanded)(i, e) {
				return false
			}
			for j := i + 1; j < len(events); j++ {
				if n := &events[j]; n.Kind == history.Traced && n.Trace.Subject == e.Trace.Subject {
					return n.Trace.Kind == machine.ConsumerHanded && n.Trace.A == e.Trace.A+1
				}
			}
			return false
		})(t, nil, events)
	}},
	{"a record is handed over twice", []string{Order, DupB}, func(t *rapid.T, _ *Promise, events []history.Event) []history.Event {
		i := pick(t, events, traced(machine.ConsumerHanded))
		if i < 0 {
			return nil
		}
		return slices.Insert(events, i, events[i])
	}},
	{"bytes change", []string{Deliver}, edit(func(_ int, e *history.Event) bool { return e.Kind == history.Processed }, func(e *history.Event) { e.Hash ^= 1 })},
	{"a record comes from nowhere", []string{Deliver}, edit(func(_ int, e *history.Event) bool { return e.Kind == history.Processed }, func(e *history.Event) { e.ID = history.NewID(0, 1<<30) })},
	{"a failed record is processed", []string{Deliver}, func(t *rapid.T, _ *Promise, events []history.Event) []history.Event {
		i := pick(t, events, func(_ int, e *history.Event) bool { return e.Kind == history.Processed })
		if i < 0 {
			return nil
		}
		id := events[i].ID
		for j := range events {
			if e := &events[j]; e.ID == id && (e.Kind == history.Acked || e.Kind == history.Unknown) {
				e.Kind = history.Failed
				return events
			}
		}
		return nil
	}},
	{"an ack names an offset where nothing is", []string{Deliver}, func(t *rapid.T, p *Promise, events []history.Event) []history.Event {
		if p.Producers[0].Acks >= 0 {
			return nil // it may be lost
		}
		return edit(func(_ int, e *history.Event) bool { return e.Kind == history.Acked }, func(e *history.Event) { e.Offset += 1000 })(t, p, events)
	}},
	{"a commit is too high", []string{CommitP}, edit(func(_ int, e *history.Event) bool { return isOffset(e) }, func(e *history.Event) {
		n, _ := strconv.Atoi(e.Trace.Detail)
		e.Trace.Detail = strconv.Itoa(n + 1000)
	})},
	{"a commit goes back", []string{CMono}, func(t *rapid.T, _ *Promise, events []history.Event) []history.Event {
		i := pick(t, events, func(_ int, e *history.Event) bool { return isOffset(e) && e.Trace.Detail != "0" })
		if i < 0 {
			return nil
		}
		e := events[i]
		n, _ := strconv.Atoi(e.Trace.Detail)
		e.Trace.Kind, e.Trace.Detail, e.Trace.B = machine.ZnodeSet, strconv.Itoa(n-1), 0
		return slices.Insert(events, i+1, e)
	}},
	{"a committed offset vanishes", []string{CMono}, func(t *rapid.T, _ *Promise, events []history.Event) []history.Event {
		i := pick(t, events, func(_ int, e *history.Event) bool { return isOffset(e) })
		if i < 0 {
			return nil
		}
		e := events[i]
		e.Trace.Kind, e.Trace.Detail, e.Trace.B = machine.ZnodeDeleted, "", 0
		return slices.Insert(events, i+1, e)
	}},
	{"an acked commit is not there", []string{CMono, DupB}, remove(func(_ int, e *history.Event) bool { return isOffset(e) })},
	{"somebody else hands over too", []string{Own1}, func(t *rapid.T, _ *Promise, events []history.Event) []history.Event {
		i := pick(t, events, traced(machine.ConsumerHanded))
		if i < 0 {
			return nil
		}
		e := events[i]
		e.Trace.Detail, e.Machine = "c9", "c9"
		return slices.Insert(events, i, e)
	}},
	{"a claim is not released but given away", []string{Own1}, func(t *rapid.T, _ *Promise, events []history.Event) []history.Event {
		i := pick(t, events, traced(machine.ConsumerHanded))
		if i < 0 {
			return nil
		}
		at, _ := parseSeat(events[i].Trace.Subject)
		own := events[i]
		own.Machine, own.Incarnation = "coord", 1
		own.Trace = machine.Event{Kind: machine.ZnodeDeleted, Subject: "/consumers/g/owners/" + at.place.String()}
		return slices.Insert(events, i, own)
	}},
	{"a claim starts before what is committed", []string{DupB}, edit(
		func(_ int, e *history.Event) bool { return traced(machine.ConsumerClaimed)(0, e) && e.Trace.A > 0 },
		func(e *history.Event) { e.Trace.A-- })},
	{"a claim starts after what is committed", []string{Deliver}, edit(
		func(_ int, e *history.Event) bool { return traced(machine.ConsumerClaimed)(0, e) && e.Trace.A >= 0 },
		func(e *history.Event) { e.Trace.A += 1000 })},
	{"a reset skips too much", []string{Deliver}, func(t *rapid.T, p *Promise, events []history.Event) []history.Event {
		if p.Groups[0].Reset == Largest {
			return nil
		}
		return edit(traced(machine.ConsumerReset), func(e *history.Event) { e.Trace.B += 1000 })(t, p, events)
	}},
	{"a session expires and leaves its node", []string{Session}, remove(func(_ int, e *history.Event) bool {
		return traced(machine.ZnodeDeleted)(0, e) && strings.Contains(e.Trace.Subject, "/ids/")
	})},
	{"a node is made by a session that is gone", []string{Session}, edit(traced(machine.ZnodeCreated), func(e *history.Event) {
		if e.Trace.A == 0 {
			e.Trace.A = 1
		}
		e.Trace.A += 1_000_000
	})},
	{"nobody owns a partition at the end", []string{OwnAll, Own1}, func(t *rapid.T, _ *Promise, events []history.Event) []history.Event {
		i := len(events) - 1
		for i >= 0 && !traced(machine.ZnodeCreated)(i, &events[i]) && !strings.Contains(events[i].Trace.Subject, "/owners/") {
			i--
		}
		for i >= 0 && !(traced(machine.ZnodeCreated)(i, &events[i]) && strings.Contains(events[i].Trace.Subject, "/owners/")) {
			i--
		}
		last := events[len(events)-1]
		last.At += 11 * time.Second
		last.Kind, last.Phase = history.PhaseBegan, history.End
		return append(slices.Delete(events, i, i+1), last)
	}},
	{"a broker's node goes and does not come back", []string{Live}, func(t *rapid.T, _ *Promise, events []history.Event) []history.Event {
		gone := events[len(events)-1]
		gone.Kind, gone.Machine, gone.Incarnation = history.Traced, "coord", 1
		gone.Trace = machine.Event{Kind: machine.ZnodeDeleted, Subject: "/brokers/ids/1", A: 1}
		last := gone
		last.At += 31 * time.Second
		last.Kind, last.Phase = history.PhaseBegan, history.End
		return append(events, gone, last)
	}},
	{"records above what is visible are handed over", []string{Dirty}, func(t *rapid.T, p *Promise, events []history.Event) []history.Event {
		return edit(func(i int, e *history.Event) bool {
			if !traced(machine.LogVisible)(i, e) {
				return false
			}
			for j := i + 1; j < len(events); j++ {
				switch n := &events[j]; {
				case n.Kind != history.Traced:
				case n.Trace.Kind == machine.ConsumerHanded && strings.HasSuffix(n.Trace.Subject, e.Trace.Subject) && n.Trace.A == e.Trace.A-1:
					return true
				case n.Trace.Subject == e.Trace.Subject && (n.Trace.Kind == machine.LogVisible || n.Trace.Kind == machine.LogOpened):
					return false
				}
			}
			return false
		}, func(e *history.Event) { e.Trace.A-- })(t, p, events)
	}},
}

func TestOraclesSeeEveryCorruption(t *testing.T) {
	seen := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		p, events := recordTiny(t, 100)
		for _, c := range corruptions {
			changed := c.change(t, p, slices.Clone(events))
			if changed == nil {
				continue
			}
			seen[c.name]++
			got := say(p, changed)
			if !slices.ContainsFunc(got, func(v Violation) bool { return slices.Contains(c.expect, v.Invariant) }) {
				t.Fatalf("%s: want one of %v, got %v", c.name, c.expect, got)
			}
		}
	})
	for _, c := range corruptions {
		require.Positive(t, seen[c.name], "%s: there was never anything to corrupt", c.name)
	}
}
