package main

import (
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"faultline/reports"
	"faultline/reports/measured"
	"faultline/workloads/bench"
	"faultline/workloads/campaign"
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
		Long: `Measure throughput on simulated hardware and draw it. The folder gets SUITE.html, a page of everything; pictures as PNG and SVG with their data as CSV; SUITE.figures.csv,
every figure; SUITE.bench.txt, the same for benchstat; and SUITE.json, of which "faultline report" makes all of it again. The same seeds, profile and build give the same bytes.
Without a suite, list suites and profiles.

With --real the same servers and clients run on this machine, and the prediction of the profile is put beside what was measured; "faultline calibrate" makes the
profile of this machine. Before and after each run it is measured how fast the processor is at that moment; when that is more than a tenth off what the profile says, the report warns, for the
prediction is of another moment. With --against the same load is put on a system that runs already.`,
		Example: `  faultline bench producer-batch --out out/bench
  faultline bench producer-batch --real --profile ./this-machine.yaml
  faultline bench producer-batch --real --against kafka://127.0.0.1:9092`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := noEmpty(cmd); err != nil {
				return err
			}
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
			if err := reports.Folder(out); err != nil {
				return fmt.Errorf("--out: %w", err)
			}
			if real.real || len(real.against) > 0 {
				if !cmd.Flags().Changed("seeds") {
					list = []uint64{1, 2, 3}
				}
				return real.run(cmd.OutOrStdout(), suite, p, list, again(cmd, args[0]), out, json)
			}
			return runSuite(cmd.OutOrStdout(), suite, p, list, again(cmd, args[0]), out, json)
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

// again is the line to paste that does a bench again. It does not name the folder, which changes nothing.
func again(c *cobra.Command, suite string) string {
	line := "faultline bench " + quoted(suite)
	c.Flags().Visit(func(f *pflag.Flag) {
		switch list, many := f.Value.(pflag.SliceValue); {
		case f.Name == "out" || f.Name == "json":
		case many:
			for _, v := range list.GetSlice() {
				line += " --" + f.Name + " " + quoted(v)
			}
		case f.Value.Type() == "bool":
			line += " --" + f.Name
		default:
			line += " --" + f.Name + " " + quoted(f.Value.String())
		}
	})
	return line
}

// quoted is a word as a shell takes it. A password in an address is not for reports.
func quoted(word string) string {
	if u, err := url.Parse(word); err == nil && strings.Contains(word, "://") {
		word = u.Redacted()
	}
	if word != "" && !strings.ContainsFunc(word, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("./:,@%+=_-", r)
	}) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// runSuite measures on simulated hardware. command is the line to paste that does it again.
func runSuite(w io.Writer, s *bench.Suite, p *bench.Profile, seeds []uint64, command, out string, json bool) error {
	if err := systemsOf(s, bench.SystemOf); err != nil {
		return err
	}
	campaign.HugePages()
	interrupted, release := onInterrupt()
	defer release()
	var failed error
	k := &tally{total: len(s.Series) * len(s.Sweep.Values) * len(seeds)}
	k.bar = newProgress(k.total, json)
	o, err := s.Run(k.arm(simulated(p)), seeds, func() bool { return interrupted() || failed != nil }, func(c *bench.Curve, pt *bench.Point) {
		if json && failed == nil {
			failed = printFigures(w, s, p.Name, c, pt)
		}
	})
	k.bar.finish()
	cut := errors.Is(err, bench.ErrStopped)
	if cut {
		err = nil
		k.tellCut(failed == nil)
	}
	if o.Empty() {
		return orInterrupted(errors.Join(failed, err), cut)
	}
	o.Profile, o.Arm = p.Name, measured.Simulated
	guarantees(o, bench.SystemOf)
	run := measured.New(o, measured.Origin{Build: reports.Build(), Command: command, ProfileFile: string(p.Source())})
	// Files first: whoever reads the table may have gone.
	wrote, saving := saveRuns(out, run)
	if !json {
		failed = errors.Join(failed, run.WriteTable(w))
		_, e := io.WriteString(w, wrote)
		failed = errors.Join(failed, e)
	}
	return orInterrupted(errors.Join(failed, err, saving), cut)
}

// orInterrupted is the error, or that the user wanted no more.
func orInterrupted(err error, cut bool) error {
	if err == nil && cut {
		return exit(exitInterrupted)
	}
	return err
}

// simulated is the arm on a profile's hardware.
func simulated(p *bench.Profile) bench.Arm {
	return func(c *bench.Cell, seed uint64, stop func() bool) (*bench.Result, error) {
		system, err := bench.SystemOf(c)
		if err != nil {
			return nil, err
		}
		return bench.Simulate(c, system, p, seed, stop)
	}
}

// systemsOf finds the system of every series before anything is measured.
func systemsOf(s *bench.Suite, find func(*bench.Cell) (*bench.System, error)) error {
	for i := range s.Series {
		c, err := s.Cell(&s.Series[i], s.Sweep.Values[0])
		if err != nil {
			return err
		}
		if _, err := find(c); err != nil {
			return err
		}
	}
	return nil
}

// guarantees notes what the system of each curve promises.
func guarantees(o *bench.Outcome, find func(*bench.Cell) (*bench.System, error)) {
	for i := range o.Curves {
		if c, err := o.Suite.Cell(&o.Suite.Series[i], o.Suite.Sweep.Values[0]); err == nil {
			if system, err := find(c); err == nil {
				o.Curves[i].Guarantee = system.Guarantee
			}
		}
	}
}

// tally counts the runs of an arm, and shows them on a bar.
type tally struct {
	bar         *progress
	done, total int
}

func (k *tally) arm(run bench.Arm) bench.Arm {
	return func(c *bench.Cell, seed uint64, stop func() bool) (*bench.Result, error) {
		r, err := run(c, seed, stop)
		if err == nil {
			k.done++
			k.bar.add(1)
		}
		return r, err
	}
}

// tellCut says how far it came.
func (k *tally) tellCut(asked bool) {
	if asked {
		fmt.Fprintf(os.Stderr, "interrupted after %d of %d runs\n", k.done, k.total)
	}
}

// saveRuns writes the page, the pictures and the data, and says so.
func saveRuns(out string, runs ...*measured.Run) (wrote string, err error) {
	names, err := measured.SaveFiles(out, runs...)
	if err != nil {
		return "", fmt.Errorf("--out: %w", err)
	}
	return fmt.Sprintf("wrote %s and %d more files\n", filepath.Join(out, names[len(names)-1]), len(names)-1), nil
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
