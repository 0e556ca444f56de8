package oracle

import (
	"strings"
	"testing"
)

// dividing is meeting with an assignor.
func dividing(assignor string) *Promise {
	p := meeting(assignor != "cooperative-sticky")
	p.Groups[0].Assignor = assignor
	return p
}

// Four members of a group that reads a topic of so many partitions.
const fourMembers = `
	start coord; start b1; start c1; start c2; start c3; start c4
	coord znode.created /brokers/topics/t {"id":"x","partitions":{"0":[1],"1":[1],"2":[1],"3":[1]}}
	b1 group.loaded __consumer_offsets/0 - 1 0 0
	+1s; b1 group.came g m1 0 0 0; b1 group.came g m2 0 0 0;
`

// stable is an assignment, "m1:0,1 m2:2", and then the members claim what they got.
func stable(generation, assignment string) string {
	text := "b1 group.changed g CompletingRebalance " + generation + " 0 0; b1 group.changed g Stable " + generation + " 0 0;"
	after := ""
	for _, share := range strings.Fields(assignment) {
		member, list, _ := strings.Cut(share, ":")
		process := "c" + member[1:]
		after += process + " consumer.synced g " + member + " " + generation + ";"
		for _, p := range strings.Split(list, ",") {
			if p != "" {
				text += "b1 group.given g/t/" + p + " " + member + " " + generation + " 0 0;"
				after += "claimed " + process + " g/t/" + p + " 0 " + generation + ";"
			}
		}
	}
	return text + after
}

func TestSharesAreEven(t *testing.T) {
	for _, assignor := range []string{"range", "roundrobin", "sticky", "cooperative-sticky"} {
		silent(t, NewShares(dividing(assignor)), fourMembers+stable("1", "m1:0,1 m2:2,3"))
		silent(t, NewShares(dividing(assignor)), fourMembers+"b1 group.came g m3 0 0 0;"+stable("1", "m1:0 m2:1,2 m3:3"))
		fires(t, NewShares(dividing(assignor)), Budget, "("+assignor+") gives m1 3 partitions of", fourMembers+stable("1", "m1:0,1,2 m2:3"))
		fires(t, NewShares(dividing(assignor)), Budget, "and m3 0", fourMembers+"b1 group.came g m3 0 0 0;"+stable("1", "m1:0,1 m2:2,3 m3:"))
	}
	// A partition that changes hands is nobody's for a generation.
	silent(t, NewShares(dividing("cooperative-sticky")), fourMembers+stable("1", "m1:0,1 m2:"))
	// What a deposed coordinator says counts no more.
	silent(t, NewShares(dividing("range")), fourMembers+"b2 group.loaded __consumer_offsets/0 - 1 0 1;"+stable("1", "m1:0,1,2 m2:3"))
	// With range each topic is divided by itself.
	two := dividing("range")
	two.Groups[0].Topics = []string{"t", "u"}
	const other = `coord znode.created /brokers/topics/u {"id":"y","partitions":{"0":[1]}};b1 group.changed g Stable 1 0 0; b1 group.given g/t/0 m1 1 0 0; b1 group.given g/t/1 m1 1 0 0; b1 group.given g/t/2 m2 1 0 0; b1 group.given g/u/0 m1 1 0 0`
	silent(t, NewShares(two), fourMembers+other)
	two.Groups[0].Assignor = "roundrobin"
	fires(t, NewShares(two), Budget, "gives m1 3 partitions of all topics and m2 1", fourMembers+other)
}

func TestSharesStayWhereTheyWere(t *testing.T) {
	const first, joins = "m1:0,1 m2:2,3", "+5s; b1 group.changed g PreparingRebalance 1 0 0; +100ms; b1 group.came g m3 1 0 0;"
	before := fourMembers + stable("1", first) + joins
	for _, assignor := range []string{"sticky", "cooperative-sticky"} {
		silent(t, NewShares(dividing(assignor)), before+stable("2", "m1:0 m2:2,3 m3:1"))
		fires(t, NewShares(dividing(assignor)), Budget, "("+assignor+") leaves 2 of 4 partitions where they were; an even one could have left 3", before+stable("2", "m1:0,2 m2:3 m3:1"))
		// Somebody leaves: only what was his moves.
		leaves := fourMembers + stable("1", first) + "+5s; released c2 g/t/2; released c2 g/t/3; b1 group.went g m2 1 0 0; b1 group.changed g PreparingRebalance 1 0 0; b1 group.came g m3 1 0 0;"
		silent(t, NewShares(dividing(assignor)), leaves+stable("2", "m1:0,1 m3:2,3"))
		fires(t, NewShares(dividing(assignor)), Budget, "leaves 0 of 4 partitions where they were; an even one could have left 2", leaves+stable("2", "m1:2,3 m3:0,1"))
		moved := stable("2", "m1:2,3 m2:0,1")
		again := fourMembers + stable("1", first)
		fires(t, NewShares(dividing(assignor)), Budget, "leaves 0 of 4", again+"+5s; b1 group.changed g PreparingRebalance 1 0 0;"+moved)
		for _, excused := range []string{
			"+5s; fault 1 x; b1 group.changed g PreparingRebalance 1 0 0; healed 1 x;",                               // something disturbs
			"+5s; b1 group.changed g PreparingRebalance 1 0 0; +2s;",                                                 // its lease may be over
			"+5s; released c1 g/t/0; b1 group.changed g PreparingRebalance 1 0 0;",                                   // it had not all of it
			"+5s; crash c1; start c1; b1 group.changed g PreparingRebalance 1 0 0;",                                  // nor did this process
			"+5s; b1 group.loaded __consumer_offsets/0 - 1 0 0; b1 group.came g m1 1 0 0; b1 group.came g m2 1 0 0;", // a coordinator that does not know who was there
			`+5s; coord znode.set /brokers/topics/t {"id":"x","partitions":{"0":[1],"1":[1],"2":[1],"3":[1]}} 1; b1 group.changed g PreparingRebalance 1 0 0;`,
		} {
			silent(t, NewShares(dividing(assignor)), again+excused+moved)
		}
		// A static member comes back under another id, and is told what it had when the next rebalance has begun: it does not know of it.
		silent(t, NewShares(dividing(assignor)), again+"+5s; crash c2; start c2; b1 group.went g m2 1 0 0; b1 group.came g m4 1 0 0; b1 group.came g m3 1 0 0; b1 group.came g m5 1 0 0; b1 group.changed g PreparingRebalance 1 0 0;"+
			"b1 group.given g/t/2 m4 1 0 0; b1 group.given g/t/3 m4 1 0 0;"+stable("2", "m1:0 m3:2 m4:1 m5:3"))
	}
	silent(t, NewShares(dividing("range")), before+stable("2", "m1:0,2 m2:3 m3:1"))
	silent(t, NewShares(dividing("roundrobin")), before+stable("2", "m1:0,2 m2:3 m3:1"))
}
