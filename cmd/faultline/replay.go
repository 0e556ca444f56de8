package main

import (
	"fmt"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"faultline/reports"
	"faultline/workloads/trial"
)

func replayCommand() *cobra.Command {
	var (
		f     runFlags
		seed  uint64
		until time.Duration
	)
	c := &cobra.Command{
		Use:   "replay SCENARIO --seed N",
		Short: "Run one seed again and write all that can be known of it",
		Long: `Run one seed again, bit for bit, and write a bundle: the scenario as it was drawn, the verdict, the history (for people
and for programs) and the trace of every event of the world.`,
		Example: `  faultline replay rebalance-storm --seed 17
  faultline replay failures/swarm-93/scenario.yaml --seed 93 --until 12.5s`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
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
			dir := f.out
			if dir == "" {
				dir = filepath.Join("out", fmt.Sprintf("%s-%d", sc.Name, seed))
			}
			stop, release := onInterrupt()
			defer release()
			again := reproduceLine(&f, sc, seed)
			res, err := reports.Bundle(dir, sc, seed, trial.Options{Policy: policy, Until: until, Stop: stop}, again)
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
			if res.Verdict != trial.Pass {
				return exit(exitViolation)
			}
			return nil
		},
	}
	c.Flags().Uint64Var(&seed, "seed", 0, "the seed (required)")
	c.Flags().DurationVar(&until, "until", 0, "stop at this virtual time; what is owed at the end is not judged then")
	c.Flags().StringVar(&f.out, "out", "", `folder of the bundle (default "out/SCENARIO-SEED")`)
	c.Flags().StringVar(&f.input, "input", "", "each line of this file is a message, instead of the scenario's workload")
	c.Flags().StringVar(&f.bug, "bug", "", "plant a bug of the catalogue first, by its row (from a source checkout)")
	c.Flags().StringVar(&f.policy, "policy", "random", "scheduling policy: random, fifo or pct")
	c.Flags().BoolVar(&f.json, "json", false, "print the result as a JSON object")
	return c
}
