package broker_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"faultline/broker"
	"faultline/broker/client"

	"github.com/stretchr/testify/require"
)

// logBytes is what a broker's disk holds of a partition's log.
func (x *world) logBytes(id int, partition string) []byte {
	var out []byte
	for _, f := range x.hosts[id].Disk().Files() {
		if strings.HasPrefix(f.Path, "broker/"+partition+"/") && strings.HasSuffix(f.Path, ".log") {
			p := make([]byte, f.Size)
			_, _ = f.ReadAt(p, 0)
			out = append(out, p...)
		}
	}
	return out
}

// Brokers lose power or crash, one at a time and again and again, while a producer goes on: nothing acknowledged with acks=all is lost, and in the end
// all replicas are the same.
func TestReplicasSurviveOneBrokerAtATime(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { survive(t, seed+1) })
	}
}

func survive(t *testing.T, seed uint64) {
	x := newWorld(t, seed)
	x.config = func(c *broker.Config) {
		c.SessionTimeout, c.ReplicaLag = 2*time.Second, time.Second
		c.Log.FlushInterval = time.Second
	}
	x.start(3)
	x.on("admin", func(p *program) {
		require.NoError(t, p.cluster.CreateTopic("t", 2, 3, client.Setting{Name: "min.insync.replicas", Value: "2"}))
	})
	acked := make([][]string, 2)
	stop, done := false, 0
	for part := range int32(2) {
		x.spawn(fmt.Sprintf("producer-%d", part), func(p *program) {
			for n := 0; !stop; n++ {
				value := fmt.Sprintf("%d-%d", part, n)
				base, err := p.send("t", part, -1, value)
				if err != nil {
					p.cluster.Invalidate("t")
					p.m.Sleep(50 * time.Millisecond)
					continue
				}
				for int64(len(acked[part])) <= base {
					acked[part] = append(acked[part], "")
				}
				require.Empty(t, acked[part][base], "two records at offset %d", base)
				acked[part][base] = value
				p.m.Sleep(5 * time.Millisecond)
			}
			done++
		})
	}
	rng := rand.New(rand.NewPCG(seed, 7))
	for range 8 {
		id := 1 + rng.IntN(3)
		switch host := x.hosts[id]; rng.IntN(3) {
		case 0:
			host.Crash()
		default:
			host.PowerLoss()
		}
		x.run(time.Duration(rng.IntN(4000)) * time.Millisecond)
		x.boot(id)
		x.run(4 * time.Second) // it catches up
	}
	stop = true
	for range 200 {
		if x.run(100 * time.Millisecond); done == 2 {
			break
		}
	}
	require.Equal(t, 2, done)
	x.run(5 * time.Second)
	for part := range int32(2) {
		require.Greater(t, len(acked[part]), 100)
		first := x.logBytes(1, fmt.Sprintf("t-%d", part))
		for id := 2; id <= 3; id++ {
			require.True(t, bytes.Equal(first, x.logBytes(id, fmt.Sprintf("t-%d", part))), "logs of partition %d differ on brokers 1 and %d", part, id)
		}
		var got []string
		x.on(fmt.Sprintf("reader-%d", part), func(p *program) { got = p.readAll("t", part, 0) })
		for offset, value := range acked[part] {
			if value != "" {
				require.Greater(t, len(got), offset, "acknowledged records are gone")
				require.Equal(t, value, got[offset], "offset %d", offset)
			}
		}
	}
}
