package oracle

import (
	"testing"
	"time"
)

func TestAGenerationIsOfThoseWhoAskedToJoin(t *testing.T) {
	// c1 begins a rebalance, which ends without c2.
	begins := twoOfGroup + "c1 consumer.rebalance g - 3; b1 group.changed g PreparingRebalance 1; +1s; answer c2 beat g m2 1ms 27; +2s;"
	ends := begins + "b1 group.changed g CompletingRebalance 2; answer c1 join g m1 3s 0 m1; +100ms;"
	fires(t, NewReasons(coordinated()), Live, "m2 on c2 is a member of group g in generation 2 since 8.032s, though it did not ask to join before 8.122s", ends+"answer c2 join g m2 10ms 0 m2")
	fires(t, NewReasons(coordinated()), Live, "m2 on c2 is a member", ends+"answer c2 join g m2 10ms lost")
	for _, story := range []string{
		ends + "answer c2 join g m2 200ms 0 m2",
		begins + "b1 group.went g m2 1; b1 group.changed g CompletingRebalance 2; +100ms; answer c2 join g m2 10ms 25 m2",
		// It asked before, and nobody answered.
		begins + "answer c2 join g m2 1s lost; b1 group.changed g CompletingRebalance 2; +100ms; answer c2 join g m2 10ms 0 m2",
		begins + "answer c2 join g m2 1s 27 m2; b1 group.changed g CompletingRebalance 2; +100ms; answer c2 join g m2 10ms 0 m2",
		// The generation is one of an earlier coordinator.
		ends + "b2 group.loaded __consumer_offsets/0 - 1 0 1; b2 group.came g m1 2 0 1; b2 group.came g m2 2 0 1; answer c2 join g m2 10ms 0 m2",
	} {
		silent(t, NewReasons(coordinated()), story)
	}
	static := coordinated()
	static.Groups[0].Static = true
	silent(t, NewReasons(static), ends+"answer c2 join g m2 10ms 0 m2") // it has its session to join
}

func TestMembersHaveTimeOutsOfTheirOwn(t *testing.T) {
	unequal := func() *Reasons {
		p := coordinated()
		p.Groups[0].Extra = map[string]Extra{"c2": {Session: time.Second, MaxPoll: 2 * time.Second}}
		return NewReasons(p)
	}
	told := "; +1ms; answer c2 beat g m2 1ms 25"
	fires(t, unequal(), Budget, "its session is 2s, and a rebalance waits for it 5s", twoOfGroup+"+1s; b1 group.went g m2 1"+told)
	silent(t, unequal(), twoOfGroup+"+2s; b1 group.went g m2 1"+told)
	again := twoOfGroup + "c1 consumer.rebalance g - 3; b1 group.changed g PreparingRebalance 1; +"
	beats := "; answer c2 beat g m2 1ms 27; b1 group.went g m2 1"
	fires(t, unequal(), Budget, "its session is 2s, and a rebalance waits for it 5s", again+"3s"+beats+told)
	silent(t, unequal(), again+"5s"+beats+told)
	silent(t, unequal(), again+"3s; answer c1 beat g m1 1ms 27; b1 group.went g m1 1; +1ms; answer c1 beat g m1 1ms 25")
}

func TestAStaticMemberHasItsSessionToJoin(t *testing.T) {
	static := func() *Reasons {
		p := coordinated()
		p.Groups[0].Static = true
		p.Groups[0].SessionTimeout, p.Groups[0].RebalanceWithin = 3*time.Second, time.Second
		return NewReasons(p)
	}
	told := "; +1ms; answer c2 beat g m2 1ms 25"
	joins := twoOfGroup + "c1 consumer.rebalance g - 3; b1 group.changed g PreparingRebalance 1; +1s; answer c2 beat g m2 1ms 27; +100ms;"
	fires(t, static(), Budget, "m2 on c2 is no member of group g since 6.132s, though the coordinator heard what it sent at 6.031s; its session is 3s", joins+"b1 group.went g m2 1"+told)
	silent(t, static(), joins+"+3s; b1 group.went g m2 1"+told)
	// Its process was replaced, and the next one was counted out, or left.
	silent(t, static(), joins+"b1 group.went g m2 1; b1 group.came g m3 1; +10ms; b1 group.went g m3 1"+told)
	// A sync is waited for as long as a rebalance is.
	syncs := twoOfGroup + "c1 consumer.rebalance g - 3; b1 group.changed g PreparingRebalance 1; answer c2 join g m2 1ms 0 m2; b1 group.changed g CompletingRebalance 2; +"
	silent(t, static(), syncs+"1s; answer c2 beat g m2 1ms 0 2; b1 group.went g m2 2"+told)
	fires(t, static(), Budget, "m2 on c2", syncs+"500ms; answer c2 beat g m2 1ms 0 2; b1 group.went g m2 2"+told)
}
