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
	_, err = Plan(Need{In: 1, Message: 100, Replicas: 3, Most: 2}, slow(t), 1, nil, nil)
	require.ErrorContains(t, err, "most brokers: found 2, allowed is 3")
}
