package bench

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// What was there before the load may be received before the window ends: the rate is over the time that it took.
func TestDrained(t *testing.T) {
	const s = time.Second
	for _, c := range []struct {
		name    string
		receive func(m *Meter)
		rate    float64
		early   bool
	}{
		{"it lasts", func(m *Meter) { m.received(2*s, -1, 1); m.received(4*s-1, -1, 1) }, 2 / 3., false},
		{"it ends", func(m *Meter) { m.received(2*s, -1, 1); m.received(2500*time.Millisecond, -1, 1) }, 2 / 1.5, false},
		{"it ends before the window", func(m *Meter) { m.received(s/2, -1, 1); m.received(2*s, 2*s, 1) }, 1 / 3., true},
		{"as much comes after it", func(m *Meter) { m.received(2*s, -1, 1); m.received(3*s, 3*s, 1) }, 2 / 3., false},
		{"a load alone", func(m *Meter) { m.received(2*s, 2*s, 1) }, 1 / 3., false},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := NewMeter(s, 4*s, 0)
			c.receive(m)
			rate, _ := m.Result().Metric("received")
			require.InDelta(t, c.rate, rate, 1e-9)
			require.Equal(t, c.early, m.early())
		})
	}
}
