package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"faultline/faults/quantity"
	"faultline/scenarios"
	"faultline/sim"
	"faultline/workloads/scenario"
)

// loadScenarios finds scenarios by name or file; none means all that ship. With an input file its lines are the workload.
func (f *runFlags) loadScenarios(args []string) ([]*scenario.Scenario, error) {
	f.files = map[string]string{}
	if len(args) == 0 {
		args = scenarios.Names()
	}
	var out []*scenario.Scenario
	seen := map[string]bool{}
	for _, a := range args {
		sc, err := loadScenario(a)
		if err != nil {
			return nil, err
		}
		if seen[sc.Name] {
			return nil, fmt.Errorf("scenario %s is given twice", sc.Name)
		}
		seen[sc.Name] = true
		if isFile(a) {
			f.files[sc.Name] = a
		}
		if f.input != "" {
			if err := sc.UseInput(f.input); err != nil {
				return nil, err
			}
		}
		out = append(out, sc)
	}
	return out, nil
}

func loadScenario(arg string) (*scenario.Scenario, error) {
	if isFile(arg) {
		return scenario.Load(arg)
	}
	names := scenarios.Names()
	for _, n := range names {
		if n == arg {
			return scenarios.Load(n)
		}
	}
	return nil, fmt.Errorf("no scenario is named %q%s; these ship: %s (a file needs a slash or ends in .yaml)", arg, quantity.DidYouMean(arg, names), strings.Join(names, ", "))
}

func isFile(arg string) bool {
	return strings.ContainsRune(arg, filepath.Separator) || strings.HasSuffix(arg, ".yaml") || strings.HasSuffix(arg, ".yml")
}

func parsePolicy(name string) (sim.Policy, error) {
	for _, p := range []sim.Policy{sim.Random, sim.FIFO, sim.PCT} {
		if p.String() == name {
			return p, nil
		}
	}
	return 0, fmt.Errorf("--policy %q: allowed is random, fifo, pct", name)
}

// reproduce is the command that runs one seed again.
func (f *runFlags) reproduce(sc *scenario.Scenario, seed uint64) string {
	what := sc.Name
	if f.files[sc.Name] != "" {
		what = f.files[sc.Name]
	}
	parts := []string{program(), "replay", shellWord(what), "--seed", fmt.Sprint(seed)}
	if f.input != "" {
		parts = append(parts, "--input", shellWord(f.input))
	}
	if f.policy != sim.Random.String() {
		parts = append(parts, "--policy", f.policy)
	}
	if f.until > 0 {
		parts = append(parts, "--until", f.until.String())
	}
	if len(f.without) > 0 {
		parts = append(parts, "--without", numbers(f.without))
	}
	if bug := os.Getenv(plantedBug); bug != "" {
		parts = append(parts, "--bug", bug)
	}
	return strings.Join(parts, " ")
}

// leaveOut checks the numbers of the faults that a replay leaves out against what the seed draws.
func (f *runFlags) leaveOut(sc *scenario.Scenario, seed uint64) error {
	have := len(sc.Draw(seed).Faults)
	for _, n := range f.without {
		if n < 1 || n > have {
			return fmt.Errorf("--without %d: seed %d of %s draws %d faults, numbered from 1; see: %s scenarios show %s --seed %d", n, seed, sc.Name, have, program(), sc.Name, seed)
		}
	}
	return nil
}

// numbers writes a list as --without takes it.
func numbers(list []int) string {
	return strings.ReplaceAll(strings.Trim(fmt.Sprint(list), "[]"), " ", ",")
}

// program is how this program was started, in words that work again.
func program() string {
	if strings.Contains(os.Args[0], "go-build") || os.Getenv(plantedBug) != "" {
		return "go run ./cmd/faultline"
	}
	return os.Args[0]
}

func shellWord(s string) string {
	if s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./", r)
	}) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// noEmpty refuses a flag that was given nothing, such as --bug "$UNSET": it would quietly mean that it was not given.
func noEmpty(cmd *cobra.Command) error {
	var err error
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if f.Value.String() == "" && err == nil {
			err = fmt.Errorf("--%s is given nothing; leave it out or give it a value", f.Name)
		}
	})
	return err
}
