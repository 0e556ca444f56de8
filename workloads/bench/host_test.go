package bench

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"faultline/sim/machine"
)

// serverProcess makes this test binary a server of the system that it names.
const serverProcess = "FAULTLINE_TEST_SERVER"

var testSystems = map[string]Systems{
	"faultline": func(*Cell) (*System, error) { return Simulated(), nil },
	"broken": func(*Cell) (*System, error) {
		s := Simulated()
		s.Serve = func(_ *Cell, role string, _ int) func(machine.Machine) error {
			if role != "broker" {
				return nil
			}
			return func(machine.Machine) error { return errors.New("no disk is left") }
		}
		return s, nil
	},
}

func TestMain(m *testing.M) {
	if name := os.Getenv(serverProcess); name != "" {
		if err := ServeMachine(os.Stdin, os.Stdout, testSystems[name]); err != nil {
			os.Stderr.WriteString(err.Error())
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func onHost(t *testing.T, text string, system string) (*Result, error) {
	if _, err := os.Stat("/proc/self/task"); err != nil {
		t.Skip("it takes Linux: every server has an address in 127.0.0.0/8")
	}
	t.Setenv(serverProcess, system)
	s, err := ParseSuite("x.yaml", []byte(text))
	require.NoError(t, err)
	c, err := s.Cell(&s.Series[0], s.Sweep.Values[0])
	require.NoError(t, err)
	dir := t.TempDir()
	h := &Host{Command: []string{os.Args[0]}, Dir: dir, Systems: testSystems[system], Pinned: true}
	r, err := h.Measure(c, 1, func() bool { return false })
	left, _ := os.ReadDir(dir)
	require.Empty(t, left, "files of the servers")
	return r, err
}

const onThisComputer = `
name: small
topology:
  brokers: 2
  topics: [{name: visits, partitions: 2, flush_interval: 1ms}]
  producers: [{acks: all, linger: 1ms, partitioner: random}]
  groups: [{name: readers, consumers: 2}, {name: others, consumers: 1, protocol: coordinator}]
load: {rate: 2000/s, real_warm_up: 1500ms, real_measure: 500ms}
sweep: {setting: topology.coordinators, values: [1]}
`

func TestHostRunsTheServersInProcessesOfTheirOwn(t *testing.T) {
	var r *Result
	for _, window := range []string{"500ms", "4s", "20s"} { // on a computer that has much else to do nothing may come within the first
		var err error
		r, err = onHost(t, strings.Replace(onThisComputer, "500ms", window, 1), "faultline")
		require.NoError(t, err)
		if r.Received > 0 {
			break
		}
	}
	require.Zero(t, r.Refused)
	require.Positive(t, r.Sent)
	require.Positive(t, r.Received)
	require.Positive(t, r.Latency.TotalCount())
}

func TestHostSaysWhyAServerEnded(t *testing.T) {
	_, err := onHost(t, onThisComputer, "broken")
	require.ErrorContains(t, err, "the process of broker-")
	require.ErrorContains(t, err, "no disk is left")
}

// Brokers of others are driven as our own: topics and groups are made for the run and gone afterwards.
func TestHostDrivesABrokerOfOthers(t *testing.T) {
	fake, err := kfake.NewCluster(kfake.NumBrokers(1))
	require.NoError(t, err)
	defer fake.Close()
	s, err := ParseSuite("x.yaml", []byte(onThisComputer))
	require.NoError(t, err)
	c, err := s.Cell(&s.Series[0], s.Sweep.Values[0])
	require.NoError(t, err)
	h := &Host{Systems: func(c *Cell) (*System, error) { return Kafka(c, fake.ListenAddrs()), nil }}
	r, err := h.Measure(c, 1, func() bool { return false })
	require.NoError(t, err)
	require.Zero(t, r.Refused)
	require.Positive(t, r.Sent)
	require.Positive(t, r.Received)
	admin, err := kgo.NewClient(kgo.SeedBrokers(fake.ListenAddrs()...))
	require.NoError(t, err)
	defer admin.Close()
	req := kmsg.NewPtrMetadataRequest()
	meta, err := req.RequestWith(context.Background(), admin)
	require.NoError(t, err)
	require.Empty(t, meta.Topics)
}
