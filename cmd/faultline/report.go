package main

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"faultline/reports"
	"faultline/reports/measured"
	"faultline/workloads/bench"
)

func reportCommand() *cobra.Command {
	var out string
	c := &cobra.Command{
		Use:   "report PATH...",
		Short: "Make page, pictures and data again from runs of bench, several together; compare two",
		Long: `Make page, pictures and data again from runs of bench. PATH is a SUITE.json, or a folder with some. Pieces of one measurement, like shards of its seeds, are put together; a simulated
run beside a real one of the same suite is its prediction, with the error; other runs stand one after the other.`,
		Example: "  faultline report shard-1 shard-2 --out out/report\n  faultline report diff out/before out/after",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := noEmpty(cmd); err != nil {
				return err
			}
			runs, err := measured.Load(args...)
			if err != nil {
				return err
			}
			names, err := measured.SaveFiles(out, runs...)
			if err != nil {
				return fmt.Errorf("--out: %w", err)
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "wrote %s and %d more files\n", filepath.Join(out, names[len(names)-1]), len(names)-1)
			return err
		},
	}
	c.Flags().StringVar(&out, "out", "out/report", "folder for the page, pictures and data")
	c.AddCommand(diffCommand())
	return c
}

func diffCommand() *cobra.Command {
	var (
		least   float64
		metrics []string
		all     bool
		json    bool
	)
	c := &cobra.Command{
		Use:   "diff BEFORE AFTER",
		Short: "Compare two runs of bench; exit 1 if something got worse",
		Long: "Compare two runs of bench, each a SUITE.json or a folder with some: the figures that the suite draws, of suites and arms that both have. Exit codes: 0 nothing got worse, 1 something did,\n2 they cannot be compared.\n\n" +
			measured.Rule{Least: 0.03}.String(),
		Example: "  faultline report diff out/before out/after --least 5",
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			slices.Sort(metrics)
			rule := measured.Rule{Least: least / 100, Metrics: slices.Compact(metrics)}
			if err := noEmpty(cmd); err != nil {
				return err
			}
			if !(least >= 0 && least <= 100) {
				return fmt.Errorf("--least: found %v, allowed is a percentage from 0 to 100", least)
			}
			for _, m := range metrics {
				if !slices.ContainsFunc(bench.Metrics, func(b struct{ Name, Unit string }) bool { return b.Name == m }) {
					return fmt.Errorf("--metric: found %q, allowed is one of %s", m, metricNames())
				}
			}
			before, err := measured.Load(args[0])
			if err != nil {
				return err
			}
			after, err := measured.Load(args[1])
			if err != nil {
				return err
			}
			d, err := measured.Compare(before, after, rule)
			if err != nil {
				return err
			}
			if err := printDiff(cmd.OutOrStdout(), d, rule, all, json); err != nil {
				return err
			}
			if d.Count(measured.Worse) > 0 {
				return exit(exitViolation)
			}
			return nil
		},
	}
	c.Flags().Float64Var(&least, "least", 3, "smallest change of a median that counts, in percent")
	c.Flags().StringSliceVar(&metrics, "metric", nil, "judge these instead of what the suite draws: "+metricNames())
	c.Flags().BoolVar(&all, "all", false, "print the figures that are the same, too")
	c.Flags().BoolVar(&json, "json", false, "print one JSON object a figure, and a summary")
	return c
}

func metricNames() string {
	var names []string
	for _, m := range bench.Metrics {
		names = append(names, m.Name)
	}
	return strings.Join(names, ", ")
}

// diffSummary is the JSON object at the end.
type diffSummary struct {
	Summary bool     `json:"summary"` // true: tells it from a figure
	Figures int      `json:"figures"`
	Same    int      `json:"same"`
	Better  int      `json:"better"`
	Worse   int      `json:"worse"`
	Unsure  int      `json:"unsure"`
	Notes   []string `json:"notes"`
}

func printDiff(w io.Writer, d *measured.Comparison, rule measured.Rule, all, json bool) error {
	sum := diffSummary{true, len(d.Changes), d.Count(measured.Same), d.Count(measured.Better), d.Count(measured.Worse), d.Count(measured.Unsure), slices.Concat([]string{}, d.Notes)}
	if json {
		var errs []error
		for i := range d.Changes {
			errs = append(errs, reports.WriteJSON(w, d.Changes[i]))
		}
		return errors.Join(append(errs, reports.WriteJSON(w, sum))...)
	}
	for _, n := range d.Notes {
		fmt.Fprintln(w, "note:", n)
	}
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	if all || sum.Same < sum.Figures {
		fmt.Fprintln(tw, "suite\tarm\tseries\tvalue\tfigure\tbefore\tafter\tmoved\trepetitions\tp\tverdict\t")
	}
	for i := range d.Changes {
		c := &d.Changes[i]
		if c.Verdict == measured.Same && !all {
			continue
		}
		p := "-"
		if c.P > 0 {
			p = fmt.Sprintf("%.2g", c.P)
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%+.1f %%\t%d, %d\t%s\t%s\t\n", c.Suite, c.Arm, c.Series, c.Value, c.Metric, measured.Shown(c.Metric, c.Before), measured.Shown(c.Metric, c.After),
			c.Moved*100, c.Repetitions[0], c.Repetitions[1], p, c.Verdict)
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(w, "%d figures: %d the same, %d better, %d worse, %d unsure\n\n%s\n", sum.Figures, sum.Same, sum.Better, sum.Worse, sum.Unsure, rule)
	return nil
}
