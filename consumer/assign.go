package consumer

import (
	"cmp"
	"slices"
)

// entity is one consumer of a topic in the sense of the paper's set C: a stream of a group member. A member with three
// streams on a topic counts three times.
type entity struct {
	member string
	stream int
}

func (e entity) compare(o entity) int {
	return cmp.Or(cmp.Compare(e.member, o.member), cmp.Compare(e.stream, o.stream))
}

// share is what one stream gets of a topic.
type share struct {
	stream     int
	partitions []int32 // ascending and contiguous in the sorted set of available partitions
}

// sharesOf is the paper's algorithm (section 3.2) for one topic and one member. It sorts the available partitions P and the
// streams C of all members; the stream at index j takes the partitions j*N .. (j+1)*N-1 with N = |P|/|C|, and when the
// division leaves a remainder the first streams take one more each, so that nothing is left over.
//
// Every member computes the same division from the same sets, whatever the order in which it read them. The result lists the
// streams of the member that get something, by stream number. members maps each member to its number of streams.
func sharesOf(partitions []int32, members map[string]int, member string) []share {
	p := slices.Clone(partitions)
	slices.Sort(p)
	p = slices.Compact(p)

	var c []entity
	// order: sorted below
	for m, streams := range members {
		for s := range streams {
			c = append(c, entity{m, s})
		}
	}
	slices.SortFunc(c, entity.compare)
	if len(c) == 0 {
		return nil
	}

	n, rest := len(p)/len(c), len(p)%len(c)
	var shares []share
	for j, e := range c {
		if e.member != member {
			continue
		}
		from := j*n + min(j, rest)
		to := from + n
		if j < rest {
			to++
		}
		if to > from {
			shares = append(shares, share{e.stream, p[from:to:to]})
		}
	}
	return shares
}
