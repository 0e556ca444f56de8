package oracle

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// meeting has a topic of two partitions and a group that the broker b1 coordinates, whose members must own everything within 10 s.
func meeting(eager bool) *Promise {
	p := calmly()
	p.Groups = []Group{{Name: "g", Topics: []string{"t"}, Coordinated: true, Eager: eager, SessionTimeout: 2 * time.Second, RebalanceWithin: 4 * time.Second}}
	return p
}

// A group of two members, m1 of c1 and m2 of c2, each of which owns a partition in generation 1.
const twoMembers = `
	start coord; start b1; start c1; start c2
	coord session.opened - - 1 6000000000; coord znode.created /brokers/ids/1 {} 1; b1 broker.up - - 1
	coord znode.created /brokers/topics/t {"id":"x","partitions":{"0":[1],"1":[1]}}
	b1 group.loaded __consumer_offsets/0 - 1 0 0
	c1 consumer.rebalance g c1 1; c2 consumer.rebalance g c2 1
	b1 group.came g m1 0 0 0; b1 group.came g m2 0 0 0
	b1 group.changed g PreparingRebalance 0 2 0; b1 group.changed g CompletingRebalance 1 2 0; b1 group.changed g Stable 1 2 0
	b1 group.given g/t/0 m1 1 0 0; b1 group.given g/t/1 m2 1 0 0
	c1 consumer.synced g m1 1; c2 consumer.synced g m2 1; claimed c1 g/t/0 0 1; claimed c2 g/t/1 0 1
	handed c1 g/t/0 0; handed c2 g/t/1 0
`

// m2 is counted out, and m1 gets what it had.
const secondOut = `
	b1 group.went g m2 1 0 0; b1 group.changed g PreparingRebalance 1 1 0
	released c1 g/t/0; c1 consumer.rebalance g c1 2; b1 group.changed g CompletingRebalance 2 1 0; b1 group.changed g Stable 2 1 0
	b1 group.given g/t/0 m1 2 0 0; b1 group.given g/t/1 m1 2 0 0; c1 consumer.synced g m1 2; claimed c1 g/t/0 1 2; claimed c1 g/t/1 1 2
`

func TestMembersOfAGroupInOrderAreSilent(t *testing.T) {
	for _, story := range []string{
		twoMembers + "+1s; handed c1 g/t/0 1; handed c2 g/t/1 1; +1h",
		// One is paused for longer than its session; it comes back and hands nothing over.
		twoMembers + "pause c2; +3s" + secondOut + "handed c1 g/t/1 1; resume c2; released c2 g/t/1; crash c2; +1h",
		// A commit of the generation that counts, by its owner; and one that was under way when the next one began.
		twoMembers + "b1 group.stored g/t/0 m1 1 1 0; commits c2 g m2 1 t/1 1 20ms; b1 group.changed g PreparingRebalance 1 2 0; +10ms; commits c1 g m1 1 t/0 1 30ms",
		// Another broker coordinates the group from now on. What the old one still says counts no more.
		twoMembers + `crash b1; start b1; b2 group.loaded __consumer_offsets/0 - 1 0 1; b2 group.came g m1 1 0 1; b2 group.came g m2 1 0 1; b2 group.changed g Stable 1 2 1
			b2 group.given g/t/0 m1 1 0 1; b2 group.given g/t/1 m2 1 0 1; handed c1 g/t/0 1; b1 group.went g m1 1 0 0; b1 group.given g/t/0 m2 2 0 0; handed c1 g/t/0 2; +1h`,
	} {
		silent(t, NewMembers(meeting(true)), story)
	}
	// In a cooperative group a member goes on while it waits for its assignment in the next generation.
	silent(t, NewMembers(meeting(false)), twoMembers+`b1 group.changed g PreparingRebalance 1 2 0; b1 group.changed g CompletingRebalance 2 2 0; handed c1 g/t/0 1
		b1 group.changed g Stable 2 2 0; b1 group.given g/t/1 m2 2 0 0; handed c1 g/t/0 2; c1 consumer.synced g m1 2; released c1 g/t/0`)
}

func TestMembersHandOverWhatTheyOwn(t *testing.T) {
	for _, c := range []struct{ name, story, says string }{
		{"it was counted out", twoMembers + "pause c2; +3s; b1 group.went g m2 1 0 0; resume c2; handed c2 g/t/1 1", "it is no member any more"},
		{"another was given the partition", twoMembers + "b1 group.changed g Stable 1 2 0; b1 group.given g/t/0 m2 1 0 0; handed c1 g/t/0 1", "gives it to m2"},
		{"another claimed it", twoMembers + "claimed c2 g/t/0 1 1; handed c1 g/t/0 1", "c2 on c2 claimed it later"},
		{"it is in an old generation", twoMembers + "b1 group.changed g CompletingRebalance 2 2 0; handed c1 g/t/0 1", "it is in generation 1, the group is in 2"},
		{"it released it", twoMembers + "released c1 g/t/0; handed c1 g/t/0 1", "it has no claim"},
		{"it was restarted", twoMembers + "crash c1; start c1; handed c1 g/t/0 1", "it has no claim"},
		{"a new coordinator does not know it", twoMembers + "b2 group.loaded __consumer_offsets/0 - 1 0 1; b2 group.came g m2 1 0 1; b2 group.changed g Stable 1 1 1; handed c1 g/t/0 1", "it is no member any more"},
	} {
		t.Run(c.name, func(t *testing.T) { fires(t, NewMembers(meeting(true)), Own1, c.says, c.story) })
	}
	// A cooperative member that misses the answers to its syncs keeps what it has, unless an assignment gives that to another.
	missed := twoMembers + `b1 group.changed g CompletingRebalance 2 2 0; b1 group.changed g Stable 2 2 0; b1 group.changed g CompletingRebalance 3 2 0; b1 group.changed g Stable 3 2 0;`
	silent(t, NewMembers(meeting(false)), missed+"handed c1 g/t/0 1")
	fires(t, NewMembers(meeting(false)), Own1, "gives it to m2", missed+"b1 group.given g/t/0 m2 3 0 0; handed c1 g/t/0 1")
	// Nor does it have what another was given since, though that one has given it up by now and it is nobody's.
	passed := twoMembers + `b1 group.changed g CompletingRebalance 2 2 0; b1 group.changed g Stable 2 2 0; b1 group.given g/t/0 m2 2 0 0; b1 group.changed g CompletingRebalance 3 2 0; b1 group.changed g Stable 3 2 0;`
	fires(t, NewMembers(meeting(false)), Own1, "generation 2, the last that gave it to anybody, gave it to m2", passed+"handed c1 g/t/0 1")
	fires(t, NewMembers(meeting(false)), Own1, "gave it to m2", passed+"b2 group.loaded __consumer_offsets/0 - 1 0 1; b2 group.came g m1 3 0 1; b2 group.changed g Stable 3 1 1; handed c1 g/t/0 1")
	fires(t, NewMembers(meeting(false)), Own1, "no assignment ever gave it to anybody", `coord znode.set /brokers/topics/t {"id":"x","partitions":{"0":[1],"1":[1],"2":[1]}};`+twoMembers+"claimed c1 g/t/2 0 1; handed c1 g/t/2 0")
}

func TestCommitsOfWhoIsNoMember(t *testing.T) {
	for _, c := range []struct{ name, story, says string }{
		{"of an old generation", twoMembers + secondOut + "+1s; commits c1 g m1 1 t/0 1 10ms", "in generation 1 of group g was taken"},
		{"of one that was counted out", twoMembers + "b1 group.went g m2 1 0 0; b1 group.changed g PreparingRebalance 1 1 0; +1s; commits c2 g m2 1 t/1 1 10ms", "it is no member of group g since"},
		{"of a stranger", twoMembers + "+1s; commits c2 g m9 1 t/1 1 10ms", "who was never a member"},
		{"stored though the assignment is a newer one", twoMembers + secondOut + "b1 group.stored g/t/1 m2 5 1 0", "the assignment in force is of generation 2"},
		{"stored for a partition of another", twoMembers + "b1 group.stored g/t/1 m1 5 1 0", "gives the partition to m2"},
	} {
		t.Run(c.name, func(t *testing.T) { fires(t, NewMembers(meeting(true)), Gen, c.says, c.story) })
	}
}

func TestPartitionsOfAGroupAreOwned(t *testing.T) {
	for _, c := range []struct{ name, story, says string }{
		{"given to nobody", twoMembers + "b1 group.changed g Stable 1 2 0; b1 group.given g/t/0 m1 1 0 0; +11s; start x", "gives it to nobody"},
		{"given to one who has no claim", twoMembers + "released c1 g/t/0; +11s; start x", "m1, to whom generation 1 gives it, has no claim"},
		{"the group never gets an assignment", twoMembers + "b1 group.changed g CompletingRebalance 2 2 0; +11s; start x", "the group is CompletingRebalance"},
	} {
		t.Run(c.name, func(t *testing.T) { fires(t, NewMembers(meeting(true)), OwnAll, c.says, c.story) })
	}
	// Who goes is missed at once, unless another process takes its place.
	went := twoMembers + "b1 group.went g m2 1 0 0;"
	fires(t, NewMembers(meeting(true)), OwnAll, "group g stays stable in generation 1 without m2, which is no member since 0s", went+"+1ms; start x")
	silent(t, NewMembers(meeting(true)), went+"b1 group.changed g PreparingRebalance 1 1 0; +1ms; start x")
	silent(t, NewMembers(meeting(true)), went+"b2 group.loaded __consumer_offsets/0 - 1 0 1; +1ms; start x")
	static := meeting(true)
	static.Groups[0].Static = true
	silent(t, NewMembers(static), went+"b1 group.came g m3 1 0 0; +1ms; start x")
	silent(t, NewMembers(meeting(true)), twoMembers+"fault 1 x; released c1 g/t/0; +11s; healed 1 x; +5s; claimed c1 g/t/0 0; +11s; start x")
}

func TestAGroupIsAtRest(t *testing.T) {
	for _, c := range []struct{ name, story, waits string }{
		{"all is well", twoMembers, ""},
		{"it rebalances", twoMembers + "b1 group.changed g PreparingRebalance 1 2 0", "an owner of g/t/0"},
		{"a member without a process", twoMembers + "b1 group.came g ghost 1 0 0", "group g to count out ghost, behind whom is no process"},
		{"a process that is no member", twoMembers + "start c3; c3 consumer.rebalance g c3 1", "the process on c3 to be a member of group g"},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := NewMembers(meeting(true))
			newStory(t, o).tell(c.story)
			require.Equal(t, c.waits, o.Waits())
		})
	}
}

// The truth about commits of a coordinator group is what its coordinator stores, and what it answers.
func TestOffsetsOfACoordinatorGroup(t *testing.T) {
	const processed = "processed c1 g/t/0 0 0/0; processed c1 g/t/0 1 0/1; processed c1 g/t/0 2 0/2;"
	for _, story := range []string{
		processed + "b1 group.stored g/t/0 m1 2 1 0; commits c1 g m1 1 t/0 2 1ms; b2 group.loaded __consumer_offsets/0 - 1 0 1; b2 group.stored g/t/0 - 2 -1 1; +1s; recalls c1 g t/0 2 1ms",
		// The coordinator was gone before it could tell; the next one knows the commit, the one after it does not.
		processed + "b2 group.stored g/t/0 - 3 -1 1; b3 group.stored g/t/0 - 0 -1 2; recalls c1 g t/0 0 1ms",
		// A coordinator that was deposed answers what counted.
		processed + "b1 group.stored g/t/0 m1 1 1 0; b1 group.stored g/t/0 m1 2 1 0; +1s; b2 group.loaded __consumer_offsets/0 - 1 0 1; b2 group.stored g/t/0 - 2 -1 1; b1 group.stored g/t/0 m1 3 1 0; recalls c1 g t/0 3 1ms",
		// The question was asked before the commit.
		processed + "+1s; b1 group.stored g/t/0 m1 2 1 0; commits c1 g m1 1 t/0 2 1ms; recalls c1 g t/0 -1 500ms",
	} {
		silent(t, NewOffsets(meeting(true), nil), story)
	}
	for _, c := range []struct{ invariant, says, story string }{
		{CMono, "went back from 2 to 1", processed + "b1 group.stored g/t/0 m1 2 1 0; b1 group.stored g/t/0 m2 1 1 0"},
		{CMono, "went back from 2 to 1", processed + "b1 group.stored g/t/0 m1 2 1 0; b2 group.stored g/t/0 - 1 -1 1"},
		{CMono, "was told none, though 2 was acknowledged", processed + "b1 group.stored g/t/0 m1 2 1 0; commits c1 g m1 1 t/0 2 1ms; +1s; recalls c1 g t/0 -1 1ms"},
		{CMono, "was told 3, of which no coordinator ever said that it counts", processed + "b1 group.stored g/t/0 m1 2 1 0; +1s; recalls c1 g t/0 3 1ms"},
		{CMono, "and was told so, but the registry has none", processed + "committed c1 g/t/0 2"},
		{CommitP, "offset 4 of g/t/0 is committed, but offset 3 was never processed", processed + "b1 group.stored g/t/0 m1 4 1 0"},
	} {
		fires(t, NewOffsets(meeting(true), nil), c.invariant, c.says, c.story)
	}
}

func TestRebalancesOfACoordinatorGroup(t *testing.T) {
	capped := func() *Promise {
		p := meeting(true)
		p.RebalancesPerChange = 2
		return p
	}
	const rebalance = "b1 group.changed g PreparingRebalance 1 2 0; b1 group.changed g Stable 1 2 0;"
	silent(t, NewBudget(capped()), twoMembers+"+20s; start c3; c3 consumer.rebalance g c3 1;"+rebalance+rebalance+"+20s; crash c3; +3s;"+rebalance)
	fires(t, NewBudget(capped()), Budget, "rebalances, though nothing disturbs", twoMembers+"+20s;"+rebalance)
	fires(t, NewBudget(capped()), Budget, "rebalance attempts", twoMembers+strings.Repeat(rebalance, 15))
	// One that a deposed coordinator speaks of is none.
	silent(t, NewBudget(capped()), twoMembers+"b2 group.loaded __consumer_offsets/0 - 1 0 1; +20s;"+rebalance)
}
