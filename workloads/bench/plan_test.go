package bench

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"faultline/faults/quantity"
)

// slow is hardware on which a broker carries little, so that plans need several.
func slow(t *testing.T) *Profile {
	p, err := LoadProfile("virtio-2026")
	require.NoError(t, err)
	p.Network.Bandwidth = quantity.Just(quantity.Bandwidth(2_000_000))
	return p
}

func TestPlanIsTheSmallestClusterThatCarriesTheLoad(t *testing.T) {
	n := Need{In: 4_000_000, Message: 1000, Groups: 1, Replicas: 1, Acks: "1", P99: time.Second, Most: 16}
	var tried []Try
	got, err := Plan(n, slow(t), 1, func() bool { return false }, func(x Try) { tried = append(tried, x) })
	require.NoError(t, err)
	require.Empty(t, got.Lacks)
	require.GreaterOrEqual(t, got.Brokers, 3, "two NICs of 2 MB/s carry no 4 MB/s of messages with their headers")
	require.LessOrEqual(t, got.Brokers, 4)
	smaller := false
	for _, x := range tried {
		smaller = smaller || x.Brokers == got.Brokers-1 && x.Lacks != ""
		require.False(t, x.Brokers < got.Brokers && x.Lacks == "", "%v is enough", x)
	}
	require.True(t, smaller, "one broker less was tried: %v", tried)
}

func TestPlanThatCannotBe(t *testing.T) {
	n := Need{In: 40_000_000, Message: 1000, Groups: 1, Replicas: 1, Acks: "1", P99: time.Second, Most: 2}
	got, err := Plan(n, slow(t), 1, func() bool { return false }, func(Try) {})
	require.ErrorIs(t, err, ErrTooMuch)
	require.Contains(t, got.Lacks, "takes")
	n.P99, n.In, n.Most = time.Microsecond, 1000_000, 1
	got, err = Plan(n, slow(t), 1, func() bool { return false }, func(Try) {})
	require.ErrorIs(t, err, ErrTooMuch)
	require.Equal(t, "p99 is too high", got.Lacks)
}

func TestNeedsThatAreNone(t *testing.T) {
	for want, change := range map[string]func(n *Need){
		"most brokers: found 2, allowed is 3":                func(n *Need) { n.Most = 2 },
		"p99: found 0s, allowed is 1us or more":              func(n *Need) { n.P99 = 0 },
		`acks: found "all, batch: 1KiB"`:                     func(n *Need) { n.Acks = "all, batch: 1KiB" },
		"message: found 1MiB":                                func(n *Need) { n.Message = 1 << 20 },
		"that is 0 a second, allowed are 1 to 100000000":     func(n *Need) { n.In = 99 },
		"that is 10000000000 a second, allowed are 1 to 100": func(n *Need) { n.In = 1e12 },
	} {
		n := Need{In: 1000, Message: 100, Groups: 1, Replicas: 3, Acks: "1", P99: time.Second, Most: 3}
		require.NoError(t, n.Check())
		change(&n)
		_, err := Plan(n, slow(t), 1, nil, nil)
		require.ErrorContains(t, err, want)
	}
	n := Need{In: 1e9, Message: 100, Replicas: 1, Acks: "1", Most: 1}
	require.NoError(t, n.Check(), "without groups there is no age")
}

// A few messages a second are watched for longer, and an age of little more than the way of a message is not spent on waiting for more of them.
func TestPlanForFewMessagesAndForYoungOnes(t *testing.T) {
	p, err := LoadProfile("virtio-2026")
	require.NoError(t, err)
	for _, n := range []Need{
		{In: 500, Message: 200, Groups: 1, Replicas: 3, Acks: "all", P99: time.Second, Most: 3},
		{In: 1 << 20, Message: 1024, Groups: 1, Replicas: 3, Acks: "all", P99: 2 * time.Millisecond, Most: 3},
	} {
		got, err := Plan(n, p, 1, func() bool { return false }, func(Try) {})
		require.NoError(t, err, "%v", got)
		require.Equal(t, 3, got.Brokers)
	}
}
