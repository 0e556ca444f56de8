package oracle

import (
	"testing"
	"time"
)

func TestWhoWorksForTooLongLeaves(t *testing.T) {
	slow := func() *Members {
		p := meeting(true)
		p.Groups[0].MaxPoll = 3 * time.Second
		return NewMembers(p)
	}
	begins := twoMembers + "+5s; handed c1 g/t/0 1;"
	const works = "processed c1 g/t/0 1 0/1"
	fires(t, slow(), OwnAll, "m1 on c1 works on offset 1 of g/t/0 since 5s, for longer than the 3s that it may, and is a member all the same", begins+"+5s;"+works)
	for _, story := range []string{
		begins + "+3900ms;" + works,
		begins + "+3s; b1 group.went g m1 1 0 0; b1 group.changed g PreparingRebalance 1 1 0; +2s;" + works,
		// It waits for the end of a rebalance before it can leave, or the coordinator cannot be told.
		begins + "+2s; b1 group.changed g PreparingRebalance 1 2 0; +2s; b1 group.changed g Stable 2 2 0; +500ms;" + works,
		begins + "+2s; crash b1; +1s; start b1; +2s;" + works,
		begins + "+2s; fault 1 x; +3s;" + works,
	} {
		silent(t, slow(), story)
	}
	silent(t, NewMembers(meeting(true)), begins+"+5s;"+works)
}
