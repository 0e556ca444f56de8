package oracle

import "testing"

func TestAMemberJoinsAgainForAReason(t *testing.T) {
	// m1 of c1 leads; m2 of c2 has its assignment in generation 1, and works.
	const begin = `
		c1 consumer.rebalance g c1 1; c2 consumer.rebalance g c2 1; +10ms
		answer c1 join g m1 10ms 0 m1; answer c2 join g m2 10ms 0 m2; +10ms
		answer c1 sync g m1 5ms 0; answer c2 sync g m2 5ms 0; c1 consumer.synced g m1 1; c2 consumer.synced g m2 1
		processed c2 g/t/1 0 0/0; +2s; processed c2 g/t/1 1 0/1; answer c2 beat g m2 1ms 0; +1s; processed c2 g/t/1 2 0/2; +10ms;`
	const again = "; c2 consumer.rebalance g c2 2"
	o := func() *Rejoins { return NewRejoins(coordinated()) }
	says := "c2 on c2 asks to join group g again, though it has its assignment in generation 1 since"
	for _, story := range []string{
		begin + again,
		begin + "answer c2 beat g m2 1ms 16" + again, // the coordinator is another one
		begin + "answer c2 beat g m2 1ms lost" + again,
		begin + "commits c2 g m2 1 t/1 3 1ms 14" + again, // it is loading
		begin + "commits c2 g m2 1 t/1 3 1ms 27" + again,
		begin + "answer c2 beat g m2 1ms 27" + again + "; answer c2 join g m2 1ms 0 m2; answer c2 sync g m2 1ms 0; c2 consumer.synced g m2 1; c2 consumer.rebalance g c2 3", // one reason, two joins
	} {
		fires(t, o(), Budget, says, story)
	}
	for _, story := range []string{
		begin + "answer c2 beat g m2 1ms 27" + again,
		begin + "answer c2 beat g m2 1ms 25" + again,
		begin + "answer c2 leave g m2 1ms 0" + again,
		begin + "commits c2 g m2 1 t/1 3 1ms 22" + again,
		begin + "c1 consumer.rebalance g c1 2",          // who leads looks after new partitions
		begin + "+4s" + again,                           // it was at work for too long
		begin + "+4s; processed c2 g/t/1 3 0/3" + again, // and is back
		begin + "crash c2; start c2" + again,            // another process
		"c2 consumer.rebalance g c2 1; +1s" + again,     // it has no assignment yet
		begin + "answer c2 beat g m2 1ms 27" + again + "; answer c2 join g m2 1ms lost; c2 consumer.rebalance g c2 3", // nobody answered
	} {
		silent(t, o(), story)
	}
}
