// Command marks runs the shipped scenarios and tells which failpoints and marks of the programs they reach: a fault model is only as good as the
// states that it brings about. The places come from the sources, so none can be forgotten. A failpoint that is never passed, one whose misfortune never
// strikes, and a mark that is never true are gaps; each needs a reason in reasons.yaml, and a reason for a place that is reached is wrong too.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"

	"faultline/faults/mutants"
	"faultline/faults/sites"
	"faultline/scenarios"
	"faultline/workloads/campaign"
	"faultline/workloads/scenario"
	"faultline/workloads/trial"
)

// random is the scenario that draws everything; it gets most of the seeds.
const random = "swarm"

func main() {
	o := options{}
	flag.IntVar(&o.swarm, "swarm", 600, "seeds of the scenario "+random)
	flag.IntVar(&o.seeds, "seeds", 20, "seeds of each other scenario")
	flag.IntVar(&o.workers, "workers", 0, "worlds at a time (default: one for each processor)")
	flag.BoolVar(&o.json, "json", false, "print one JSON object")
	flag.BoolVar(&o.all, "all", false, "print every place, not only gaps")
	flag.Parse()
	if flag.NArg() > 0 || o.swarm < 0 || o.seeds < 0 {
		fmt.Fprintln(os.Stderr, "marks: no arguments but flags are allowed, and numbers of seeds from 0 on")
		os.Exit(2)
	}
	clean, err := run(o, os.Stdout, os.Stderr)
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, "marks:", err)
		os.Exit(2)
	case !clean:
		os.Exit(1)
	}
}

type options struct {
	swarm, seeds, workers int
	json, all             bool
}

// run carries the campaigns out, prints the report and tells whether there is nothing to complain of.
func run(o options, out, progress io.Writer) (clean bool, err error) {
	root, err := mutants.Root(".")
	if err != nil {
		return false, err
	}
	list, err := sites.Scan(root)
	if err != nil {
		return false, err
	}
	reasons, err := loadReasons()
	if err != nil {
		return false, err
	}
	tally := newTally(list)
	done := func(r *trial.Result) {
		tally.add(r)
		if r.Verdict != trial.Pass {
			fmt.Fprintf(progress, "%s seed %d: %s (faultline replay %s --seed %d)\n", r.Scenario, r.Seed, r.Verdict, r.Scenario, r.Seed)
		}
	}
	for _, name := range scenarios.Names() {
		sc, err := scenarios.Load(name)
		if err != nil {
			return false, err
		}
		n := o.seeds
		if name == random {
			n = o.swarm
		}
		c := campaign.Campaign{Scenarios: []*scenario.Scenario{sc}, Workers: o.workers, Options: trial.Options{Passages: true}, Done: done}
		for seed := range n {
			c.Seeds = append(c.Seeds, uint64(seed+1))
		}
		c.Run()
	}
	rep := tally.report(reasons)
	if o.json {
		e := json.NewEncoder(out)
		e.SetIndent("", " ")
		err = e.Encode(rep)
	} else {
		err = rep.print(out, o.all)
	}
	return rep.Clean, err
}

// print shows the report to people.
func (r *report) print(out io.Writer, all bool) error {
	tw := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	if all {
		fmt.Fprintln(tw, "place\tworlds\tpassed\tfired\tworlds fired")
		for _, p := range r.Places {
			fired, worlds := "", ""
			if p.failpoint() {
				fired, worlds = fmt.Sprint(p.Fired), fmt.Sprint(p.WorldsFired)
			}
			fmt.Fprintf(tw, "%s\t%d\t%d\t%s\t%s\n", p.Place, p.Worlds, p.Passed, fired, worlds)
		}
		fmt.Fprintln(tw)
	}
	for _, gap := range gaps {
		for _, p := range r.Places {
			if p.Gap == gap {
				reason := p.Reason
				if reason == "" {
					reason = "no reason: reach it, or state one in cmd/marks/reasons.yaml"
				}
				fmt.Fprintf(tw, "%s\t%s\t%s\t%s\n", p.Place, gap, strings.Join(p.At, " "), reason)
			}
		}
	}
	for _, w := range r.Wrong {
		fmt.Fprintln(tw, w)
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "%d worlds, %d did not pass; of %d failpoints %d were reached and %d struck; of %d marks %d were true\n",
		r.Worlds, r.NotPassed, r.Failpoints, r.Reached, r.Struck, r.Marks, r.True)
	return err
}
