package broker_test

import (
	"fmt"
	"testing"
	"time"

	"faultline/broker"
	"faultline/broker/client"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// find connects to a broker once it knows that it coordinates a group.
func (p *program) find(group string, broker int) *client.Conn {
	p.t.Helper()
	host := fmt.Sprintf("b%d", broker)
	for range 200 {
		conn, err := client.Dial(p.m, host+":9092", client.Config{ClientID: "app", DialTimeout: time.Second, RequestTimeout: time.Second})
		require.NoError(p.t, err)
		req := kmsg.NewPtrFindCoordinatorRequest()
		req.CoordinatorKey, req.CoordinatorKeys = group, []string{group}
		resp, err := conn.Request(req)
		require.NoError(p.t, err)
		if resp.(*kmsg.FindCoordinatorResponse).Coordinators[0].Host == host {
			return conn
		}
		conn.Close()
		p.m.Sleep(100 * time.Millisecond)
	}
	require.Fail(p.t, "it does not become the coordinator", host)
	return nil
}

// A commit is held up on its way to a coordinator. Meanwhile another broker coordinates and takes a later commit, then the first one does again: what arrives now by the old connection sets nothing
// back. (coordinator-failover, seed 718.)
func TestACommitFromBeforeTheCoordinatorBeganSetsNothingBack(t *testing.T) {
	x := newWorld(t, 1)
	x.config = func(c *broker.Config) {
		c.OffsetsPartitions, c.OffsetsReplicas, c.OffsetsLeastISR = 1, 2, 1
		c.SessionTimeout, c.ReplicaLag, c.PreferredInterval = time.Second, time.Second, time.Second
	}
	x.start(2)
	first := 0
	x.on("admin", func(p *program) {
		p.create("visits", 1)
		for first == 0 {
			req := kmsg.NewPtrFindCoordinatorRequest()
			req.CoordinatorKey, req.CoordinatorKeys = "g", []string{"g"}
			conn, err := p.cluster.Any()
			require.NoError(t, err)
			resp, err := conn.Request(req)
			require.NoError(t, err)
			_, _ = fmt.Sscanf(resp.(*kmsg.FindCoordinatorResponse).Coordinators[0].Host, "b%d", &first)
			p.m.Sleep(100 * time.Millisecond)
		}
	})
	other := 3 - first
	var heal []func()
	done := x.spawn("app", func(p *program) {
		old := p.find("g", first)
		require.NoError(t, commitBy(p, old, 1))
		for heal == nil {
			p.m.Sleep(100 * time.Millisecond)
		}
		require.NoError(t, commitBy(p, p.find("g", other), 2))
		for _, h := range heal {
			h()
		}
		p.find("g", first)
		require.Error(t, commitBy(p, old, 1))
		require.EqualValues(t, 2, p.committed("g"))
		p.commit("g", 3)
		require.EqualValues(t, 3, p.committed("g"))
	})
	x.run(10 * time.Second)
	for _, peer := range []string{"zk", fmt.Sprintf("b%d", other)} {
		host := fmt.Sprintf("b%d", first)
		heal = append(heal, x.c.Net.Block(host, peer), x.c.Net.Block(peer, host))
	}
	for range 600 {
		if x.run(100 * time.Millisecond); *done {
			return
		}
	}
	t.Fatal("not through")
}

// commitBy commits by the connection until it is taken, or the connection ends.
func commitBy(p *program, conn *client.Conn, offset int64) error {
	for {
		resp, err := conn.Request(commitRequest("g", offset))
		if err != nil || resp.(*kmsg.OffsetCommitResponse).Topics[0].Partitions[0].ErrorCode == 0 {
			return err
		}
		p.m.Sleep(100 * time.Millisecond)
	}
}
