package oracle

import (
	"testing"
	"time"
)

// calmly judges owners within 10 s, sessions within 5 s of their time-out, and the end within 30 s of the heal.
func calmly() *Promise {
	p := usual()
	p.Coord, p.Brokers = []string{"coord"}, []string{"b1"}
	p.OwnedWithin, p.HealWithin, p.SessionSlack = 10*time.Second, 30*time.Second, 5*time.Second
	p.SessionTimeout = 6 * time.Second
	return p
}

// A broker with one topic of two partitions and a group of one member, who owns both.
const oneMember = `
	start coord; start b1; start c1
	coord session.opened - - 1 6000000000; coord znode.created /brokers/ids/1 {} 1; b1 broker.up - - 1
	coord znode.created /brokers/topics/t {"id":"x","partitions":{"0":[1],"1":[1]}}
	coord session.opened - - 7 6000000000; coord znode.created /consumers/g/ids/c1 {"version":1,"subscription":{"t":1}} 7; consumer.joined_c1
	own g/t/0 c1 7; own g/t/1 c1 7; claimed c1 g/t/0 0; claimed c1 g/t/1 0
`

// expand writes the consumers' joins out: the language has no short form for them.
func expand(story string) string {
	return replaceAll(story, "consumer.joined_c1", "c1 consumer.joined g c1 7", "consumer.joined_c2", "c2 consumer.joined g c2 8",
		"consumer.rejoined_c1", "c1 consumer.joined g c1 9")
}

const secondMember = `start c2; coord session.opened - - 8 6000000000; coord znode.created /consumers/g/ids/c2 {"version":1,"subscription":{"t":1}} 8; consumer.joined_c2
`

func TestOwnershipOfOneOwnerIsSilent(t *testing.T) {
	for _, story := range []string{
		oneMember + "handed c1 g/t/0 0; handed c1 g/t/0 1; handed c1 g/t/1 0; +1h",
		// The partition changes hands.
		oneMember + secondMember + "handed c1 g/t/1 0; released c1 g/t/1; disown g/t/1 7; own g/t/1 c2 8; claimed c2 g/t/1 0; handed c2 g/t/1 0; handed c1 g/t/0 0; +1h",
		// c1 is paused, its session expires, c2 takes over, and c1 hands over nothing until it is back.
		oneMember + secondMember + `handed c1 g/t/0 0; pause c1; +7s; disown g/t/0 7; disown g/t/1 7; coord session.expired - - 7
			coord znode.deleted /consumers/g/ids/c1 - 7; own g/t/0 c2 8; own g/t/1 c2 8; claimed c2 g/t/0 0; claimed c2 g/t/1 0; handed c2 g/t/0 0
			resume c1; released c1 g/t/0; released c1 g/t/1; handed c2 g/t/0 1; +1h`,
	} {
		silent(t, NewOwnership(calmly()), expand(story))
	}
}

func TestOwnershipOfTwo(t *testing.T) {
	for _, c := range []struct{ name, story, says string }{
		{"no claim", secondMember + "own g/t/2 c2 8; handed c2 g/t/2 0", "c2 on c2 is handed offset 0 of g/t/2 but has no claim; c2 owns it"},
		{"claim without the node", secondMember + "claimed c2 g/t/0 0; handed c2 g/t/0 0", "c2 on c2 is handed offset 0 of g/t/0 but is not the owner with its session 0x8; c1 owns it (session 0x7)"},
		{"after release", "released c1 g/t/0; handed c1 g/t/0 0", "has no claim"},
		{"after somebody deleted the node", "handed c1 g/t/0 0; disown g/t/0 7; handed c1 g/t/0 1", "is not the owner with its session 0x7; nobody owns it"},
		{"after somebody else became owner", "handed c1 g/t/0 0; disown g/t/0 7; own g/t/0 c2 8; handed c1 g/t/0 1", "c2 owns it (session 0x8)"},
		{"after the session expired", "handed c1 g/t/0 0; disown g/t/0 7; coord session.expired - - 7; handed c1 g/t/0 1", "has lost its session 0x7"},
		{"with the node of its own dead session", "consumer.rejoined_c1; coord session.opened - - 9 6000000000; handed c1 g/t/0 0", "is not the owner with its session 0x9; c1 owns it (session 0x7)"},
		{"before it joined", "start c3; claimed c3 g/t/0 0; handed c3 g/t/0 0", "is not joined"},
		{"after it left", "c1 consumer.left g c1; handed c1 g/t/0 0", "is not joined"},
		{"the next process of the machine, without a claim", "crash c1; start c1; handed c1 g/t/0 0", "has no claim"},
		{"the next process of the machine, with the node of the last", "crash c1; start c1; claimed c1 g/t/0 0; handed c1 g/t/0 0", "is not joined"},
		{"the node's data changed", "handed c1 g/t/0 0; coord znode.set /consumers/g/owners/t/0 c2 1; handed c1 g/t/0 1", "c2 owns it"},
	} {
		t.Run(c.name, func(t *testing.T) {
			story := replaceAll(c.story, "consumer.rejoined_c1; coord session.opened - - 9 6000000000", "coord session.opened - - 9 6000000000; consumer.rejoined_c1")
			fires(t, NewOwnership(calmly()), Own1, c.says, expand(oneMember+story))
		})
	}
}

func TestOwnershipOfNone(t *testing.T) {
	for _, c := range []struct{ name, story, says string }{
		{"released and not claimed", "+5s; released c1 g/t/1; disown g/t/1 7; +11s; resume x", "g/t/1 has not its owner since 5s (it has no node), though nothing disturbs since 0s and nothing changed since 0s; the limit is 10s; members: [c1]"},
		{"its owner does not know it", "+5s; released c1 g/t/1; +11s; resume x", "g/t/1 has not its owner since 5s (its node names c1, who has no claim)"},
		{"a new member is left out", "+1s;" + secondMember + "+11s", "g/t/1 has not its owner since 1s (its node names c1, but it should go to c2)"},
		{"judged while the run goes on", "disown g/t/1 7; +11s; request c1 0s; own g/t/1 c1 7", "g/t/1 has not its owner"},
		{"a new partition", `+1s; coord znode.set /brokers/topics/t {"partitions":{"0":[1],"1":[1],"2":[1]}}; +11s`, "g/t/2 has not its owner since 1s"},
		{"the broker came back", "disown g/t/1 7; coord znode.deleted /brokers/ids/1 - 1; +20s; coord znode.created /brokers/ids/1 {} 1; +11s", "g/t/1 has not its owner since 20s"},
		{"after a fault", "fault 1 x; disown g/t/1 7; +1m; healed 1 x; +11s", "nothing disturbs since 1m0s"},
		{"at the end of a heal", "+1m; phase heal; +25s; fault 2 x; disown g/t/1 7; +5s", "g/t/1 has not its owner at the end of the run, since 1m25s (it has no node)"},
	} {
		t.Run(c.name, func(t *testing.T) { fires(t, NewOwnership(calmly()), OwnAll, c.says, expand(oneMember+c.story)) })
	}
	// Every one is told once.
	if got := judge(t, NewOwnership(calmly()), expand(oneMember+"disown g/t/1 7; disown g/t/0 7; +11s; request c1 0s; +1m; request c1 0s")); len(got) != 2 {
		t.Fatal(got)
	}
}

func TestOwnershipOfNoneThatIsAllowed(t *testing.T) {
	for _, c := range []struct{ name, story string }{
		{"soon enough", "disown g/t/1 7; +9s; own g/t/1 c1 7; +1h"},
		{"a fault is active", "fault 1 x; disown g/t/1 7; +1h"},
		{"one of two faults is active", "fault 1 x; fault 2 y; healed 1 x; disown g/t/1 7; +1h"},
		{"somebody is paused", "pause c1; disown g/t/1 7; +1h"},
		{"the coordination service is down", "crash coord; +1h; start coord; +9s"},
		{"members come and go", "disown g/t/1 7; +9s;" + secondMember + "+9s; own g/t/1 c2 8; claimed c2 g/t/1 0; +1h"},
		{"no broker", "coord znode.deleted /brokers/ids/1 - 1; disown g/t/0 7; disown g/t/1 7; +1h"},
		{"no member", "coord znode.deleted /consumers/g/ids/c1 - 7; disown g/t/0 7; disown g/t/1 7; +1h"},
		{"no topic", "coord znode.deleted /brokers/topics/t; disown g/t/0 7; disown g/t/1 7; +1h"},
		{"nobody subscribes", `coord znode.deleted /consumers/g/ids/c1 - 7; coord znode.created /consumers/g/ids/c1 {"subscription":{"u":1}} 7; disown g/t/0 7; disown g/t/1 7; +1h`},
		{"a topic that the group does not read", `coord znode.created /brokers/topics/u {"partitions":{"0":[1]}}; +1h`},
	} {
		t.Run(c.name, func(t *testing.T) { silent(t, NewOwnership(calmly()), expand(oneMember+c.story)) })
	}
	// An interrupted run owes nothing.
	o := NewOwnership(calmly())
	newStory(t, o).tell(expand(oneMember + "disown g/t/1 7; +1h"))
	o.Finish(End{At: time.Hour, Cut: true})
	if len(o.Violations()) > 0 {
		t.Fatal(o.Violations())
	}
}

func TestOwnershipOfAStuckRun(t *testing.T) {
	o := NewOwnership(calmly())
	s := newStory(t, o)
	s.tell(expand(oneMember + "disown g/t/1 7; +1s"))
	o.Finish(End{At: s.now, Trouble: "stuck"})
	if len(o.Violations()) != 1 {
		t.Fatal(o.Violations())
	}
}
