// Command detection plants each bug of the catalogue and measures how many seeds it takes to catch it: the first seed, counted from
// the begin of a range, whose verdict names one of the row's invariants, as the median of several ranges.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"faultline/faults/mutants"
	"faultline/reports"
)

func main() {
	ranges := flag.Int("ranges", 5, "seed ranges")
	seeds := flag.Int("seeds", 200, "seeds in a range")
	rows := flag.String("rows", "", "rows to try, with commas between (default: all)")
	flag.Parse()
	missed, err := detect(*ranges, *seeds, *rows)
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, "detection:", err)
		os.Exit(2)
	case missed > 0:
		os.Exit(1)
	}
}

// detect prints the table and returns how many rows were missed in at least one range.
func detect(ranges, seeds int, rows string) (missed int, err error) {
	root, err := mutants.Root(".")
	if err != nil {
		return 0, err
	}
	all, err := mutants.All()
	if err != nil {
		return 0, err
	}
	dir, err := os.MkdirTemp("", "faultline-detection-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	tw := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintf(tw, "row\tscenario\tinvariant\tseeds to detection (median of %d ranges)\teach range\treport\n", ranges)
	for _, m := range all {
		if rows != "" && !slices.Contains(strings.Split(rows, ","), m.Row) {
			continue
		}
		binary := filepath.Join(dir, "faultline-"+m.Row)
		if err := m.Build(context.Background(), root, binary); err != nil {
			return missed, err
		}
		var counts []int
		var by []string
		for i := range ranges {
			n, invariant, err := search(binary, m, 1+i*seeds, seeds)
			if err != nil {
				return missed, fmt.Errorf("row %s: %w", m.Row, err)
			}
			counts = append(counts, n)
			if invariant != "" && !slices.Contains(by, invariant) {
				by = append(by, invariant)
			}
		}
		os.Remove(binary)
		row := fmt.Sprintf("%s\t%s\t%s\t%s\t%s\t%s", m.Row, m.Scenario, strings.Join(by, ","), median(counts, seeds), list(counts, seeds), m.Report)
		fmt.Fprintln(tw, row)
		fmt.Fprintln(os.Stderr, strings.ReplaceAll(row, "\t", "  "))
		if slices.Max(counts) > seeds {
			missed++
		}
	}
	return missed, tw.Flush()
}

func median(counts []int, seeds int) string {
	s := slices.Sorted(slices.Values(counts))
	return count(s[len(s)/2], seeds)
}

func list(counts []int, seeds int) string {
	var out []string
	for _, c := range counts {
		out = append(out, count(c, seeds))
	}
	return strings.Join(out, " ")
}

// count shows a number of seeds; more than there are means not at all.
func count(n, seeds int) string {
	if n > seeds {
		return "missed"
	}
	return fmt.Sprint(n)
}

// search runs the mutated program over a range of seeds and returns how many it took until one of the row's invariants was reported, and which.
func search(binary string, m mutants.Mutant, first, seeds int) (int, string, error) {
	cmd := exec.Command(binary, "run", m.Scenario, "--seeds", fmt.Sprintf("%d..%d", first, first+seeds-1), "--json", "--self-check", "0")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 0, "", err
	}
	if err := cmd.Start(); err != nil {
		return 0, "", err
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 16<<20)
	seen := 0
	for lines.Scan() {
		var l struct {
			reports.Line
			Summary bool `json:"summary"`
		}
		if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
			return 0, "", fmt.Errorf("line %q: %w", lines.Text(), err)
		}
		if l.Summary {
			break
		}
		seen++
		for _, v := range l.Violations {
			if slices.Contains(m.Invariants, v.Invariant) {
				return seen, v.Invariant, nil
			}
		}
	}
	if seen < seeds {
		return 0, "", fmt.Errorf("the program ended after %d of %d runs: %v", seen, seeds, lines.Err())
	}
	return seeds + 1, "", nil
}
