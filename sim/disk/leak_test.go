package disk

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"faultline/sim/machine"
)

// Files that come and go leave nothing behind in the write-back queue.
func TestRemovedFilesLeaveTheWriteBackQueue(t *testing.T) {
	m, w := New("d", Config{}), &still{}
	d := m.Attach(w, w.wall)
	require.NoError(t, d.Mkdir("dir"))
	for i := range 5000 {
		name := fmt.Sprintf("dir/%d", i)
		f, err := d.Open(name, machine.Create)
		require.NoError(t, err)
		_, err = machine.WriteFull(f, []byte("bytes"), 0)
		require.NoError(t, err)
		require.NoError(t, f.Sync())
		require.NoError(t, f.Close())
		require.NoError(t, d.Remove(name))
		require.NoError(t, d.SyncDir("dir"))
	}
	require.LessOrEqual(t, len(m.queue), 64)
}
