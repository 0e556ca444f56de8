package assign

// RoundRobin deals all partitions of all topics like cards: to the next member in the circle that subscribes to the topic.
var RoundRobin = &Assignor{name: "roundrobin", divide: divideRoundRobin}

func divideRoundRobin(l *ledger) {
	next := 0
	for p, t := range l.topicOf {
		for !l.subscribes(int32(next), t) { // ends: somebody subscribes to each topic of the ledger
			next = (next + 1) % len(l.members)
		}
		l.give(int32(p), int32(next))
		next = (next + 1) % len(l.members)
	}
}
