package oracle

import (
	"testing"
	"time"
)

// three are read by c1, who owns the partition.
const threeRead = `
	start coord; b1 log.opened t/0 - 0 3; own g/t/0 c1 7; claimed c1 g/t/0 -1; reset c1 g/t/0 -1 0
	processed c1 g/t/0 0 0/0; processed c1 g/t/0 1 0/1; processed c1 g/t/0 2 0/2
`

func offsetsOf(change ...func(*Promise)) *Offsets {
	p := calmly()
	for _, c := range change {
		c(p)
	}
	return NewOffsets(p, nil)
}

func TestOffsetsOfWhatWasProcessed(t *testing.T) {
	silent(t, offsetsOf(), threeRead+"commit g/t/0 1; committed c1 g/t/0 1; commit g/t/0 3; committed c1 g/t/0 3")
	for _, c := range []struct{ name, story, says string }{
		{"one too many", "commit g/t/0 4", "offset 4 of g/t/0 is committed, but offset 3 was never processed"},
		{"beyond a gap", "processed c1 g/t/0 4 0/4; commit g/t/0 5", "offset 5 of g/t/0 is committed, but offset 3 was never processed"},
		{"what was handed over only", "handed c1 g/t/0 3; commit g/t/0 4", "offset 3 was never processed"},
		{"another partition", "own g/t/1 c1 7; commit g/t/1 1", "offset 1 of g/t/1 is committed, but offset 0"},
	} {
		t.Run(c.name, func(t *testing.T) { fires(t, offsetsOf(), CommitP, c.says, threeRead+c.story) })
	}
	// At-most-once commits first.
	silent(t, offsetsOf(atMostOnce), threeRead+"b1 log.appended t/0 - 3 50; commit g/t/0 50")
	fires(t, offsetsOf(atMostOnce), CommitP, "offset 51 of g/t/0 is committed, but the log ends at 50", threeRead+"b1 log.appended t/0 - 3 50; commit g/t/0 51")
	silent(t, offsetsOf(func(p *Promise) { p.Groups[0].Loner = true }), threeRead+"commit g/t/0 50; commit g/t/0 1")
}

func TestOffsetsOverWhatRetentionDeleted(t *testing.T) {
	deleted := threeRead + "b1 log.appended t/0 - 3 20; b1 log.deleted t/0 - 0 10; "
	silent(t, offsetsOf(), deleted+"reset c1 g/t/0 3 10; commit g/t/0 10; processed c1 g/t/0 10 0/10; commit g/t/0 11")
	fires(t, offsetsOf(), CommitP, "offset 10 of g/t/0 is committed, but offset 3 was never processed", deleted+"commit g/t/0 10")
	// The reset goes further than the deletion.
	fires(t, offsetsOf(), CommitP, "offset 11 of g/t/0 is committed, but offset 10 was never processed", deleted+"reset c1 g/t/0 3 11; commit g/t/0 11")
	// A new group starts at the start of the log.
	silent(t, offsetsOf(), "b1 log.opened t/0 - 10 20; own g/t/0 c1 7; claimed c1 g/t/0 -1; reset c1 g/t/0 -1 10; commit g/t/0 10")
	fires(t, offsetsOf(), CommitP, "but offset 10 was never processed", "b1 log.opened t/0 - 10 20; own g/t/0 c1 7; claimed c1 g/t/0 -1; reset c1 g/t/0 -1 15; commit g/t/0 15")
	// The disk knows better than the events.
	p := calmly()
	silent(t, NewOffsets(p, startsAt(10)), `coord znode.created /brokers/topics/t {"partitions":{"0":[1]}};`+threeRead+"reset c1 g/t/0 3 10; commit g/t/0 10")
}

func TestOffsetsWithLargest(t *testing.T) {
	fresh := "b1 log.opened t/0 - 0 20; own g/t/0 c1 7; claimed c1 g/t/0 -1; reset c1 g/t/0 -1 20; commit g/t/0 20; "
	silent(t, offsetsOf(largest), fresh+"processed c1 g/t/0 20 0/20; commit g/t/0 21")
	fires(t, offsetsOf(largest), CommitP, "offset 22 of g/t/0 is committed, but offset 20", fresh+"processed c1 g/t/0 21 0/21; commit g/t/0 22")
	silent(t, offsetsOf(largest), fresh+"b1 log.appended t/0 - 20 60; b1 log.deleted t/0 - 0 40; reset c1 g/t/0 20 60; commit g/t/0 60")
	// A position that was in range is no reason to leave anything out.
	fires(t, offsetsOf(largest), CommitP, "but offset 20 was never processed", fresh+"b1 log.appended t/0 - 20 60; reset c1 g/t/0 20 60; commit g/t/0 60")
}

func TestOffsetsStayCommitted(t *testing.T) {
	for _, c := range []struct{ name, story, says string }{
		{"back", "commit g/t/0 3; commit g/t/0 2", "the committed offset of g/t/0 went back from 3 to 2"},
		{"gone", "commit g/t/0 3; coord znode.deleted /consumers/g/offsets/t/0", "the committed offset 3 of g/t/0 vanished"},
		{"acknowledged but not there", "commit g/t/0 2; committed c1 g/t/0 3", "c1 committed offset 3 of g/t/0 and was told so, but the registry has 2"},
		{"acknowledged, nothing is there", "committed c1 g/t/0 3", "but the registry has none"},
		{"no offset", "commit g/t/0 three; committed c1 g/t 3", `became "three", which is no offset`},
	} {
		t.Run(c.name, func(t *testing.T) { fires(t, offsetsOf(), CMono, c.says, threeRead+c.story) })
	}
	fires(t, offsetsOf(atMostOnce), CMono, "went back from 3 to 2", threeRead+"commit g/t/0 3; commit g/t/0 2")
}

func TestOffsetsGoBackOnlyWhenAsked(t *testing.T) {
	silent(t, offsetsOf(), threeRead+"commit g/t/0 3; sought c1 g/t/0 1; commit g/t/0 1; commit g/t/0 3")
	silent(t, offsetsOf(), threeRead+"commit g/t/0 2; sought c1 g/t/0 1; commit g/t/0 3; commit g/t/0 1") // the commit was under way
	fires(t, offsetsOf(), CMono, "went back from 3 to 0", threeRead+"commit g/t/0 3; sought c1 g/t/0 1; commit g/t/0 0")
	fires(t, offsetsOf(), CMono, "went back from 3 to 2", threeRead+"commit g/t/0 3; sought c1 g/t/0 1; commit g/t/0 1; commit g/t/0 3; commit g/t/0 2")
	// It went back again while the commit of the first time was under way; but each time only once.
	silent(t, offsetsOf(), threeRead+"commit g/t/0 3; sought c1 g/t/0 2; sought c1 g/t/0 1; commit g/t/0 2; commit g/t/0 1")
	fires(t, offsetsOf(), CMono, "went back from 2 to 1", threeRead+"commit g/t/0 3; sought c1 g/t/0 2; sought c1 g/t/0 1; commit g/t/0 2; commit g/t/0 1; commit g/t/0 2; commit g/t/0 1")
	// A seek ahead leaves out what lies between.
	silent(t, offsetsOf(), threeRead+"sought c1 g/t/0 9; commit g/t/0 9")
	fires(t, offsetsOf(), CommitP, "but offset 9", threeRead+"sought c1 g/t/0 9; commit g/t/0 10")
	// The log lost its end.
	silent(t, offsetsOf(), threeRead+"commit g/t/0 3; b1 log.truncated t/0 - 3 1; reset c1 g/t/0 3 1; commit g/t/0 1")
	fires(t, offsetsOf(), CMono, "went back", threeRead+"commit g/t/0 3; reset c1 g/t/0 3 1; commit g/t/0 1")
	// The topic is deleted; its namesake begins anew.
	silent(t, offsetsOf(), threeRead+`commit g/t/0 3; coord znode.deleted /brokers/topics/t; coord znode.deleted /consumers/g/offsets/t/0
		coord znode.created /brokers/topics/t {}; commit g/t/0 0`)
	// A restarted coordination server traces its last transactions again.
	silent(t, offsetsOf(), threeRead+`coord znode.created /consumers/g/offsets/t/0 1 0 100; coord znode.set /consumers/g/offsets/t/0 3 1 101; crash coord
		coord#2 znode.created /consumers/g/offsets/t/0 1 0 100; coord#2 znode.set /consumers/g/offsets/t/0 3 1 101`)
	// It lost some, which shows when others come in their place.
	fires(t, offsetsOf(), CMono, "went back from 3 to 2", threeRead+`coord znode.set /consumers/g/offsets/t/0 3 1 101; crash coord; coord#2 znode.set /consumers/g/offsets/t/0 2 1 102`)
}

func TestOffsetsAreCommittedByTheOwner(t *testing.T) {
	fires(t, offsetsOf(), Gen, "offset 3 of g/t/0 is committed while nobody owns the partition", threeRead+"disown g/t/0 7; commit g/t/0 3")
	changed := threeRead + "disown g/t/0 7; own g/t/0 c2 8; +2s; commit g/t/0 3; +1s; "
	silent(t, offsetsOf(), changed+"c2 call set=3 /consumers/g/offsets/t/0 8 1s 3s ok")
	silent(t, offsetsOf(), changed+"c1 call set=3 /consumers/g/offsets/t/0 7 1s 3s refused")
	fires(t, offsetsOf(), Gen, "c1 committed offset 3 of g/t/0 with session 0x7 at 2s, when session 0x8 owned the partition", changed+"c1 call set=3 /consumers/g/offsets/t/0 7 1s 3s ok")
}

func TestOffsetsAreCommittedInTheEnd(t *testing.T) {
	soon := func(p *Promise) { p.Groups[0].CommitWithin = 5 * time.Second }
	story := threeRead + "commit g/t/0 2; phase heal; "
	fires(t, offsetsOf(soon), DupB, "c1 processed everything below offset 3 of g/t/0 by 0s, but the committed offset is 2; the limit is 5s", story+"+6s")
	silent(t, offsetsOf(soon), story+"+4s")
	silent(t, offsetsOf(soon), story+"+6s; commit g/t/0 3")
	silent(t, offsetsOf(soon), story+"+6s; fault 1 x; healed 1 x")
	silent(t, offsetsOf(soon), threeRead+"+6s")
	silent(t, offsetsOf(), story+"+6s")
	silent(t, offsetsOf(soon), "start coord; own g/t/1 c1 7; claimed c1 g/t/1 -1; reset c1 g/t/1 -1 0; phase heal; +6s") // nothing to commit
	// The next owner processes it again; who is gone commits nothing; what a reset left out can wait.
	silent(t, offsetsOf(soon), story+"crash c1; own g/t/0 c2 8; claimed c2 g/t/0 2; +6s")
	silent(t, offsetsOf(soon), story+"released c1 g/t/0; +6s")
	silent(t, offsetsOf(soon), story+"b1 log.appended t/0 - 3 9; b1 log.deleted t/0 - 0 8; reset c1 g/t/0 3 8; +6s")
	fires(t, offsetsOf(soon), DupB, "c2 processed everything below offset 3", story+"crash c1; own g/t/0 c2 8; claimed c2 g/t/0 2; processed c2 g/t/0 2 0/2; +6s")
	o := offsetsOf(soon)
	newStory(t, o).tell(story)
	if o.Waits() != "a commit of g/t/0" {
		t.Fatal(o.Waits())
	}
}
