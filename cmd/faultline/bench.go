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
	)
	c := &cobra.Command{
		Use:   "bench [SUITE]",
		Short: "Measure throughput on simulated hardware and draw it",
		Long: `Measure throughput on simulated hardware and draw it: SUITE.png, SUITE.svg and SUITE.csv. The same seeds, profile and build give the same bytes.
Without a suite, list suites and profiles.`,
		Example: "  faultline bench producer-batch --out out/bench",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return listSuites(cmd.OutOrStdout())
			}
			suite, err := bench.Find(args[0])
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
			return runSuite(cmd.OutOrStdout(), suite, p, list, seeds, out, json)
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
	for _, s := range bench.Suites {
		fmt.Fprintf(tw, "  %s\t%s\n", s.Name, s.About)
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

// point is the JSON object of one measurement; rates are records a second.
type point struct {
	Suite   string  `json:"suite"`
	Profile string  `json:"profile"`
	Value   int     `json:"value"`
	Unit    string  `json:"unit"`
	Median  float64 `json:"records_per_second"`
	Low     float64 `json:"low"`
	High    float64 `json:"high"`
}

func runSuite(w io.Writer, s *bench.Suite, p *bench.Profile, seeds []uint64, seedText, out string, json bool) error {
	stop, release := onInterrupt()
	defer release()
	curve := &reports.Curve{
		Title: "Producer throughput, simulated", Note: fmt.Sprintf("profile %s, 200-byte messages, one broker, one partition, acks=1, seeds %s", p.Name, seedText),
		X: reports.Axis{Name: s.Setting, Unit: s.Unit, Log: true}, Y: reports.Axis{Name: "throughput", Unit: "records/s"},
		Series: []reports.Series{{Name: "faultline"}},
	}
	bar := newProgress(len(s.Values), json)
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	spread := len(seeds) > 1
	switch {
	case json:
	case spread:
		fmt.Fprintf(tw, "%s\trecords/s\tlow\thigh\t\n", s.Setting)
	default:
		fmt.Fprintf(tw, "%s\trecords/s\t\n", s.Setting)
	}
	for _, v := range s.Values {
		m, err := s.Measure(v, p, seeds, stop)
		if errors.Is(err, bench.ErrStopped) {
			break
		}
		if err != nil {
			return err
		}
		bar.add(1)
		curve.Series[0].Points = append(curve.Series[0].Points, reports.Point{X: float64(v), Y: m.Median, Low: m.Low, High: m.High})
		if json {
			if err := reports.WriteJSON(w, point{s.Name, p.Name, v, s.Unit, m.Median, m.Low, m.High}); err != nil {
				return err
			}
			continue
		}
		fmt.Fprintf(tw, "%d\t%s\t", v, humanize.Comma(int64(m.Median)))
		if spread {
			fmt.Fprintf(tw, "%s\t%s\t", humanize.Comma(int64(m.Low)), humanize.Comma(int64(m.High)))
		}
		fmt.Fprintln(tw)
	}
	bar.finish()
	if err := tw.Flush(); err != nil {
		return err
	}
	if stop() {
		fmt.Fprintf(os.Stderr, "interrupted after %d of %d points\n", len(curve.Series[0].Points), len(s.Values))
		if len(curve.Series[0].Points) == 0 {
			return exit(exitInterrupted)
		}
	}
	base := filepath.Join(out, s.Name)
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
	if stop() {
		return exit(exitInterrupted)
	}
	return nil
}
