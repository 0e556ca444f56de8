package oracle

import (
	"testing"
	"time"
)

func TestMembersWhoAreGoneAreMissed(t *testing.T) {
	const gone = twoMembers + "+1s; crash c2;"
	const counted = "b1 group.went g m2 1 0 0; b1 group.changed g PreparingRebalance 1 1 0;"
	for _, story := range []string{
		gone + "+2s;" + counted + "+5s; start x",
		gone + "+2s; b1 group.changed g PreparingRebalance 1 2 0; +5s; start x", // the rebalance has a time-out of its own
		// A coordinator that has hardly begun counts sessions from then on.
		gone + "b2 group.loaded __consumer_offsets/0 - 1 0 1; b2 group.came g m1 1 0 1; b2 group.came g m2 1 0 1; b2 group.changed g Stable 1 2 1; +5s; start x",
		// The coordinator stands still, or cannot hear anybody.
		gone + "pause b1; +3s; resume b1; +1s; start x",
		gone + "crash b1; start b1; +3s; start x",
		gone + "fault 1 x; +3500ms; start x",
		// It never was a member.
		twoMembers + "start c3; c3 consumer.rebalance g c3 1; crash c3; +5s; start x",
	} {
		silent(t, NewMembers(meeting(true)), story)
	}
	fires(t, NewMembers(meeting(true)), Live, "group g has counted m2 as a member until 4.1s, though its process on c2 is gone since 1s, and its session is of 2s", gone+"+3100ms; start x")
	static := meeting(true)
	static.Groups[0].Static = true
	silent(t, NewMembers(static), gone+"+2s; b1 group.went g m2 1 0 0; b1 group.came g m3 1 0 0; +5s; start x")
	fires(t, NewMembers(static), Live, "has counted m2 as a member", gone+"+3100ms; start x")
}

func TestMembersWhoAreGoneAreMissedInTheirOwnSession(t *testing.T) {
	unequal := meeting(true)
	unequal.Groups[0].Extra = map[string]Extra{"c2": {Session: 3 * time.Second}}
	silent(t, NewMembers(unequal), twoMembers+"+1s; crash c2; +5s; start x; b1 group.went g m2 1 0 0; b1 group.changed g PreparingRebalance 1 1 0")
	fires(t, NewMembers(unequal), Live, "its session is of 5s", twoMembers+"+1s; crash c2; +6100ms; start x")
}
