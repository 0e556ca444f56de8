package group

import (
	"cmp"
	"slices"
	"strings"
)

// TopicID tells a topic from those that had its name before. Zero: it is not known of which one an offset is, so it counts for any.
type TopicID [16]byte

// is tells whether an offset of the topic may be used for the other.
func (id TopicID) is(other TopicID) bool { return id == other || id == TopicID{} || other == TopicID{} }

type partition struct {
	topic string
	n     int32
}

// offset is what a group knows of its place in a partition.
type offset struct {
	at      *committed // nil: nothing that lasts
	pending int        // commits on their way to the log
	last    TopicID    // of the last commit, be it on its way or not
}

// committed is a commit that is in the log.
type committed struct {
	topic    TopicID
	offset   int64
	epoch    int32 // leader epoch of the record before it, -1: not told
	metadata string
	time     int64 // wall, ms
	expires  int64 // wall, ms; -1: by the retention of all
}

// partitions are those that the group has offsets of, sorted.
func (g *group) partitions() []partition {
	all := make([]partition, 0, len(g.offsets))
	// order: sorted below
	for p := range g.offsets {
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b partition) int { return cmp.Or(strings.Compare(a.topic, b.topic), cmp.Compare(a.n, b.n)) })
	return all
}

// commitPending notes a commit on its way to the log.
func (g *group) commitPending(p partition, topic TopicID) *offset {
	o := g.offsets[p]
	if o == nil {
		o = &offset{}
		g.offsets[p] = o
	}
	o.pending++
	o.last = topic
	return o
}

// drop forgets an offset, but not that a later commit is on its way.
func (g *group) drop(p partition) {
	if o := g.offsets[p]; o != nil {
		if o.at = nil; o.pending == 0 {
			delete(g.offsets, p)
		}
	}
}
