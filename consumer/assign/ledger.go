package assign

import (
	"slices"
	"strings"
)

const nobody = int32(-1)

// ledger is the working state of one assignment. Members, topics and partitions are numbers: indices into sorted slices.
type ledger struct {
	members []Member // in the order of Member.compare
	topics  []string // that exist and that somebody subscribes to, sorted
	base    []int32  // by topic: the number of its first partition; one more entry for the end

	topicOf []int32 // by partition
	wants   []bool  // [member * topics + topic]
	owner   []int32 // by partition: who gets it; nobody
	load    []int   // by member
}

func newLedger(members []Member, counts map[string]int32) *ledger {
	l := &ledger{}
	seen := map[string]bool{}
	for _, m := range members {
		if seen[m.ID] {
			continue
		}
		seen[m.ID] = true
		l.members = append(l.members, m)
		for _, t := range m.Topics {
			if counts[t] > 0 {
				l.topics = append(l.topics, t)
			}
		}
	}
	slices.SortFunc(l.members, func(a, b Member) int { return a.compare(&b) })
	slices.Sort(l.topics)
	l.topics = slices.Compact(l.topics)

	l.base = make([]int32, 1, len(l.topics)+1)
	for t, name := range l.topics {
		for range counts[name] {
			l.topicOf = append(l.topicOf, int32(t))
		}
		l.base = append(l.base, int32(len(l.topicOf)))
	}
	l.wants = make([]bool, len(l.members)*len(l.topics))
	for m := range l.members {
		for _, name := range l.members[m].Topics {
			if t, ok := slices.BinarySearch(l.topics, name); ok {
				l.wants[m*len(l.topics)+t] = true
			}
		}
	}
	l.owner = slices.Repeat([]int32{nobody}, len(l.topicOf))
	l.load = make([]int, len(l.members))
	return l
}

func (l *ledger) subscribes(m, t int32) bool { return l.wants[int(m)*len(l.topics)+int(t)] }

// number is a partition's number; ok is false when there is no such partition or nobody subscribes to it.
func (l *ledger) number(p Partition) (n int32, ok bool) {
	t, ok := slices.BinarySearch(l.topics, p.Topic)
	if !ok || p.Partition < 0 || p.Partition >= l.base[t+1]-l.base[t] {
		return 0, false
	}
	return l.base[t] + p.Partition, true
}

func (l *ledger) give(p, m int32) {
	if o := l.owner[p]; o != nobody {
		l.load[o]--
	}
	if l.owner[p] = m; m != nobody {
		l.load[m]++
	}
}

func (l *ledger) plan() Plan {
	plan := make(Plan, len(l.members))
	for m := range l.members {
		plan[m].Member = l.members[m].ID
		if l.load[m] > 0 {
			plan[m].Partitions = make([]Partition, 0, l.load[m])
		}
	}
	for p, m := range l.owner {
		if m != nobody {
			t := l.topicOf[p]
			plan[m].Partitions = append(plan[m].Partitions, Partition{l.topics[t], int32(p) - l.base[t]})
		}
	}
	slices.SortFunc(plan, func(a, b Share) int { return strings.Compare(a.Member, b.Member) })
	return plan
}
