package oracle

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"faultline/workloads/history"

	"github.com/stretchr/testify/require"
)

// usual is one group that reads topic t at least once, from ordered producers with acks=all.
func usual() *Promise {
	p := &Promise{Groups: []Group{{Name: "g", Topics: []string{"t"}}}}
	for i := range 4 {
		p.Producers = append(p.Producers, Producer{Name: producerOf(history.NewID(i, 0)), Acks: -1, Ordered: true})
	}
	return p
}

func with(change func(*Promise)) *Delivery {
	p := usual()
	change(p)
	return NewDelivery(p, nil)
}

func acks(n int16) func(*Promise) {
	return func(p *Promise) {
		for i := range p.Producers {
			p.Producers[i].Acks = n
		}
	}
}

func largest(p *Promise)    { p.Groups[0].Reset = Largest }
func atMostOnce(p *Promise) { p.Groups[0].Delivery = AtMostOnce }

// two records are produced; c1 owns the partition.
const twoSent = `
	b1 log.opened t/0 - 0 0
	sent 0/0 t; b1 log.appended t/0 - 0 1; b1 log.visible t/0 - 1; acked 0/0 t/0 0
	sent 0/1 t; b1 log.appended t/0 - 1 2; b1 log.visible t/0 - 2; acked 0/1 t/0 1
	own g/t/0 c1 7; claimed c1 g/t/0 -1; reset c1 g/t/0 -1 0
`
const bothRead = `
	handed c1 g/t/0 0; processed c1 g/t/0 0 0/0
	handed c1 g/t/0 1; processed c1 g/t/0 1 0/1
`

func TestDeliveryOfEverythingIsSilent(t *testing.T) {
	d := NewDelivery(usual(), nil)
	silent(t, d, twoSent+bothRead+"commit g/t/0 2")
	require.Equal(t, Stats{Sent: 2, Acked: 2, Delivered: 2}, d.Stats())
	require.Empty(t, d.Waits())
}

func TestDeliveryLost(t *testing.T) {
	for _, c := range []struct{ name, story, says string }{
		{"nothing is read", twoSent, "group g never got record 0/0, which p sent at 0s and which was acked at offset 0 of t/0; the group was handed nothing from there on"},
		{"the last is not read", twoSent + "handed c1 g/t/0 0; processed c1 g/t/0 0 0/0", "never got record 0/1"},
		{"handed over but never processed", twoSent + "handed c1 g/t/0 0; handed c1 g/t/0 1; processed c1 g/t/0 1 0/1", "never got record 0/0, which p sent at 0s and which was acked at offset 0 of t/0; the group went on to offset 1"},
		{"no member ever claimed", "sent 0/0 t; acked 0/0 t/0 0", "never got record 0/0"},
		{"the log lost its synced end", `
			b1 log.opened t/0 - 0 0; sent 0/0 t; b1 log.appended t/0 - 0 1; b1 log.visible t/0 - 1; acked 0/0 t/0 0
			power b1; b1#2 log.opened t/0 - 0 0; own g/t/0 c1 7; claimed c1 g/t/0 -1; reset c1 g/t/0 -1 0`, "never got record 0/0"},
		{"acked without an offset", "sent 0/0 t; acked 0/0 t/0 -1", "record 0/0 is acked with acks=-1, but without an offset"},
		{"in a partition that nobody reads", twoSent + bothRead + "sent 0/2 t; acked 0/2 t/3 0", "offset 0 of t/3"},
	} {
		t.Run(c.name, func(t *testing.T) { fires(t, NewDelivery(usual(), nil), Deliver, c.says, c.story) })
	}
}

func TestDeliveryLossThatIsAllowed(t *testing.T) {
	unread := "sent 0/0 t; b1 log.opened t/0 - 0 0; b1 log.appended t/0 - 0 1; acked 0/0 t/0 0; "
	for _, c := range []struct {
		name   string
		change func(*Promise)
		story  string
	}{
		{"unknown outcome", acks(-1), "sent 0/0 t; unknown 0/0"},
		{"failed", acks(-1), "sent 0/0 t; failed 0/0"},
		{"no outcome, the producer crashed", acks(-1), "sent 0/0 t; crash p"},
		{"acks=0", acks(0), "sent 0/0 t; acked 0/0 t/0 -1"},
		{"acks=1 and power loss before it was visible", acks(1), unread + "power b1; b1#2 log.opened t/0 - 0 0"},
		{"acks=1, power loss, the ack comes late", acks(1), "b1 log.opened t/0 - 0 0; sent 0/0 t; +1s; b1 log.appended t/0 - 0 1; power b1; +1s; acked 0/0 t/0 0; b1#2 log.opened t/0 - 0 0"},
		{"acks=1 and a disk error", acks(1), unread + "b1 log.failed t/0 EIO; crash b1; b1#2 log.opened t/0 - 0 0"},
		{"acks=1, lost, its offset used again", acks(1), unread + `power b1; b1#2 log.opened t/0 - 0 0; sent 0/1 t; b1 log.appended t/0 - 0 1; b1 log.visible t/0 - 1; acked 0/1 t/0 0
			own g/t/0 c1 7; claimed c1 g/t/0 -1; reset c1 g/t/0 -1 0; handed c1 g/t/0 0; processed c1 g/t/0 0 0/1`},
		{"wiped disk", acks(-1), unread + "wipe b1"},
		{"deleted by retention before it was read", acks(-1), unread + "b1 log.deleted t/0 - 0 1"},
		{"topic deleted", acks(-1), unread + "coord znode.deleted /brokers/topics/t"},
		{"reset=largest starts after it", largest, unread + "own g/t/0 c1 7; claimed c1 g/t/0 -1; reset c1 g/t/0 -1 1"},
		{"reset=largest, nobody came", largest, unread},
		{"at-most-once, committed and then crashed", atMostOnce, unread + "own g/t/0 c1 7; claimed c1 g/t/0 -1; reset c1 g/t/0 -1 0; commit g/t/0 1; crash c1; own g/t/0 c2 8; claimed c2 g/t/0 1"},
		{"a group that the promise does not name", acks(-1), twoSent + bothRead + "processed x other/t/0 0 0/0"},
		{"a topic that no group reads", acks(-1), "sent 0/0 u; acked 0/0 u/0 0"},
	} {
		t.Run(c.name, func(t *testing.T) { silent(t, with(c.change), c.story) })
	}
}

func TestDeliveryLossThatIsNotAllowed(t *testing.T) {
	unread := "b1 log.opened t/0 - 0 0; sent 0/0 t; b1 log.appended t/0 - 0 1; acked 0/0 t/0 0; "
	for _, c := range []struct {
		name   string
		change func(*Promise)
		story  string
	}{
		{"acks=1 and a mere process crash", acks(1), unread + "crash b1; b1#2 log.opened t/0 - 0 0"},
		{"acks=1, power loss after it was visible", acks(1), unread + "b1 log.visible t/0 - 1; power b1; b1#2 log.opened t/0 - 0 0"},
		{"acks=1, power loss of another machine", acks(1), unread + "power b2"},
		{"acks=1, sent after the power loss", acks(1), "b1 log.opened t/0 - 0 0; power b1; +1s; b1#2 log.opened t/0 - 0 0; " + unread},
		{"reset=largest, after the group began", largest, "own g/t/0 c1 7; claimed c1 g/t/0 -1; reset c1 g/t/0 -1 0; " + unread},
		{"at-most-once, never committed", atMostOnce, "own g/t/0 c1 7; claimed c1 g/t/0 -1; reset c1 g/t/0 -1 0; " + unread},
	} {
		t.Run(c.name, func(t *testing.T) { fires(t, with(c.change), Deliver, "never got record 0/0", c.story) })
	}
}

func TestDeliveryOfWhatWasNotSent(t *testing.T) {
	for _, c := range []struct{ name, story, says string }{
		{"phantom", twoSent + "processed c1 g/t/0 0 5/0", "nobody sent it"},
		{"phantom of a known source", twoSent + "processed c1 g/t/0 0 0/2", "nobody sent it"},
		{"corrupted", twoSent + "processed c1 g/t/0 0 0/0 bad", "record 0/0 at offset 0 of t/0 is corrupted"},
		{"failed, then processed", "sent 0/0 t; failed 0/0; processed c1 g/t/0 0 0/0", "its producer reported it as failed"},
		{"processed, then failed", "sent 0/0 t; processed c1 g/t/0 0 0/0; failed 0/0", "is reported as failed (no) but is in t/0 at offset 0"},
		{"other topic", "sent 0/0 t; processed c1 g/u/0 0 0/0", "record 0/0, sent to t, was processed from offset 0 of u/0"},
		{"other partition", "sent 0/0 t; acked 0/0 t/0 0; processed c1 g/t/1 0 0/0", "record 0/0, sent to t/0, was processed from offset 0 of t/1"},
		{"two records at an offset, both processed", twoSent + "processed c1 g/t/0 0 0/0; processed c2 g/t/0 0 0/1", "offset 0 of t/0 holds record 0/0 (acked and processed) and record 0/1 (processed)"},
		{"two records at an offset, both acked", "sent 0/0 t; acked 0/0 t/0 0; sent 1/0 t; acked 1/0 t/0 0", "offset 0 of t/0 holds record 0/0 (acked) and record 1/0 (acked)"},
		{"acked elsewhere than processed", "sent 0/0 t; sent 1/0 t; processed c1 g/t/0 0 0/0; acked 1/0 t/0 0", "offset 0 of t/0 holds record 0/0"},
		{"visible record replaced after power loss", twoSent + bothRead + "power b1; b1#2 log.opened t/0 - 0 1; sent 1/0 t; acked 1/0 t/0 1", "offset 1 of t/0 holds record 0/1 (acked and processed) and record 1/0 (acked)"},
		{"an absurd offset", twoSent + "processed c1 g/t/0 4611686018427387904 0/0", "which cannot be"},
	} {
		t.Run(c.name, func(t *testing.T) { fires(t, NewDelivery(usual(), nil), Deliver, c.says, c.story) })
	}
}

func TestDeliveryRetriesMayDuplicate(t *testing.T) {
	story := `
		b1 log.opened t/0 - 0 0
		sent 0/0 t; b1 log.appended t/0 - 0 1; p producer.retry t/0 timed_out 1; b1 log.appended t/0 - 1 2; b1 log.visible t/0 - 2; acked 0/0 t/0 1
		own g/t/0 c1 7; claimed c1 g/t/0 -1; reset c1 g/t/0 -1 0
		handed c1 g/t/0 0; processed c1 g/t/0 0 0/0
		handed c1 g/t/0 1; processed c1 g/t/0 1 0/0`
	silent(t, NewDelivery(usual(), nil), story)
	fires(t, with(func(p *Promise) { p.Producers[0].Idempotent = true }), Idemp, "record 0/0 is in t/0 at offset 1 and at offset 0", story)
	// The retry is of another partition, another producer or an earlier time, or there is none.
	for _, retry := range []string{"p producer.retry t/1 timed_out 1;", "p1 producer.retry t/0 timed_out 1;", ""} {
		fires(t, NewDelivery(usual(), nil), DupB, "record 0/0 is in t/0 a second time, at offset 0: it was acked at offset 1 without any retry",
			"sent 1/0 t; "+replaceAll(story, "p producer.retry t/0 timed_out 1;", retry))
	}
	fires(t, NewDelivery(usual(), nil), DupB, "record 0/1 is in t/0 a second time, at offset 1: it was acked at offset 0 without any retry",
		"sent 0/0 t; p producer.retry t/0 timed_out 1; unknown 0/0; +1s; "+
			replaceAll(story, "0/0", "0/1", "p producer.retry t/0 timed_out 1;", "", "acked 0/0 t/0 1", "acked 0/1 t/0 0"))
}

func TestDeliveryOfARecordWithoutAnOutcome(t *testing.T) {
	fires(t, NewDelivery(usual(), nil), Deliver, "p ended regularly, but never told what became of record 0/1, which it sent at 0s",
		"start p; sent 0/0 t; acked 0/0 t/0 0; sent 0/1 t; sent 0/2 t; unknown 0/2; +1s; exit p")
	for _, story := range []string{
		"start p; sent 0/0 t; failed 0/0; sent 0/1 t; unknown 0/1; exit p",
		"start p; sent 0/0 t; crash p; start p; exit p", // nobody knows what a crash took along
		"start p; sent 0/0 t; power p; start p; exit p",
		"start p; sent 0/0 t; exit p out of patience", // Liveness tells
		"start p; sent 0/0 t; exit c1",
		"start p; sent 0/0 t; phase heal; +31s", // still under way
	} {
		silent(t, NewDelivery(usual(), nil), story)
	}
}

func TestDeliveryWaitsForAReset(t *testing.T) {
	for _, c := range []struct{ story, says string }{
		{"claimed c1 g/t/0 1; b1 log.deleted t/0 - 0 2", "c1 owns g/t/0 and reads from offset 1, which retention deleted, and has not reset; the log has 2 to 2"},
		{"claimed c1 g/t/0 -1", "c1 owns g/t/0 but reads from nowhere"},
	} {
		s := newStory(t)
		d := NewDelivery(usual(), nil)
		s.rec.Attach(d)
		s.tell("b1 log.opened t/0 - 0 0; b1 log.appended t/0 - 0 2; b1 log.visible t/0 - 2; own g/t/0 c1 7; " + c.story)
		require.Contains(t, d.Waits(), c.says)
		s.tell("reset c1 g/t/0 1 2")
		require.Empty(t, d.Waits())
	}
}

func TestDeliveryOrderOfAcks(t *testing.T) {
	story := `
		sent 0/0 t; sent 0/1 t; acked 0/1 t/0 0; acked 0/0 t/0 1
		own g/t/0 c1 7; claimed c1 g/t/0 0
		handed c1 g/t/0 0; processed c1 g/t/0 0 0/1; handed c1 g/t/0 1; processed c1 g/t/0 1 0/0`
	fires(t, NewDelivery(usual(), nil), Order, "p sent 0/0 before 0/1, but their offsets in t/0 are 1 and 0", story)
	silent(t, with(func(p *Promise) { p.Producers[0].Ordered = false }), story)
	// The first one was there in order, too, and is acked where a replica that began anew in between took it for new.
	const anew = "b2 log.truncated t/0 - 0 %d 1;"
	several := func(p *Promise) { p.Topics = []Topic{{Name: "t", Replicas: 2}} }
	silent(t, with(several), fmt.Sprintf(anew, 1)+story)
	fires(t, with(several), Order, "p sent 0/0 before 0/1, but their offsets in t/0 are 1 and 0", fmt.Sprintf(anew, 2)+story)
	silent(t, NewDelivery(usual(), nil), `
		sent 0/0 t; sent 0/1 t; sent 1/0 t; acked 1/0 t/0 0; acked 0/0 t/1 5; acked 0/1 t/0 1
		own g/t/0 c1 7; claimed c1 g/t/0 0; handed c1 g/t/0 0; processed c1 g/t/0 0 1/0; handed c1 g/t/0 1; processed c1 g/t/0 1 0/1
		commit g/t/1 5; claimed c1 g/t/1 5; handed c1 g/t/1 5; processed c1 g/t/1 5 0/0`)
	// With acks=1 a power loss takes 0/0, and 0/1 gets a smaller offset.
	silent(t, with(acks(1)), `
		b1 log.opened t/0 - 0 3; sent 0/0 t; b1 log.appended t/0 - 3 4; acked 0/0 t/0 3; power b1
		+1s; b1#2 log.opened t/0 - 0 2; sent 0/1 t; b1#2 log.appended t/0 - 2 3; b1#2 log.visible t/0 - 3; acked 0/1 t/0 2
		commit g/t/0 2; own g/t/0 c1 7; claimed c1 g/t/0 2; handed c1 g/t/0 2`+"; processed c1 g/t/0 2 0/1")
}

func TestDeliveryHandsOverOffsetAfterOffset(t *testing.T) {
	for _, c := range []struct{ name, invariant, story, says string }{
		{"again", Order, "handed c1 g/t/0 0; handed c1 g/t/0 0", "c1 of group g is handed offset 0 of t/0 after 0"},
		{"back", Order, "handed c1 g/t/0 0; handed c1 g/t/0 1; handed c1 g/t/0 0", "handed offset 0 of t/0 after 1"},
		{"gap", Deliver, "handed c1 g/t/0 1", "it skips 0 to 0"},
		{"a claim that starts too far", Deliver, "commit g/t/0 1; released c1 g/t/0; own g/t/0 c2 8; claimed c2 g/t/0 2", "skips offsets 1 to 1 of t/0, which retention did not delete: it starts its claim at offset 2 though 1 is committed"},
		{"a new group that starts too far", Deliver, "released c1 g/t/0; claimed c2 g/t/0 -1; reset c2 g/t/0 -1 1", "skips offsets 0 to 0 of t/0, which retention did not delete: it starts at offset 1 with nothing committed"},
		{"a reset that skips without need", Deliver, "reset c1 g/t/0 0 2", "c1 resets g/t/0 from offset 0 to 2, though the log has 0 to 2"},
	} {
		t.Run(c.name, func(t *testing.T) { fires(t, NewDelivery(usual(), nil), c.invariant, c.says, twoSent+c.story) })
	}
}

func TestDeliveryResetSkipsWhatWasDeleted(t *testing.T) {
	many := "b1 log.opened t/0 - 0 0; b1 log.appended t/0 - 0 30; b1 log.visible t/0 - 30; own g/t/0 c1 7; claimed c1 g/t/0 0; "
	for i := range 30 {
		many += fmt.Sprintf("sent 0/%d t; acked 0/%d t/0 %d; ", i, i, i)
	}
	read := func(from, to int) (s string) {
		for i := from; i < to; i++ {
			s += fmt.Sprintf("handed c1 g/t/0 %d; processed c1 g/t/0 %d 0/%d; ", i, i, i)
		}
		return s
	}
	silent(t, NewDelivery(usual(), nil), many+read(0, 5)+"b1 log.deleted t/0 - 0 10; b1 log.deleted t/0 - 10 20; reset c1 g/t/0 5 20; "+read(20, 30))
	// What was fetched before the reset is still handed over.
	silent(t, NewDelivery(usual(), nil), many+"b1 log.deleted t/0 - 0 20; reset c1 g/t/0 5 20; "+read(0, 5)+read(20, 30))
	// The log moved on between two resets.
	silent(t, NewDelivery(usual(), nil), many+"b1 log.deleted t/0 - 0 10; b1 log.deleted t/0 - 10 20; reset c1 g/t/0 0 10; reset c1 g/t/0 10 20; "+read(20, 30))
	// A new claim starts where the log does.
	silent(t, NewDelivery(usual(), nil), many+read(0, 5)+"b1 log.deleted t/0 - 0 20; released c1 g/t/0; own g/t/0 c1 8; claimed c1 g/t/0 -1; reset c1 g/t/0 -1 20; "+read(20, 30))

	fires(t, NewDelivery(usual(), nil), Deliver, "skips offsets 20 to 20 of t/0, which retention did not delete: it resets its position from offset 5 to 21; the log starts at 20",
		many+read(0, 5)+"b1 log.deleted t/0 - 0 20; reset c1 g/t/0 5 21; "+read(21, 30))
	fires(t, NewDelivery(usual(), nil), Deliver, "it skips 5 to 19", many+read(0, 5)+"b1 log.deleted t/0 - 0 10; "+read(20, 30))
	// The brokers say that they deleted it, the disk says that they did not.
	fires(t, NewDelivery(usual(), nil), Deliver, "though the log has 0 to 30", many+read(0, 5)+"reset c1 g/t/0 5 20; "+read(20, 30))
	// With reset=largest an out of range position goes to the end, as documented; one in range does not.
	silent(t, with(largest), many+read(0, 5)+"b1 log.deleted t/0 - 0 20; reset c1 g/t/0 5 30; ")
	fires(t, with(largest), Deliver, "though the log has 0 to 30", many+read(0, 5)+"reset c1 g/t/0 5 30; ")
}

// A machine that stands still applies an answer that is older than what the log holds now. (disk-replaced, seed 325.)
func TestDeliveryResetsByAnOldAnswer(t *testing.T) {
	read := "b1 log.opened t/0 - 0 0; b1 log.appended t/0 - 0 3; b1 log.visible t/0 - 3; own g/t/0 c1 7; claimed c1 g/t/0 0; "
	for i := range 3 {
		read += fmt.Sprintf("sent 0/%[1]d t; acked 0/%[1]d t/0 %[1]d; handed c1 g/t/0 %[1]d; processed c1 g/t/0 %[1]d 0/%[1]d; ", i)
	}
	read += "commit g/t/0 3; "
	const (
		wiped = "wipe b1; b1#2 log.opened t/0 - 0 0; mend 1 b1 bytes; "
		grown = "+1s; b1#2 log.appended t/0 - 0 5; b1#2 log.visible t/0 - 5; "
		again = "released c1 g/t/0; claimed c1 g/t/0 3; "
	)
	for _, story := range []string{
		wiped + grown + "reset c1 g/t/0 3 0",
		wiped + again + grown + "reset c1 g/t/0 3 0",
	} {
		silent(t, under(deliveries), read+story)
	}
	for _, story := range []string{
		wiped + grown + "reset c1 g/t/0 3 0; reset c1 g/t/0 3 0", // the first was due
		wiped + grown + again + "reset c1 g/t/0 3 0",             // it never was beyond the end
		"b1 log.appended t/0 - 3 5; b1 log.visible t/0 - 5; reset c1 g/t/0 3 0",
	} {
		fires(t, under(deliveries), Deliver, "c1 resets g/t/0 from offset 3 to 0, though the log has 0 to 5", read+story)
	}
}

type startsAt int64

func (d startsAt) LogStart(string, int32) int64           { return int64(d) }
func (d startsAt) LogStartOn(string, string, int32) int64 { return int64(d) }
func (d startsAt) Compacted(string, int32, int64) bool    { return false }

func TestDeliveryAsksTheDiskForTheLogStart(t *testing.T) {
	story := twoSent + "reset c1 g/t/0 0 2"
	silent(t, NewDelivery(usual(), startsAt(2)), story)
	fires(t, NewDelivery(usual(), startsAt(0)), Deliver, "the log has 0 to 2", story)
}

func TestDeliveryRedeliversOnlyWhatWasNotCommitted(t *testing.T) {
	silent(t, NewDelivery(usual(), nil), twoSent+bothRead+`
		commit g/t/0 1; crash c1; own g/t/0 c2 8; claimed c2 g/t/0 1; handed c2 g/t/0 1; processed c2 g/t/0 1 0/1`)
	fires(t, NewDelivery(usual(), nil), DupB, "c2 claims g/t/0 from offset 0, though 1 was committed when it became owner", twoSent+bothRead+`
		commit g/t/0 1; crash c1; own g/t/0 c2 8; claimed c2 g/t/0 0`)
	fires(t, NewDelivery(usual(), nil), DupB, "c2 claims g/t/0 as if nothing were committed, though 1 was", twoSent+bothRead+`
		commit g/t/0 1; crash c1; own g/t/0 c2 8; claimed c2 g/t/0 -1`)
	fires(t, NewDelivery(usual(), nil), DupB, "handed offset 0 of t/0 again, though 1 was committed", twoSent+bothRead+`
		commit g/t/0 1; crash c1; own g/t/0 c2 8; claimed c2 g/t/0 1; handed c2 g/t/0 0`)
	// A commit after c2 became owner cannot be held against it.
	silent(t, NewDelivery(usual(), nil), twoSent+bothRead+"own g/t/0 c2 8; commit g/t/0 2; claimed c2 g/t/0 -1; reset c2 g/t/0 -1 0; handed c2 g/t/0 0; handed c2 g/t/0 1")
	// The offset is read before the claim, and the old owner commits in between.
	fires(t, NewDelivery(usual(), nil), DupB, "from offset 1, though 2 was committed", twoSent+bothRead+`
		commit g/t/0 1; commit g/t/0 2; released c1 g/t/0; disown g/t/0 7; own g/t/0 c2 8; claimed c2 g/t/0 1`)
}

func TestDeliverySeekIsNoFault(t *testing.T) {
	back := twoSent + bothRead + "commit g/t/0 2; sought c1 g/t/0 0;"
	silent(t, NewDelivery(usual(), nil), back+bothRead)
	silent(t, NewDelivery(usual(), nil), back+"commit g/t/0 0; released c1 g/t/0; own g/t/0 c2 8; claimed c2 g/t/0 0; handed c2 g/t/0 0")
	silent(t, NewDelivery(usual(), nil), back+"released c1 g/t/0; own g/t/0 c2 8; claimed c2 g/t/0 2")
	// Another stream may hand over a record of before, until the seek has its effect.
	silent(t, NewDelivery(usual(), nil), twoSent+"sought c1 g/t/0 1; handed c1 g/t/0 0; handed c1 g/t/0 1; processed c1 g/t/0 1 0/1")
	silent(t, NewDelivery(usual(), nil), twoSent+"sought c1 g/t/0 1; handed c1 g/t/0 1; processed c1 g/t/0 1 0/1")
	fires(t, NewDelivery(usual(), nil), DupB, "though 2 was committed", twoSent+bothRead+"sought c1 g/t/0 1; commit g/t/0 2; own g/t/0 c1 8; claimed c1 g/t/0 2; handed c1 g/t/0 1")
}

func TestDeliveryAtMostOnce(t *testing.T) {
	once := "commit g/t/0 2; handed c1 g/t/0 0; processed c1 g/t/0 0 0/0; handed c1 g/t/0 1; processed c1 g/t/0 1 0/1; "
	silent(t, with(atMostOnce), twoSent+once)
	fires(t, with(atMostOnce), DupB, "at-most-once group g is handed offset 0 of t/0 before it is committed: the committed offset is -1", twoSent+bothRead)
	fires(t, with(atMostOnce), DupB, "at-most-once group g processed offset 1 of t/0 a second time", twoSent+once+"processed c2 g/t/0 1 0/1")
	fires(t, with(atMostOnce), DupB, "is handed offset 1 of t/0 again, on c2", twoSent+once+"own g/t/0 c2 8; claimed c2 g/t/0 2; commit g/t/0 3; handed c2 g/t/0 1")
	fires(t, with(atMostOnce), Deliver, "skips offsets 2 to 2", twoSent+once+"sent 0/2 t; acked 0/2 t/0 2; released c1 g/t/0; own g/t/0 c2 8; claimed c2 g/t/0 3")
	silent(t, with(atMostOnce), twoSent+"commit g/t/0 2; handed c1 g/t/0 0; crash c1; own g/t/0 c2 8; claimed c2 g/t/0 2")
	silent(t, with(atMostOnce), twoSent+once+"sought c1 g/t/0 0; "+once)
}

// A group that begins at the end leaves out what is below. That is not processed: nothing forbids that the next owner begins further back, as long as nothing was committed.
func TestDeliveryAtMostOnceOfAGroupThatBeginsFurtherBack(t *testing.T) {
	largest := func(p *Promise) { p.Groups[0].Delivery, p.Groups[0].Reset = AtMostOnce, Largest }
	begin := twoSent + "own g/t/0 c1 7; claimed c1 g/t/0 -1; reset c1 g/t/0 -1 2; released c1 g/t/0; own g/t/0 c1 8; claimed c1 g/t/0 -1; reset c1 g/t/0 -1 0; "
	once := "commit g/t/0 2; handed c1 g/t/0 0; processed c1 g/t/0 0 0/0; handed c1 g/t/0 1; processed c1 g/t/0 1 0/1; "
	silent(t, with(largest), begin+once)
	// Nor does a reset forward, which one replica's retention makes it do and another's does not.
	reset := twoSent + "commit g/t/0 0; b1 log.deleted t/0 - 0 2; own g/t/0 c1 7; claimed c1 g/t/0 0; reset c1 g/t/0 0 2; released c1 g/t/0; own g/t/0 c1 8; claimed c1 g/t/0 0; "
	silent(t, with(largest), reset+once)
	silent(t, with(atMostOnce), reset+once)
	fires(t, with(largest), DupB, "is handed offset 1 of t/0 again", begin+once+"own g/t/0 c2 9; claimed c2 g/t/0 2; commit g/t/0 3; handed c2 g/t/0 1")
}

// A member that was cut off, and does not know that its session is over, looks for where to begin when the next owner has begun already.
func TestDeliveryALateStartOfAFormerOwnerSettlesNothing(t *testing.T) {
	story := `
		own g/t/0 c1 7; claimed c1 g/t/0 -1
		own g/t/0 c2 8; claimed c2 g/t/0 -1; reset c2 g/t/0 -1 0
		b1 log.opened t/0 - 0 0
		sent 0/0 t; b1 log.appended t/0 - 0 1; b1 log.visible t/0 - 1; acked 0/0 t/0 0
		reset c1 g/t/0 -1 1
	`
	both := func(p *Promise) { largest(p); atMostOnce(p) }
	silent(t, with(both), story+"commit g/t/0 1; handed c2 g/t/0 0; processed c2 g/t/0 0 0/0")
	// Or when the next owner has committed and given the partition back.
	silent(t, with(both), `
		own g/t/0 c1 7; claimed c1 g/t/0 -1
		own g/t/0 c2 8; claimed c2 g/t/0 -1; reset c2 g/t/0 -1 0; commit g/t/0 0; released c2 g/t/0
		b1 log.opened t/0 - 0 0
		sent 0/0 t; b1 log.appended t/0 - 0 1; b1 log.visible t/0 - 1; acked 0/0 t/0 0
		reset c1 g/t/0 -1 1
		own g/t/0 c2 8; claimed c2 g/t/0 0; commit g/t/0 1; handed c2 g/t/0 0; processed c2 g/t/0 0 0/0`)
	fires(t, with(largest), Deliver, "never got record 0/0", story)
}

func TestDeliveryDirty(t *testing.T) {
	fires(t, NewDelivery(usual(), nil), Dirty, "c1 is handed offset 2 of t/0, but only offsets below 2 are visible", twoSent+bothRead+`
		sent 0/2 t; b1 log.appended t/0 - 2 3; handed c1 g/t/0 2`)
}

func TestDeliveryLate(t *testing.T) {
	late := func(p *Promise) { p.Late = time.Second }
	silent(t, with(late), twoSent+"+1s;"+bothRead)
	fires(t, with(late), Budget, "record 0/0 (offset 0 of t/0) was processed by group g 1.001s after it was sent; the limit is 1s", twoSent+"+1001ms;"+bothRead)
}

func TestDeliveryBrokenHistories(t *testing.T) {
	fires(t, NewDelivery(usual(), nil), Deliver, "second outcome", twoSent+bothRead+"acked 0/0 t/0 0")
	fires(t, NewDelivery(usual(), nil), Deliver, "never sent", "acked 0/0 t/0 0")
	fires(t, NewDelivery(usual(), nil), Deliver, "history is broken", "sent 0/1 t")
}

func TestDeliveryTopicMadeAnew(t *testing.T) {
	again := twoSent + bothRead + `commit g/t/0 2; released c1 g/t/0; coord znode.deleted /brokers/topics/t; b1 topic.removed t
		coord znode.created /brokers/topics/t; b1 log.opened t/0 - 0 0; sent 1/0 t; b1 log.appended t/0 - 0 1; b1 log.visible t/0 - 1; acked 1/0 t/0 0; `
	silent(t, NewDelivery(usual(), nil), again+"own g/t/0 c1 9; claimed c1 g/t/0 -1; reset c1 g/t/0 -1 0; handed c1 g/t/0 0; processed c1 g/t/0 0 1/0")
	// The old offset is inherited: what is new is skipped.
	fires(t, NewDelivery(usual(), nil), Deliver, "skips offsets 0 to 1", again+"own g/t/0 c1 9; claimed c1 g/t/0 2")
}

func TestDeliveryReplayedTransactionsCountOnce(t *testing.T) {
	// The coordination server restarts and traces its last transactions again; c2 became owner after all of them.
	silent(t, NewDelivery(usual(), nil), twoSent+bothRead+`
		coord znode.set /consumers/g/offsets/t/0 1 1 100; coord znode.set /consumers/g/offsets/t/0 2 2 101
		crash coord; coord#2 znode.set /consumers/g/offsets/t/0 1 1 100; coord#2 znode.set /consumers/g/offsets/t/0 2 2 101
		released c1 g/t/0; coord#2 znode.created /consumers/g/owners/t/0 c2 8 102; claimed c2 g/t/0 2`)
}

func TestDeliveryCapsWhatItTells(t *testing.T) {
	var s strings.Builder
	for i := range 50 {
		fmt.Fprintf(&s, "sent 0/%d t; acked 0/%d t/0 %d\n", i, i, i)
	}
	d := NewDelivery(usual(), nil)
	got := judge(t, d, s.String())
	require.Len(t, got, MaxTold+1)
	require.Equal(t, "and 40 more like these", got[MaxTold].Message)
	require.Equal(t, 50, d.Count(Deliver))
}

func TestDeliveryOfACutRunOwesNothing(t *testing.T) {
	for _, end := range []End{{Cut: true}, {Trouble: "stuck"}} {
		d := NewDelivery(usual(), nil)
		newStory(t, d).tell(twoSent)
		d.Finish(end)
		require.Empty(t, d.Violations())
	}
}

func TestASeekToWhatRetentionDeletesMeanwhile(t *testing.T) {
	story := "b1 log.opened t/0 - 0 20; claimed c1 g/t/0 0; handed c1 g/t/0 0; sought c1 g/t/0 5; b1 log.deleted t/0 - 0 10; reset c1 g/t/0 5 10;"
	silent(t, NewDelivery(calmly(), nil), story+"handed c1 g/t/0 10; handed c1 g/t/0 11")
	fires(t, NewDelivery(calmly(), nil), Deliver, "is handed offset 12 of t/0 after 0", story+"handed c1 g/t/0 12")
}
