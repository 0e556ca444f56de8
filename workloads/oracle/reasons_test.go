package oracle

import (
	"strings"
	"testing"
	"time"
)

func coordinated() *Promise {
	return &Promise{Groups: []Group{{Name: "g", Topics: []string{"t"}, Coordinated: true, SessionTimeout: time.Second, RebalanceWithin: 3 * time.Second}}}
}

// twoOfGroup is a group of m1 on c1 and m2 on c2, stable in generation 1.
const twoOfGroup = `
	b1 group.loaded __consumer_offsets/0 - 1
	c1 consumer.rebalance g - 1; +1ms; answer c1 join g - 1ms 79 m1
	c2 consumer.rebalance g - 1; +1ms; answer c2 join g - 1ms 79 m2
	c1 consumer.rebalance g - 2; b1 group.came g m1 0; b1 group.changed g PreparingRebalance 0
	c2 consumer.rebalance g - 2; b1 group.came g m2 0; +10ms
	b1 group.changed g CompletingRebalance 1; answer c1 join g m1 10ms 0 m1; answer c2 join g m2 10ms 0 m2; +10ms
	b1 group.changed g Stable 1; answer c1 sync g m1 5ms 0; answer c2 sync g m2 5ms 0; +5s
	answer c1 beat g m1 1ms 0; answer c2 beat g m2 1ms 0; +10ms
`

func TestRebalanceOfAStableGroupHasAReason(t *testing.T) {
	begins := "b1 group.changed g PreparingRebalance 1"
	fires(t, NewReasons(coordinated()), Budget, "group g was stable in generation 1 and begins a rebalance, though nobody came, went, or asked to join", twoOfGroup+begins)
	silent(t, NewReasons(coordinated()), twoOfGroup+"b1 group.went g m2 1;"+begins)
	silent(t, NewReasons(coordinated()), twoOfGroup+"b1 group.came g m1 1;"+begins)
	silent(t, NewReasons(coordinated()), twoOfGroup+"c1 consumer.rebalance g - 3;"+begins)
	// What was asked and answered is no reason for another one. What nobody answered may still arrive, for a while.
	asks := twoOfGroup + "c1 consumer.rebalance g - 3; +1ms; answer c1 join g m1 1ms "
	fires(t, NewReasons(coordinated()), Budget, "asked to join", asks+"0 m1;"+begins)
	silent(t, NewReasons(coordinated()), asks+"lost; +4s;"+begins)
	fires(t, NewReasons(coordinated()), Budget, "asked to join", asks+"lost; +6s;"+begins)
	fires(t, NewReasons(coordinated()), Budget, "asked to join", twoOfGroup+"c1 consumer.rebalance g - 3; crash c1; +6s;"+begins)
	// A reason counts once, and only for the coordinator that is.
	fires(t, NewReasons(coordinated()), Budget, "asked to join", twoOfGroup+"b1 group.went g m2 1;"+begins+"; b1 group.changed g CompletingRebalance 2; b1 group.changed g Stable 2;"+begins)
	silent(t, NewReasons(coordinated()), twoOfGroup+"b2 group.loaded __consumer_offsets/0 - 1 0 1;"+begins)
}

func TestStaticMembersDoNotLeave(t *testing.T) {
	static := coordinated()
	static.Groups[0].Static = true
	leaves := twoOfGroup + "c2 consumer.left g; answer c2 leave g m2 1ms 0"
	fires(t, NewReasons(static), Budget, "c2 stops, and leaves group g, though its member is a static one", leaves)
	silent(t, NewReasons(static), twoOfGroup+"answer c2 leave g m2 1ms 0; +1ms; c2 consumer.left g") // for slowness (KIP-62)
	silent(t, NewReasons(coordinated()), leaves)
}

func TestMembersAreCountedOutWithPatience(t *testing.T) {
	told := "; +1ms; answer c2 beat g m2 1ms 25"
	fires(t, NewReasons(coordinated()), Budget, "m2 on c2 is no member of group g since 5.032s, though the coordinator heard what it sent at 5.021s; its session is 1s, and a rebalance waits for it 3s",
		twoOfGroup+"b1 group.went g m2 1"+told)
	silent(t, NewReasons(coordinated()), twoOfGroup+"+1s; b1 group.went g m2 1"+told)
	silent(t, NewReasons(coordinated()), twoOfGroup+"b1 group.went g m2 1") // nobody says that it was there
	silent(t, NewReasons(coordinated()), twoOfGroup+"b1 group.went g m2 1; answer c2 leave g m2 1ms 0"+told)
	silent(t, NewReasons(coordinated()), twoOfGroup+"c2 consumer.left g; b1 group.went g m2 1"+told)
	silent(t, NewReasons(coordinated()), twoOfGroup+"b1 group.went g m2 1; b2 group.loaded __consumer_offsets/0 - 1 0 1"+told)

	// Another coordinator is no reason: the one before may have answered since.
	moved := twoOfGroup + "b2 group.loaded __consumer_offsets/0 - 1 0 1; b2 group.came g m1 1 0 1; b2 group.came g m2 1 0 1; b2 group.changed g Stable 1 2 1; +900ms; answer c2 beat g m2 1ms 0; +"
	fires(t, NewReasons(coordinated()), Budget, "m2 on c2", moved+"100ms; b2 group.went g m2 1 0 1"+told)
	silent(t, NewReasons(coordinated()), moved+"1s; b2 group.went g m2 1 0 1"+told)

	// A rebalance waits for the joins, and then for the syncs.
	again := twoOfGroup + "c1 consumer.rebalance g - 3; b1 group.changed g PreparingRebalance 1; +"
	beats := "; answer c2 beat g m2 1ms 27; b1 group.went g m2 1"
	fires(t, NewReasons(coordinated()), Budget, "m2 on c2", again+"2s"+beats+told)
	silent(t, NewReasons(coordinated()), again+"3s"+beats+told)
	synced := again + "10ms; answer c2 join g m2 5ms 0 m2; answer c1 join g m1 5ms 0 m1; b1 group.changed g CompletingRebalance 2; +1ms; answer c1 sync g m1 1ms 0; b1 group.changed g Stable 2; +3s"
	silent(t, NewReasons(coordinated()), synced+"; answer c2 beat g m2 1ms 0 2; b1 group.went g m2 2"+told)
	fires(t, NewReasons(coordinated()), Budget, "m1 on c1", synced+"; answer c1 beat g m1 1ms 0; b1 group.went g m1 2; +1ms; answer c1 beat g m1 1ms 25")
}

// A member acts by the last answer that it got, of whichever coordinator. Its session is 1s; here a rebalance waits for it 600ms, so that it may act so long.
func TestAnAnswerIsGoodForAWhile(t *testing.T) {
	hasty := func() *Reasons {
		p := coordinated()
		p.Groups[0].RebalanceWithin = 600 * time.Millisecond
		return NewReasons(p)
	}
	told := "; +1ms; answer c2 beat g m2 1ms 25"
	// b2 coordinates and begins a rebalance at once, while b1, which has not heard of it, goes on answering.
	moved := twoOfGroup + `b2 group.loaded __consumer_offsets/0 - 1 0 1; b2 group.came g m1 1 0 1; b2 group.came g m2 1 0 1; b2 group.changed g Stable 1 2 1; c1 consumer.rebalance g - 3
		b2 group.changed g PreparingRebalance 1 2 1; +500ms; answer c2 beat g m2 1ms 0; +`
	fires(t, hasty(), Own1, "m2 on c2 is no member of group g since 5.632s, though what it sent at 5.531s was answered that it is one, and it may act as owner for 600ms from then on", moved+"100ms; b2 group.went g m2 1 0 1"+told)
	silent(t, hasty(), moved+"600ms; b2 group.went g m2 1 0 1"+told)
	silent(t, hasty(), moved+"100ms; b2 group.went g m2 1 0 1; answer c2 leave g m2 1ms 0"+told)
	silent(t, hasty(), moved+"100ms; c2 consumer.left g; b2 group.went g m2 1 0 1"+told)
	// A heartbeat in a generation whose assignment it does not know lets it act no longer than the wait for its sync lasts.
	unsynced := twoOfGroup + `+1s; c1 consumer.rebalance g - 3; b1 group.changed g PreparingRebalance 1; +10ms; answer c2 join g m2 5ms 0 m2; answer c1 join g m1 5ms 0 m1
		b1 group.changed g CompletingRebalance 2; +550ms; answer c2 beat g m2 1ms 0 2; +50ms; b1 group.went g m2 2` + told
	silent(t, hasty(), unsynced)
	fires(t, hasty(), Own1, "m2 on c2", strings.Replace(unsynced, "+550ms", "answer c2 sync g m2 5ms 0 2; +550ms", 1))
}

func TestMembersAreKnownToSomebody(t *testing.T) {
	fires(t, NewReasons(coordinated()), Live, "m3 is a member of group g, though nobody was told that member id", twoOfGroup+"c3 consumer.rebalance g - 1; b1 group.came g m3 1")
	silent(t, NewReasons(coordinated()), twoOfGroup+"c3 consumer.rebalance g - 1; +1ms; answer c3 join g - 1ms 79 m3; b1 group.came g m3 1")
	for _, mode := range []func(*Group){func(g *Group) { g.Old = true }, func(g *Group) { g.Static = true }} {
		p := coordinated()
		mode(&p.Groups[0])
		silent(t, NewReasons(p), twoOfGroup+"b1 group.came g m3 1")
	}
	silent(t, NewReasons(coordinated()), "b1 group.loaded __consumer_offsets/0 - 1; b1 group.came g m3 7; b1 group.changed g Stable 7") // as it was in the log
}
