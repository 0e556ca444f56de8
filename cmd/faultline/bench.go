package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"text/tabwriter"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"faultline/reports"
	"faultline/workloads/bench"
	"faultline/workloads/scenario"
)

func benchCommand() *cobra.Command {
	var (
		profile string
		out     string
		seeds   string
		json    bool
		real    realFlags
	)
	c := &cobra.Command{
		Use:   "bench [SUITE]",
		Short: "Measure throughput on simulated hardware, or on this machine, and draw it",
		Long: `Measure throughput on simulated hardware and draw it: SUITE.png, SUITE.svg and SUITE.csv. The same seeds, profile and build give the same bytes.
Without a suite, list suites and profiles.

With --real the same servers and clients run on this machine, and the prediction of the profile is put beside what was measured; "faultline calibrate" makes the
profile of this machine. With --against the same load is put on a system that runs already.`,
		Example: `  faultline bench producer-batch --out out/bench
  faultline bench producer-batch --real --profile ./this-machine.yaml
  faultline bench producer-batch --real --against kafka://127.0.0.1:9092`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return listSuites(cmd.OutOrStdout())
			}
			suite, err := bench.LoadSuite(args[0])
			if err != nil {
				return err
			}
			if profile == "" {
				profile = suite.Profile
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
			if real.real || len(real.against) > 0 {
				if !cmd.Flags().Changed("seeds") {
					list = []uint64{1, 2, 3}
				}
				return real.run(cmd.OutOrStdout(), suite, p, list, out, json)
			}
			return runSuite(cmd.OutOrStdout(), suite, p, list, out, json)
		},
	}
	c.AddCommand(planCommand())
	c.Flags().StringVar(&profile, "profile", "", "hardware profile: one that ships, or the path of a file (default: the suite's)")
	c.Flags().StringVar(&out, "out", "out/bench", "folder for pictures and data")
	c.Flags().StringVar(&seeds, "seeds", "1", "seeds: the repetitions of each point; on this machine 1..3 unless given")
	real.register(c)
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

func runSuite(w io.Writer, s *bench.Suite, p *bench.Profile, seeds []uint64, out string, json bool) error {
	stop, release := onInterrupt()
	defer release()
	total := len(s.Series) * len(s.Sweep.Values)
	bar := newProgress(total, json)
	arm := func(c *bench.Cell, seed uint64, stop func() bool) (*bench.Result, error) {
		system, err := bench.SystemOf(c)
		if err != nil {
			return nil, err
		}
		return bench.Simulate(c, system, p, seed, stop)
	}
	ready := 0
	var failed error
	o, err := s.Run(arm, seeds, stop, func(c *bench.Curve, pt *bench.Point) {
		ready++
		bar.add(1)
		if json && failed == nil {
			failed = printFigures(w, s, p.Name, c, pt)
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
	if !json {
		if err := printTable(w, o); err != nil {
			return err
		}
	}
	if err := writePictures(w, o, out, json); err != nil {
		return err
	}
	if cut {
		return exit(exitInterrupted)
	}
	return nil
}

// writePictures writes an outcome's pictures and their data into a folder.
func writePictures(w io.Writer, o *bench.Outcome, out string, json bool) error {
	for i, curve := range reports.Curves(o) {
		base := filepath.Join(out, o.Suite.Name)
		if i > 0 {
			base += "-" + o.Suite.Pictures[i].Y
		}
		for _, format := range []string{"png", "svg"} {
			if err := writeFile(base+"."+format, func(w io.Writer) error { return curve.WritePicture(w, format) }); err != nil {
				return err
			}
		}
		if err := writeFile(base+".csv", curve.WriteCSV); err != nil {
			return err
		}
		if !json {
			fmt.Fprintf(w, "wrote %s.png, .svg, .csv\n", base)
		}
	}
	return nil
}

// printFigures prints what was measured of a point, an object a line.
func printFigures(w io.Writer, s *bench.Suite, profile string, c *bench.Curve, pt *bench.Point) error {
	for _, m := range bench.Metrics {
		f, ok := pt.Figure(m.Name)
		if !ok {
			continue
		}
		if err := reports.WriteJSON(w, point{s.Name, profile, c.Name, pt.Value, s.Sweep.Unit, m.Name, m.Unit, f.Median, f.Low, f.High}); err != nil {
			return err
		}
	}
	return nil
}

// printTable prints the figures of all points, a line each. With one seed there is no spread to print.
func printTable(w io.Writer, o *bench.Outcome) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	spread := len(o.Seeds) > 1
	header := fmt.Sprintf("series\t%s\t", o.Suite.Sweep.Label)
	var shown []string
	for _, m := range bench.Metrics {
		measured := false
		for i := range o.Curves {
			for k := range o.Curves[i].Points {
				_, ok := o.Curves[i].Points[k].Figure(m.Name)
				measured = measured || ok
			}
		}
		if !measured {
			continue
		}
		shown = append(shown, m.Name)
		header += fmt.Sprintf("%s %s\t", m.Name, m.Unit)
		if spread {
			header += "low\thigh\t"
		}
	}
	fmt.Fprintln(tw, header)
	for i := range o.Curves {
		for k := range o.Curves[i].Points {
			p := &o.Curves[i].Points[k]
			fmt.Fprintf(tw, "%s\t%s\t", o.Curves[i].Name, p.Value)
			for _, name := range shown {
				f, ok := p.Figure(name)
				for _, v := range []float64{f.Median, f.Low, f.High}[:map[bool]int{false: 1, true: 3}[spread]] {
					if ok {
						fmt.Fprintf(tw, "%s\t", humanize.Comma(int64(v)))
					} else {
						fmt.Fprint(tw, "-\t")
					}
				}
			}
			fmt.Fprintln(tw)
		}
	}
	return tw.Flush()
}
