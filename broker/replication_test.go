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
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
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

// A new leader learns only bit by bit how much the one before had committed. Until it does it names no end, which would lie before one that was told already, though it
// serves what it knows to be committed.
func TestTheEndThatIsToldNeverGoesBack(t *testing.T) {
	x := newWorld(t, 21)
	x.start(2)
	leader := 0
	x.on("app", func(p *program) {
		require.NoError(t, p.cluster.CreateTopic("t", 1, 2, client.Setting{Name: "min.insync.replicas", Value: "2"}))
		p.mustSend("t", 0, -1, "a")
		p.m.Sleep(2 * time.Second) // the follower hears of it
		p.mustSend("t", 0, -1, "b")
		end, _, err := p.cluster.Offset("t", 0, client.Latest)
		require.NoError(t, err)
		require.EqualValues(t, 2, end)
		conn, err := p.cluster.Any()
		require.NoError(t, err)
		resp, err := conn.Request(kmsg.NewPtrMetadataRequest())
		require.NoError(t, err)
		leader = int(resp.(*kmsg.MetadataResponse).Topics[0].Partitions[0].Leader)
	})
	x.hosts[leader].Crash()
	x.run(20 * time.Second) // the other leads, and alone it commits nothing
	x.on("early", func(p *program) {
		require.Equal(t, []string{"a"}, p.readAll("t", 0, 0))
		_, _, err := p.cluster.Offset("t", 0, client.Latest)
		require.ErrorIs(t, err, kerr.OffsetNotAvailable)
		_, _, err = p.cluster.Offset("t", 0, p.m.Now().UnixMilli())
		require.ErrorIs(t, err, kerr.OffsetNotAvailable, "there may be such a record behind the end that it knows")
		first, _, err := p.cluster.Offset("t", 0, 0)
		require.NoError(t, err)
		require.EqualValues(t, 0, first)
	})
	x.boot(leader)
	x.run(10 * time.Second)
	x.on("late", func(p *program) {
		end, _, err := p.cluster.Offset("t", 0, client.Latest)
		require.NoError(t, err)
		require.EqualValues(t, 2, end)
		require.Equal(t, []string{"a", "b"}, p.readAll("t", 0, 0))
	})
}
