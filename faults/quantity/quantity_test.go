package quantity

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestQuantitiesPrintAsTheTextTheyParseFrom(t *testing.T) {
	for _, text := range []string{"0s", "1ns", "250us", "1.5ms", "90s", "1m", "100m", "2h", "-3s", "0.25s", "never"} {
		var r Durations
		require.NoError(t, r.UnmarshalText([]byte(text)), text)
		want := map[string]string{"0.25s": "250ms"}[text]
		if want == "" {
			want = text
		}
		require.Equal(t, want, r.String())
	}
	for _, text := range []string{"0B", "200B", "1.5KiB", "64KiB", "1GiB", "10TiB", "unlimited", "1023B", "100B..300B"} {
		var r Sizes
		require.NoError(t, r.UnmarshalText([]byte(text)), text)
		require.Equal(t, text, r.String())
	}
	for _, text := range []string{"5%", "0.0001%", "-3%", "12.5%", "1%..20%"} {
		var r Percents
		require.NoError(t, r.UnmarshalText([]byte(text)), text)
		require.Equal(t, text, r.String())
	}
}

func TestAnyValueRoundTrips(t *testing.T) {
	roundTrip[Duration](t, "duration")
	roundTrip[Bytes](t, "bytes")
	roundTrip[Bandwidth](t, "bandwidth")
	roundTrip[Rate](t, "rate")
	roundTrip[Percent](t, "percent")
	roundTrip[Count](t, "count")
}

func roundTrip[T Value[T]](t *testing.T, name string) {
	t.Run(name, rapid.MakeCheck(func(t *rapid.T) {
		limit := rapid.SampledFrom([]int64{100, 1e6, 1e12, Endless - 1}).Draw(t, "limit")
		a := rapid.Int64Range(-limit, limit).Draw(t, "a")
		r := Just(T(a))
		if b := rapid.Int64Range(-limit, limit).Draw(t, "b"); b > a {
			r.Max = T(b)
		}
		var back Range[T]
		require.NoError(t, back.UnmarshalText([]byte(r.String())), r.String())
		require.Equal(t, r, back, r.String())
	}))
}

func TestWrongQuantitiesSayWhatIsAllowed(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"10", `found "10", allowed is a duration such as 500ms, 10s or 2m (the unit is missing: ns, us, ms, s, m, h)`},
		{"10parsec", `found "10parsec", allowed is a duration such as 500ms, 10s or 2m (it is not a number with a unit: ns, us, ms, s, m, h)`},
		{"6s..2s", `found "6s..2s", allowed is a range from the smaller to the larger value, such as 2s..6s`},
		{"1s..never", `found "1s..never", allowed is a range with an end: there is no uniform draw up to never`},
		{"99999999999h", `found "99999999999h", allowed is a duration such as 500ms, 10s or 2m (it is too large)`},
		{"1.5ns", `found "1.5ns", allowed is a duration such as 500ms, 10s or 2m (it is finer than the smallest unit)`},
		{"1..5s", `found "1", allowed is a duration such as 500ms, 10s or 2m (the unit is missing: ns, us, ms, s, m, h)`},
		{"", `found "", allowed is a duration such as 500ms, 10s or 2m (it is not a number with a unit: ns, us, ms, s, m, h)`},
	} {
		var r Durations
		require.EqualError(t, r.UnmarshalText([]byte(c.text)), c.want)
	}
	var rate Rates
	require.ErrorContains(t, rate.UnmarshalText([]byte("2000")), `it does not end with "/s"`)
	var count Counts
	require.ErrorContains(t, count.UnmarshalText([]byte("1.5")), "it is not a whole number")
}

func TestDrawStaysInTheRangeAndReachesItsEnds(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	r := Between(Count(1), Count(4))
	seen := map[Count]bool{}
	for range 200 {
		seen[r.Draw(rng)] = true
	}
	require.Len(t, seen, 4)
	d := Between(Duration(2*time.Second), Duration(6*time.Second))
	for range 200 {
		v := d.Draw(rng)
		require.NoError(t, Just(v).Within("2s", "6s"))
		require.Zero(t, v.D()%(10*time.Millisecond), "a drawn time is one that people can read")
	}
}

func TestBounds(t *testing.T) {
	require.EqualError(t, Just(Count(0)).Within("1", "16"), "found 0, allowed is 1 to 16")
	require.EqualError(t, Between(Count(1), Count(17)).Within("1", "16"), "found 1..17, allowed is 1 to 16")
	require.EqualError(t, Just(Duration(Endless)).Within("1s", ""), "found never, allowed is a value with a limit")
	require.NoError(t, Just(Duration(Endless)).Within("1s", "never"))
}

func TestDidYouMean(t *testing.T) {
	allowed := []string{"crash", "power-loss", "pause"}
	require.Equal(t, `; did you mean "power-loss"?`, DidYouMean("powerloss", allowed))
	require.Equal(t, `; did you mean "crash"?`, DidYouMean("carsh", allowed))
	require.Empty(t, DidYouMean("explode", allowed))
	require.Empty(t, DidYouMean("2", []string{"0", "1", "all"}))
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"10s", "2s..6s", "never", "5%", "64KiB/s", "-1.5ms", "..", "9223372036854775807ns"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		var d Durations
		if d.UnmarshalText([]byte(s)) == nil {
			var back Durations
			require.NoError(t, back.UnmarshalText([]byte(d.String())))
			require.Equal(t, d, back)
		}
		var b Bandwidths
		if b.UnmarshalText([]byte(s)) == nil {
			var back Bandwidths
			require.NoError(t, back.UnmarshalText([]byte(b.String())))
			require.Equal(t, b, back)
		}
	})
}
