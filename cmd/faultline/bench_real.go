package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"faultline/reports"
	"faultline/reports/measured"
	"faultline/workloads/bench"
	"faultline/workloads/bench/peers"
)

// realFlags are the flags of a bench on this machine.
type realFlags struct {
	real    bool
	against []string
	unpin   bool
	dir     string
}

func (f *realFlags) register(c *cobra.Command) {
	c.Flags().BoolVar(&f.real, "real", false, "measure on this machine (Linux), too: each server is a process, the clients are in this one")
	c.Flags().StringArrayVar(&f.against, "against", nil, "measure a system that runs already, by its address, like kafka://127.0.0.1:9092; may be given several times. Without --real nothing else is measured")
	c.Flags().StringVar(&f.dir, "dir", "", "folder for the files of the servers on this machine (default: the system's for temporary files)")
	c.Flags().BoolVar(&f.unpin, "no-pin", false, "let servers and clients run on all processors, instead of half of them each")
}

// serverCommand is what bench --real starts for each server.
func serverCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "bench-server",
		Short:  "Run a server of a bench --real, as standard input says, until that ends",
		Args:   cobra.NoArgs,
		Hidden: true,
		RunE:   func(*cobra.Command, []string) error { return bench.ServeMachine(os.Stdin, os.Stdout, benchSystem) },
	}
}

// benchSystem finds the system of a series: a name, or the address of one that runs elsewhere.
func benchSystem(c *bench.Cell) (*bench.System, error) {
	name := c.Series.System
	if !strings.Contains(name, "://") {
		return bench.SystemOf(c)
	}
	u, err := url.Parse(name)
	if err != nil {
		return nil, fmt.Errorf("--against: %w", err)
	}
	if u.Scheme == "kafka" {
		return bench.Kafka(c, strings.Split(u.Host, ",")), nil
	}
	system, err := peers.Open(c, name)
	if err != nil {
		return nil, fmt.Errorf("--against: kafka://HOST:PORT, or one of others: %w", err)
	}
	return system, nil
}

// run measures a suite on this machine and puts the prediction beside it.
func (f *realFlags) run(w io.Writer, s *bench.Suite, p *bench.Profile, seeds []uint64, command, out string, json bool) error {
	full := s.Against(f.against, !f.real)
	if len(full.Series) == 0 {
		return fmt.Errorf("--against: suite %s has no series of faultline that another system could be driven like", s.Name)
	}
	if err := systemsOf(full, benchSystem); err != nil {
		return err
	}
	began := time.Now().UTC().Format(time.RFC3339)
	host := onThisMachine(f.unpin, f.dir)
	stop, release := onInterrupt()
	defer release()
	arm := bench.Arm(host.Measure)
	if f.real {
		speed, err := bench.NewSpeedometer(p, !f.unpin)
		if err != nil {
			return err
		}
		defer speed.Close()
		arm = speed.Beside(arm)
	}
	found, err := measure(full, arm, seeds, stop, json)
	cut := errors.Is(err, bench.ErrStopped)
	if cut {
		err = nil
	}
	if found.Empty() {
		return orInterrupted(err, cut)
	}
	found.Arm, found.Profile = measured.Real, "this machine"
	origin := measured.Origin{Build: reports.Build(), Command: command, Began: began, Machine: []string{bench.Computer()}}
	if !f.unpin && bench.Pinned() != "" {
		origin.Machine = append(origin.Machine, bench.Pinned())
	}
	runs := []*measured.Run{measured.New(found, origin)}
	var compared []measured.Beside
	note := "" // how fast the machine was
	if f.real && !cut {
		predicted, e := measure(s.Predictable(), simulated(p), seeds[:1], stop, json)
		if cut = errors.Is(e, bench.ErrStopped); !cut {
			err = errors.Join(err, e)
		}
		if !predicted.Empty() {
			predicted.Arm, predicted.Profile = measured.Simulated, p.Name
			runs = append(runs, measured.New(predicted, measured.Origin{Build: origin.Build, Command: command, ProfileFile: string(p.Source())}))
			compared = measured.Predicted(runs[0], runs[1])
			note = measured.SpeedNote(runs[0], runs[1])
		}
	}
	// Files first: whoever reads the tables may have gone.
	wrote, saving := saveRuns(out, runs...)
	if len(compared) > 0 && saving == nil {
		var csv bytes.Buffer
		path := filepath.Join(out, s.Name+"-prediction.csv")
		saving = errors.Join(measured.WriteComparison(&csv, s, compared), reports.SaveFile(path, csv.Bytes()))
		wrote = fmt.Sprintf("wrote %s\n", path) + wrote
	}
	return orInterrupted(errors.Join(f.print(w, s, found, runs[0], compared, p.Name, note, wrote, json), err, saving), cut)
}

// print prints what was measured, and the prediction beside it.
func (f *realFlags) print(w io.Writer, s *bench.Suite, found *bench.Outcome, run *measured.Run, compared []measured.Beside, profile, note, wrote string, json bool) error {
	if json {
		for i := range compared {
			if err := reports.WriteJSON(w, predictionOf(s, &compared[i])); err != nil {
				return err
			}
		}
		for i := range found.Curves {
			for k := range found.Curves[i].Points {
				if err := printFigures(w, s, found.Profile, &found.Curves[i], &found.Curves[i].Points[k]); err != nil {
					return err
				}
			}
		}
		return nil
	}
	if !f.unpin && bench.Pinned() != "" {
		fmt.Fprintf(w, "this machine, %s\n", bench.Pinned())
	}
	if err := run.WriteTable(w); err != nil {
		return err
	}
	if len(compared) > 0 {
		fmt.Fprintf(w, "\npredicted on profile %s beside measured\n", profile)
		if err := printComparison(w, s, compared); err != nil {
			return err
		}
		fmt.Fprintln(w, note)
	}
	_, err := io.WriteString(w, wrote)
	return err
}

// measure runs all cells of a suite with a bar of progress.
func measure(s *bench.Suite, arm bench.Arm, seeds []uint64, stop func() bool, json bool) (*bench.Outcome, error) {
	k := &tally{total: len(s.Series) * len(s.Sweep.Values) * len(seeds)}
	k.bar = newProgress(k.total, json)
	o, err := s.Run(k.arm(arm), seeds, stop, func(*bench.Curve, *bench.Point) {})
	k.bar.finish()
	if errors.Is(err, bench.ErrStopped) {
		k.tellCut(true)
	}
	guarantees(o, benchSystem)
	return o, err
}

// prediction is the JSON object of a figure that was predicted and measured.
type prediction struct {
	Suite     string  `json:"suite"`
	Series    string  `json:"series"`
	Value     string  `json:"value"`
	Metric    string  `json:"metric"`
	Of        string  `json:"metric_unit"`
	Predicted float64 `json:"predicted"`
	Measured  float64 `json:"measured"`
	Low       float64 `json:"measured_low"`
	High      float64 `json:"measured_high"`
	Error     float64 `json:"error"` // of the prediction, as a share of what was measured
	// How fast the processor was, as a share of what the profile says; the prediction times that, and its error. Not of latencies.
	Speed       float64 `json:"speed,omitempty"`
	Scaled      float64 `json:"predicted_at_speed,omitempty"`
	ScaledError float64 `json:"error_at_speed,omitempty"`
}

func predictionOf(s *bench.Suite, c *measured.Beside) prediction {
	return prediction{s.Name, c.Series, c.Value, c.Metric, measured.Unit(c.Metric), c.Other, c.Ours.Median, c.Ours.Low, c.Ours.High, c.Error, c.Speed, c.Scaled, c.ScaledError}
}

func printComparison(w io.Writer, s *bench.Suite, all []measured.Beside) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(tw, "series\t%s\tquantity\tpredicted\tmeasured\tlow\thigh\terror\tspeed\tat speed\terror\t\n", s.Sweep.Label)
	for i := range all {
		c := &all[i]
		fmt.Fprintf(tw, "%s\t%s\t%s %s\t", c.Series, c.Value, c.Metric, measured.Unit(c.Metric))
		for _, v := range []float64{c.Other, c.Ours.Median, c.Ours.Low, c.Ours.High} {
			fmt.Fprintf(tw, "%s\t", humanize.Comma(int64(math.Round(v))))
		}
		fmt.Fprintf(tw, "%+.0f%%\t", 100*c.Error)
		if c.Speed > 0 {
			fmt.Fprintf(tw, "%.2f\t%s\t%+.0f%%", c.Speed, humanize.Comma(int64(math.Round(c.Scaled))), 100*c.ScaledError)
		} else {
			fmt.Fprint(tw, "\t\t")
		}
		fmt.Fprintln(tw, "\t")
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintln(w, measured.Summary(all))
	return err
}
