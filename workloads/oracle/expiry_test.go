package oracle

import (
	"testing"
	"time"
)

// expiring keeps what the group g committed for a minute after its last member went, and looks every second.
func expiring() *Expiry {
	p := meeting(true)
	p.OffsetsRetention, p.OffsetsCheck = time.Minute, time.Second
	return NewExpiry(p)
}

// m1 commits, and goes.
const committedAndGone = `start coord; start b1; b1 group.loaded __consumer_offsets/0 - 1 0 0; b1 group.changed g Stable 1 1 0; b1 group.stored g/t/0 m1 5 1 0; +10m
	b1 group.went g m1 1 0 0; b1 group.changed g Empty 2 0 0;`

const anotherComes = "b1 group.came g m2 2 0 0; b1 group.changed g PreparingRebalance 2 1 0;"

func TestOffsetsOfAGroupWithoutMembersExpire(t *testing.T) {
	for _, story := range []string{
		committedAndGone + "+60s; b1 group.expired g/t/0 - 5 2 0; +1h;" + anotherComes,
		committedAndGone + "+61s;" + anotherComes,
		// Another coordinator comes meanwhile, and finds what the last one had no time to write down.
		committedAndGone + "+60s; b1 group.expired g/t/0 - 5 2 0; crash b1; b2 group.loaded __consumer_offsets/0 - 1 0 1; b2 group.stored g/t/0 - 5 -1 1; b2 group.changed g Empty 2 0 1; +1s; b2 group.expired g/t/0 - 5 2 1",
		// Or it comes late, and has not looked yet.
		committedAndGone + "+30s; crash b1; +2m; b2 group.loaded __consumer_offsets/0 - 1 0 1; b2 group.stored g/t/0 - 5 -1 1; b2 group.changed g Empty 2 0 1; +1s; b2 group.came g m2 2 0 1; b2 group.changed g PreparingRebalance 2 1 1",
		// It stood still.
		committedAndGone + "+59s; pause b1; +1m; resume b1;" + anotherComes,
		// Somebody came, and the coordinator was lost before there was a generation: the next one knows of nobody who came.
		committedAndGone + "+30s;" + anotherComes + "+20s; crash b1; b2 group.loaded __consumer_offsets/0 - 1 0 1; b2 group.stored g/t/0 - 5 -1 1; b2 group.changed g Empty 2 0 1; +11s; b2 group.expired g/t/0 - 5 2 1",
		// The next coordinator finds what was committed in a topic that is deleted, and drops it.
		committedAndGone + "coord znode.deleted /brokers/topics/t; crash b1; b2 group.loaded __consumer_offsets/0 - 1 0 1; b2 group.stored g/t/0 - 5 -1 1; b2 group.changed g Empty 2 0 1; +1h; b2 group.came g m2 2 0 1; b2 group.changed g PreparingRebalance 2 1 1",
		// The topic was deleted, and what was committed in it went with it.
		committedAndGone + "coord znode.deleted /brokers/topics/t; +1h;" + anotherComes,
	} {
		silent(t, expiring(), story)
	}
	for _, c := range []struct{ says, story string }{
		{"expires, though the group has 1 members who read the topic", committedAndGone + anotherComes + "+2m; b1 group.expired g/t/0 - 5 2 0"},
		{"expires, though the last member went at 10m0s, and the commit is of 0s; the limit is 1m0s", committedAndGone + "+59s; b1 group.expired g/t/0 - 5 2 0"},
		{"is still there when the group gets members again, though nobody used it since 10m0s; it should be gone by 11m1.3s", committedAndGone + "+62s;" + anotherComes},
		// The next coordinator counts on.
		{"should be gone by 11m1.3s", committedAndGone + "+30s; crash b1; b2 group.loaded __consumer_offsets/0 - 1 0 1; b2 group.stored g/t/0 - 5 -1 1; b2 group.changed g Empty 2 0 1; +32s; b2 group.came g m2 2 0 1; b2 group.changed g PreparingRebalance 2 1 1"},
		{"b2 finds offset 5 of g/t/0 committed, which expired at 11m0s", committedAndGone + "+60s; b1 group.expired g/t/0 - 5 2 0; +1s; crash b1; b2 group.loaded __consumer_offsets/0 - 1 0 1; b2 group.stored g/t/0 - 5 -1 1"},
	} {
		fires(t, expiring(), Retain, c.says, c.story)
	}
}

// Who finds nothing committed any more, because it expired, begins anew; and that is no loss of a commit.
func TestExpiredOffsetsCountAsNeverCommitted(t *testing.T) {
	gone := `start coord; sent 0/0 t; b1 log.opened t/0 - 0 9; b1 group.loaded __consumer_offsets/0 - 1 0 0; claimed c1 g/t/0 -1; reset c1 g/t/0 -1 0; processed c1 g/t/0 0 0/0; +1s; b1 group.stored g/t/0 m1 1 1 0
		commits c1 g m1 1 t/0 1 10ms; released c1 g/t/0; +1m;`
	const again = "recalls c1 g t/0 -1 1ms; claimed c1 g/t/0 -1; reset c1 g/t/0 -1 0; b1 group.stored g/t/0 m2 0 3 0"
	silent(t, NewOffsets(meeting(true), nil), gone+"b1 group.expired g/t/0 - 1 2 0; +1s;"+again)
	fires(t, NewOffsets(meeting(true), nil), CMono, "was told none, though 1 was acknowledged", gone+again)
	silent(t, NewDelivery(meeting(true), nil), gone+"b1 group.expired g/t/0 - 1 2 0; +1s; b1 group.given g/t/0 m2 3 0 0; claimed c1 g/t/0 -1")
	fires(t, NewDelivery(meeting(true), nil), DupB, "as if nothing were committed", gone+"b1 group.given g/t/0 m2 3 0 0; claimed c1 g/t/0 -1")
}
