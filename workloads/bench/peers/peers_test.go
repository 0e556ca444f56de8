package peers

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"faultline/workloads/bench"
)

const suite = `
name: small
topology:
  producers: [{batch_records: 10, in_flight: 5}]
  groups: [{name: readers, consumers: 2}, {name: others, consumers: 1}]
workload: {message_bytes: 100B}
load: {rate: 2000/s, real_warm_up: 500ms, real_measure: 500ms}
sweep: {setting: topology.coordinators, values: [1]}
`

func freePort(t *testing.T) int {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// missing counts the servers that are not on this machine, so that the last line of a run says what was not tried.
var missing []string

func TestMain(m *testing.M) {
	code := m.Run()
	if len(missing) > 0 {
		fmt.Printf("%d systems were not tried, their servers are not installed: %s\n", len(missing), strings.Join(missing, ", "))
	}
	os.Exit(code)
}

// server starts one for the test, in a folder of its own, and returns when it listens.
func server(t *testing.T, name string, port int, arguments func(dir string) []string, env ...string) {
	t.Helper()
	program, err := exec.LookPath(name)
	if err != nil {
		program = filepath.Join("/usr/sbin", name) // where it is not on everybody's path
		if _, err := os.Stat(program); err != nil {
			missing = append(missing, name)
			t.Skipf("missing server %d: %s is not installed", len(missing), name)
		}
	}
	dir := t.TempDir()
	cmd := exec.Command(program, arguments(dir)...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	require.Eventually(t, func() bool {
		c, err := net.DialTimeout("tcp", fmt.Sprintf("127.0.0.1:%d", port), time.Second)
		if err == nil {
			c.Close()
		}
		return err == nil
	}, 60*time.Second, 20*time.Millisecond, "%s does not listen", name)
}

// drive runs the suite on a system; every group receives what was sent. On a computer that has much else to do little may come within the first window.
func drive(t *testing.T, address string) {
	t.Helper()
	var r *bench.Result
	for _, window := range []string{"500ms", "4s", "20s"} {
		s, err := bench.ParseSuite("small.yaml", []byte(strings.Replace(suite, "real_measure: 500ms", "real_measure: "+window, 1)))
		require.NoError(t, err)
		c, err := s.Cell(&s.Series[0], "1")
		require.NoError(t, err)
		h := &bench.Host{Dir: t.TempDir(), Systems: func(c *bench.Cell) (*bench.System, error) { return Open(c, address) }}
		r, err = h.Measure(c, 1, func() bool { return false })
		require.NoError(t, err)
		if r.Received > r.Sent && r.Sent > 0 {
			break
		}
	}
	require.LessOrEqual(t, r.Refused, r.Sent/100, "but for what was under way at the end")
	require.Positive(t, r.Sent)
	require.Greater(t, r.Received, r.Sent, "two groups receive every message")
	require.Positive(t, r.Latency.TotalCount())
}

func TestRedisListsAndStreams(t *testing.T) {
	port := freePort(t)
	server(t, "redis-server", port, func(dir string) []string {
		return []string{"--port", fmt.Sprint(port), "--bind", "127.0.0.1", "--dir", dir, "--appendonly", "yes"}
	})
	for _, kind := range []string{"list", "stream"} {
		t.Run(kind, func(t *testing.T) { drive(t, fmt.Sprintf("redis-%s://127.0.0.1:%d", kind, port)) })
	}
}

func TestJetStream(t *testing.T) {
	port := freePort(t)
	server(t, "nats-server", port, func(dir string) []string {
		return []string{"-a", "127.0.0.1", "-p", fmt.Sprint(port), "-js", "-sd", dir}
	})
	drive(t, fmt.Sprintf("nats://127.0.0.1:%d", port))
}

func TestRabbitMQ(t *testing.T) {
	port, dist := freePort(t), freePort(t)
	home := t.TempDir()
	server(t, "/usr/lib/rabbitmq/bin/rabbitmq-server", port, func(dir string) []string { return nil },
		"ERL_EPMD_ADDRESS=127.0.0.1", "RABBITMQ_NODE_IP_ADDRESS=127.0.0.1", fmt.Sprint("RABBITMQ_NODE_PORT=", port), fmt.Sprint("RABBITMQ_DIST_PORT=", dist),
		fmt.Sprint("RABBITMQ_NODENAME=bench", port, "@localhost"), "RABBITMQ_MNESIA_BASE="+home, "RABBITMQ_LOG_BASE="+home, "HOME="+home)
	drive(t, fmt.Sprintf("amqp://guest:guest@127.0.0.1:%d", port))
}

func TestActiveMQ(t *testing.T) {
	jar := "/usr/share/activemq/bin/activemq.jar"
	if _, err := os.Stat(jar); err != nil {
		missing = append(missing, "activemq")
		t.Skipf("missing server %d: %v", len(missing), err)
	}
	port := freePort(t)
	server(t, "java", port, func(dir string) []string {
		return []string{"-Dactivemq.home=/usr/share/activemq", "-Dactivemq.base=" + dir, "-Dactivemq.data=" + dir, "-jar", jar, "start",
			fmt.Sprintf("broker:(stomp://127.0.0.1:%d)?dataDirectory=%s&useJmx=false", port, dir)}
	})
	drive(t, fmt.Sprintf("stomp://127.0.0.1:%d", port))
}

func TestZeroMQ(t *testing.T) { drive(t, "zmq://127.0.0.1") }

func TestOpenSaysWhatItTakes(t *testing.T) {
	for _, address := range []string{"ibm-mq://127.0.0.1:1414", "redis://127.0.0.1:6379", "nats://"} {
		_, err := Open(&bench.Cell{}, address)
		require.ErrorContains(t, err, "allowed is SCHEME://HOST:PORT with one of amqp, nats, redis-list, redis-stream, stomp, zmq")
	}
}
