// Package script runs the data-driven tests of state machines that take the time as an argument and do no I/O: files in which blocks of steps stand above what came of them.
package script

import (
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"
)

// Step takes one step, given as its words.
type Step func(t *testing.T, words []string)

// Run runs the files of a folder. A block "new" begins with a fresh machine, which begin makes of the block's arguments, and "do" goes on with it. Each line of a block is one step; those that begin with # are remarks.
// What the steps write to out is compared with what stands below the block, and takes its place with -rewrite.
func Run(t *testing.T, dir string, begin func(t *testing.T, d *datadriven.TestData, out *strings.Builder) Step) {
	datadriven.Walk(t, dir, func(t *testing.T, path string) {
		var out strings.Builder
		var step Step
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch {
			case d.Cmd == "new":
				step = begin(t, d, &out)
			case d.Cmd != "do":
				d.Fatalf(t, "found a block %q, allowed are new and do", d.Cmd)
			case step == nil:
				d.Fatalf(t, "found a block do before the first new")
			}
			out.Reset()
			for line := range strings.Lines(d.Input) {
				if words := strings.Fields(line); len(words) > 0 && !strings.HasPrefix(words[0], "#") {
					step(t, words)
				}
			}
			return out.String()
		})
	})
}

// Duration reads one.
func Duration(t *testing.T, word string) time.Duration {
	t.Helper()
	d, err := time.ParseDuration(word)
	require.NoError(t, err)
	return d
}
