package reports

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/dustin/go-humanize"

	"faultline/workloads/trial"
)

// Table sums up a campaign by scenario, for people.
type Table struct {
	rows  []*row
	index map[string]*row
}

type row struct {
	scenario                       string
	runs, pass, fail, inconclusive int
	virtual, wall                  time.Duration
	produced, delivered, dups      int64
	broken                         map[string]int // invariant -> runs
}

// Add counts a result.
func (t *Table) Add(r *trial.Result) {
	if t.index == nil {
		t.index = map[string]*row{}
	}
	w := t.index[r.Scenario]
	if w == nil {
		w = &row{scenario: r.Scenario, broken: map[string]int{}}
		t.index[r.Scenario] = w
		t.rows = append(t.rows, w)
	}
	w.runs++
	switch r.Verdict {
	case trial.Pass:
		w.pass++
	case trial.Fail:
		w.fail++
	default:
		w.inconclusive++
	}
	w.virtual += r.Virtual
	w.wall += r.Wall
	w.produced += r.Produced
	w.delivered += r.Delivered
	w.dups += r.Duplicates
	seen := map[string]bool{}
	for _, v := range r.Violations {
		if !seen[v.Invariant] {
			seen[v.Invariant] = true
			w.broken[v.Invariant]++
		}
	}
}

// Write prints the table: a row a scenario, in the order in which they came.
func (t *Table) Write(out io.Writer) error {
	tw := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(tw, "scenario\truns\tpass\tfail\tinconcl.\tproduced\tdelivered\tduplicates\tvirtual\tspeed\t violated\t")
	for _, r := range t.rows {
		speed := "-"
		if r.wall > 0 {
			speed = humanize.Comma(int64(r.virtual/r.wall)) + "x"
		}
		fmt.Fprintf(tw, "%s\t%d\t%d\t%d\t%d\t%s\t%s\t%s\t%s\t%s\t %s\t\n", r.scenario, r.runs, r.pass, r.fail, r.inconclusive,
			humanize.Comma(r.produced), humanize.Comma(r.delivered), humanize.Comma(r.dups), r.virtual.Round(time.Second), speed, r.violated())
	}
	return tw.Flush()
}

// violated lists the broken invariants with the number of runs, the most frequent first.
func (r *row) violated() string {
	if len(r.broken) == 0 {
		return "-"
	}
	type count struct {
		invariant string
		n         int
	}
	var counts []count
	for i, n := range r.broken {
		counts = append(counts, count{i, n})
	}
	slices.SortFunc(counts, func(a, b count) int { return cmp.Or(b.n-a.n, cmp.Compare(a.invariant, b.invariant)) })
	var parts []string
	for _, c := range counts {
		parts = append(parts, fmt.Sprintf("%s:%d", c.invariant, c.n))
	}
	return strings.Join(parts, " ")
}
