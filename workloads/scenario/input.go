package scenario

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"time"

	"faultline/faults/quantity"
)

// Bounds of a run whose messages are the lines of a file, where the scenario sets none.
const (
	inputRate      = 10_000  // messages a second, at least
	inputRetention = 8 << 20 // bytes that each partition keeps
	inputLag       = 2_000   // messages that the slowest group may be behind: it must catch up within the heal phase, however slowly it works
)

// UseInput makes each line of a file a message, instead of the scenario's workload. What partitions keep and how far producers may get ahead is
// bounded, so that memory does not grow with the file, and faults that repeat do so until about the end of the file. The errors are
// those of opening and reading it.
func (s *Scenario) UseInput(path string) error {
	path, err := filepath.Abs(path) // a bundle's scenario lies elsewhere
	if err != nil {
		return fmt.Errorf("input: %w", err)
	}
	lines, err := estimateLines(path)
	if err != nil {
		return fmt.Errorf("input: %w", err)
	}
	w := &s.Workload
	w.Kind, w.Input = "lines", path
	w.Duration = New(s.Name).Workload.Duration // it lasts as long as the file
	w.Rate = quantity.Just(max(w.Rate.Max, inputRate))
	if w.MaxLag.Max == math.MaxInt64 {
		w.MaxLag = quantity.Just(quantity.Count(inputLag))
	}
	for i := range s.Topology.Topics {
		t := &s.Topology.Topics[i]
		if t.RetentionBytes.Max == math.MaxInt64 {
			t.RetentionBytes = quantity.Just(quantity.Bytes(inputRetention))
		}
		// Retention by time may take what a group has yet to read; by size it cannot, for producers wait for the slowest group.
		t.RetentionTime = quantity.Just(quantity.Duration(math.MaxInt64))
	}
	last := time.Duration(float64(lines) / float64(w.Rate.Max) * float64(time.Second))
	for i := range s.Faults {
		if f := &s.Faults[i]; f.Every.Max > 0 {
			f.Until = quantity.Just(max(f.Until.Max, quantity.Duration(last)))
		}
	}
	return nil
}

// estimateLines guesses from a file's size and beginning how many lines it has.
func estimateLines(path string) (int64, error) {
	info, err := os.Stat(path)
	if err != nil {
		return 0, err
	}
	switch {
	case info.IsDir():
		return 0, fmt.Errorf("%s is a directory; want a file with a message on each line", path)
	case !info.Mode().IsRegular():
		return 0, fmt.Errorf("%s is not a regular file; it is read more than once, so write it to one first", path)
	case info.Size() == 0:
		return 0, fmt.Errorf("%s is empty; want a file with a message on each line", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	head, err := io.ReadAll(io.LimitReader(f, 256<<10))
	if err != nil {
		return 0, err
	}
	n := int64(bytes.Count(head, []byte{'\n'})) + 1
	if size := info.Size(); size > int64(len(head)) {
		return int64(float64(n) * float64(size) / float64(len(head))), nil
	}
	return n, nil
}
