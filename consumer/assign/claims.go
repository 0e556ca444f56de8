package assign

// claims sorts out what members say they own.
//
// A member that missed a round goes on claiming the partitions it had before, while others were given them since. So of the claims on a partition
// only those of the highest generation count (KIP-792; KAFKA-12984 is the report of an assignor that believed both). Two of the same generation contradict
// each other: neither is believed, but either may be at work on the partition.
type claims struct {
	holder []int32   // by partition: whose claim counts; nobody
	rivals [][]int32 // by partition: the claimants of the same generation where there are several
}

func (l *ledger) claims() claims {
	c := claims{holder: make([]int32, len(l.owner)), rivals: make([][]int32, len(l.owner))}
	for p := range c.holder {
		c.holder[p] = nobody
	}
	generation := make([]int32, len(l.owner)) // of the holder or rivals
	for m := range int32(len(l.members)) {
		member := &l.members[m]
		for _, owned := range member.Owned {
			p, ok := l.number(owned)
			if !ok {
				continue
			}
			unclaimed := c.holder[p] == nobody && c.rivals[p] == nil
			switch {
			case unclaimed || member.Generation > generation[p]:
				c.holder[p], c.rivals[p], generation[p] = m, nil, member.Generation
			case member.Generation < generation[p] || c.holder[p] == m:
				// an old claim, or the same claim twice
			case c.rivals[p] == nil:
				c.rivals[p] = []int32{c.holder[p], m}
				c.holder[p] = nobody
			case c.rivals[p][len(c.rivals[p])-1] != m:
				c.rivals[p] = append(c.rivals[p], m)
			}
		}
	}
	return c
}

// Contested tells whether members claim one partition since different generations: one of them missed a round.
func Contested(members []Member) bool {
	since := map[Partition]int32{}
	for i := range members {
		for _, p := range members[i].Owned {
			if at, claimed := since[p]; claimed && at != members[i].Generation {
				return true
			}
			since[p] = members[i].Generation
		}
	}
	return false
}

// taken tells whether somebody other than m may be at work on the partition.
func (c *claims) taken(p, m int32) bool {
	if c.rivals[p] != nil {
		return true
	}
	return c.holder[p] != nobody && c.holder[p] != m
}
