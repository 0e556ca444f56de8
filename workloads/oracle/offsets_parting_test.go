package oracle

import "testing"

// A member that commits by itself, of a quiet group, has processed two records since it claimed, of which one is committed.
const aboutToPart = `start coord; start b1; start c1; +10s; b1 log.opened t/0 - 0 9; b1 group.loaded __consumer_offsets/0 - 1 0 0; claimed c1 g/t/0 -1; reset c1 g/t/0 -1 0
	processed c1 g/t/0 0 0/0; b1 group.stored g/t/0 m1 1 1 0; processed c1 g/t/0 1 0/1; answer c1 beat g m1 1ms 0 1; +10ms;`

func TestWhoPartsInOrderHasCommitted(t *testing.T) {
	parting := func() *Offsets {
		p := meeting(true)
		p.Groups[0].Commits = true
		return NewOffsets(p, nil)
	}
	const committed = "b1 group.stored g/t/0 m1 2 1 0; commits c1 g m1 1 t/0 2 1ms;"
	for _, story := range []string{
		aboutToPart + "released c1 g/t/0;" + committed + "c1 consumer.left g c1",
		aboutToPart + "released c1 g/t/0;" + committed + "c1 consumer.rebalance g c1 2",
		// Not in order: it was refused, it has not been heard of for long, it tries for long, it crashes, a broker was away, a misfortune keeps it from it.
		aboutToPart + "released c1 g/t/0; commits c1 g m1 1 t/0 2 1ms 27; c1 consumer.rebalance g c1 2",
		aboutToPart + "+2s; released c1 g/t/0; c1 consumer.left g c1",
		aboutToPart + "released c1 g/t/0; +200ms; c1 consumer.left g c1",
		aboutToPart + "released c1 g/t/0; crash c1",
		aboutToPart + "crash b1; start b1; released c1 g/t/0; c1 consumer.left g c1",
		aboutToPart + "fault 1 {at: 1s, fault: misfortune, place: fault/consumer/release-commit}; healed 1 x; +10s; answer c1 beat g m1 1ms 0 1; released c1 g/t/0; c1 consumer.left g c1",
		// It got the second record by the claim before, and gets it once more by this one.
		`start coord; start b1; start c1; +10s; b1 log.opened t/0 - 0 9; b1 group.loaded __consumer_offsets/0 - 1 0 0; claimed c1 g/t/0 -1; reset c1 g/t/0 -1 0; handed c1 g/t/0 0; processed c1 g/t/0 0 0/0; handed c1 g/t/0 1;
			released c1 g/t/0; b1 group.stored g/t/0 m1 1 1 0; claimed c1 g/t/0 1; processed c1 g/t/0 1 0/1; answer c1 beat g m1 1ms 0 1; +10ms; released c1 g/t/0; c1 consumer.left g c1`,
		// It went back instead of processing the second record, which the next claim hands over once more; then it goes back to the first again, and is through with both.
		`start coord; start b1; start c1; +10s; b1 log.opened t/0 - 0 9; b1 group.loaded __consumer_offsets/0 - 1 0 0; claimed c1 g/t/0 -1; reset c1 g/t/0 -1 0; handed c1 g/t/0 0; processed c1 g/t/0 0 0/0; handed c1 g/t/0 1; sought c1 g/t/0 0;
			released c1 g/t/0; claimed c1 g/t/0 0; handed c1 g/t/0 0; processed c1 g/t/0 0 0/0; handed c1 g/t/0 1; processed c1 g/t/0 1 0/1; answer c1 beat g m1 1ms 0 1; +10ms; released c1 g/t/0; b1 group.stored g/t/0 m1 2 1 0;
			commits c1 g m1 1 t/0 2 1ms; c1 consumer.left g c1`,
		// It went back, and has processed nothing since.
		aboutToPart + "sought c1 g/t/0 0; released c1 g/t/0; c1 consumer.left g c1",
	} {
		silent(t, parting(), story)
	}
	const says = "c1 gave up g/t/0 in order at 10.01s and had processed everything below offset 2, but the committed offset is 1"
	fires(t, parting(), DupB, says, aboutToPart+"released c1 g/t/0; c1 consumer.left g c1")
	fires(t, parting(), DupB, says, aboutToPart+"released c1 g/t/0; c1 consumer.rebalance g c1 2")
	fires(t, parting(), DupB, says, aboutToPart+"fault 1 {at: 1s, fault: stop, target: consumer-1}; released c1 g/t/0; c1 consumer.left g c1")
	// It went back, and the commit did not.
	fires(t, parting(), DupB, "had processed everything below offset 1, but the committed offset is 2", aboutToPart+committed+"sought c1 g/t/0 0; processed c1 g/t/0 0 0/0; released c1 g/t/0; c1 consumer.left g c1")
	silent(t, parting(), aboutToPart+committed+"sought c1 g/t/0 0; processed c1 g/t/0 0 0/0; released c1 g/t/0; b1 group.stored g/t/0 m1 1 1 0; c1 consumer.left g c1")
	// In a registry group the owner's node goes.
	registry := offsetsOf(func(p *Promise) { p.Groups[0].Commits = true })
	fires(t, registry, DupB, "but the committed offset is none", "+10s;"+threeRead+"+10s; released c1 g/t/0; disown g/t/0 7")
	silent(t, offsetsOf(func(p *Promise) { p.Groups[0].Commits = true }), "+10s;"+threeRead+"+10s; released c1 g/t/0; commit g/t/0 3; disown g/t/0 7")
}
