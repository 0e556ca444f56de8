package bench

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestRecoveryLastsUntilTheRateIsBackForGood(t *testing.T) {
	r := &Result{}
	for i, n := range []int64{100, 100, 100, 20, 0, 95, 40, 92, 100, 100} {
		r.TimeLine = append(r.TimeLine, Step{At: time.Duration(i) * time.Second, Received: n})
	}
	took, ok := r.Recovery(Band{From: 3 * time.Second}, 0.9)
	require.True(t, ok)
	require.Equal(t, 4*time.Second, took)
	_, ok = r.Recovery(Band{From: 3 * time.Second}, 1.1)
	require.False(t, ok)
	_, ok = r.Metric("recovery")
	require.False(t, ok, "nothing went wrong")
	r.Bands = []Band{{From: 3 * time.Second}}
	longest, _ := r.Metric("recovery")
	require.Equal(t, 4.0, longest)
	r.TimeLine[9].Received = 1
	longest, _ = r.Metric("recovery")
	require.Equal(t, 7.0, longest, "never: as long as was measured")
}

func TestRecoveryIsNotBlamedForTheNextFault(t *testing.T) {
	first, second := Band{From: 1 * time.Second}, Band{From: 4 * time.Second}
	r := &Result{Bands: []Band{first, second}}
	for i, n := range []int64{100, 0, 100, 100, 0, 0, 100} {
		r.TimeLine = append(r.TimeLine, Step{At: time.Duration(i) * time.Second, Received: n})
	}
	took, _ := r.Recovery(first, 0.9)
	require.Equal(t, time.Second, took)
	took, _ = r.Recovery(second, 0.7)
	require.Equal(t, 2*time.Second, took)
	r.TimeLine[2].Received, r.TimeLine[3].Received = 0, 0
	took, _ = r.Recovery(first, 0.9)
	require.Equal(t, 5*time.Second, took, "the first was still felt when the second began")
}

func TestFigureIsTheMedianOfTheRepetitions(t *testing.T) {
	p := Point{}
	_, ok := p.Figure("sent")
	require.False(t, ok)
	for _, n := range []int64{30, 10, 20, 60} {
		r := NewMeter(0, 2*time.Second, 0).Result()
		r.Sent = n
		p.Runs = append(p.Runs, r)
	}
	f, ok := p.Figure("sent")
	require.True(t, ok)
	require.Equal(t, Figure{Median: 12.5, Low: 5, High: 30}, f)
	_, ok = p.Figure("latency-p99")
	require.False(t, ok)
}

func TestValuesOnAnAxis(t *testing.T) {
	for value, want := range map[string]float64{"50": 50, "0.5": 0.5, "1KiB": 1024, "10TiB": 10 << 40, "2000/s": 2000, "5ms": 0.005} {
		n, ok := Number(value)
		require.True(t, ok, value)
		require.InDelta(t, want, n, 1e-9)
	}
	for _, word := range []string{"lz4", "never", "unlimited", "", "NaN", "inf"} {
		_, ok := Number(word)
		require.False(t, ok, word)
	}
}
