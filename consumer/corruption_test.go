package consumer_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"faultline/consumer"
	"faultline/producer"
	"faultline/sim"
	"faultline/sim/net"
	"faultline/sim/virtual"
)

// Record data that the wire damaged is neither stored nor handed over: the CRC-32C of the batch tells broker and consumer, the one refuses the
// batch and is sent it again, the other fetches again. The rule spares the first bytes of each segment, so that it hits records and not the
// headers around them, which no CRC covers; for the same reason each request and each answer carries one batch.
func TestCorruptedBatchesAreFetchedAgain(t *testing.T) {
	for seed := range uint64(3) {
		x := newWorld(t, seed, 1)
		x.tune = func(c *consumer.Config) { c.FetchBytes = 1 } // the broker answers with one batch, however large
		x.up()
		x.topic("t", 1)
		x.members(1)
		x.run(2 * time.Second)
		p := x.produce("p"+strings.Repeat("x", 1000), "t", 200, 200*time.Millisecond, func(c *producer.Config) { c.Linger, c.MaxInFlight = time.Millisecond, 1 })
		rule := net.Rule{Corrupt: 300_000, CorruptFrom: 256}
		heal := x.c.Net.Slow("b0", "c0", rule)
		heal2 := x.c.Net.Slow(p.Name(), "b0", rule)
		passages := x.c.CountPassages()
		x.until(100*time.Second, "everything delivered", func() bool { return len(x.sent) == 200 && x.delivered() })
		for _, mark := range []string{"mark/broker/append-corrupt", "mark/consumer/partition-refused"} {
			require.Greater(t, passages[mark].Passed, int64(20), mark)
		}
		require.Zero(t, x.duplicates())
		for v := range x.got {
			require.True(t, x.sent[v], "handed over, but never acked: %q", v)
		}
		heal()
		heal2()
	}
}

// A wire that damages anything (headers, lengths, offsets, the coordination service's protocol) may make programs believe and tell wrong things, and so ends
// nobody's promises to be judged here. But it makes no program panic, and the world neither stuck nor endlessly busy.
func TestDamageAnywhereOnTheWirePanicsNobody(t *testing.T) {
	for seed := range uint64(6) {
		x := newWorld(t, seed, 2)
		x.c.OnExit = func(c *virtual.Computer, err error) {
			var p *virtual.Panic
			if errors.As(err, &p) {
				t.Fatalf("seed %d: %s panicked: %v", seed, c.Name(), err)
			}
		}
		x.up()
		x.topic("t", 4)
		members := x.members(2)
		x.run(2 * time.Second)
		p := x.produce("p", "t", 1000, 5*time.Millisecond)
		var heals []func()
		for _, a := range append([]*virtual.Computer{x.zk, p}, append(members, x.brokers...)...) {
			for _, b := range append([]*virtual.Computer{x.zk, p}, append(members, x.brokers...)...) {
				if a != b {
					heals = append(heals, x.c.Net.Slow(a.Name(), b.Name(), net.Rule{Corrupt: 20_000}))
				}
			}
		}
		x.w.At(x.w.Now()+20*time.Second, func() {
			for _, heal := range heals {
				heal()
			}
		})
		out := x.w.Run(x.w.Now() + 30*time.Second)
		require.NotEqual(t, sim.Panicked, out.Kind, out.String())
		require.NotEqual(t, sim.Livelock, out.Kind, out.String())
	}
}
