package assign

// Sticky balances as well as the subscriptions allow and, among the plans that do, moves as few partitions as possible away from the members
// that had them (KIP-54). Eager: members give up everything before they join, and tell in their metadata what they had.
var Sticky = &Assignor{name: "sticky", claims: inUserData, divide: func(l *ledger) { divideSticky(l) }}

func divideSticky(l *ledger) claims {
	c := l.claims()
	for p := range int32(len(l.owner)) {
		if h := c.holder[p]; h != nobody && l.subscribes(h, l.topicOf[p]) {
			l.give(p, h)
		}
	}
	for p := range int32(len(l.owner)) {
		if l.owner[p] == nobody {
			l.give(p, l.idlest(l.topicOf[p]))
		}
	}
	b := newBalancer(l, c.holder)
	for b.improve() {
	}
	return c
}

// idlest is the subscriber of a topic that has the fewest partitions, the first of several.
func (l *ledger) idlest(t int32) int32 {
	best := nobody
	for m := range int32(len(l.members)) {
		if l.subscribes(m, t) && (best == nobody || l.load[m] < l.load[best]) {
			best = m
		}
	}
	return best
}
