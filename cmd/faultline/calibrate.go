package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"faultline/reports"
	"faultline/workloads/bench"
)

func calibrateCommand() *cobra.Command {
	var (
		out  string
		dir  string
		json bool
	)
	c := &cobra.Command{
		Use:   "calibrate",
		Short: "Measure what this machine costs and write its hardware profile",
		Long: `Measure what this machine costs and write its hardware profile, in less than a minute: system calls, copies, checksums, compression, what requests and records
cost the clients, the disk, the loopback interface. Each figure is measured by itself, once in each of several rounds, and comes with its spread over them. "bench --profile ./this-machine.yaml" predicts with
it, and with --real puts the prediction beside the measurement. Leave the machine alone meanwhile.`,
		Example: "  faultline calibrate\n  faultline bench producer-batch --real --profile ./this-machine.yaml",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := noEmpty(cmd); err != nil {
				return err
			}
			name := strings.TrimSuffix(filepath.Base(out), filepath.Ext(out))
			if !profileName.MatchString(name) {
				return fmt.Errorf("--out: found %q, of which the profile would have the name %q; allowed are letters, digits, dots, dashes and underscores, like this-machine.yaml", out, name)
			}
			if err := reports.Folder(filepath.Dir(out)); err != nil {
				return fmt.Errorf("--out: %w", err)
			}
			if info, err := os.Stat(out); err == nil && info.IsDir() {
				return fmt.Errorf("--out: found the folder %s, allowed is a file, like %s", out, filepath.Join(out, "this-machine.yaml"))
			}
			stop, release := onInterrupt()
			defer release()
			w := cmd.OutOrStdout()
			var bar *progress
			k := &bench.Calibration{Round: func(done, of int) {
				if bar == nil {
					bar = newProgress(of, json)
				}
				if bar.add(1); done == of {
					bar.finish()
				}
			}, Host: onThisMachine(false, dir), Dir: dir, Stop: stop, Said: func(name, value, remark string) {
				if !json {
					fmt.Fprintf(w, "%-24s %-20s %s\n", name, value, remark)
					return
				}
				reports.WriteJSON(w, struct {
					Name   string `json:"name"`
					Value  string `json:"value"`
					Remark string `json:"remark"`
				}{name, value, remark})
			}}
			text, err := k.Run(name)
			if errors.Is(err, bench.ErrStopped) {
				fmt.Fprintln(os.Stderr, "interrupted: a profile needs all figures, so none was written")
				return exit(exitInterrupted)
			}
			if err != nil {
				return err
			}
			if err := reports.SaveFile(out, text); err != nil {
				return fmt.Errorf("--out: %w", err)
			}
			if !json {
				fmt.Fprintf(w, "wrote %s\n", out)
			}
			return nil
		},
	}
	c.Flags().StringVar(&out, "out", "this-machine.yaml", "file for the profile, named after it")
	c.Flags().StringVar(&dir, "dir", "", "folder on the disk that is measured (default: the system's for temporary files)")
	c.Flags().BoolVar(&json, "json", false, "print one JSON object a figure")
	return c
}

// profileName are names that stand in a profile as they are.
var profileName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9._-]*$`)

// onThisMachine runs servers as processes of this program.
func onThisMachine(unpin bool, dir string) *bench.Host {
	return &bench.Host{Command: []string{os.Args[0], "bench-server"}, Dir: dir, Systems: benchSystem, Pinned: !unpin}
}
