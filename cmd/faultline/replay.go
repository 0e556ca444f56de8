package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"faultline/reports"
	"faultline/sim"
	"faultline/workloads/trial"
)

func replayCommand() *cobra.Command {
	var (
		f    runFlags
		seed uint64
	)
	c := &cobra.Command{
		Use:   "replay SCENARIO --seed N",
		Short: "Run one seed again and write all that can be known of it",
		Long: `Run one seed again, bit for bit, and write a bundle: the scenario as it was drawn, the verdict, the history (for people
and for programs) and the trace of every event of the world.`,
		Example: `  faultline replay rebalance-storm --seed 17
  faultline replay failures/swarm-93/scenario.yaml --seed 93 --until 12.5s
  faultline replay swarm --seed 93 --without 4,7`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("replay needs one scenario, a name or a file; found %d", len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := noEmpty(cmd); err != nil {
				return err
			}
			if f.bug != "" {
				return plantBug(cmd, f.bug)
			}
			if !cmd.Flags().Changed("seed") {
				return fmt.Errorf("replay needs the seed: --seed N")
			}
			scenarios, err := f.loadScenarios(args)
			if err != nil {
				return err
			}
			policy, err := parsePolicy(f.policy)
			if err != nil {
				return err
			}
			sc := scenarios[0]
			if cmd.Flags().Changed("until") && f.until <= 0 {
				return fmt.Errorf("--until %v: want a time after the start, such as 12.5s", f.until)
			}
			dir := f.out
			if dir == "" {
				dir = filepath.Join("out", f.bundleName(sc.Name, seed))
			}
			if reads := f.files[sc.Name]; reads != "" && filepath.Dir(filepath.Clean(reads)) == filepath.Clean(dir) {
				return fmt.Errorf("the bundle would replace %s, which it reads: give another folder with --out", reads)
			}
			if err := f.leaveOut(sc, seed); err != nil {
				return err
			}
			stop, release := onInterrupt()
			defer release()
			again := f.reproduce(sc, seed)
			res, err := reports.Bundle(dir, sc, seed, trial.Options{Policy: policy, Until: f.until, Without: f.without, Stop: stop}, again)
			if err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			if f.json {
				if err := reports.WriteJSON(out, reports.NewLine(res, again)); err != nil {
					return err
				}
			} else {
				tellResult(out, res)
				fmt.Fprintf(out, "  bundle: %s\n", dir)
			}
			if res.Verdict == trial.Inconclusive && stop() {
				fmt.Fprintln(cmd.ErrOrStderr(), "interrupted")
				return exit(exitInterrupted)
			}
			if res.Verdict != trial.Pass {
				return exit(exitViolation)
			}
			return nil
		},
	}
	c.Flags().Uint64Var(&seed, "seed", 0, "the seed (required)")
	c.Flags().DurationVar(&f.until, "until", 0, "stop at this virtual time; what is owed at the end is not judged then")
	c.Flags().IntSliceVar(&f.without, "without", nil, "leave these faults out, by their numbers in the timeline and in \"scenarios show --seed\": 2 or 2,5; no decision about the others shifts")
	c.Flags().StringVar(&f.out, "out", "", `folder of the bundle (default "out/SCENARIO-SEED")`)
	c.Flags().StringVar(&f.input, "input", "", "each line of this file is a message, instead of the scenario's workload")
	c.Flags().StringVar(&f.bug, "bug", "", "plant a bug of the catalogue first, by its row (from a source checkout): "+bugRows())
	c.Flags().StringVar(&f.policy, "policy", "random", "scheduling policy: random, fifo or pct")
	c.Flags().BoolVar(&f.json, "json", false, "print the result as a JSON object")
	return c
}

// bundleName names the folder of a replay by everything that makes it another run.
func (f *runFlags) bundleName(scenario string, seed uint64) string {
	name := fmt.Sprintf("%s-%d", scenario, seed)
	if f.policy != sim.Random.String() {
		name += "-" + f.policy
	}
	if bug := os.Getenv(plantedBug); bug != "" {
		name += "-" + bug
	}
	if f.input != "" {
		name += "-" + filepath.Base(f.input)
	}
	if f.until > 0 {
		name += "-until-" + f.until.String()
	}
	if len(f.without) > 0 {
		name += "-without-" + numbers(f.without)
	}
	return name
}
