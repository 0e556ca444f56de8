package broker_test

import (
	"testing"
	"time"

	"faultline/broker"
	"faultline/broker/client"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Who has caught up is in sync again by the fetch that shows it, not when the leader next looks for those who lag: by then nobody knows whether it is still there.
func TestWhoHasCaughtUpIsInSyncAtOnce(t *testing.T) {
	x := newWorld(t, 5)
	x.config = func(c *broker.Config) { c.SessionTimeout, c.ReplicaLag = 2*time.Second, 200*time.Second }
	x.start(2)
	follower := 0
	x.on("app", func(p *program) {
		require.NoError(t, p.cluster.CreateTopic("t", 1, 2, client.Setting{Name: "min.insync.replicas", Value: "2"}))
		p.mustSend("t", 0, -1, "a")
		conn, err := p.cluster.Any()
		require.NoError(t, err)
		resp, err := conn.Request(kmsg.NewPtrMetadataRequest())
		require.NoError(t, err)
		follower = 3 - int(resp.(*kmsg.MetadataResponse).Topics[0].Partitions[0].Leader)
	})
	x.hosts[follower].Crash()
	x.run(5 * time.Second) // it is taken out, and the leader alone commits nothing
	x.on("alone", func(p *program) {
		_, err := p.send("t", 0, -1, "b")
		require.Error(t, err)
	})
	x.boot(follower)
	x.run(5 * time.Second)
	x.on("together", func(p *program) {
		_, err := p.send("t", 0, -1, "c")
		require.NoError(t, err)
	})
}
