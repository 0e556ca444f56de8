package linear

import (
	"strings"

	"faultline/workloads/oracle"
)

// A committed offset is the znode /consumers/<group>/offsets/<topic>/<partition>, a register with a version: it is judged as a znode, and
// a violation means that a commit was lost, came back or was misread. So it is reported as CMONO. Whether commits go
// forward is another question, see oracle.CMono.

// isOffset tells whether the path holds a committed offset.
func isOffset(path string) bool {
	rest, ok := strings.CutPrefix(path, "/consumers/")
	if !ok {
		return false
	}
	parts := strings.Split(rest, "/")
	return len(parts) == 4 && parts[1] == "offsets"
}

// invariantOf is what a violation at the path is reported as.
func invariantOf(path string) string {
	if isOffset(path) {
		return oracle.CMono
	}
	return Linear
}
