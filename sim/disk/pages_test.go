package disk

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"faultline/sim/machine"
)

// Memory that a disk left shows nothing of it: a page that is written in part, and a hole, have zeros elsewhere.
func TestReleasedPagesShowNothingToTheNextDisk(t *testing.T) {
	const pages = 4 * slabPages
	for range 3 {
		r := newRig(t, 1, Config{})
		f := r.open("f", machine.Create)
		want := make([]byte, 2*pages*PageBytes)
		for pg := 0; pg < 2*pages; pg += 2 {
			r.write(f, []byte("x"), int64(pg*PageBytes+100))
			want[pg*PageBytes+100] = 'x'
		}
		require.NotEmpty(t, r.m.slabs)
		require.Equal(t, bytes.TrimRight(want, "\x00"), r.content(f))
		r.write(f, bytes.Repeat([]byte("y"), 2*pages*PageBytes), 0) // dirty for the next
		r.m.Release()
		require.Panics(t, func() { _, _ = r.d.Open("f", 0) })
	}
}
