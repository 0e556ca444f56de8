package oracle

import "testing"

func TestNothingOfAPausedPartitionIsHandedOver(t *testing.T) {
	const claimed = "claimed c1 g/t/0 0; claimed c1 g/t/1 0; handed c1 g/t/0 0; suspended c1 g/t/0;"
	for _, story := range []string{
		claimed + "handed c1 g/t/1 0; +1s; continued c1 g/t/0; handed c1 g/t/0 1",
		// The claim ends, and the pause with it.
		claimed + "released c1 g/t/0; claimed c1 g/t/0 1; handed c1 g/t/0 1",
		claimed + "released c1 g/t/0; claimed c2 g/t/0 1; handed c2 g/t/0 1",
		claimed + "crash c1; start c1; claimed c1 g/t/0 1; handed c1 g/t/0 1",
		// Whoever asks has no claim any more.
		"claimed c1 g/t/0 0; released c1 g/t/0; suspended c1 g/t/0; claimed c1 g/t/0 0; handed c1 g/t/0 0",
	} {
		silent(t, NewPauses(), story)
	}
	fires(t, NewPauses(), Deliver, "c1 on c1 is handed offset 1 of g/t/0, which it has paused", claimed+"+1s; handed c1 g/t/0 1")
	// Another partition goes in a rebalance that leaves it this one.
	fires(t, NewPauses(), Deliver, "which it has paused", claimed+"released c1 g/t/1; claimed c1 g/t/2 0; handed c1 g/t/0 1")
}
