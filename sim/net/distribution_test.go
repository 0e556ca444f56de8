package net

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"faultline/sim"
)

func TestDistributionsStayInsideTheirBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		span := rapid.Int64Range(0, int64(100*time.Hour))
		d := Distribution{Kind: rapid.SampledFrom([]Kind{Uniform, Constant, HeavyTail}).Draw(t, "kind"),
			Min: time.Duration(span.Draw(t, "min")), Max: time.Duration(span.Draw(t, "max"))}
		rng := sim.NewStream(rapid.Uint64().Draw(t, "seed"), "test", "")
		for range 20 {
			x := d.draw(rng)
			require.GreaterOrEqual(t, x, d.Min)
			require.LessOrEqual(t, x, max(d.Min, d.Max))
		}
		require.GreaterOrEqual(t, d.typical(), d.Min)
		require.LessOrEqual(t, d.typical(), max(d.Min, d.Max))
	})
}

func TestLatencyHeavyTail(t *testing.T) {
	d := Distribution{Kind: HeavyTail, Min: time.Millisecond, Max: 10 * time.Second}
	rng := sim.NewStream(1, "test", "")
	var xs []time.Duration
	for range 100_000 {
		xs = append(xs, d.draw(rng))
	}
	slices.Sort(xs)
	longer := func(x time.Duration) float64 {
		i, _ := slices.BinarySearch(xs, x)
		return float64(len(xs)-i) / float64(len(xs))
	}
	for _, x := range []time.Duration{2, 10, 100, 1000} {
		require.InEpsilon(t, 1/float64(x), longer(x*time.Millisecond), 0.25, "one draw in %d is longer than %d ms", x, x)
	}
	require.InEpsilon(t, float64(d.typical()), float64(xs[len(xs)/2]), 0.02, "the median")
	require.Equal(t, time.Millisecond, d.quantile(0))
	require.Equal(t, 10*time.Second, d.quantile(int64(d.Max-d.Min)))
}

// The default latency has always been this draw: the hashes of worlds without faults depend on it.
func TestUniformLatencyIsOneInt64NPerSegment(t *testing.T) {
	a, b := sim.NewStream(7, "net/latency", "x>y"), sim.NewStream(7, "net/latency", "x>y")
	d := Config{}.withDefaults().Latency
	for range 1000 {
		require.Equal(t, d.Min+time.Duration(b.Int64N(int64(d.Max-d.Min)+1)), d.draw(a))
	}
	require.Zero(t, Distribution{}.draw(nil), "nothing to choose: no draw")
	require.Equal(t, time.Second, Distribution{Kind: Constant, Min: time.Second, Max: time.Minute}.draw(nil))
}
