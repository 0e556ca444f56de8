package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"faultline/reports"
	"faultline/workloads/bench"
)

func planCommand() *cobra.Command {
	var (
		n           bench.Need
		in, message string
		profile     string
		seed        uint64
		json        bool
		latency     time.Duration
	)
	c := &cobra.Command{
		Use:   "plan",
		Short: "Say how many brokers and partitions a load needs",
		Long: `Say how many brokers and partitions a load needs on a hardware profile, by simulating clusters: the fewest brokers that take the load, deliver it to every group and stay below the
latency, and with these the fewest partitions.

Exit codes: 0 found, 1 no cluster that was tried carries it, 2 bad usage.`,
		Example: "  faultline bench plan --in 100MiB/s --message 1KiB --groups 3 --replicas 3 --p99 50ms --profile linkedin-2014",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			err := noEmpty(cmd)
			if err != nil {
				return err
			}
			if n.In, err = n.In.Parse(in); err != nil {
				return fmt.Errorf("--in: %w", err)
			}
			if n.Message, err = n.Message.Parse(message); err != nil {
				return fmt.Errorf("--message: %w", err)
			}
			n.P99 = latency
			p, err := bench.LoadProfile(profile)
			if err != nil {
				return err
			}
			return runPlan(cmd.OutOrStdout(), n, p, seed, json)
		},
	}
	f := c.Flags()
	f.StringVar(&in, "in", "10MiB/s", "bytes of messages per second of all producers together, like 500KiB/s or 1GiB/s")
	f.StringVar(&message, "message", "200B", "size of a message")
	f.IntVar(&n.Groups, "groups", 1, "consumer groups, each of which receives every message; 0: nobody does")
	f.IntVar(&n.Replicas, "replicas", 3, "replicas of each partition")
	f.StringVar(&n.Acks, "acks", "all", "when a message is acknowledged: 0, 1 or all")
	f.DurationVar(&latency, "p99", 100*time.Millisecond, "age at which 99 of 100 messages are received at most; it counts where there are groups")
	f.IntVar(&n.Most, "most", 64, "brokers at most")
	f.StringVar(&profile, "profile", "virtio-2026", "hardware profile")
	f.Uint64Var(&seed, "seed", 1, "the seed")
	f.BoolVar(&json, "json", false, "print one JSON object for each cluster that was tried, then the answer, which lacks something when none carries it")
	return c
}

// triedCluster is the JSON object of a cluster.
type triedCluster struct {
	Answer     bool    `json:"answer,omitempty"`
	Brokers    int     `json:"brokers"`
	Partitions int     `json:"partitions"`
	Consumers  int     `json:"consumers_per_group"`
	Sent       float64 `json:"sent_per_second"`
	Received   float64 `json:"received_per_second"`
	P99        int64   `json:"p99_us"`
	Lacks      string  `json:"lacks,omitempty"`
}

func runPlan(w io.Writer, n bench.Need, p *bench.Profile, seed uint64, json bool) error {
	if err := n.Check(); err != nil {
		return err
	}
	interrupted, release := onInterrupt()
	defer release()
	var failed error
	// Rows are told as they come, for each takes its time: the columns are as wide as they will ever be.
	row := func(cells ...any) {
		if _, err := fmt.Fprintf(w, "%7v  %10v  %17v  %11v  %11v  %10v  %v\n", cells...); failed == nil {
			failed = err
		}
	}
	object := func(t bench.Try, answer bool) error {
		return reports.WriteJSON(w, triedCluster{answer, t.Brokers, t.Partitions, t.Consumers, t.Sent, t.Received, t.P99.Microseconds(), t.Lacks})
	}
	if !json {
		row("brokers", "partitions", "consumers a group", "sent/s", "received/s", "p99", "")
	}
	t, err := bench.Plan(n, p, seed, func() bool { return interrupted() || failed != nil }, func(t bench.Try) {
		if json {
			failed = errors.Join(failed, object(t, false))
			return
		}
		verdict := "carries it"
		if t.Lacks != "" {
			verdict = t.Lacks
		}
		row(t.Brokers, t.Partitions, t.Consumers, humanize.Comma(int64(t.Sent)), humanize.Comma(int64(t.Received)), age(t), verdict)
	})
	none := errors.Is(err, bench.ErrTooMuch)
	switch {
	case failed != nil:
		return failed
	case errors.Is(err, bench.ErrStopped):
		fmt.Fprintln(os.Stderr, "interrupted before there was an answer")
		return exit(exitInterrupted)
	case err != nil && !none:
		return err
	case json:
		err = object(t, true)
	case none:
		_, err = fmt.Fprintf(w, "no cluster of up to %d brokers carries it on %s; the last one that was tried: %s\n", n.Most, p.Name, t.Lacks)
	case n.Groups == 0:
		_, err = fmt.Fprintf(w, "%s with %s carry %v of %v messages, which nobody receives, on %s\n", counted("broker", t.Brokers), counted("partition", t.Partitions), n.In, n.Message, p.Name)
	default:
		_, err = fmt.Fprintf(w, "%s with %s carry %v of %v messages to %s on %s: p99 %s\n", counted("broker", t.Brokers), counted("partition", t.Partitions), n.In, n.Message, counted("group", n.Groups), p.Name, age(t))
	}
	if err == nil && none {
		return exit(exitViolation)
	}
	return err
}

// age is the p99 of a cluster, where somebody receives.
func age(t bench.Try) string {
	if t.Received == 0 {
		return "-"
	}
	return t.P99.String()
}

// counted is a number of things.
func counted(what string, n int) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}
