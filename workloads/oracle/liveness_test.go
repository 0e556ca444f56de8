package oracle

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// livenessOf leans on Delivery, which it asks.
func livenessOf(p *Promise) leaning {
	d := NewDelivery(p, nil)
	return leaning{NewLiveness(p, d), on(d)}
}

const upAndRead = oneMember + `
	b1 log.opened t/0 - 0 0; b1 log.opened t/1 - 0 0; sent 0/0 t; b1 log.appended t/0 - 0 1; b1 log.visible t/0 - 1; acked 0/0 t/0 0
	handed c1 g/t/0 0; processed c1 g/t/0 0 0/0
`

func TestLivenessOfAHealedRun(t *testing.T) {
	for _, story := range []string{
		"phase heal; +31s",
		"+1h; crash b1; coord znode.deleted /brokers/ids/1 - 1; start b1; coord znode.created /brokers/ids/1 {} 1; b1#2 broker.up - - 1; b1#2 log.opened t/0 - 1 1; b1#2 log.opened t/1 - 0 0; phase heal; +31s",
		"exit p; phase heal; +31s", // a producer that is done
		"c1 consumer.left g c1; coord znode.deleted /consumers/g/ids/c1 - 7; exit c1; phase heal; +31s", // a consumer that left
		"crash c1; +1h; start c1; phase heal; +31s",
		"fault 1 x; crash b1; +1h", // while the load runs a machine may be down
		"fault 1 x; coord znode.deleted /brokers/ids/1 - 1; +1h",
		"fault 1 {fault: disk-error}; +1s; exit b1 open: input/output error; +1h",
		"fault 1 x; fault 2 {fault: disk-short}; healed 2 x; +2s; exit coord snapshot: input/output error; +1h",
		"fault 1 x; exit coord snapshot: no space left on device; +1h", // the disk is small
		"fault 1 x; b1 log.failed t/0 short_write; +1h; exit b1 log is fenced",
		"coord znode.set /brokers/topics/t {\"partitions\":{\"0\":[1],\"1\":[1],\"2\":[1]}} 1; b1 log.opened t/2 - 0 0; phase heal; +31s",
		"coord znode.set /brokers/topics/t {\"partitions\":{\"0\":[1],\"1\":[1],\"2\":[5]}} 1; phase heal; +31s",   // of a broker that is not there
		"coord znode.set /brokers/topics/t {\"partitions\":{\"0\":[1],\"1\":[1],\"2\":[1]}} 1; +29s; request p 1s", // not yet
		"b1 log.deleted t/0 - 0 1; phase heal; +31s",
		"phase heal; crash b1; +29s", // not yet
	} {
		t.Run("", func(t *testing.T) { silent(t, livenessOf(calmly()), expand(upAndRead+story)) })
	}
}

func TestLivenessOfARunThatDoesNotHeal(t *testing.T) {
	for _, c := range []struct{ name, story, says string }{
		{"a broker is down", "crash b1; phase heal; +31s", "b1 is down since 0s, 31s after the heal began; the limit is 30s"},
		{"a broker gave up", "fault 1 {fault: disk-error}; +1s; exit b1 input/output error; phase heal; +31s", "b1 is down since 1s: its process ended with: input/output error"},
		{"a coordination server is down", "crash coord; phase heal; +31s", "coord is down"},
		{"a consumer is down", "crash c1; phase heal; +31s", "c1 is down"},
		{"a broker is up but invisible", "coord znode.deleted /brokers/ids/1 - 1; phase heal; +31s; request p 1s", "the broker on b1 is up since 0s but not registered, though nothing disturbs since 0s"},
		{"a broker is up but invisible, at the end", "phase heal; coord znode.deleted /brokers/ids/1 - 1; +20s; fault 1 x; +11s", "the broker on b1 is up since 0s but not registered, 31s after the heal began"},
		{"a broker that never registered", "crash b1; start b1; coord znode.deleted /brokers/ids/1 - 1; +31s; request p 1s", "the broker on b1 is up since 0s but not registered"},
		{"a consumer that does not come back", "coord znode.deleted /consumers/g/ids/c1 - 7; +31s; request p 1s", "consumer c1 on c1 joined group g but is not registered"},
		{"a record does not arrive", "sent 0/1 t; b1 log.appended t/0 - 1 2; acked 0/1 t/0 1; phase heal; +31s", "group g has not processed record 0/1, acked at offset 1 of t/0; it was handed offset 0 last, the log ends at 2, 31s after the heal began"},
		{"a process ends for no reason", "+31s; exit c1 no idea", "the process on c1 ended, though nothing disturbs since 0s: no idea"},
		{"a process ends by its own error, disturbed", "fault 1 x; exit b1 node exists already", "the process on b1 ended with an error that nothing explains: node exists already"},
		{"... while a disk is bad", "fault 1 {fault: disk-error}; exit b1 node exists already", "nothing explains: node exists already"},
		{"a server ends by its disk, which is good", "fault 1 x; exit coord input/output error", "the process on coord ended with an error that nothing explains"},
		{"... long after it was bad", "fault 1 {fault: disk-error}; fault 2 x; healed 1 x; +4s; exit b1 input/output error", "nothing explains: input/output error"},
		{"a fenced log of an earlier process", "fault 1 x; b1 log.failed t/0 x; crash b1; start b1; exit b1 log is fenced", "nothing explains: log is fenced"},
		{"a consumer ends by an error", "fault 1 {fault: disk-error}; exit c1 input/output error", "the process on c1 ended with an error that nothing explains"},
		{"a producer ends by an error", "fault 1 x; exit p who knows", "the process on p ended with an error that nothing explains"},
		{"a new partition is not opened", "coord znode.set /brokers/topics/t {\"partitions\":{\"0\":[1],\"1\":[1],\"2\":[1]}} 1; +31s; request p 1s", "broker 1 on b1 has not opened its log of t/2, though nothing disturbs since 0s"},
		{"a partition is not opened again", "crash b1; start b1; b1 broker.up - - 1; b1 log.opened t/0 - 1 1; phase heal; +31s", "broker 1 on b1 has not opened its log of t/1, 31s after the heal began"},
		{"a position that is no more", "b1 log.appended t/0 - 1 3; b1 log.visible t/0 - 3; b1 log.deleted t/0 - 0 3; phase heal; +31s", "c1 owns g/t/0 and reads from offset 1, which retention deleted, and has not reset; the log has 3 to 3"},
		{"a panic", "fault 1 x; exit b1 panic: index out of range", "the process on b1 panicked: panic: index out of range"},
	} {
		t.Run(c.name, func(t *testing.T) { fires(t, livenessOf(calmly()), Live, c.says, expand(upAndRead+c.story)) })
	}
}

// The fault that started a spare ends while the machine has no power: nobody starts it again.
func TestLivenessOfASpareThatWasDown(t *testing.T) {
	promise := calmly()
	promise.Spare = []string{"c9"}
	story := expand(upAndRead + "start c9; crash c9; phase heal; +31s")
	silent(t, livenessOf(promise), story)
	fires(t, livenessOf(calmly()), Live, "c9 is down since 0s", story)
}

func TestLivenessOfWorldsThatEndBadly(t *testing.T) {
	l := livenessOf(calmly())
	l.Finish(End{At: time.Second, Trouble: "stuck", Detail: "b1/fetch waits for lock log since 1s"})
	require.Equal(t, "LIVE at 1s: stuck: b1/fetch waits for lock log since 1s", l.Violations()[0].String())
	l = livenessOf(calmly())
	l.Finish(End{At: time.Hour, Waits: "group g has no owner of t/0"})
	require.Contains(t, l.Violations()[0].Message, "it still waits: group g has no owner of t/0")
	l = livenessOf(calmly())
	l.Finish(End{At: time.Hour, Cut: true, Waits: "x"})
	require.Empty(t, l.Violations())
}

func TestLivenessWaits(t *testing.T) {
	l := livenessOf(calmly())
	s := newStory(t, l)
	s.tell(expand(upAndRead))
	waits := l.Oracle.(*Liveness).Waits
	require.Empty(t, waits())
	s.tell("sent 0/1 t; acked 0/1 t/0 1")
	require.Contains(t, waits(), "group g has not processed record 0/1")
	s.tell("processed c1 g/t/0 1 0/1; crash b1")
	require.Equal(t, "b1 is down since 0s", waits())
}

// What piled up at the one replica of a partition may take long; that nothing of it gets on is another matter.
func TestLivenessOfRecordsThatAreGivenUpAtOneReplica(t *testing.T) {
	for _, c := range []string{
		"sent 0/1 t; +20s; failed 0/1 t/0: delivery timed out",
		"sent 0/1 t; +20s; failed 0/1 delivery timed out", // no partition was chosen
		"sent 0/1 t; sent 0/2 t; acked 0/2 t/0 1; +1s; fault 1 x; healed 1 x; +20s; unknown 0/1 t/0: delivery timed out",
		"sent 0/1 t; sent 0/2 t; +19s; acked 0/2 t/1 0; +1s; failed 0/1 t/0: delivery timed out", // elsewhere
		"sent 0/1 t; sent 1/0 t; +19s; acked 1/0 t/0 1; +1s; failed 0/1 t/0: delivery timed out", // somebody else
		"+1s; sent 0/1 t; sent 0/2 t; +19s; acked 0/2 t/1 0; +1s; failed 0/1 t/0: delivery timed out: no leader",
	} {
		fires(t, livenessOf(calmly()), Live, "record 0/1, sent to t", expand(upAndRead+c))
	}
	for _, c := range []string{
		"sent 0/1 t; sent 0/2 t; +19s; acked 0/2 t/0 1; +1s; failed 0/1 t/0: delivery timed out", // the backlog gets on
		"sent 0/1 t; sent 0/2 t; +19s; acked 0/2 t/1 0; +1s; failed 0/1 delivery timed out",
		"sent 0/1 t; +19s; failed 0/1 t/0: delivery timed out",
	} {
		silent(t, livenessOf(calmly()), expand(upAndRead+c))
	}
}

// Nothing is in the way of a producer, and it gives records up: whether they may be in the log does not matter.
func TestLivenessOfRecordsThatAreGivenUp(t *testing.T) {
	several := func() *Promise {
		p := calmly()
		p.Topics = []Topic{{Name: "t", Partitions: 2, Replicas: 3}}
		return p
	}
	for _, c := range []string{
		"sent 0/1 t; +20s; failed 0/1 t/0: delivery timed out: no leader",
		"sent 0/1 t; +20s; unknown 0/1 t/0: delivery timed out",
		"fault 1 x; sent 0/1 t; +1h; healed 1 x; +20s; failed 0/1 delivery timed out",
	} {
		fires(t, livenessOf(several()), Live, "record 0/1, sent to t", expand(upAndRead+c))
	}
	small := several()
	small.Small = true
	silent(t, livenessOf(small), expand(upAndRead+"sent 0/1 t; +20s; failed 0/1 delivery timed out"))
	for _, c := range []string{
		"sent 0/1 t; +19s; failed 0/1 delivery timed out",                             // its time-out is short
		"fault 1 x; sent 0/1 t; +1h; failed 0/1 delivery timed out",                   // something disturbs
		"fault 1 x; sent 0/1 t; +1h; healed 1 x; +19s; failed 0/1 delivery timed out", // or has
		"sent 0/1 t; +20s; failed 0/1 record too large",
		"coord znode.deleted /brokers/topics/t; sent 0/1 t; +20s; failed 0/1 delivery timed out",
	} {
		silent(t, livenessOf(several()), expand(upAndRead+c))
	}
}
