package assign

// CooperativeSticky plans as Sticky does, but nothing changes hands at once (KIP-429): a partition that has an owner goes to nobody else in
// the same round. The old owner, which finds it missing in its share, gives it up and joins again; in that next round it is free.
var CooperativeSticky = &Assignor{name: "cooperative-sticky", cooperative: true, claims: inMetadata, divide: divideCooperative}

func divideCooperative(l *ledger) {
	c := divideSticky(l)
	for p := range int32(len(l.owner)) {
		if c.taken(p, l.owner[p]) {
			l.give(p, nobody)
		}
	}
}
