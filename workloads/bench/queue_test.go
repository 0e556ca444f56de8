package bench

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func queueSystem(t *testing.T, text string) (string, *System) {
	text += "series: [{name: queue, system: queue}]\n"
	s, err := ParseSuite("x.yaml", []byte(text))
	require.NoError(t, err)
	c, err := s.Cell(&s.Series[0], s.Sweep.Values[0])
	require.NoError(t, err)
	system, err := SystemOf(c)
	require.NoError(t, err)
	return text, system
}

func TestQueueSendsAndReceivesAtTheRate(t *testing.T) {
	text, system := queueSystem(t, small)
	r := measure(t, text, system, 1)
	require.InDelta(t, 2000, r.Sent, 20)
	require.InDelta(t, 2000, r.Received, 20)
	require.Zero(t, r.Refused)
	require.EqualValues(t, r.Received, r.Latency.TotalCount())
	require.Less(t, r.Latency.ValueAtQuantile(99), int64(10_000))
	require.Equal(t, r, measure(t, text, system, 1), "one seed, one result")
}

// A queue's consumer has what the queue retained from before the load; each group has all of it.
func TestQueueRetainsMessagesForEveryGroup(t *testing.T) {
	text := strings.Replace(small, "\nload: {", "\nload: {retained: 1MiB, cached: yes, ", 1)
	text = strings.Replace(text, "warm_up: 200ms", "warm_up: 0s", 1)
	text = strings.Replace(text, "groups: [", "groups: [{name: others, consumers: 2}, ", 1)
	text, system := queueSystem(t, text)
	r := measure(t, text, system, 1)
	require.InDelta(t, 2*(1<<20)/100+2*2000, r.Received, 60)
	require.InDelta(t, 2*2000, r.Latency.TotalCount(), 60, "what was there before has no latency")
}

func TestQueueSuitesSayWhatTheQueueHasNot(t *testing.T) {
	_, err := ParseSuite("x.yaml", []byte(strings.Replace(small, "values: [1]", "values: [3]", 1)+"series: [{name: queue, system: queue, set: [topology.topics.0.replicas=3]}]\n"))
	require.ErrorContains(t, err, "the queue does not replicate")
}

// What a system promises goes by the acknowledgement that its producers wait for.
func TestPromise(t *testing.T) {
	for acks, want := range map[string]string{
		"0": "at most once", "1": "at least once, not synced", "all": "at least once, synced or replicated",
	} {
		for _, system := range []string{"faultline", "queue"} {
			s, err := ParseSuite("x.yaml", []byte("name: x\ntopology: {producers: [{acks: all}, {acks: "+acks+"}]}\nsweep: {setting: topology.brokers, values: [1]}\nseries: [{name: a, system: "+system+"}]\n"))
			require.NoError(t, err)
			c, err := s.Cell(&s.Series[0], "1")
			require.NoError(t, err)
			got, err := SystemOf(c)
			require.NoError(t, err)
			require.Equal(t, want, got.Guarantee)
		}
	}
}
