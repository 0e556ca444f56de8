package oracle

import (
	"testing"
	"time"

	"faultline/workloads/history"

	"github.com/stretchr/testify/require"
)

// both observes with Delivery, which Liveness asks, and Liveness.
type both struct {
	*Liveness
	d *Delivery
}

func (b both) Observe(e *history.Event) {
	b.d.Observe(e)
	b.Liveness.Observe(e)
}

func livenessOf(p *Promise) both {
	d := NewDelivery(p, nil)
	return both{NewLiveness(p, d), d}
}

const upAndRead = oneMember + `
	b1 log.opened t/0 - 0 0; sent 0/0 t; b1 log.appended t/0 - 0 1; b1 log.visible t/0 - 1; acked 0/0 t/0 0
	handed c1 g/t/0 0; processed c1 g/t/0 0 0/0
`

func TestLivenessOfAHealedRun(t *testing.T) {
	for _, story := range []string{
		"phase heal; +31s",
		"+1h; crash b1; coord znode.deleted /brokers/ids/1 - 1; start b1; coord znode.created /brokers/ids/1 {} 1; b1#2 broker.up - - 1; phase heal; +31s",
		"exit p; phase heal; +31s", // a producer that is done
		"c1 consumer.left g c1; coord znode.deleted /consumers/g/ids/c1 - 7; exit c1; phase heal; +31s", // a consumer that left
		"crash c1; +1h; start c1; phase heal; +31s",
		"fault 1 x; crash b1; +1h", // while the load runs a machine may be down
		"fault 1 x; coord znode.deleted /brokers/ids/1 - 1; +1h",
		"fault 1 x; exit b1 disk error; +1h",
		"phase heal; crash b1; +29s", // not yet
	} {
		t.Run("", func(t *testing.T) { silent(t, livenessOf(calmly()), expand(upAndRead+story)) })
	}
}

func TestLivenessOfARunThatDoesNotHeal(t *testing.T) {
	for _, c := range []struct{ name, story, says string }{
		{"a broker is down", "crash b1; phase heal; +31s", "b1 is down since 0s, 31s after the heal began; the limit is 30s"},
		{"a broker gave up", "+1s; exit b1 session lost; phase heal; +31s", "b1 is down since 1s: its process ended with: session lost"},
		{"a coordination server is down", "crash coord; phase heal; +31s", "coord is down"},
		{"a consumer is down", "crash c1; phase heal; +31s", "c1 is down"},
		{"a broker is up but invisible", "coord znode.deleted /brokers/ids/1 - 1; phase heal; +31s; request p 1s", "the broker on b1 is up since 0s but not registered, though nothing disturbs since 0s"},
		{"a broker is up but invisible, at the end", "phase heal; coord znode.deleted /brokers/ids/1 - 1; +20s; fault 1 x; +11s", "the broker on b1 is up since 0s but not registered, 31s after the heal began"},
		{"a broker that never registered", "crash b1; start b1; coord znode.deleted /brokers/ids/1 - 1; +31s; request p 1s", "the broker on b1 is up since 0s but not registered"},
		{"a consumer that does not come back", "coord znode.deleted /consumers/g/ids/c1 - 7; +31s; request p 1s", "consumer c1 on c1 joined group g but is not registered"},
		{"a record does not arrive", "sent 0/1 t; b1 log.appended t/0 - 1 2; acked 0/1 t/0 1; phase heal; +31s", "group g has not processed record 0/1, acked at offset 1 of t/0; it was handed offset 0 last, the log ends at 2, 31s after the heal began"},
		{"a process ends for no reason", "+31s; exit c1 no idea", "the process on c1 ended, though nothing disturbs since 0s: no idea"},
		{"a panic", "fault 1 x; exit b1 panic: index out of range", "the process on b1 panicked: panic: index out of range"},
	} {
		t.Run(c.name, func(t *testing.T) { fires(t, livenessOf(calmly()), Live, c.says, expand(upAndRead+c.story)) })
	}
}

func TestLivenessOfWorldsThatEndBadly(t *testing.T) {
	l := livenessOf(calmly())
	l.Finish(End{At: time.Second, Trouble: "stuck", Detail: "b1/fetch waits for lock log since 1s"})
	require.Equal(t, "LIVE at 1s: stuck: b1/fetch waits for lock log since 1s", l.Violations()[0].String())
	l = livenessOf(calmly())
	l.Finish(End{At: time.Hour, Cut: true})
	require.Empty(t, l.Violations())
}

func TestLivenessWaits(t *testing.T) {
	l := livenessOf(calmly())
	s := newStory(t, l)
	s.tell(expand(upAndRead))
	require.Empty(t, l.Waits())
	s.tell("sent 0/1 t; acked 0/1 t/0 1")
	require.Contains(t, l.Waits(), "group g has not processed record 0/1")
	s.tell("processed c1 g/t/0 1 0/1; crash b1")
	require.Equal(t, "b1 is down since 0s", l.Waits())
}
