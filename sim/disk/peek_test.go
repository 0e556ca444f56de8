package disk

import (
	"testing"

	"github.com/stretchr/testify/require"

	"faultline/sim/machine"
)

// Whatever happens to names, Again shows what File would.
func TestAgainIsFile(t *testing.T) {
	for what, happens := range map[string]func(r *rig){
		"nothing":               func(r *rig) {},
		"more bytes":            func(r *rig) { r.write(r.open("f", 0), fill('b', 10), 100) },
		"removed":               func(r *rig) { require.NoError(t, r.d.Remove("f")) },
		"renamed":               func(r *rig) { require.NoError(t, r.d.Rename("f", "g")) },
		"replaced":              func(r *rig) { r.put("new", fill('c', 7)); require.NoError(t, r.d.Rename("new", "f")) },
		"removed and made anew": func(r *rig) { require.NoError(t, r.d.Remove("f")); r.open("f", machine.Create) },
		"power loss":            func(r *rig) { r.powerLoss() },
		"removal, lost":         func(r *rig) { require.NoError(t, r.d.Remove("f")); r.powerLoss() },
		"wiped":                 func(r *rig) { r.m.Wipe(); r.attach() },
	} {
		t.Run(what, func(t *testing.T) {
			r := newRig(t, 1, Config{})
			r.put("f", fill('a', 5))
			before, ok := r.m.File("f")
			require.True(t, ok)
			happens(r)
			want, there := r.m.File("f")
			got, ok := r.m.Again(before, "f")
			require.Equal(t, there, ok)
			require.True(t, want.n == got.n)
			require.Equal(t, want, got)
		})
	}
}
