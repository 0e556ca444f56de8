package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"faultline/reports"
	"faultline/reports/measured"
	"faultline/workloads/bench"
	"faultline/workloads/scenario"
)

func benchCommand() *cobra.Command {
	var (
		profile string
		out     string
		seeds   string
		json    bool
	)
	c := &cobra.Command{
		Use:   "bench [SUITE]",
		Short: "Measure throughput on simulated hardware and draw it",
		Long: `Measure throughput on simulated hardware and draw it. The folder gets SUITE.html, a page of everything; pictures as PNG and SVG with their data as CSV; SUITE.figures.csv,
every figure; SUITE.bench.txt, the same for benchstat; and SUITE.json, of which "faultline report" makes all of it again. The same seeds, profile and build give the same bytes.
Without a suite, list suites and profiles.`,
		Example: "  faultline bench producer-batch --out out/bench",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return listSuites(cmd.OutOrStdout())
			}
			suite, err := bench.LoadSuite(args[0])
			if err != nil {
				return err
			}
			p, err := bench.LoadProfile(profile)
			if err != nil {
				return err
			}
			list, err := scenario.ParseSeeds(seeds)
			if err != nil {
				return err
			}
			if err := os.MkdirAll(out, 0o755); err != nil {
				return fmt.Errorf("--out: %w", err)
			}
			again := fmt.Sprintf("faultline bench %s --profile %s --seeds %s", args[0], profile, seeds)
			return runSuite(cmd.OutOrStdout(), suite, p, list, again, out, json)
		},
	}
	c.Flags().StringVar(&profile, "profile", "virtio-2026", "hardware profile")
	c.Flags().StringVar(&out, "out", "out/bench", "folder for pictures and data")
	c.Flags().StringVar(&seeds, "seeds", "1", "seeds: the repetitions of each point")
	c.Flags().BoolVar(&json, "json", false, "print one JSON object a point")
	return c
}

func listSuites(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "suites")
	for _, name := range bench.Suites() {
		s, err := bench.LoadSuite(name)
		if err != nil {
			return err
		}
		fmt.Fprintf(tw, "  %s\t%s\n", name, s.About)
	}
	fmt.Fprintln(tw, "profiles")
	for _, name := range bench.Profiles() {
		p, err := bench.LoadProfile(name)
		if err != nil {
			return err
		}
		fmt.Fprintf(tw, "  %s\t%s\n", name, p.About)
	}
	return tw.Flush()
}

// point is the JSON object of one figure.
type point struct {
	Suite   string  `json:"suite"`
	Profile string  `json:"profile"`
	Series  string  `json:"series"`
	Value   string  `json:"value"`
	Unit    string  `json:"unit"` // of the value
	Metric  string  `json:"metric"`
	Of      string  `json:"metric_unit"`
	Median  float64 `json:"median"`
	Low     float64 `json:"low"`
	High    float64 `json:"high"`
}

// runSuite measures. command is the line to paste that does it again, which does not depend on the folder.
func runSuite(w io.Writer, s *bench.Suite, p *bench.Profile, seeds []uint64, command, out string, json bool) error {
	stop, release := onInterrupt()
	defer release()
	total := len(s.Series) * len(s.Sweep.Values)
	bar := newProgress(total, json)
	system := bench.Simulated()
	arm := func(c *bench.Cell, seed uint64, stop func() bool) (*bench.Result, error) {
		return bench.Simulate(c, system, p, seed, stop)
	}
	ready := 0
	var failed error
	o, err := s.Run(arm, seeds, stop, func(c *bench.Curve, pt *bench.Point) {
		ready++
		bar.add(1)
		if json && failed == nil {
			failed = printFigures(w, s, p, c, pt)
		}
	})
	bar.finish()
	cut := errors.Is(err, bench.ErrStopped)
	if err := errors.Join(failed, err); err != nil && !cut {
		return err
	}
	o.Profile, o.Arm = p.Name, "simulated"
	if cut {
		fmt.Fprintf(os.Stderr, "interrupted after %d of %d points\n", ready, total)
		if ready == 0 {
			return exit(exitInterrupted)
		}
	}
	run := measured.New(o, measured.Origin{Build: reports.Build(), Command: command, ProfileFile: string(p.Source())})
	if !json {
		if err := run.WriteTable(w); err != nil {
			return err
		}
	}
	names, err := measured.SaveFiles(out, run)
	if err != nil {
		return fmt.Errorf("--out: %w", err)
	}
	if !json {
		fmt.Fprintf(w, "wrote %s and %d more files\n", filepath.Join(out, names[len(names)-1]), len(names)-1)
	}
	if cut {
		return exit(exitInterrupted)
	}
	return nil
}

// printFigures prints what was measured of a point, an object a line.
func printFigures(w io.Writer, s *bench.Suite, p *bench.Profile, c *bench.Curve, pt *bench.Point) error {
	for _, m := range bench.Metrics {
		f, ok := pt.Figure(m.Name)
		if !ok {
			continue
		}
		if err := reports.WriteJSON(w, point{s.Name, p.Name, c.Name, pt.Value, s.Sweep.Unit, m.Name, m.Unit, f.Median, f.Low, f.High}); err != nil {
			return err
		}
	}
	return nil
}
