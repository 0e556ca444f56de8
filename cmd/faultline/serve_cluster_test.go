package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
)

// member is a process of "faultline serve" that is killed and started again on its folder and its ports.
type member struct {
	args []string
	log  string
	cmd  *exec.Cmd
}

func (m *member) start(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	out, err := os.OpenFile(m.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	require.NoError(t, err)
	m.cmd = &exec.Cmd{Path: self, Args: append([]string{"faultline", "serve"}, m.args...), Stdout: out, Stderr: out}
	require.NoError(t, m.cmd.Start())
	require.NoError(t, out.Close())
}

// kill ends it as a power cut of the process would: it closes nothing.
func (m *member) kill() {
	if m.cmd == nil {
		return
	}
	_ = m.cmd.Process.Kill() // one that has ended is dead, too
	_ = m.cmd.Wait()
}

// freePorts are some that nobody listens on now.
func freePorts(t *testing.T, n int) []string {
	var ports []string
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		defer l.Close()
		_, port, err := net.SplitHostPort(l.Addr().String())
		require.NoError(t, err)
		ports = append(ports, port)
	}
	return ports
}

// A cluster of three on real files and sockets, written to and read by a real client, loses nothing that it acknowledged and keeps its order while one server after the other is killed.
func TestServedClusterLosesNothingWhenServersAreKilled(t *testing.T) {
	dir := t.TempDir()
	ports := freePorts(t, 9)
	var brokers, peers []string
	for i := range 3 {
		brokers, peers = append(brokers, "127.0.0.1:"+ports[i]), append(peers, "127.0.0.1:"+ports[3+i])
	}
	var members []*member
	for i := range 3 {
		m := &member{log: filepath.Join(dir, fmt.Sprintf("log-%d", i+1)), args: []string{
			"--dir", filepath.Join(dir, strconv.Itoa(i+1)), "--id", strconv.Itoa(i + 1), "--port", ports[i], "--coord-port", ports[6+i],
			"--peers", strings.Join(peers, ","), "--replicas", "3", "--partitions", "3",
		}}
		members = append(members, m)
	}
	defer func() {
		for _, m := range members {
			m.kill()
			if t.Failed() {
				text, _ := os.ReadFile(m.log)
				t.Logf("%s:\n%s", m.log, text)
			}
		}
	}()

	members[0].start(t)
	require.Eventually(t, func() bool {
		text, _ := os.ReadFile(members[0].log)
		return strings.Contains(string(text), "2 of the 3 servers of --peers must be up")
	}, time.Minute, 50*time.Millisecond)
	members[1].start(t)
	members[2].start(t)

	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	cl, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.AllowAutoTopicCreation(), kgo.RequiredAcks(kgo.AllISRAcks()), kgo.ConsumerGroup("readers"),
		kgo.ConsumeTopics("t"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.DisableAutoCommit(), kgo.MetadataMinAge(200*time.Millisecond),
		kgo.UnknownTopicRetries(-1), kgo.AlwaysRetryEOF()) // until all are up; a connection that a killed broker had taken and not answered yet
	require.NoError(t, err)
	defer cl.Close()
	require.NoError(t, cl.ProduceSync(ctx, &kgo.Record{Topic: "t", Key: []byte("k"), Value: []byte("-1")}).FirstErr())

	// Each round a server dies while records are under way. The next one waits until all of them are acknowledged, so that a majority is in sync.
	sent := 0
	for _, victim := range []int{0, 1, 2} {
		var round sync.WaitGroup
		failed := make(chan error, 1)
		for i := range 600 {
			if i == 200 {
				members[victim].kill()
			}
			round.Add(1)
			cl.Produce(ctx, &kgo.Record{Topic: "t", Key: []byte(strconv.Itoa(sent % 7)), Value: []byte(strconv.Itoa(sent))}, func(_ *kgo.Record, err error) {
				if err != nil {
					select {
					case failed <- err:
					default:
					}
				}
				round.Done()
			})
			sent++
			time.Sleep(time.Millisecond)
		}
		round.Wait()
		select {
		case err := <-failed:
			require.NoError(t, err)
		default:
		}
		members[victim].start(t)
	}

	seen, last := map[int]bool{}, map[string]int{}
	for len(seen) < sent {
		fetches := cl.PollFetches(ctx)
		require.NoError(t, ctx.Err(), "of %d records that were acknowledged %d came back", sent, len(seen))
		fetches.EachRecord(func(r *kgo.Record) {
			n, err := strconv.Atoi(string(r.Value))
			require.NoError(t, err)
			if n < 0 || seen[n] {
				return // the group may have begun again at what it had
			}
			key := string(r.Key)
			require.GreaterOrEqual(t, n, last[key], "records of one key change their order")
			seen[n], last[key] = true, n
		})
	}
}
