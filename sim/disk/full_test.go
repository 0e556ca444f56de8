package disk

import (
	"testing"

	"github.com/stretchr/testify/require"

	"faultline/sim/machine"
)

// A write that lands in two steps on a full disk fails like any other: it never returns 0 bytes without an error, which no write(2) does.
func TestFullDiskNeverWritesNothingWithoutAnError(t *testing.T) {
	m := New("d", Config{})
	w := &still{}
	d := m.Attach(w, w.wall)
	f, err := d.Open("f", machine.Create)
	require.NoError(t, err)
	require.NoError(t, m.Inject(Fault{ID: "full", Kind: Full}))
	for range 500 {
		n, err := f.Pwrite(make([]byte, 3*PageBytes), 0)
		require.Zero(t, n)
		require.ErrorIs(t, err, machine.ErrNoSpace)
	}
}
