package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"faultline/reports"
	"faultline/workloads/campaign"
	"faultline/workloads/scenario"
	"faultline/workloads/trial"
)

// runFlags are the flags of run.
type runFlags struct {
	seeds     string
	workers   int
	budget    time.Duration
	out       string
	json      bool
	junit     string
	input     string
	bug       string
	policy    string
	failFast  bool
	selfCheck int
	until     time.Duration     // of a replay
	without   []int             // of a replay: numbers of faults
	files     map[string]string // scenario name -> file that it was read from, if not one that ships
}

func runCommand() *cobra.Command {
	var f runFlags
	c := &cobra.Command{
		Use:   "run [SCENARIO...]",
		Short: "Run scenarios over seeds and judge every promise",
		Long: `Run scenarios over seeds and judge every promise. A scenario is the name of one that ships (see "faultline scenarios") or a file.
Without any, all that ship are run.

Exit codes: 0 all clean, 1 a promise was broken or could not be judged, 2 bad usage or scenario, 130 interrupted.`,
		Example: `  faultline run rebalance-storm --seeds 1..200
  faultline run my-scenario.yaml --seeds 1..1000 --time-budget 10m --junit junit.xml --out failures
  faultline run consumer-crash --seeds 1 --input /var/log/syslog
  faultline run consumer-crash --seeds 1..200 --bug C7 --fail-fast`,
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args) },
	}
	c.Flags().StringVar(&f.seeds, "seeds", "1..20", "seeds to run: 7, 1..200 or 1..10,20")
	c.Flags().IntVar(&f.workers, "workers", 0, "worlds that run at the same time, at most 256 (default: one a processor)")
	c.Flags().DurationVar(&f.budget, "time-budget", 0, "end after this much wall time: start no further run and cut those under way")
	c.Flags().StringVar(&f.out, "out", "", "folder for a bundle of each failure: scenario, history, trace, timeline")
	c.Flags().BoolVar(&f.json, "json", false, "print one JSON object a line: each run, then a summary")
	c.Flags().StringVar(&f.junit, "junit", "", "write JUnit XML to this file")
	c.Flags().StringVar(&f.input, "input", "", "each line of this file is a message, instead of the scenario's workload")
	c.Flags().StringVar(&f.bug, "bug", "", "plant a bug of the catalogue first, by its row (from a source checkout): "+bugRows())
	c.Flags().StringVar(&f.policy, "policy", "random", "scheduling policy: random, fifo or pct")
	c.Flags().BoolVar(&f.failFast, "fail-fast", false, "start no run after the first failure")
	c.Flags().IntVar(&f.selfCheck, "self-check", 25, "repeat the first of so many seeds and compare the hashes; 0: never")
	return c
}

func (f *runFlags) run(cmd *cobra.Command, args []string) error {
	if err := noEmpty(cmd); err != nil {
		return err
	}
	if f.bug != "" {
		return plantBug(cmd, f.bug)
	}
	scenarios, err := f.loadScenarios(args)
	if err != nil {
		return err
	}
	seeds, err := scenario.ParseSeeds(f.seeds)
	if err != nil {
		return err
	}
	policy, err := parsePolicy(f.policy)
	if err != nil {
		return err
	}
	if f.workers < 0 || f.selfCheck < 0 || f.budget < 0 {
		return fmt.Errorf("found --workers %d, --self-check %d, --time-budget %v: none of them may be negative", f.workers, f.selfCheck, f.budget)
	}
	if f.out != "" {
		if err := reports.Folder(f.out); err != nil {
			return fmt.Errorf("--out: %w", err)
		}
	}
	var junit *os.File
	if f.junit != "" {
		if junit, err = os.Create(f.junit); err != nil {
			return fmt.Errorf("--junit: %w", err)
		}
		defer junit.Close()
	}
	stop, release := onInterrupt()
	defer release()
	rep := &reporter{flags: f, stdout: bufio.NewWriter(cmd.OutOrStdout()), stop: stop}
	rep.bar = newProgress(len(scenarios)*len(seeds), f.json)
	c := &campaign.Campaign{
		Scenarios: scenarios, Seeds: seeds, Workers: f.workers, Budget: f.budget, FailFast: f.failFast, SelfCheck: f.selfCheck,
		Options: trial.Options{Policy: policy}, Done: rep.done,
		Stop: func() bool { return stop() || rep.failed() },
	}
	rep.scenarios = map[string]*scenario.Scenario{}
	for i, s := range scenarios {
		rep.scenarios[s.Name] = scenarios[i]
	}
	sum := c.Run()
	rep.bar.finish()
	return rep.finish(sum, junit)
}

// reporter tells of results as they come.
type reporter struct {
	flags     *runFlags
	stdout    *bufio.Writer
	bar       *progress
	stop      func() bool
	scenarios map[string]*scenario.Scenario
	table     reports.Table
	junit     reports.JUnit
	errs      errBox
}

func (p *reporter) failed() bool { return p.errs.get() != nil }

// done is told of each result, in order.
func (p *reporter) done(r *trial.Result) {
	p.bar.add(1)
	if r.Err != nil {
		p.errs.set(r.Err)
		return
	}
	again := p.flags.reproduce(p.scenarios[r.Scenario], r.Seed)
	p.table.Add(r)
	p.junit.Add(r, again)
	if p.flags.json {
		p.errs.set(reports.WriteJSON(p.stdout, reports.NewLine(r, again)))
		p.errs.set(p.stdout.Flush())
	} else if r.Verdict != trial.Pass {
		p.bar.clear()
		p.tell(r, again)
	}
	if r.Verdict != trial.Pass && p.flags.out != "" {
		dir := filepath.Join(p.flags.out, fmt.Sprintf("%s-%d", r.Scenario, r.Seed))
		policy, _ := parsePolicy(p.flags.policy)
		_, err := reports.Bundle(dir, p.scenarios[r.Scenario], r.Seed, trial.Options{Policy: policy}, again)
		p.errs.set(err)
	}
}

// tell prints a run that did not pass.
func (p *reporter) tell(r *trial.Result, again string) {
	tellResult(p.stdout, r)
	fmt.Fprintf(p.stdout, "  reproduce: %s\n", again)
	p.errs.set(p.stdout.Flush())
}

func tellResult(w io.Writer, r *trial.Result) {
	fmt.Fprintf(w, "%s %s seed %d, hash %016x, %v of virtual time, %d events\n", r.Verdict, r.Scenario, r.Seed, r.Hash, r.Virtual, r.Events)
	for _, v := range r.Violations {
		fmt.Fprintf(w, "  %s\n", v)
	}
	for _, u := range r.Unjudged {
		fmt.Fprintf(w, "  not judged: %s\n", u)
	}
}

// finish prints the summary and turns it into an exit code.
func (p *reporter) finish(sum *campaign.Summary, junit *os.File) error {
	if junit != nil {
		p.errs.set(p.junit.Write(junit))
		p.errs.set(junit.Close())
	}
	interrupted := p.stop()
	if p.flags.json {
		p.errs.set(reports.WriteJSON(p.stdout, reports.NewSummary(sum, interrupted)))
	} else {
		p.errs.set(p.table.Write(p.stdout))
		fmt.Fprintf(p.stdout, "%d runs in %v: %d passed, %d failed, %d inconclusive, %d skipped; %d repeated with the same hash\n",
			sum.Trials, sum.Wall.Round(time.Millisecond), sum.Passed, sum.Failed, sum.Inconclusive, sum.Skipped, sum.Checked)
		if interrupted {
			fmt.Fprintln(p.stdout, "interrupted: this is what was known by then")
		}
	}
	p.errs.set(p.stdout.Flush())
	switch err := p.errs.get(); {
	case err != nil:
		return err
	case !sum.Clean():
		return exit(exitViolation)
	case interrupted:
		return exit(exitInterrupted)
	}
	return nil
}
