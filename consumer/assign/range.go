package assign

// Range divides each topic by itself: its subscribers in order, its partitions in order, contiguous pieces, the first members one more when the
// division leaves a remainder. Topics that have as many partitions and the same subscribers are divided alike.
var Range = &Assignor{name: "range", divide: divideRange}

func divideRange(l *ledger) {
	for t := range int32(len(l.topics)) {
		var c []int32
		for m := range int32(len(l.members)) {
			if l.subscribes(m, t) {
				c = append(c, m)
			}
		}
		p := l.base[t]
		n := int(l.base[t+1] - p)
		for j, m := range c {
			size := n / len(c)
			if j < n%len(c) {
				size++
			}
			for range size {
				l.give(p, m)
				p++
			}
		}
	}
}
