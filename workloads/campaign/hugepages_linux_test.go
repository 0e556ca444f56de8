package campaign

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The heap has memory for which huge pages were asked.
func TestHugePagesAreAskedFor(t *testing.T) {
	if _, err := os.Stat("/sys/kernel/mm/transparent_hugepage"); err != nil {
		t.Skip("the kernel has no huge pages")
	}
	HugePages()
	maps, err := os.ReadFile("/proc/self/smaps")
	require.NoError(t, err)
	asked := false
	for line := range strings.Lines(string(maps)) {
		if flags, ok := strings.CutPrefix(line, "VmFlags:"); ok {
			asked = asked || strings.Contains(flags, " hg")
		}
	}
	require.True(t, asked)
}
